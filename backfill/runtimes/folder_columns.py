"""Files read without Spark's help: their paths, and their columns from the names of folders."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill.folders import is_url
from backfill.runtimes.differences import computed_once, needs_spark

_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
#: The characters of patterns in paths for Sail 0.7.2, which has no escapes.
PATTERNS = frozenset("[]{}*?\\")
#: How many frames are joined in one chain of unions.
_CHAIN = 40
#: The values in the names of a file's folders, by column.
FolderValues = Mapping[str, "str | None"]


def check_names(paths: Iterable[str], spark: SparkSession) -> None:
    """Checks that a session's runtime reads exactly these paths, and no others that match them.

    Raises:
        SetupError: it may not do so.
    """
    for path in paths:
        if PATTERNS & set(path):
            needs_spark(spark, "files with such names are read", field=path)


def check_characters(path: str, spark: SparkSession, *, field: str) -> None:
    """Checks that a session's runtime takes a path as it is.

    Raises:
        SetupError: it may take part of the path as a pattern, or decode it.
    """
    if (PATTERNS | {"%"}) & set(path):
        needs_spark(spark, "paths with special characters are read", field=field)


def check_place(path: str, spark: SparkSession, *, field: str) -> None:
    """Checks that a session's runtime reads and writes at a path or URL.

    Raises:
        SetupError: it does not.
    """
    if is_url(path) and not path.startswith("file:"):
        needs_spark(spark, "object stores are read and written", field=field)
    check_characters(path, spark, field=field)


def folder_values(path: str, base: str) -> dict[str, str | None]:
    """A file's columns from the names of its folders, as Spark finds them, outermost first."""
    inside = path[len(base.rstrip("/")) + 1 :]
    return dict(reversed(list(_upwards(inside.split("/")[:-1]))))


def _upwards(folders: list[str]) -> Iterator[tuple[str, str | None]]:
    begun = False
    for folder in reversed(folders):
        name, equals, value = folder.partition("=")
        if equals:
            begun = True
            text = unquote(value, encoding="latin-1")
            yield unquote(name, encoding="latin-1"), None if text == _NULL_FOLDER else text
        elif begun:
            return


def with_folder_values(
    files: Sequence[tuple[str, FolderValues]],
    schema: T.StructType,
    scan: Callable[[list[str], T.StructType], DataFrame],
    path: str | None = None,
) -> DataFrame:
    """The rows of files, with the columns from the names of their folders.

    Files of the same folders are read in one scan; if paths are wanted, each file is read in its
    own scan.

    Args:
        files: their paths, and the values in the names of their folders.
        schema: the rows' schema, including those columns.
        scan: reads files with a schema.
        path: the name of a further column, with the file's path.
    """
    groups: dict[tuple[str | None, tuple[tuple[str, str | None], ...]], list[str]] = {}
    for name, said in files:
        own = name if path is not None else None
        groups.setdefault((own, tuple(said.items())), []).append(name)
    frames = []
    for (own, items), names in groups.items():
        values = dict(items)
        inside = T.StructType([field for field in schema if field.name not in values])
        rows = scan(names, inside)
        columns = [
            F.lit(values[field.name]).cast(field.dataType).alias(field.name)
            if field.name in values
            else F.col(f"`{field.name.replace('`', '``')}`")
            for field in schema
        ]
        if path is not None:
            columns.append(F.lit(own).alias(path))
        frames.append(rows.select(*columns))
    # A chain of hundreds is deeper than a server reads, and Sail 0.7.2 fails on unions of unions:
    # so parts of the chain are computed first.
    while len(frames) > _CHAIN:
        pieces = [frames[at : at + _CHAIN] for at in range(0, len(frames), _CHAIN)]
        frames = [computed_once(reduce(DataFrame.unionAll, piece)) for piece in pieces]
    return reduce(DataFrame.unionAll, frames)


def inferred(values: Iterable[str | None]) -> T.DataType | None:
    """The type that Spark infers for values from folders; None if it may be another one."""
    given = [value for value in values if value is not None]
    for type, fits in _TYPES:
        if given and all(map(fits, given)):
            return type
    # For Spark, numbers with a fraction, times and dates have types of their own, too.
    return None if any(re.match(r"[+-]?[.\d]", value) for value in given) else T.StringType()


def _whole(bits: int) -> Callable[[str], bool]:
    most = 1 << (bits - 1)
    return lambda text: bool(re.fullmatch(r"[+-]?\d+", text)) and -most <= int(text) < most


def _is_date(text: str) -> bool:
    try:
        return dt.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


_TYPES: tuple[tuple[T.DataType, Callable[[str], bool]], ...] = (
    (T.IntegerType(), _whole(32)),
    (T.LongType(), _whole(64)),
    (T.DateType(), _is_date),
)
