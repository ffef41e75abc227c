"""What a source is, what was read of it, and the frame it gives."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill.columns import REASON, TIME

CORRUPT = "_corrupt"
SOURCE = "_source"
FILE = "_file"

OURS = frozenset({CORRUPT, SOURCE, FILE, TIME, REASON})
"""Columns that reading and normalising add, and that a source therefore cannot have itself."""


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """Where the events are and how they are read: what the job file's `source:` says.

    Attributes:
        format: parquet, csv, json (one object a line), access_log, delta or table.
        path: a file, a folder or a glob, absolute or with a URL scheme; for `table` the name of a
            table in the catalog.
        schema: Spark DDL of the source's own columns, or None to take them from the source.
        options: options of Spark's reader for this format.
        date_column: a column of dates that is the event's date in the job's zone.
        timezone: the job's zone, for folder names and CSV or JSON columns that `schema` says are
            timestamps.
    """

    format: str
    path: str
    schema: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    date_column: str | None = None
    timezone: str = "UTC"


@dataclass(frozen=True)
class InputFile:
    """One file of the source as it was when the source was opened.

    Attributes:
        path: decoded, without `file:` for a local file.
        size: bytes.
        modified_ms: time of the last change, milliseconds since the epoch.
    """

    path: str
    size: int
    modified_ms: int


@dataclass(frozen=True)
class Snapshot:
    """What is read: recorded with the run, and unchanged by what happens to the source later.

    Attributes:
        format: as in SourceOptions.
        inputs: every file, in order of path; () for a catalog's table.
        version: of a Delta table, else None.
        schema: DDL of the source's own columns, given or inferred once over all files.
    """

    format: str
    inputs: tuple[InputFile, ...]
    version: int | None
    schema: str


@dataclass(frozen=True)
class Source:
    """An opened source.

    Attributes:
        frame: the source's own columns, `_corrupt` (the raw line where it could not be parsed,
            else NULL) and `_source` (the row's place: a file's path, for access logs path:line).
        snapshot: what is read.
        arrival: columns that give the order of arrival by themselves, or ().
    """

    frame: DataFrame
    snapshot: Snapshot
    arrival: tuple[str, ...] = ()


def shown(path: str) -> str:
    """The path as it may be shown: without the user and password that a URL can carry."""
    return re.sub(r"(?<=://)[^/@\s]*@", "", path)


def no_line() -> Column:
    """`_corrupt` of a format whose rows always parse."""
    return F.lit(None).cast("string")
