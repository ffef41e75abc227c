"""CSV and JSON lines: types inferred once, and no value that does not parse goes unnoticed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DataType,
    NullType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from backfill.columns import column
from backfill.errors import SourceError
from backfill.events.files import for_spark, place
from backfill.events.json_lines import in_utf8, longer_lines
from backfill.events.model import CORRUPT, SOURCE, InputFile

_UNPARSED = "_line that did not parse"  # no field of a source is called this
_REFUSED = {
    "mode": "lines that do not parse are quarantined",
    "columnnameofcorruptrecord": "lines that do not parse are quarantined",
    "enforceschema": "the header of every file is checked",
    "inferschema": "types are inferred where source.schema does not give them",
    "samplingratio": "types are inferred over the whole source",
    "columnpruning": "whether a row parses must not depend on the columns that are used",
    "timezone": "events.timezone sets it",
    "singlevariantcolumn": "events need columns",
    "wholetext": "events are lines",
}


def text_options(format: str, options: Mapping[str, str]) -> dict[str, str]:
    """The options for Spark's CSV or JSON reader, without those that are ours to set.

    Raises:
        SourceError: an option would lose rows or make them depend on the query. It names the
            option, never its value.
    """
    for name in options:
        if reason := _REFUSED.get(name.lower()):
            raise SourceError(
                f"this option cannot be set: {reason}", field=f"source.options.{name}"
            )
    lower = {name.lower(): value for name, value in options.items()}
    if format == "csv":
        lower.setdefault("header", "true")
    return lower


def infer_schema(
    spark: SparkSession,
    format: str,
    files: tuple[InputFile, ...],
    options: Mapping[str, str],
) -> StructType:
    """The schema of CSV or JSON files, inferred from all of their rows.

    What looks like a time stays text, with or without a zone and in any form: `time_format` says
    how it is read, and Spark's guess would depend on the session's time zone. Dates
    (`2026-01-31`, CSV) are dates. Columns without a value are text.

    Raises:
        SourceError: CSV without a header, or nothing that could be parsed.
    """
    if format == "csv" and options.get("header", "true").lower() != "true":
        raise SourceError(
            "a CSV file without a header has no names for its columns",
            field="source.schema",
            way_out='Name them, as in schema: "user_id string, event_time string"',
        )
    reader = spark.read.options(**options).option("columnNameOfCorruptRecord", _UNPARSED)
    if format == "csv":
        inferred = reader.option("inferSchema", "true").csv(for_spark(files)).schema
    else:
        inferred = reader.json(for_spark(files)).schema
    schema = StructType()
    for field in inferred.fields:
        if field.name != _UNPARSED:
            schema.add(field.name, _settled(field.dataType))
    if not schema.fields:
        form = "CSV" if format == "csv" else "a JSON object"
        raise SourceError(f"none of its lines is {form}", field="source.path")
    return schema


def read_text(
    spark: SparkSession,
    format: str,
    files: tuple[InputFile, ...],
    schema: StructType,
    options: Mapping[str, str],
    settings: Mapping[str, str],
) -> DataFrame:
    """CSV or JSON files with exactly this schema.

    A line that is malformed, has too few or too many fields, or a value that is not of its
    column's type, is kept whole in `_corrupt`.

    Args:
        spark: the session.
        format: csv or json.
        files: what to read.
        schema: the columns in the files.
        options: from text_options.
        settings: settings for every format: basePath, timeZone and so on.
    """
    paths, own, wanted = for_spark(files), reading(format, options), with_corrupt(schema)
    reader = spark.read.schema(wanted).options(**own).options(**settings)
    rows = reader.csv(paths) if format == "csv" else reader.json(paths)
    rows = checked(rows, schema.names, place().alias(SOURCE))
    if format == "csv" or not in_utf8(options):
        return rows
    return rows.unionAll(longer_lines(rows, paths, wanted, {**settings, **own}, settings))


def with_corrupt(schema: StructType) -> StructType:
    """The schema to read with: the columns, and the raw line if it does not parse."""
    return StructType([*schema.fields]).add(CORRUPT, StringType())


def reading(format: str, options: Mapping[str, str]) -> dict[str, str]:
    """The options from text_options, and those that keep what does not parse."""
    ours = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    if format == "csv":
        # Names in each file's header are compared with the schema's: columns never shift.
        ours |= {"enforceSchema": "false", "columnPruning": "false"}
    return {**options, **ours}


def checked(rows: DataFrame, names: Sequence[str], *also: Column) -> DataFrame:
    """Rows that were read in this way, with `_corrupt` after all other columns.

    Spark only parses the columns that a query uses, so a bad value would make its row corrupt in
    one query and good in the next. Here `_corrupt` uses every column.

    Args:
        rows: a scan.
        names: the columns in the files.
        also: further columns to add at the end.
    """
    # The condition always holds, but the optimizer does not see that.
    nulls = F.array(*[column(name).isNull() for name in names])
    corrupt = F.when(F.array_position(nulls, F.lit(True)) >= 0, F.col(CORRUPT))
    own = [column(name) for name in rows.columns if name != CORRUPT]
    return rows.select(*own, corrupt.alias(CORRUPT), *also)


def _settled(type_: DataType) -> DataType:
    if isinstance(type_, TimestampType | TimestampNTZType | NullType):
        return StringType()
    return type_
