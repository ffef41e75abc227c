"""The operations that runs need from a job's tables; implementations decide how to store them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Literal, Protocol

import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

#: The column of `Table.read(with_file=True)`: the path of the file that a row is in.
FILE = "_file_path"
#: A boolean column in addition to the table's: rows to be written to separate files.
APART = "_apart"

#: Half-open ranges of local dates; None for everything.
Dates = Sequence[tuple[date, date]] | None
#: The files that a commit replaces, by path.
Replace = Literal["all"] | Sequence[str]
#: Makes the record of a new version from the record of the version below it.
MakeRecord = Callable[[dict[str, Any] | None], dict[str, Any]]


@dataclass(frozen=True)
class DataFile:
    """A file of a version, the unit that is rewritten, with the bounds of its rows' values.

    Attributes:
        path: its name within its table.
        size: in bytes.
        rows: the number of rows.
        minimum: a lower bound for each column that has one: times as µs since the epoch, dates as
            `date`; for a partition column its value.
        maximum: an upper bound likewise. A column that is NULL in all rows has no bounds; nor do
            nested and binary columns, and texts too long for the log: a column without a bound
            may hold anything. Bounds do not include NULL.
        complete: the columns that are known to have no NULL.
    """

    path: str
    size: int
    rows: int
    minimum: Mapping[str, Any]
    maximum: Mapping[str, Any]
    complete: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Commit:
    """Which run made a version, and when.

    Attributes:
        version: the table's version.
        timestamp: when it was made, UTC.
        metadata: kept with the commit: what `publish` was given; `run_id`; `closure`, the
            dates that it replaced, as JSON, half-open, `null` for everything; `record`, the run
            whose record the version carries. Empty for a commit by others.
    """

    version: int
    timestamp: datetime
    metadata: Mapping[str, str]


@dataclass(frozen=True)
class Cleaned:
    """What was deleted.

    Attributes:
        staged: folders of runs that died before they published.
        files: files in partition folders that no version has.
        records: records of what was counted that no commit names.
        size: the bytes of all of them.
    """

    staged: int
    files: int
    records: int
    size: int


class Table(Protocol):
    """One version of a table. Its log is read once."""

    @property
    def name(self) -> str:
        """The table."""

    @property
    def version(self) -> int:
        """The version."""

    @property
    def record(self) -> dict[str, Any] | None:
        """The record of what the version has counted; None if there is no record.

        Raises:
            TableError: the record is missing or damaged.
        """

    @property
    def files(self) -> Sequence[DataFile]:
        """The files of the version with their statistics, in order of path."""

    @property
    def commits(self) -> Sequence[Commit]:
        """The commits up to this version, newest first."""

    def read(
        self, spark: SparkSession, files: Collection[str] | None = None, *, with_file: bool = False
    ) -> DataFrame:
        """The rows of the version.

        Args:
            spark: the session that reads.
            files: only these files of the version.
            with_file: whether to add the column FILE.

        Raises:
            TableError: a file is not of this version, or files of the version are gone.
        """

    def sum_of(self, column: str, files: Collection[str]) -> int:
        """A column of whole numbers, added up over some files."""

    def check_writable(self) -> None:
        """Checks that runs can publish on top of the version.

        Raises:
            TableError: other writers have given the table requirements that commits could not meet.
        """


class Staged(Protocol):
    """The files that one run wrote for one table and has not published."""

    @property
    def name(self) -> str:
        """The table."""

    @property
    def rows(self) -> int:
        """The number of rows."""

    def sum_of(self, column: str) -> int:
        """A column of whole numbers, added up."""

    def count_by(self, column: str) -> dict[str, int]:
        """How many rows have each value of a column of text."""


class Store(Protocol):
    """The tables of one job.

    A run stages rows, which stay invisible, and publishes them in one commit. What a commit
    replaces stays readable in older versions.
    """

    @property
    def way_to_delete(self) -> str:
        """A sentence for people: how to delete the files of older versions for good."""

    def open(self, name: str, version: int | None = None) -> Table | None:
        """A version, by default the newest; None if there is no table.

        Raises:
            TableError: the table or the version cannot be read.
        """

    def dataset(self, name: str, run: str | None = None) -> ds.Dataset:
        """The rows of the newest version for pyarrow, which opens only files that it must.

        Args:
            name: the table.
            run: give the rows that this run wrote and did not publish instead.

        Raises:
            TableError: the table does not exist or cannot be read, or the run has left nothing.
        """

    def stage(
        self,
        name: str,
        frame: DataFrame | StructType,
        *,
        run_id: str,
        partition_by: tuple[str, ...],
        sort_by: tuple[str, ...],
        task_bytes: int | None = None,
    ) -> Staged:
        """Writes the frame's rows as files of the table, invisible until published.

        Args:
            name: the table.
            frame: the rows, with the partition columns, and optionally APART; or only the schema,
                if there are no rows.
            run_id: the run; it can stage once for each table.
            partition_by: the partition columns; none for a table without.
            sort_by: the order of the rows within a partition's files.
            task_bytes: about how much a task sorts and writes, if the table's properties do not
                say; None for Spark's setting.

        Raises:
            ColumnError: a column is missing, or has a type that the table cannot hold.
            TableError: the run has staged for this table before.
        """

    def read_staged(self, spark: SparkSession, staged: Any) -> DataFrame:
        """The rows of files that are not published yet, in the form that the table will have."""

    def discard(self, staged: Any) -> None:
        """Deletes files that were staged and not published; published ones stay."""

    def publish(
        self,
        name: str,
        staged: Any,
        *,
        replace: Replace,
        base: int | None,
        dates: Dates,
        metadata: Mapping[str, str],
        record: MakeRecord,
    ) -> int:
        """Makes staged files visible, and those that they replace invisible, in one commit.

        If other runs have published since `base`, the commit goes on top of theirs, provided that
        their dates and files do not overlap with this run's.

        Args:
            name: the table; it is created if it does not exist.
            staged: what to add; it may have no files.
            replace: `"all"` removes every file, and lets the schema change; otherwise the paths of
                the files to remove. An empty list only adds.
            base: the version that the run began from; None if there was no table.
            dates: the run's closure, half-open local dates; None for everything, as always with
                `"all"`.
            metadata: kept with the commit, as well as the run's id, `closure` and `record`.
            record: makes the record of the new version, which must be writable as JSON, from the
                record of the version below it (None if that has none). It is called again when
                another run's commit came first.

        Returns:
            The version that the commit made. If called again for the same files after the commit,
            it returns that version.

        Raises:
            TableError: another run has published since `base`, and one of the two replaces
                everything, or their dates overlap, or a file of `replace` is gone. Or the schema
                or the partition columns are not the table's; or the record of the version below
                is missing or damaged.
        """

    def check_restorable(self, name: str, version: int) -> None:
        """Checks that a version can be restored.

        Args:
            name: the table.
            version: the version to restore.

        Raises:
            TableError: as for `restore`, except for runs that publish later.
        """

    def restore(self, name: str, version: int, *, run_id: str, metadata: Mapping[str, str]) -> int:
        """Restores a version, with its record, in a new commit.

        Args:
            name: the table.
            version: the version to restore.
            run_id: the run that restores it.
            metadata: kept with the commit.

        Returns:
            The version that the commit made; or `version`, without a commit, if it is the newest.

        Raises:
            TableError: the table or the version does not exist, files or the record of it are
                gone, the table can't have its columns again, other writers have given the table
                requirements that commits could not meet, or another run published meanwhile.
        """

    def clean(self, name: str, *, older_than_s: float) -> Cleaned:
        """Deletes leftovers of killed runs, and nothing that a version in the log refers to.

        Args:
            name: the table.
            older_than_s: spares what was written within this many seconds, because its run may
                still be under way. Must exceed the duration of the longest run.

        Raises:
            TableError: the log cannot be read; then nothing is deleted.
        """

    def compact(
        self, spark: SparkSession, name: str, *, run_id: str, sort_by: tuple[str, ...]
    ) -> int | None:
        """Compacts the files of each small date that has several, in one commit.

        The rows and the record stay as they are.

        Args:
            spark: the session that reads and writes.
            name: the table.
            run_id: the run that compacts.
            sort_by: the order of the rows within a file.

        Returns:
            The version that the commit made; None if there was nothing to do.

        Raises:
            TableError: the table does not exist, files of it are gone, or another run has
                replaced them meanwhile.
        """
