"""The embedded tables of a job: Delta Lake tables in one folder.

Spark writes the files, the `deltalake` library commits them: no extra jar, and any Delta reader
can open the tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession

from backfill.errors import TableError
from backfill.tables.commit import commit_files, commits
from backfill.tables.log import checked_name, live_files, local_folder, open_table, required_table
from backfill.tables.reading import read_files
from backfill.tables.staging import StagedFiles, delete_files, write_files


class DeltaStore:
    """The tables of one job, each a Delta table in a folder of its name.

    A run stages files, which nobody sees, and publishes them in one commit. Files that a commit
    replaces stay on disk: older versions remain readable.

    Attributes:
        root: the folder.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = local_folder(root)

    def folder(self, name: str) -> Path:
        """The folder of a table, whether the table exists or not."""
        return self.root / checked_name(name, "table")

    def exists(self, name: str) -> bool:
        """Whether the table has been published."""
        return self.version(name) is not None

    def version(self, name: str) -> int | None:
        """The table's newest version; None before the first publication."""
        table = open_table(self.folder(name))
        return None if table is None else table.version()

    def files(self, name: str, *, version: int | None = None) -> tuple[str, ...]:
        """The live files of a version, relative to its folder, for `publish(replace=...)`."""
        return tuple(live_files(required_table(self.folder(name), version)))

    def history(self, name: str) -> list[dict[str, Any]]:
        """The commits, newest first; none where the table does not exist.

        Returns:
            For each its `version`, `timestamp` (UTC), and the `metadata` it was published with:
            `run_id` and what else `publish` was given; empty for a commit by others.
        """
        table = open_table(self.folder(name))
        return [] if table is None else commits(table)

    def stage(
        self,
        name: str,
        frame: DataFrame,
        *,
        run_id: str,
        partition_by: tuple[str, ...],
        sort_by: tuple[str, ...],
    ) -> StagedFiles:
        """Has Spark write the frame's rows as files of the table, which nobody sees yet.

        Args:
            name: the table.
            frame: the rows, partition columns included.
            run_id: the run; it can stage once for each table.
            partition_by: the partition columns; none for a table without.
            sort_by: the order of the rows within a partition's files.

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
        )

    def discard(self, staged: StagedFiles) -> None:
        """Deletes files that were staged and not published; published ones stay."""
        published = {entry["metadata"].get("run_id") for entry in self.history(staged.name)}
        if staged.run_id not in published:
            delete_files(staged, self.folder(staged.name))

    def publish(
        self,
        name: str,
        staged: StagedFiles,
        *,
        replace: Literal["all"] | Sequence[str],
        metadata: Mapping[str, str],
    ) -> int:
        """Makes staged files visible, and those that they replace invisible, in one commit.

        Args:
            name: the table; it is created if it does not exist.
            staged: what to add.
            replace: `"all"` removes every live file, and lets the schema change; otherwise the
                paths of the files to remove, as `files` gives them. An empty list only adds.
            metadata: kept with the commit, beside the run's id.

        Returns:
            The version that the commit made.

        Raises:
            TableError: another run came between: for `"all"` any commit since this call began,
                otherwise one that removed a file of `replace`. Or the schema or the partition
                columns are not the table's.
        """
        if staged.name != name:
            raise TableError(
                "the files were staged for another table", field=name, value=staged.name
            )
        return commit_files(self.folder(name), staged, replace, metadata)

    def read(self, spark: SparkSession, name: str, *, version: int | None = None) -> DataFrame:
        """The rows of a version, by default the newest: exactly its live files.

        Raises:
            TableError: the table or the version does not exist, or files of it are gone.
        """
        return read_files(spark, self.folder(name), required_table(self.folder(name), version))
