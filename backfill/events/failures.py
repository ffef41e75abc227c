"""Errors that Spark raises while it reads and computes, told in one line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import unquote

from backfill.errors import BackfillError, ColumnError, JobFileError, SourceError
from backfill.events.model import Snapshot, shown

# What follows is looked at and not passed over: a further condition can stand on the same line.
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\] ?(?=(.*))")


def translate(error: BaseException, snapshot: Snapshot | None = None) -> BackfillError | None:
    """The one-line error for what Spark raised, or None where this is nothing known.

    Spark reads late: an unreadable file, a bad cast in an expression or an overflow shows only
    while a job runs, wrapped in a stack trace, and differently in classic Spark (also as Py4J's
    own exception) and in Spark Connect. What all have in common is the name of Spark's error
    condition in brackets.

    Args:
        error: what was raised by an action or by the analysis of a plan.
        snapshot: what was being read, if known: tells a file that has gone since from others.

    Returns:
        A SourceError (missing, corrupt or mismatching files), ColumnError (values that do not
        cast, overflow) or JobFileError (pattern of a time), with the file or value in it.
    """
    if isinstance(error, BackfillError):
        return error
    text = str(error)
    for condition, rest in _CONDITION.findall(text):
        for prefix, teller in _TELLERS.items():
            if condition == prefix or condition.startswith(prefix + "."):
                return teller(condition, rest, text, snapshot)
    return None


@contextmanager
def spark_errors(snapshot: Snapshot | None = None) -> Iterator[None]:
    """Within this, what Spark raises and `translate` knows comes out as one line."""
    try:
        yield
    except Exception as error:
        known = translate(error, snapshot)
        if known is None or known is error:
            raise
        raise known from error


def _file(condition: str, rest: str, text: str, snapshot: Snapshot | None) -> BackfillError:
    path = _path(rest)
    if condition.endswith("FILE_NOT_EXIST"):
        known = snapshot is not None and any(file.path == path for file in snapshot.inputs)
        when = "was removed after the run began" if known else "does not exist"
        return SourceError(f"a file of the source {when}", field=path, way_out="Run again")
    if "CSV header" in text:
        return SourceError(
            "the header of this CSV file is not that of the schema, or of the first file",
            field=path,
            way_out="Give every file the same columns in the same order, or read them apart",
        )
    if condition.endswith("DATA_TYPE_MISMATCH"):
        column = re.search(r"column:? ?\[?([^\],]+)\]?", rest, re.IGNORECASE)
        return SourceError(
            f"column {column.group(1) if column else '?'} has another type in this file than in "
            "the schema",
            field=path,
            way_out="Write the files with one schema, or say the type in source.schema",
        )
    if path.endswith((".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate")):
        return SourceError(
            "the file cannot be decompressed: it is truncated or corrupt",
            field=path,
            way_out="Fetch it again, or take it out of the source",
        )
    return SourceError(
        "the file cannot be read: it is not of this format, truncated or corrupt",
        field=path,
        way_out="Fetch it again, or take it out of the source",
    )


def _path(rest: str) -> str:
    match = re.search(r"(?:reading file|read file|footer for file:?) (\S+?)\.?(?:\s|$)", rest)
    path = match.group(1) if match else "source"
    return shown(unquote(re.sub(r"^file:/+", "/", path)))


def _missing_path(_c: str, rest: str, _t: str, _s: Snapshot | None) -> BackfillError:
    match = re.search(r"does not exist: (\S+?)\.? ", rest + " ")
    path = match.group(1) if match else "?"
    return SourceError(
        "nothing is there", field="source.path", value=shown(re.sub(r"^file:/+", "/", path))
    )


def _cast(_c: str, rest: str, _t: str, _s: Snapshot | None) -> BackfillError:
    match = re.search(r"The value (.*) of the type (\S+) cannot be cast to (\S+)", rest)
    value, theirs, wanted = match.groups() if match else ("?", "?", "?")
    return ColumnError(
        f"the value {value} of type {theirs} cannot be cast to {wanted}",
        way_out="Correct the expression, or use try_cast for NULL in its place",
    )


def _overflow(_c: str, rest: str, _t: str, _s: Snapshot | None) -> BackfillError:
    # Spark may name a function of an operator of ours, as in a sum.
    used = re.search(r"[Uu]se '?`?(try_\w+)", rest)
    of_theirs = f"; in an expression of yours {used.group(1)} gives NULL instead" if used else ""
    return ColumnError(
        "a number grew too large for its type in an expression or a sum",
        way_out=f"Cast to a wider type first, such as decimal(38, 0){of_theirs}",
    )


def _division(_c: str, _r: str, _t: str, _s: Snapshot | None) -> BackfillError:
    return ColumnError(
        "a division by zero in an expression",
        way_out="Divide by nullif(…, 0), or use try_divide or try_mod: they give NULL instead",
    )


def _pattern(_c: str, rest: str, text: str, _s: Snapshot | None) -> BackfillError:
    match = re.search(r"pattern: '?(.*?)'?\. |recognize '(.*?)' pattern", text)
    pattern = next((group for group in match.groups() if group), None) if match else None
    return JobFileError(
        "this is no pattern of Spark's for times",
        field="time_format",
        value=pattern,
        way_out="Allowed: iso, epoch_s, epoch_ms, epoch_us, or a pattern such as "
        "'yyyy-MM-dd HH:mm:ss'",
    )


def _types(_c: str, rest: str, text: str, _s: Snapshot | None) -> BackfillError:
    return SourceError(
        "files of the source differ in the type of a column",
        field="source",
        way_out="Write the files with one schema, or say the type in source.schema",
    )


def _folders(_c: str, _r: str, _t: str, _s: Snapshot | None) -> BackfillError:
    return SourceError(
        "folders such as date=2026-01-01 differ in name or depth",
        field="source.path",
        way_out="Point to the folder above folders of one form",
    )


def _folder_value(_c: str, rest: str, _t: str, _s: Snapshot | None) -> BackfillError:
    match = re.search(r"value '(.*?)' to data type \"?(\w+)\"? .*column `(.*?)`", rest)
    value, type_, name = match.groups() if match else ("?", "?", "?")
    return SourceError(
        f"the folder {name}={value} is no {type_}, as the others are",
        field="source.path",
        way_out="Rename the folder, or say the type in source.schema",
    )


def _parquet_type(_c: str, rest: str, _t: str, _s: Snapshot | None) -> BackfillError:
    return SourceError(
        f"Spark cannot read a column's type: {rest.split('. SQLSTATE')[0]}",
        field="source",
        way_out="Write times with microseconds, or leave the column out of source.schema",
    )


def _table(_c: str, rest: str, _t: str, _s: Snapshot | None) -> BackfillError:
    name = re.search(r"view (\S+) cannot be found", rest)
    return SourceError(
        "there is no such table or view in the catalog",
        field="source.path",
        value=name.group(1).replace("`", "") if name else None,
        way_out="Check its name, with catalog and schema",
    )


_Teller = Callable[[str, str, str, "Snapshot | None"], BackfillError]
_TELLERS: dict[str, _Teller] = {
    "FAILED_READ_FILE": _file,
    "CANNOT_READ_FILE_FOOTER": _file,
    "PATH_NOT_FOUND": _missing_path,
    "TABLE_OR_VIEW_NOT_FOUND": _table,
    "CAST_INVALID_INPUT": _cast,
    "CAST_OVERFLOW": _overflow,
    "CAST_OVERFLOW_IN_TABLE_INSERT": _overflow,
    "ARITHMETIC_OVERFLOW": _overflow,
    "BINARY_ARITHMETIC_OVERFLOW": _overflow,
    "NUMERIC_VALUE_OUT_OF_RANGE": _overflow,
    "DIVIDE_BY_ZERO": _division,
    "REMAINDER_BY_ZERO": _division,
    "INVALID_DATETIME_PATTERN": _pattern,
    "INCONSISTENT_BEHAVIOR_CROSS_VERSION.DATETIME_PATTERN_RECOGNITION": _pattern,
    "INCONSISTENT_BEHAVIOR_CROSS_VERSION.DATETIME_WEEK_BASED_PATTERN": _pattern,
    "CANNOT_MERGE_SCHEMAS": _types,
    "PARQUET_TYPE_ILLEGAL": _parquet_type,
    "PARQUET_TYPE_NOT_RECOGNIZED": _parquet_type,
    "PARQUET_TYPE_NOT_SUPPORTED": _parquet_type,
    "INVALID_PARTITION_VALUE": _folder_value,
    "CONFLICTING_PARTITION_COLUMN_NAMES": _folders,
    "CONFLICTING_DIRECTORY_STRUCTURES": _folders,
}
