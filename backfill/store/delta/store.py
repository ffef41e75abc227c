"""The embedded tables of a job: Delta Lake tables in one folder.

Spark writes the files, the `deltalake` library commits them: no extra jar, and any Delta reader
can open the tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from backfill.errors import TableError
from backfill.store.delta.clean import clean_table
from backfill.store.delta.commit import commit_files
from backfill.store.delta.compact import compact_files
from backfill.store.delta.discard import discard_files
from backfill.store.delta.log import (
    checked_name,
    local_folder,
    open_table,
    required_table,
)
from backfill.store.delta.reading import read_staged
from backfill.store.delta.record import read_record, record_run, write_record
from backfill.store.delta.restore import restore_version
from backfill.store.delta.staging import StagedFiles, write_files
from backfill.store.delta.table import DeltaVersion
from backfill.store.protocol import Cleaned, DataFile, Dates, MakeRecord, Replace


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
        """A version, by default the newest; None where there is no table.

        Raises:
            TableError: the table or the version cannot be read.
        """
        folder = self.folder(name)
        table = open_table(folder, version)
        return None if table is None else DeltaVersion(name, folder, table)

    def exists(self, name: str) -> bool:
        """Whether the table has been published."""
        return self.open(name) is not None

    def version(self, name: str) -> int | None:
        """The table's newest version; None before the first publication."""
        table = self.open(name)
        return None if table is None else table.version

    def files(self, name: str, *, version: int | None = None) -> tuple[str, ...]:
        """The live files of a version, relative to its folder, for `publish(replace=...)`."""
        return tuple(each.path for each in self._required(name, version).files)

    def live(self, name: str, *, version: int | None = None) -> tuple[DataFile, ...]:
        """The live files of a version with their statistics; none where there is no table."""
        table = self.open(name, version)
        return () if table is None else table.files

    def history(self, name: str) -> list[dict[str, Any]]:
        """The commits, newest first, as mappings; none where the table does not exist."""
        table = self.open(name)
        return [] if table is None else [dict(vars(each)) for each in table.commits]

    def record(self, name: str, *, version: int | None = None) -> dict[str, Any] | None:
        """What a version, by default the newest, has counted; None if that was not recorded."""
        table = self.open(name, version)
        return None if table is None else table.record

    def stage(
        self,
        name: str,
        frame: DataFrame,
        *,
        run_id: str,
        partition_by: tuple[str, ...],
        sort_by: tuple[str, ...],
        task_bytes: int | None = None,
    ) -> StagedFiles:
        """Writes the frame's rows, with Spark, as files of the table, invisible until published.

        Args:
            name: the table.
            frame: the rows, partition columns included.
            run_id: the run; it can stage once for each table.
            partition_by: the partition columns; none for a table without.
            sort_by: the order of the rows within a partition's files.
            task_bytes: about how much a task sorts and writes; None: Spark's setting.

        Raises:
            ColumnError: a column is missing, or has a type that Delta cannot hold.
            TableError: the run has staged for this table before.
        """
        return write_files(
            frame,
            self.folder(name),
            name=name,
            run_id=checked_name(run_id, "run_id"),
            partition_by=partition_by,
            sort_by=sort_by,
            task_bytes=task_bytes,
        )

    def read_staged(self, spark: SparkSession, staged: StagedFiles) -> DataFrame:
        """The rows of files that are not published yet, as the table will have them."""
        return read_staged(spark, staged)

    def discard(self, staged: StagedFiles) -> None:
        """Deletes files that were staged and not published; published ones stay."""
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
        """Makes staged files visible, and those that they replace invisible, in one commit.

        Where other runs have published since `base`, the commit goes on top of theirs if their
        dates and files and this run's do not meet.

        Args:
            name: the table; it is created if it does not exist.
            staged: what to add; perhaps no files.
            replace: `"all"` removes every live file, and lets the schema change; otherwise the
                paths of the files to remove, as `files` gives them. An empty list only adds.
            base: the version that the run began from; None if there was no table.
            dates: the run's closure, half-open local dates; None for everything, as it always is
                for `"all"`.
            metadata: kept with the commit, beside the run's id, `closure` and `record`.
            record: makes the record that the new version carries, what can be written as JSON,
                from that of the version that it stands on (None if that has none). It is called
                again when another run's commit came first.

        Returns:
            The version that the commit made. Called again after it has, for the same files, it
            gives that version.

        Raises:
            TableError: another run has published since `base`, and one of the two replaces
                everything, or dates of both meet, or a file of `replace` is gone. Or the schema
                or the partition columns are not the table's; or the record of the version below
                is missing or damaged.
        """
        if staged.name != name:
            raise TableError(
                "the files were staged for another table", field=name, value=staged.name
            )
        folder = self.folder(name)

        def recorded(version: int) -> str:
            known = None if version < 0 else record_run(folder, version)
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
        """Goes back to a version, its record included, in a new commit.

        Args:
            name: the table.
            version: the one to go back to.
            run_id: who goes back.
            metadata: kept with the commit.

        Returns:
            The version that the commit made; the newest as it is, if that is the one.

        Raises:
            TableError: the table or the version does not exist, files or the record of it are
                gone, or another run published meanwhile.
        """
        return restore_version(
            self.folder(name),
            name,
            version,
            run_id=checked_name(run_id, "run_id"),
            metadata=metadata,
        )

    def clean(self, name: str, *, older_than_s: float) -> Cleaned:
        """Deletes what dead runs left; nothing that any version in the log refers to.

        That is: folders of staged files, files that no version has, records that no commit names.

        Args:
            name: the table.
            older_than_s: spares what was written in so many seconds before now, for it may be of
                a run that is under way: more than the longest run takes.

        Raises:
            TableError: the log cannot be read; then nothing is deleted.
        """
        return clean_table(self.folder(name), older_than_s=older_than_s)

    def compact(
        self, spark: SparkSession, name: str, *, run_id: str, sort_by: tuple[str, ...]
    ) -> int | None:
        """Joins the files of each date that has several and is small, in one commit.

        The rows and the record stay as they are.

        Args:
            spark: the session that reads and writes.
            name: the table.
            run_id: who compacts.
            sort_by: the order of the rows within a file.

        Returns:
            The version that the commit made; None if there was nothing to do.

        Raises:
            TableError: the table does not exist, files of it are gone, or a run that published
                meanwhile has replaced them.
        """
        return compact_files(
            spark,
            self.folder(name),
            name,
            run_id=checked_name(run_id, "run_id"),
            sort_by=sort_by,
        )

    def read(
        self,
        spark: SparkSession,
        name: str,
        *,
        version: int | None = None,
        files: Sequence[str] | None = None,
    ) -> DataFrame:
        """The rows of a version, by default the newest: exactly its live files.

        Args:
            spark: the session that reads.
            name: the table.
            version: which; the newest by default.
            files: only these live files of the version.

        Raises:
            TableError: the table or the version does not exist, a file is not of this version, or
                files of it are gone.
        """
        return self._required(name, version).read(spark, files)

    def _required(self, name: str, version: int | None) -> DeltaVersion:
        folder = self.folder(name)
        return DeltaVersion(name, folder, required_table(folder, version))
