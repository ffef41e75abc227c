"""Event times as whole microseconds since the epoch, in whatever form they were written.

Nothing here depends on Spark's session time zone: a timestamp without a zone is never cast to one
with a zone (such a cast uses the session's); it is shifted by the job's zone as a number. A local
time that occurs twice means the earlier one; one that does not exist moves forward by as much as
the clocks did.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegralType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from backfill.columns import column
from backfill.errors import ColumnError
from backfill.events.numbers import decimal_micros, double_micros, integer_micros, text_micros
from backfill.events.patterns import check_pattern, has_zone
from backfill.time.durations import DAY_US
from backfill.time.zone_names import check_zone
from backfill.time.zones import from_local

# A year inside both ends of the calendar, so that the windows and dates around an event are in it.
MIN_US = -62_104_060_800_000_000
"""0002-01-01T00:00:00Z."""
MAX_US = 253_370_764_799_999_999
"""9998-12-31T23:59:59.999999Z."""

UNITS = {"epoch_s": 1_000_000, "epoch_ms": 1_000, "epoch_us": 1}
"""Microseconds in one of each unit of `time_format`."""

_WAY_OUT = "Allowed: iso, epoch_s, epoch_ms, epoch_us, or a pattern of Spark"

_ISO = (
    r"^\d{4}-\d{2}-\d{2}(?:[T ](?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:[.,]\d{1,9})?)?"
    r" ?(?:[Zz]|[+-](?:0\d|1[0-8])(?::?[0-5]\d)?)?)?$"
)


@dataclass(frozen=True)
class Reading:
    """An event time, as columns, in two steps: the costly part is computed once, into a column.

    Attributes:
        raw: what is read.
        judged: from that, the micros (bigint, µs since the epoch; NULL if there is no time in the
            years 2 to 9998), and whether there is a time outside these years (otherwise false or
            NULL).
        always: every value that is not NULL and not out of range can be read.
        cheap: reading it costs no more than looking it up.
    """

    raw: Column
    judged: Callable[[Column], tuple[Column, Column]]
    always: bool = False
    cheap: bool = False


def time_column(frame: DataFrame, time: str, time_format: str | None, timezone: str) -> Column:
    """The event time as bigint, µs since the epoch; NULL if it cannot be read.

    Args:
        frame: the frame that has the column.
        time: its name, taken literally (dots, spaces and backticks are part of it).
        time_format: None for timestamps and dates; for text `iso` (`2015-05-17`,
            `2015-05-17T10:05:03.123456789+02:00`; up to 9 digits, floored), `epoch_s`,
            `epoch_ms`, `epoch_us` (for numbers too) or a pattern of Spark.
        timezone: the zone of times without a zone and of dates, by its IANA name.

    Raises:
        ColumnError: the column's type does not go with `time_format`.
        JobFileError: the zone or the pattern is not valid.
    """
    reading = read_time(frame, time, time_format, timezone)
    return reading.judged(reading.raw)[0]


def read_time(frame: DataFrame, time: str, time_format: str | None, timezone: str) -> Reading:
    """Like `time_column`, but also distinguishes times outside the years 2 to 9998."""
    check_zone(timezone)
    type_, value = frame.schema[time].dataType, column(time)
    if time_format is None:
        raw = instant(value, type_, time, timezone)
        return _in_range(raw, always=True, cheap=isinstance(type_, TimestampType))
    if isinstance(type_, TimestampType | TimestampNTZType | DateType):
        raise ColumnError(
            f"it is already a {type_.simpleString()}; time_format {time_format!r} is for text and "
            "numbers",
            field=time,
            way_out="Leave time_format out",
        )
    if time_format in UNITS:
        return _numbers(value, type_, time, UNITS[time_format])
    if not isinstance(type_, StringType):
        raise ColumnError(
            f"time_format {time_format!r} is for text, but this is {type_.simpleString()}",
            field=time,
            way_out="For numbers: epoch_s, epoch_ms or epoch_us",
        )
    if time_format == "iso":
        return _in_range(iso(value, timezone))
    check_pattern(frame.sparkSession, time_format)
    return _in_range(_pattern(value, time_format, timezone))


def _in_range(raw: Column, *, always: bool = False, cheap: bool = False) -> Reading:
    def judged(micros: Column) -> tuple[Column, Column]:
        fits = micros.between(MIN_US, MAX_US)
        return F.when(fits, micros), ~fits

    return Reading(raw, judged, always=always, cheap=cheap)


def instant(value: Column, type_: DataType, time: str, timezone: str) -> Column:
    """The µs of a timestamp, a timestamp without a zone or a date, in any year.

    Raises:
        ColumnError: it has another type; `time` names it.
    """
    if isinstance(type_, TimestampType):
        return F.unix_micros(value)
    if isinstance(type_, TimestampNTZType):
        # Nothing here uses the session's zone, or decimals, which take four times as long:
        # intervals are divided as whole numbers of microseconds.
        since = _near(value, "TIMESTAMP_NTZ") - F.expr("TIMESTAMP_NTZ'1970-01-01'")
        micros = F.call_function("div", since, F.expr("INTERVAL '0.000001' SECOND"))
        return from_local(micros, timezone)
    if isinstance(type_, DateType):
        days = F.unix_date(_near(value, "DATE")).cast("bigint")
        return from_local(days * DAY_US, timezone)
    kind = "numbers" if isinstance(type_, IntegralType | DecimalType | DoubleType) else "text"
    if kind == "text" and not isinstance(type_, StringType):
        raise ColumnError(
            f"{type_.simpleString()} is not a type of time",
            field=time,
            way_out="Allowed: timestamp, timestamp_ntz, date, and text or numbers with time_format",
        )
    raise ColumnError(
        f"it is {type_.simpleString()}, and time_format does not say how to read {kind}",
        field=time,
        way_out="Set time_format to "
        + ("epoch_s, epoch_ms or epoch_us" if kind == "numbers" else _WAY_OUT[9:]),
    )


def _near(value: Column, type_: str) -> Column:
    """The value, or one out of range but near it: those far away would overflow when converted."""
    low, high = (F.expr(f"{type_}'{date}'") for date in ("0001-01-01", "9999-12-31"))
    return F.when(value < low, low).when(value > high, high).otherwise(value)


def _numbers(value: Column, type_: DataType, time: str, unit: int) -> Reading:
    low, high = MIN_US // unit, MAX_US // unit  # whole units; the last may have a fraction
    if isinstance(type_, IntegralType):
        micros, fits = integer_micros(value.cast("bigint"), unit), value.between(low, high)
    elif isinstance(type_, DecimalType):
        fits = (value >= low) & (value < high + 1)
        micros = decimal_micros(value, unit)
    elif isinstance(type_, DoubleType):
        finite = ~F.isnan(value)
        fits = F.when(finite, (value >= float(low)) & (value < float(high + 1)))
        micros = double_micros(value, unit)
    elif isinstance(type_, StringType):
        return _in_range_text(value, unit, low, high)
    else:
        raise ColumnError(
            f"a {type_.simpleString()} cannot hold a time since the epoch",
            field=time,
            way_out="Allowed: integers, decimals, doubles and text",
        )
    cheap = isinstance(type_, IntegralType)
    return Reading(F.when(fits, micros), lambda raw: (raw, ~fits), cheap=cheap)


def _in_range_text(value: Column, unit: int, low: int, high: int) -> Reading:
    number, is_number = text_micros(value)
    raw = F.struct(number.alias("number"), is_number.alias("is_number"))

    def judged(raw: Column) -> tuple[Column, Column]:
        fits = (raw["number"] >= low) & (raw["number"] < high + 1)
        beyond = raw["is_number"] & F.coalesce(~fits, F.lit(True))
        return F.when(fits, decimal_micros(raw["number"], unit)), beyond

    return Reading(raw, judged)


def iso(value: Column, timezone: str) -> Column:
    """The µs of text in the form `iso`, in any year; NULL for other text."""
    text = F.trim(value)
    clock = text.substr(11, 40)

    def part(start: int) -> Column:
        digits = F.nullif(text.substr(start, 2), F.lit(""))
        return F.coalesce(digits.try_cast("bigint"), F.lit(0))

    def found(pattern: str) -> Column:
        return F.regexp_extract(clock, pattern, 1)

    def number(pattern: str) -> Column:
        # Casting an empty text takes ten times as long as casting a number.
        digits = F.nullif(found(pattern), F.lit(""))
        return F.coalesce(digits.try_cast("bigint"), F.lit(0))

    seconds = part(12) * 3600 + part(15) * 60 + number(r"^.\d\d:\d\d:(\d\d)")
    fraction = F.rpad(found(r"[.,](\d{1,6})"), 6, "0").try_cast("bigint")
    days = F.unix_date(text.substr(1, 10).try_cast("date")).cast("bigint")
    local = days * DAY_US + seconds * 1_000_000 + fraction
    hours, minutes = number(r"[+-](\d\d)"), number(r"[+-]\d\d:?(\d\d)$")
    offset = (hours * 3600 + minutes * 60) * 1_000_000
    shifted = F.when(clock.contains("-"), local + offset).otherwise(local - offset)
    zoned = clock.rlike(r"[Zz]|[+-]")
    return F.when(text.rlike(_ISO), F.when(zoned, shifted).otherwise(from_local(local, timezone)))


def _pattern(value: Column, pattern: str, timezone: str) -> Column:
    if has_zone(pattern):
        return F.unix_micros(F.try_to_timestamp(value, F.lit(pattern)))
    # Read as if it were UTC, then shifted: one rule for hours that clocks repeat or leave out.
    as_utc = F.try_to_timestamp(F.concat(value, F.lit(" Z")), F.lit(pattern + " X"))
    return from_local(F.unix_micros(as_utc), timezone)
