"""Tables of files in folders, with any kind of log that says which files belong to them."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import replace

import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from backfill.errors import TableError
from backfill.store.files.clean import clean_table
from backfill.store.files.commit import commit_files
from backfill.store.files.compact import compact_files
from backfill.store.files.dataset import dataset
from backfill.store.files.discard import discard_files
from backfill.store.files.log import Log, required
from backfill.store.files.names import checked_name
from backfill.store.files.reading import read_staged, staged_dataset
from backfill.store.files.record import read_record, recorded_by, write_record
from backfill.store.files.restore import check_restorable, restore_version
from backfill.store.files.schema import delta_schema
from backfill.store.files.staging import STAGING, StagedFiles, write_files
from backfill.store.files.table import FilesVersion
from backfill.store.layout import layout_of
from backfill.store.protocol import Cleaned, Dates, MakeRecord, Replace


class FileStore(ABC):
    """The tables of one job, each in a folder: `backfill.store.Store`.

    Spark writes a run's files, which stay invisible, and one commit publishes them. Files that a
    commit replaces stay on disk: older versions remain readable.

    Args:
        properties: the tables' properties.
        sort_by: columns by which rows are sorted first within a file, in tables that have them.
    """

    def __init__(self, properties: Mapping[str, str], sort_by: tuple[str, ...]) -> None:
        self.properties = properties
        self._sort_by = sort_by

    @property
    @abstractmethod
    def way_to_delete(self) -> str:
        """As `Store` has it."""

    @abstractmethod
    def log(self, name: str) -> Log:
        """The log of a table, whether the table exists or not."""

    def fitted(self, frame: DataFrame | StructType) -> DataFrame | StructType:
        """Rows, or only a schema, with types that the tables can have."""
        return frame

    def open(self, name: str, version: int | None = None) -> FilesVersion | None:
        """As `Store` has it."""
        log = self.log(name)
        table = log.open(version)
        return None if table is None else FilesVersion(name, log, table)

    def dataset(self, name: str, run: str | None = None) -> ds.Dataset:
        """As `Store` has it."""
        log = self.log(name)
        if run is None:
            table = required(log)
            return dataset(log.folder, table)
        return staged_dataset(log, checked_name(run, "run"))

    def stage(
        self,
        name: str,
        frame: DataFrame | StructType,
        *,
        run_id: str,
        partition_by: tuple[str, ...],
        sort_by: tuple[str, ...],
        task_bytes: int | None = None,
    ) -> StagedFiles:
        """As `Store` has it."""
        frame = self.fitted(frame)
        folder, run_id = self.log(name).folder, checked_name(run_id, "run_id")
        if isinstance(frame, StructType):
            schema = delta_schema(frame).to_json()
            return StagedFiles(name, run_id, folder / STAGING / run_id, schema, partition_by, ())
        layout = layout_of(self.properties)
        return write_files(
            frame,
            folder,
            name=name,
            run_id=run_id,
            partition_by=partition_by,
            sort_by=self._order(frame.columns, sort_by),
            layout=replace(layout, task_bytes=layout.task_bytes or task_bytes),
        )

    def read_staged(self, spark: SparkSession, staged: StagedFiles) -> DataFrame:
        """As `Store` has it."""
        return read_staged(spark, staged)

    def discard(self, staged: StagedFiles) -> None:
        """As `Store` has it."""
        discard_files(staged, self.log(staged.name))

    def publish(
        self,
        name: str,
        staged: StagedFiles,
        *,
        replace: Replace,
        base: int | None,
        dates: Dates,
        metadata: Mapping[str, str],
        record: MakeRecord,
    ) -> int:
        """As `Store` has it."""
        if staged.name != name:
            raise TableError(
                "the files were staged for another table", field=name, value=staged.name
            )
        log = self.log(name)

        def recorded(version: int) -> str:
            known = None if version < 0 else recorded_by(log, version)
            before = None if known is None else read_record(log.folder, known)
            write_record(log.folder, staged.run_id, record(before))
            return staged.run_id

        return commit_files(
            log,
            staged,
            replace,
            base=base,
            dates=dates,
            metadata=metadata,
            record=recorded,
        )

    def check_restorable(self, name: str, version: int) -> None:
        """As `Store` has it."""
        log = self.log(name)
        below = required(log)
        if version != below.number:
            check_restorable(log, below, required(log, version))

    def restore(self, name: str, version: int, *, run_id: str, metadata: Mapping[str, str]) -> int:
        """As `Store` has it."""
        return restore_version(
            self.log(name),
            name,
            version,
            run_id=checked_name(run_id, "run_id"),
            metadata=metadata,
        )

    def clean(self, name: str, *, older_than_s: float) -> Cleaned:
        """As `Store` has it."""
        return clean_table(self.log(name), older_than_s=older_than_s)

    def compact(
        self, spark: SparkSession, name: str, *, run_id: str, sort_by: tuple[str, ...]
    ) -> int | None:
        """As `Store` has it."""
        log = self.log(name)
        columns = [field["name"] for field in json.loads(required(log).schema)["fields"]]
        return compact_files(
            spark,
            log,
            name,
            run_id=checked_name(run_id, "run_id"),
            # For a stale table, the job file may name columns that it does not have.
            sort_by=tuple(column for column in self._order(columns, sort_by) if column in columns),
            layout=layout_of(self.properties),
        )

    def _order(self, columns: Collection[str], own: tuple[str, ...]) -> tuple[str, ...]:
        first = tuple(column for column in self._sort_by if column in columns)
        return (*first, *(column for column in own if column not in first))
