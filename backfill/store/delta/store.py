"""The embedded tables of a job: Delta Lake tables in one folder.

Spark writes the files, the `deltalake` library commits them: no extra jar, and any Delta reader
can open the tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from backfill.errors import TableError
from backfill.store.delta.clean import clean_table
from backfill.store.delta.commit import commit_files
from backfill.store.delta.compact import compact_files
from backfill.store.delta.discard import discard_files
from backfill.store.delta.log import (
    checked_name,
    local_folder,
    open_table,
)
from backfill.store.delta.reading import read_staged
from backfill.store.delta.record import read_record, recorded_by, write_record
from backfill.store.delta.restore import restore_version
from backfill.store.delta.schema import delta_schema
from backfill.store.delta.staging import STAGING, StagedFiles, write_files
from backfill.store.delta.table import DeltaVersion
from backfill.store.protocol import Cleaned, Dates, MakeRecord, Replace


class DeltaStore:
    """The tables of one job, each a Delta table in a folder of its name.

    A run stages files, which stay invisible, and publishes them in one commit. Files that a commit
    replaces stay on disk: older versions remain readable.

    Attributes:
        root: the folder.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = local_folder(root)

    def folder(self, name: str) -> Path:
        """The folder of a table, whether the table exists or not."""
        return self.root / checked_name(name, "table")

    def open(self, name: str, version: int | None = None) -> DeltaVersion | None:
        """As `Store` has it."""
        folder = self.folder(name)
        table = open_table(folder, version)
        return None if table is None else DeltaVersion(name, folder, table)

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
        folder, run_id = self.folder(name), checked_name(run_id, "run_id")
        if isinstance(frame, StructType):
            schema = delta_schema(frame).to_json()
            return StagedFiles(name, run_id, folder / STAGING / run_id, schema, partition_by, ())
        return write_files(
            frame,
            folder,
            name=name,
            run_id=run_id,
            partition_by=partition_by,
            sort_by=sort_by,
            task_bytes=task_bytes,
        )

    def read_staged(self, spark: SparkSession, staged: StagedFiles) -> DataFrame:
        """As `Store` has it."""
        return read_staged(spark, staged)

    def discard(self, staged: StagedFiles) -> None:
        """As `Store` has it."""
        discard_files(staged, self.folder(staged.name))

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
        folder = self.folder(name)

        def recorded(version: int) -> str:
            known = None if version < 0 else recorded_by(folder, version)
            before = None if known is None else read_record(folder, known)
            write_record(folder, staged.run_id, record(before))
            return staged.run_id

        return commit_files(
            folder,
            staged,
            replace,
            base=base,
            dates=dates,
            metadata=metadata,
            record=recorded,
        )

    def restore(self, name: str, version: int, *, run_id: str, metadata: Mapping[str, str]) -> int:
        """As `Store` has it."""
        return restore_version(
            self.folder(name),
            name,
            version,
            run_id=checked_name(run_id, "run_id"),
            metadata=metadata,
        )

    def clean(self, name: str, *, older_than_s: float) -> Cleaned:
        """As `Store` has it."""
        return clean_table(self.folder(name), older_than_s=older_than_s)

    def compact(
        self, spark: SparkSession, name: str, *, run_id: str, sort_by: tuple[str, ...]
    ) -> int | None:
        """As `Store` has it."""
        return compact_files(
            spark,
            self.folder(name),
            name,
            run_id=checked_name(run_id, "run_id"),
            sort_by=sort_by,
        )
