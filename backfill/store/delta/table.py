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
from backfill.store.delta.entries import RECORD, read_commit, versions
from backfill.store.delta.reading import read_files
from backfill.store.delta.record import read_record
from backfill.store.delta.stats import added_up
from backfill.store.protocol import FILE, Commit, DataFile


class DeltaVersion:
    """One version of a table: `backfill.store.Table`."""

    def __init__(self, name: str, folder: Path, table: DeltaTable) -> None:
        self.name = name
        self._folder = folder
        self._table = table
        self.version = table.version()
        self._read: dict[int, Commit] = {}

    @cached_property
    def commits(self) -> tuple[Commit, ...]:
        """The commits up to this version, newest first, as far as the log has them."""
        return tuple(map(self._commit, self._versions))

    @cached_property
    def record(self) -> dict[str, Any] | None:
        """What the version has counted.

        A commit by others names no record: then it is the newest one before it.
        """
        for version in dict.fromkeys([self.version, *self._versions]):
            run_id = self._commit(version).metadata.get(RECORD)
            if run_id is not None:
                # Empty for a version restored from before all records: it has none.
                return read_record(self._folder, run_id) if run_id else None
        return None

    @cached_property
    def files(self) -> tuple[DataFile, ...]:
        """The files of the version with their statistics, in order of path."""
        return live_with_statistics(self._folder, self._table)

    def read(
        self, spark: SparkSession, files: Collection[str] | None = None, *, with_file: bool = False
    ) -> DataFrame:
        """The rows of the version, or of some of its files."""
        rows = read_files(spark, self._folder, self._table, files)
        if not with_file:
            return rows
        # The last two parts of the path, date and name; Spark knows it only directly above a scan.
        return rows.withColumn(FILE, F.substring_index(F.input_file_name(), "/", -2))

    def sum_of(self, column: str, files: Collection[str]) -> int:
        """A column of whole numbers, added up over some files."""
        return added_up([self._folder / each for each in files], column)

    @cached_property
    def _versions(self) -> list[int]:
        known = (each for each in versions(self._folder) if each <= self.version)
        return sorted(known, reverse=True)

    def _commit(self, version: int) -> Commit:
        if version not in self._read:
            self._read[version] = read_commit(self._folder, version)
        return self._read[version]
