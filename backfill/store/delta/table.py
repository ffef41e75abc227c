"""One version of a Delta table, whose log is read once."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill.store.delta.data_files import live_with_statistics
from backfill.store.delta.entries import read_commit, versions
from backfill.store.delta.reading import read_files
from backfill.store.delta.record import read_record, recorded_by
from backfill.store.delta.stats import added_up
from backfill.store.protocol import FILE, Commit, DataFile


class DeltaVersion:
    """One version of a table: `backfill.store.Table`."""

    def __init__(self, name: str, folder: Path, table: DeltaTable) -> None:
        self.name = name
        self._folder = folder
        self._table = table
        self.version = table.version()

    @cached_property
    def record(self) -> dict[str, Any] | None:
        """As `Table` has it."""
        run_id = recorded_by(self._folder, self.version)
        return None if run_id is None else read_record(self._folder, run_id)

    @cached_property
    def files(self) -> tuple[DataFile, ...]:
        """As `Table` has it."""
        return live_with_statistics(self._folder, self._table)

    @cached_property
    def commits(self) -> tuple[Commit, ...]:
        """As `Table` has it, as far as the log has them."""
        known = [each for each in versions(self._folder) if each <= self.version]
        return tuple(read_commit(self._folder, each) for each in reversed(known))

    def read(
        self, spark: SparkSession, files: Collection[str] | None = None, *, with_file: bool = False
    ) -> DataFrame:
        """As `Table` has it."""
        rows = read_files(spark, self._folder, self._table, files)
        if not with_file:
            return rows
        # Below the table's folder: the partitions and the name. Spark knows the path only directly
        # above a scan.
        parts = 1 + len(self._table.metadata().partition_columns)
        return rows.withColumn(FILE, F.substring_index(F.input_file_name(), "/", -parts))

    def sum_of(self, column: str, files: Collection[str]) -> int:
        """As `Table` has it."""
        return added_up([self._folder / each for each in files], column)
