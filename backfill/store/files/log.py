"""What the tables need from a log: which files each version has, and which commit made it.

A store writes files into a table's folder. A log says which of them belong to which version: the
log of a Delta table, or of an Iceberg table in a catalog.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from backfill.errors import TableError
from backfill.folders import Folder
from backfill.store.files.staging import StagedFiles
from backfill.store.protocol import Commit, DataFile

# The entries of a commit's metadata that the store itself makes.
RUN_ID = "run_id"
CLOSURE = "closure"
RECORD = "record"


class CommitFailedError(Exception):
    """A commit was not made, or the log shows whether it was."""


@dataclass(frozen=True)
class FileChanges:
    """What a commit did to the table's files.

    Attributes:
        added: paths relative to the table's folder.
        removed: the same.
        data: whether the rows changed; a compaction only moves them.
    """

    added: frozenset[str]
    removed: frozenset[str]
    data: bool


class Version(Protocol):
    """One version of a table in the log."""

    @property
    def number(self) -> int:
        """The version."""

    @property
    def schema(self) -> str:
        """The columns, in the form of `StagedFiles.schema`."""

    @property
    def partition_by(self) -> tuple[str, ...]:
        """The partition columns."""

    @property
    def live(self) -> Mapping[str, int]:
        """The sizes of the files in bytes, by path relative to the table's folder, in order."""

    @property
    def whole(self) -> Collection[str]:
        """The paths of files that contain the partition columns."""

    def statistics(self) -> tuple[DataFile, ...]:
        """The files with their statistics, in order of path."""

    def check_writable(self) -> None:
        """As `Table` has it."""


class Log(Protocol):
    """The log of one table."""

    @property
    def name(self) -> str:
        """The table's name for display."""

    @property
    def folder(self) -> Folder:
        """The table's folder, whether the table exists or not."""

    @property
    def may_have_files(self) -> bool:
        """Whether its folder can have files; if not, the folder need not be known yet."""

    @property
    def uncertain(self) -> Collection[str]:
        """Runs for which it is unknown whether they have committed: their files must stay."""

    def forgotten(self, version: int) -> str | None:
        """The run whose record a version has, if the commit that named it is no longer kept.

        Raises:
            TableError: it is not known any more.
        """

    def versions(self) -> list[int]:
        """The versions in the log, oldest first; empty if there is no table."""

    def since(self, version: int) -> list[int]:
        """The versions after a given one, or all after -1, oldest first.

        Raises:
            TableError: the given version is no longer in the log.
        """

    def commit(self, version: int) -> Commit:
        """The commit that made the version.

        Raises:
            TableError: the log has no entry for this version, or is damaged.
        """

    def changes(self, version: int) -> FileChanges:
        """What the version's commit did to the files.

        Raises:
            TableError: the log has no entry for this version, or is damaged.
        """

    def mentioned(self) -> tuple[set[str], set[str]]:
        """All that the log mentions: the paths of files, and the runs whose records it names."""

    def open(self, version: int | None = None) -> Version | None:
        """A version, by default the newest; None if there is no table.

        Raises:
            TableError: there is a table, but it or the version cannot be read.
        """

    def write(
        self,
        below: Any,
        staged: StagedFiles,
        removed: Sequence[str] | None,
        metadata: Mapping[str, str],
        *,
        data_change: bool,
    ) -> int | None:
        """Makes a version on top of another, or fails because there is a newer one.

        Args:
            below: the newest version; None if there is no table.
            staged: the files to add; they are in the table's folder.
            removed: the paths to remove; None for all, and then the schema can change.
            metadata: the commit's metadata.
            data_change: whether the rows change.

        Returns:
            The version; None if only a preparatory commit was made, and the write must be repeated.

        Raises:
            CommitFailedError: it could not be made.
            TableError: the files do not fit the table.
        """

    def check_restore(self, below: Any, version: int) -> None:
        """Checks that the table, as it is, can go back to an older version.

        Args:
            below: the newest version.
            version: the older one.

        Raises:
            TableError: it can't.
        """

    def restore(self, below: Any, version: int, metadata: Mapping[str, str]) -> int:
        """Makes a version with the files of an older one, or fails because there is a newer one.

        Args:
            below: the newest version.
            version: the older one.
            metadata: the commit's metadata.

        Returns:
            The version.

        Raises:
            CommitFailedError: it could not be made.
        """


def writer(commit: Commit) -> str:
    """The run that made a commit, as named in errors."""
    run_id = commit.metadata.get(RUN_ID)
    return f"run {run_id}" if run_id else "another writer"


def newest(log: Log) -> int:
    """The newest version; -1 if there is no table."""
    return max(log.versions(), default=-1)


def required(log: Log, version: int | None = None) -> Version:
    """A version, by default the newest.

    Raises:
        TableError: there is no table yet, or it cannot be read.
    """
    table = log.open(version)
    if table is None:
        raise TableError(
            "the table does not exist yet",
            field=log.name,
            way_out="`backfill run` publishes it.",
        )
    return table
