"""JSON: what a text holds besides its first object is not lost.

Spark takes the first object of a text, and drops anything that follows it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill.events.files import place
from backfill.events.model import CORRUPT, SOURCE

#: The object in a text, a struct. No column of a source has this name, or the next.
OBJECT = "_object in JSON"
_TEXT = "_text in JSON"
#: The name of a line in Spark's text reader.
_LINE = "value"
_ENCODING = ("encoding", "charset")
_ANY = T.StructType().add("no field", T.StringType())


def with_object(
    rows: DataFrame, text: Column, schema: T.StructType, options: Mapping[str, str]
) -> DataFrame:
    """Adds the object that a text holds, and the whole text if the object is not all of it.

    Args:
        rows: any rows.
        text: text, or bytes.
        schema: the schema of the object's wanted fields, and CORRUPT.
        options: for Spark's JSON parser, such that it keeps what does not parse in CORRUPT.

    Returns:
        The rows, OBJECT, and CORRUPT: a text that is not a JSON object in UTF-8, holds more than
        one, or has a field of another type; "" if there is no text.
    """
    rows = rows.select("*", text.cast("string").alias(_TEXT))
    valid = F.when(F.is_valid_utf8(_TEXT), F.col(_TEXT))
    # As a generator of one row: a plain expression would be copied into every use of a field.
    rows = rows.select("*", F.explode(F.array(F.from_json(valid, schema, options))).alias(OBJECT))
    whole = F.coalesce(F.make_valid_utf8(_TEXT), F.lit(""))
    corrupt = F.when(F.col(OBJECT).isNull() | _goes_on(valid, options), whole)
    corrupt = F.coalesce(corrupt, F.col(OBJECT)[CORRUPT])
    return rows.withColumn(CORRUPT, corrupt).drop(_TEXT)


def in_utf8(options: Mapping[str, str]) -> bool:
    """Whether texts are in UTF-8; only Spark's own JSON reader knows other encodings."""
    named = {text.lower() for name, text in options.items() if name.lower() in _ENCODING}
    return named <= {"utf-8"}


def longer_lines(
    rows: DataFrame,
    paths: Collection[str],
    schema: T.StructType,
    options: Mapping[str, str],
    settings: Mapping[str, str],
) -> DataFrame:
    """The lines, or files, of which Spark's own reader has read only a part.

    Args:
        rows: what the reader gives for these files, with CORRUPT and SOURCE.
        paths: the files' paths, as Spark's readers want them.
        schema: the schema that they were read with, CORRUPT included.
        options: the options that they were read with.
        settings: settings for readers of every format.

    Returns:
        Rows with the same columns, all NULL except CORRUPT, which has the line, and SOURCE.
    """
    spark = rows.sparkSession
    lower = {name.lower(): value for name, value in options.items()}
    whole = lower.get("multiline", "false").lower() == "true"
    ends = lower.get("linesep")
    lines = spark.read.options(**settings).text([*paths], wholetext=whole, lineSep=ends)
    lines = lines.select(F.col(_LINE).alias(_TEXT), place().alias(SOURCE))
    line = F.ltrim(_TEXT, F.lit("\ufeff"))
    listed = F.get(F.from_json(line, T.ArrayType(schema), options), F.lit(0))
    first = F.when(_is_array(line), listed).otherwise(F.from_json(line, schema, options))
    # What does not parse from its start is in the reader's rows.
    read = first.isNotNull() & first[CORRUPT].isNull()
    longer = lines.where(F.when(_goes_on(line, options), read).otherwise(F.lit(False)))
    held = {CORRUPT: F.make_valid_utf8(_TEXT), SOURCE: F.col(SOURCE)}
    return longer.select(
        *(
            held.get(field.name, F.lit(None).cast(field.dataType)).alias(field.name)
            for field in rows.schema
        )
    )


def _goes_on(text: Column, options: Mapping[str, str]) -> Column:
    """Whether a text holds more than its first object or array."""
    # Most objects hold no other object, so the first closing brace is the end.
    ended = F.instr(text, "}") == F.length(text)
    wrapped = F.concat(F.lit("["), text, F.lit("]"))

    def alone(kind: T.DataType) -> Column:
        return F.coalesce(
            F.size(F.from_json(wrapped, T.ArrayType(kind), options)) == 1, F.lit(False)
        )

    listed = alone(T.ArrayType(T.StringType()))
    return ~(ended | F.when(_is_array(text), listed).otherwise(alone(_ANY)))


def _is_array(text: Column) -> Column:
    return text.rlike(r"^\s*\[")
