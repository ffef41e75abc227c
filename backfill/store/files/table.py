"""One version of a table of files, whose log is read once."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from backfill.folders import at_once
from backfill.store.files.log import Log, Version
from backfill.store.files.reading import read_files
from backfill.store.files.record import read_record, recorded_by
from backfill.store.files.stats import added_up
from backfill.store.protocol import Commit, DataFile


class FilesVersion:
    """One version of a table: `backfill.store.Table`."""

    def __init__(self, name: str, log: Log, table: Version) -> None:
        self.name = name
        self._log = log
        self._table = table
        self.version = table.number

    @cached_property
    def record(self) -> dict[str, Any] | None:
        """As `Table` has it."""
        run_id = recorded_by(self._log, self.version)
        return None if run_id is None else read_record(self._log.folder, run_id)

    @cached_property
    def files(self) -> tuple[DataFile, ...]:
        """As `Table` has it."""
        return self._table.statistics()

    @cached_property
    def commits(self) -> tuple[Commit, ...]:
        """As `Table` has it, as far as the log has them."""
        known = [version for version in self._log.versions() if version <= self.version]
        return tuple(at_once(self._log.commit, reversed(known)))

    def read(
        self, spark: SparkSession, files: Collection[str] | None = None, *, with_file: bool = False
    ) -> DataFrame:
        """As `Table` has it."""
        return read_files(spark, self._log.folder, self._table, files, with_file=with_file)

    def sum_of(self, column: str, files: Collection[str]) -> int:
        """As `Table` has it."""
        return added_up(self._log.folder, files, column)

    def check_writable(self) -> None:
        """As `Table` has it."""
        self._table.check_writable()
