"""Turns values as they were written into values of the job's types."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill.columns import quoted
from backfill.errors import ColumnError
from backfill.events.numbers import integer_micros
from backfill.events.times import instant as instant_of
from backfill.events.times import iso
from backfill.reconciliation.output.files import Once, Steps, Value
from backfill.runtimes.differences import needs_spark

#: The years 1 to 9999, µs.
_FIRST_US, _LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999
_NESTED = (T.ArrayType, T.MapType, T.StructType)
_TIMES = (T.TimestampType, T.TimestampNTZType, T.DateType)


@dataclass(frozen=True)
class Read:
    """A value as it is wanted, and text on what is wrong with it (NULL: nothing)."""

    value: Column
    problem: Column


def failing(condition: Column, reason: str) -> Column:
    """The reason where the condition holds, else NULL."""
    return F.when(condition, F.lit(reason))


def instant(given: Value, name: str, zone: str, once: Once) -> Read:
    """A time in µs: a timestamp or a date, ISO 8601, or whole ms since the epoch.

    Raises:
        ColumnError: the type can hold none of these.
    """
    inside = once(_inside(once(_micros(given, name, zone))))
    return Read(inside, failing(inside.isNull(), f"{name} is not a time in the years 1 to 9999"))


def milliseconds(ms: Column, once: Once) -> Column:
    """Whole ms since the epoch in µs; NULL outside the years 1 to 9999."""
    return once(_inside(once(integer_micros(ms, 1_000))))


def converted(given: Value, wanted: T.DataType, name: str, zone: str, steps: Steps) -> Read:
    """A value as one of the wanted type, NULL staying NULL.

    Nothing is rounded: a number that the wanted type can't hold exactly is a problem, except that
    floating-point types take the nearest.

    Raises:
        ColumnError: no value of the given type can be one of the wanted type.
        SetupError: as for `conversion_needs_spark`.
    """
    if given.type.simpleString() == wanted.simpleString():
        return Read(given.column, F.lit(None).cast("string"))
    value = steps.once(_cast(given, wanted, name, zone))
    conversion_needs_spark(steps.frame, given, wanted, name)
    reason = f"{name} is not of type {wanted.simpleString()}"
    return Read(value, failing(given.column.isNotNull() & value.isNull(), reason))


def conversion_needs_spark(frame: DataFrame, given: Value, wanted: T.DataType, name: str) -> None:
    """Refuses a value of a type from which other runtimes may not convert as Spark does.

    Numbers may become numbers. Times may also be text, because our own rules read them.

    Raises:
        SetupError: it is such a value, and the runtime does not have all that Spark has.
    """
    numbers = isinstance(given.type, T.NumericType) and isinstance(wanted, T.NumericType)
    time = isinstance(wanted, T.TimestampType) and not isinstance(given.type, _NESTED)
    same = given.type.simpleString() == wanted.simpleString()
    if not (same or numbers or time):
        kinds = given.type.simpleString(), wanted.simpleString()
        needs_spark(frame, "{} is read as {}".format(*kinds), field=name)


def json_fields(text: Column, names: Iterable[str], once: Once) -> dict[str, Value]:
    """Fields of a JSON object, by name, as text (nested ones as JSON); NULL where absent."""
    wanted = ", ".join(f"{quoted(name)}: string" for name in names)
    whole = once(F.try_variant_get(F.try_parse_json(text), "$", f"struct<{wanted}>"))
    return {name: Value(whole.getField(name), T.StringType()) for name in names}


def json_scalar(text: Column) -> Column:
    """A JSON value as text, without the quotes that a string has."""
    return F.try_variant_get(F.try_parse_json(text), "$", "string")


def _inside(micros: Column) -> Column:
    return F.when(micros.between(_FIRST_US, _LAST_US), micros)


def _micros(given: Value, name: str, zone: str) -> Column:
    value, type_ = given.column, given.type
    if isinstance(type_, T.IntegralType):
        return integer_micros(value.cast("bigint"), 1_000)
    if isinstance(type_, T.StringType):
        whole = value.rlike(r"^\s*[+-]?\d{1,19}\s*$")
        ms = integer_micros(F.when(whole, F.trim(value)).try_cast("bigint"), 1_000)
        return F.coalesce(ms, iso(value, zone))
    if isinstance(type_, _TIMES):
        return instant_of(value, type_, name, zone)
    raise ColumnError(
        f"{type_.simpleString()} is not a type of time",
        field=name,
        way_out="Allowed: timestamps, dates, ISO 8601 and whole ms since the epoch",
    )


def _cast(given: Value, wanted: T.DataType, name: str, zone: str) -> Column:
    value, type_ = given.column, given.type
    if type_.simpleString() == wanted.simpleString():
        return value
    if isinstance(wanted, T.TimestampType):
        return F.timestamp_micros(_inside(_micros(given, name, zone)))
    if isinstance(type_, T.StringType) and isinstance(wanted, _NESTED):
        return F.from_json(value, wanted)
    if isinstance(type_, T.ArrayType) and isinstance(wanted, T.ArrayType):
        return _array(given, type_.elementType, wanted.elementType, name, zone)
    if not _castable(type_, wanted):
        raise ColumnError(
            f"is {type_.simpleString()} in the stream, and {wanted.simpleString()} in the job",
            field=name,
            way_out="Check which column it is: columns: theirs=ours",
        )
    cast = value.try_cast(wanted)
    if isinstance(type_, T.BinaryType):
        return F.try_validate_utf8(cast)
    exact = isinstance(type_, T.NumericType) and isinstance(wanted, T.IntegralType | T.DecimalType)
    return F.when(cast.try_cast(type_) == value, cast) if exact else cast


def _array(given: Value, type_: T.DataType, wanted: T.DataType, name: str, zone: str) -> Column:
    cast = F.transform(
        given.column, lambda element: _cast(Value(element, type_), wanted, name, zone)
    )
    # An element that does not fit has become NULL.
    kept = F.size(F.filter(cast, F.isnull)) == F.size(F.filter(given.column, F.isnull))
    return F.when(kept, cast)


def _castable(given: T.DataType, wanted: T.DataType) -> bool:
    """Whether Spark's TRY_CAST takes the type, and converts it as we mean it."""
    if isinstance(wanted, T.StringType):
        return isinstance(given, T.NumericType | T.BooleanType | T.DateType | T.BinaryType)
    if isinstance(given, T.StringType):
        return isinstance(wanted, T.AtomicType) and not isinstance(wanted, T.VariantType)
    return isinstance(given, T.NumericType) and isinstance(wanted, T.NumericType)
