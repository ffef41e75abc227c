"""Errors that Spark raises while it reads and computes, each as one line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import unquote

from pyspark.errors import PySparkException

from backfill.errors import BackfillError, ColumnError, JobFileError, SetupError, SourceError
from backfill.events.model import Snapshot
from backfill.printable import shown

_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]")
# Finds a condition's parameters, by Spark's names for them, if there is only a text.
_AS_TEXT = {
    "FAILED_READ_FILE": r"read(?:ing)? file (?P<path>.+?)\.(?:\s|$)"
    r"(?:.* column:? ?(?P<column>\[[^\],]+))?",
    "CANNOT_READ_FILE_FOOTER": r"footer for file:? (?P<path>.+?)\.(?:\s|$)",
    "CAST_INVALID_INPUT": r"The value (?P<expression>.*) of the type (?P<sourceType>\S+) "
    r"cannot be cast to (?P<targetType>\S+)",
    "INVALID_DATETIME_PATTERN": r"pattern: (?P<pattern>.*?)\. ",
    "INCONSISTENT_BEHAVIOR_CROSS_VERSION": r"recognize (?P<pattern>'.*?') pattern",
}

#: For Sail, whose errors often have no condition: Spark's conditions, and Sail's words for them.
_OF_SAIL = {
    "DIVIDE_BY_ZERO": r"(?:Division|Remainder) by zero",
    "CAST_INVALID_INPUT": r"Cannot cast (?:string|value) (?P<expression>'.*') to value of "
    r"(?P<targetType>\w+(?:\([^)]*\))?) type|invalid timestamp: (?P<time>.*)",
    "CAST_OVERFLOW": r"Can't cast value \S+ to type|too large to store in a Decimal|"
    r"Date arithmetic overflow",
    "PARQUET_TYPE_NOT_SUPPORTED": r"cast (?P<parquetType>\w+(?:\(.*\))?) to Spark data type",
}
_SAIL_MISMATCH = re.compile(
    r"reading Parquet column `(?P<column>.+?)`\. Expected (?P<wanted>.+), actual Parquet type "
    r"(?P<found>.+)\."
)
_NO_MEMORY = re.compile(r"Failed to allocate additional .*?pool_size: (?P<size>[^)]+)\)")


@dataclass(frozen=True)
class _Raised:
    """A condition that Spark raised.

    Attributes:
        condition: its name.
        parameters: its parameters, by Spark's names.
        text: all that Spark says, about causes too.
        snapshot: what was being read, if known.
    """

    condition: str
    parameters: Mapping[str, str]
    text: str
    snapshot: Snapshot | None

    def __getitem__(self, name: str) -> str:
        return self.parameters.get(name) or "?"


def translate(error: BaseException, snapshot: Snapshot | None = None) -> BackfillError | None:
    """The one-line error for an exception of Spark, or None for an unknown one.

    Spark reads late: an unreadable file, a bad cast in an expression or an overflow shows only
    while a job runs, and differently in classic Spark (also as Py4J's own exception) and in Spark
    Connect.

    Args:
        error: what was raised by an action or by the analysis of a plan.
        snapshot: what was being read, if known; a file of it that is gone has a message of its own.

    Returns:
        A SourceError (missing, corrupt or mismatching files), ColumnError (values that do not
        cast, overflow) or JobFileError (pattern of a time), with the file or value in it; a
        SetupError if Sail needs more memory than it may take.
    """
    if isinstance(error, BackfillError):
        return error
    text = str(error)
    for condition, parameters in _conditions(error, text):
        for prefix, teller in _TELLERS.items():
            if condition == prefix or condition.startswith(prefix + "."):
                return teller(_Raised(condition, parameters, text, snapshot))
    if memory := _NO_MEMORY.search(text):
        return SetupError(
            f"Sail needs more memory than the {memory['size']} that it may use",
            field="runtime",
            value="sail",
            way_out="Allow more: set SAIL_RUNTIME__MEMORY_POOL__TYPE=fair and "
            "SAIL_RUNTIME__MEMORY_POOL__FAIR__MAX_SIZE to a number of bytes; or use Spark",
        )
    return None


def _conditions(error: BaseException, text: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    if isinstance(error, PySparkException):
        condition, parameters = error.getCondition(), error.getMessageParameters()
        if condition is not None and parameters is not None:
            yield condition, parameters
    # If a file can't be read, classic Spark raises Py4J's own exception, which has no condition;
    # nor has Connect's, if the footer can't be read. For a query over a stream, the condition only
    # says that it failed. The reason is in Java's causes, which are available only as text.
    for mention in _CONDITION.finditer(text):
        pattern = _AS_TEXT.get(mention[1].partition(".")[0])
        match = pattern and re.search(pattern, text[mention.end() :])
        yield mention[1], match.groupdict() if match else {}
    for condition, words in _OF_SAIL.items():
        if match := re.search(words, text):
            yield condition, match.groupdict()


@contextmanager
def spark_errors(snapshot: Snapshot | None = None) -> Iterator[None]:
    """Within this context, Spark exceptions that `translate` knows become one-line errors."""
    try:
        yield
    except Exception as error:
        known = translate(error, snapshot)
        if known is None or known is error:
            raise
        raise known from error


def _file(raised: _Raised) -> BackfillError:
    condition, snapshot = raised.condition, raised.snapshot
    path = _path(raised)
    if condition.endswith("FILE_NOT_EXIST"):
        known = snapshot is not None and any(file.path == path for file in snapshot.inputs)
        when = "was removed after the run began" if known else "does not exist"
        return SourceError(f"a file of the source {when}", field=path, way_out="Run again")
    # This is Java's IllegalArgumentException, which has no condition anywhere.
    if "CSV header" in raised.text:
        return SourceError(
            "the header of this CSV file differs from the schema or from the first file",
            field=path,
            way_out="Give every file the same columns in the same order, or read them separately",
        )
    if mismatch := _SAIL_MISMATCH.search(raised.text):
        return SourceError(
            f"Sail can't read the column's type, {mismatch['found']}, as {mismatch['wanted']}",
            field=mismatch["column"],
            way_out="Write it with another type, or use Spark",
        )
    if condition.endswith("DATA_TYPE_MISMATCH"):
        return SourceError(
            f"column {raised['column'].strip('[]')} has another type in this file than in "
            "the schema",
            field=path,
            way_out="Write the files with one schema, or set the type in source.schema",
        )
    if path.endswith((".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate")):
        return SourceError(
            "the file cannot be decompressed: it is truncated or corrupt",
            field=path,
            way_out="Fetch it again, or remove it from the source",
        )
    # This is an exception of Univocity, Spark's CSV parser; it has no condition either.
    if "TextParsingException" in raised.text:
        return SourceError(
            "a line has more or longer fields than maxColumns and maxCharsPerColumn in "
            "source.options allow (20,480 columns by default)",
            field=path,
            way_out="Raise them, or correct the file",
        )
    # A stream's error does not say whether the header was the cause.
    header = snapshot is not None and snapshot.format == "csv" and "STREAM_FAILED" in raised.text
    more = ", or its header differs from the schema" if header else ""
    return SourceError(
        f"the file cannot be read: it is not of this format, truncated or corrupt{more}",
        field=path,
        way_out="Fetch it again, or remove it from the source",
    )


def _path(raised: _Raised) -> str:
    path = raised.parameters.get("path") or "source"
    return shown(unquote(re.sub(r"^file:/+", "/", path)))


def _missing_path(raised: _Raised) -> BackfillError:
    path = re.sub(r"^file:/+", "/", raised["path"])
    return SourceError("nothing is there", field="source.path", value=shown(path))


def _cast(raised: _Raised) -> BackfillError:
    if time := raised.parameters.get("time"):
        value, wanted = repr(time), '"TIMESTAMP"'
    else:
        value, wanted = raised["expression"], raised["targetType"]
    theirs = raised.parameters.get("sourceType") or '"STRING"'
    return ColumnError(
        f"the value {value} of type {theirs} cannot be cast to {wanted}",
        way_out="Correct the expression, or use try_cast, which returns NULL instead",
    )


def _overflow(raised: _Raised) -> BackfillError:
    # Spark may name a function for an operator of ours, as in a sum: in text, not in a parameter.
    used = re.search(r"[Uu]se '?`?(try_\w+)", raised.text)
    of_theirs = f"; in your own expression, {used.group(1)} returns NULL instead" if used else ""
    return ColumnError(
        "a number grew too large for its type in an expression or a sum",
        way_out=f"Cast to a wider type first, such as decimal(38, 0){of_theirs}",
    )


def _division(_: _Raised) -> BackfillError:
    return ColumnError(
        "a division by zero in an expression",
        way_out="Divide by nullif(…, 0), or use try_divide or try_mod, which return NULL instead",
    )


def _pattern(raised: _Raised) -> BackfillError:
    pattern = raised.parameters.get("pattern")
    return JobFileError(
        "not a datetime pattern of Spark",
        field="time_format",
        value=pattern and pattern.strip("'"),
        way_out="Allowed: iso, epoch_s, epoch_ms, epoch_us, or a pattern such as "
        "'yyyy-MM-dd HH:mm:ss'",
    )


def _types(_: _Raised) -> BackfillError:
    return SourceError(
        "files of the source differ in the type of a column",
        field="source",
        way_out="Write the files with one schema, or set the type in source.schema",
    )


def _folders(_: _Raised) -> BackfillError:
    return SourceError(
        "folders such as date=2026-01-01 differ in name or depth",
        field="source.path",
        way_out="Point to a folder whose subfolders all have the same form",
    )


def _folder_value(raised: _Raised) -> BackfillError:
    name, value, type_ = (raised[parameter] for parameter in ("columnName", "value", "dataType"))
    return SourceError(
        f"the folder {name.strip('`')}={value.strip(chr(39))} is not of type "
        f"{type_.strip(chr(34))}, unlike the others",
        field="source.path",
        way_out="Rename the folder, or set the type in source.schema",
    )


def _parquet_type(raised: _Raised) -> BackfillError:
    return SourceError(
        f"a column has a type that cannot be read: {raised['parquetType']}",
        field="source",
        way_out="Leave the column out of source.schema, or write another type: times with "
        "microseconds, text not as an Arrow dictionary (in pandas, a category)",
    )


def _table(raised: _Raised) -> BackfillError:
    name = raised.parameters.get("relationName")
    return SourceError(
        "there is no such table or view in the catalog",
        field="source.path",
        value=name and name.replace("`", ""),
        way_out="Check its name, with catalog and schema",
    )


def _column_twice(raised: _Raised) -> BackfillError:
    name = raised.parameters.get("columnName")
    return SourceError(
        "two columns of the source have this name, or one that differs only in case",
        field="source.schema",
        value=name and name.replace("`", ""),
        way_out="Name the wanted columns in source.schema, or rename one of them",
    )


_Teller = Callable[[_Raised], BackfillError]
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
    "COLUMN_ALREADY_EXISTS": _column_twice,
    "PARQUET_TYPE_ILLEGAL": _parquet_type,
    "PARQUET_TYPE_NOT_RECOGNIZED": _parquet_type,
    "PARQUET_TYPE_NOT_SUPPORTED": _parquet_type,
    "INVALID_PARTITION_VALUE": _folder_value,
    "CONFLICTING_PARTITION_COLUMN_NAMES": _folders,
    "CONFLICTING_DIRECTORY_STRUCTURES": _folders,
}
