"""What a source is, what was read from it, and the frame it gives."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill.columns import REASON, TIME, column
from backfill.errors import SourceError
from backfill.folders import Folder, meet
from backfill.printable import shown

CORRUPT = "_corrupt"
SOURCE = "_source"
FILE = "_file"

NAMED = ("table", "iceberg")
"""The formats of sources that are named in a catalog, and not by a path."""

OURS = frozenset({CORRUPT, SOURCE, FILE, TIME, REASON})
"""Columns that reading and normalising add, and that a source therefore cannot have itself."""


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """Where the events are and how they are read: what the job file's `source:` says.

    Attributes:
        format: parquet, csv, json (one object a line), access_log, delta, iceberg, table or
            kafka; `several` if there are parts.
        path: a file, a folder or a glob, absolute or with a URL scheme; for `table` and `iceberg`
            the name of a table in the catalog; for `kafka` the folder of the copied records.
        schema: Spark DDL of the source's own columns, or None to take them from the source.
        options: options of Spark's reader for this format; for `iceberg`, further settings of the
            catalog; for `kafka`, those of librdkafka.
        date_column: a column of dates that is the event's date in the job's zone.
        timezone: the job's zone, for folder names and CSV or JSON columns that `schema` says are
            timestamps.
        parts: sources of files whose rows together are this source's, by name.
        catalog: for `iceberg`, the catalog's name in pyiceberg's configuration.
        topic: for `kafka`, its name.
    """

    format: str
    path: str
    schema: str | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    date_column: str | None = None
    timezone: str = "UTC"
    parts: Mapping[str, SourceOptions] = field(default_factory=dict)
    catalog: str | None = None
    topic: str | None = None

    @property
    def inferred(self) -> bool:
        """Whether types are found by looking at values."""
        if self.parts:
            return any(part.inferred for part in self.parts.values())
        return self.format in ("csv", "json") and self.schema is None

    def meets(self, folder: Folder) -> bool:
        """Whether what is written to a folder would be read as events, or events are inside it."""
        if self.parts:
            return any(part.meets(folder) for part in self.parts.values())
        return self.format not in NAMED and meet(self.path, folder)


@dataclass(frozen=True)
class InputFile:
    """One file of the source as it was when the source was opened.

    Attributes:
        path: decoded, without `file:` for a local file.
        size: bytes.
        modified_ms: time of the last change, milliseconds since the epoch.
        deletions: for a table's file, a digest of the deletions of its rows that are kept beside
            it; None if it has none.
    """

    path: str
    size: int
    modified_ms: int
    deletions: str | None = None


@dataclass(frozen=True)
class Snapshot:
    """What is read: recorded with the run, and unchanged by what happens to the source later.

    Attributes:
        format: as in SourceOptions.
        inputs: every file, in order of path, those of late events among them; () for a catalog's
            table.
        version: the version of a Delta or an Iceberg table, else None.
        schema: DDL of the source's own columns, given or inferred once over all files.
    """

    format: str
    inputs: tuple[InputFile, ...]
    version: int | None
    schema: str


@dataclass(frozen=True)
class Rewrite:
    """A commit to a source's table whose added files hold exactly the rows of its removed ones.

    Between the version from which rewrites are asked for and the commit, no row of its removed
    files was deleted beside them.

    Attributes:
        version: the version that the commit made.
        added: paths, written as in InputFile; the commit itself deletes none of their rows.
        removed: the same.
    """

    version: int
    added: frozenset[str]
    removed: frozenset[str]


def _never(since: int) -> tuple[Rewrite, ...]:
    """No rewrites: the files belong to no table."""
    return ()


Read = Callable[[tuple[InputFile, ...], Column | None], DataFrame]
"""The rows of these files for which a condition holds; None: all of them."""

Statistics = Mapping[str, tuple[Any, Any]]
"""The smallest and largest value of columns in one file, as Python has values of their types."""


@dataclass(frozen=True)
class Source:
    """An opened source.

    Attributes:
        frame: the source's own columns, `_corrupt` (the raw line if it could not be parsed,
            else NULL) and `_source` (the row's place: a file's path, for access logs path:line).
        snapshot: what is read.
        read: how `only` reads.
        arrival: columns that give the order of arrival by themselves, or ().
        folders: by path, the columns whose values a file has from its folders, or from a Delta
            table's log; as text, NULL is None.
        statistics: by path, what a Delta table's log says about a file; {} for other formats.
        parts: the sources that this one is made of, by name; {} if it is a single one.
        rewrites: the commits to a Delta or an Iceberg table after a version of it, oldest first,
            that only moved rows to other files. Raises SourceError or TableError if they can't be
            read.
    """

    frame: DataFrame
    snapshot: Snapshot
    read: Read
    arrival: tuple[str, ...] = ()
    folders: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    statistics: Mapping[str, Statistics] = field(default_factory=dict)
    parts: Mapping[str, Source] = field(default_factory=dict)
    rewrites: Callable[[int], tuple[Rewrite, ...]] = _never

    def inputs(self, paths: Collection[str]) -> tuple[InputFile, ...]:
        """The inputs with these paths, in order of path.

        Raises:
            SourceError: a path is not in `snapshot.inputs`.
        """
        wanted = set(paths)
        files = tuple(file for file in self.snapshot.inputs if file.path in wanted)
        missing = wanted - {file.path for file in files}
        if missing:
            raise SourceError("is not a file of the source", field=shown(min(missing)))
        return files

    def only(self, paths: Collection[str], where: Column | None = None) -> DataFrame:
        """The frame over some of the inputs: the same columns with the same types.

        Args:
            paths: from `snapshot.inputs`. A catalog's table has no paths: () is the whole table.
            where: only rows for which it holds, as from `time_condition`. Spark can push it into
                the scan; if `_source` is used, it can't do so with a condition on this frame.

        Raises:
            SourceError: a path is not in `snapshot.inputs`.
        """
        files = self.inputs(paths)
        if self.snapshot.inputs and not files:
            return self.frame.limit(0)
        if where is None and files == self.snapshot.inputs:
            return self.frame
        return self.read(files, where)


def no_line() -> Column:
    """`_corrupt` for a format whose rows always parse."""
    return F.lit(None).cast("string")


def whole_rows(
    rows: DataFrame, names: Sequence[str], origin: Column, where: Column | None
) -> DataFrame:
    """The frame of a format whose rows always parse.

    Args:
        rows: a scan.
        names: the names of the source's own columns, in order.
        origin: `_source`.
        where: as in `Source.only`.
    """
    # Below `_source`, which Spark pushes no condition through.
    kept = rows if where is None else rows.where(where)
    own = [column(name) for name in names]
    return kept.select(*own, no_line().alias(CORRUPT), origin.alias(SOURCE))


def refuse_our_names(names: Sequence[str]) -> None:
    """Raises a SourceError if a source has a column with one of the names in OURS."""
    for name in names:
        if name in OURS:
            raise SourceError(
                "the name of a column is reserved",
                field="source",
                value=name,
                way_out="Rename it in the source",
            )
