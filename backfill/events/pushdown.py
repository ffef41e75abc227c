"""Conditions on raw columns that let Spark read only a part of a source for a range of time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegralType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from backfill.columns import column
from backfill.events.normalise import EventRules
from backfill.events.numbers import DOUBLE_ERROR_US
from backfill.events.times import MAX_US, MIN_US, UNITS
from backfill.time.zones import least_from, most_until, to_local


def within(
    frame: DataFrame, rules: EventRules, low_us: int | None, high_us: int | None
) -> DataFrame:
    """Leaves out rows that are certainly not events in a range of time.

    It may keep rows outside the range, and never leaves out an event in it, so the caller still
    selects by `TIME` after `normalise`. Rows whose time is NULL are left out with the others.

    Args:
        frame: rows of a source, not normalised.
        rules: what is an event.
        low_us: the range's start, µs since the epoch, inclusive; None for no bound.
        high_us: the range's end, µs since the epoch, exclusive; None for no bound.

    Returns:
        The frame with a filter that Spark pushes into the scan of Parquet files: on the time
        if that is a timestamp, a date or a number, and on `date_column`. For times in text nothing
        can be pushed down: then it is the frame itself. For a frame whose `_source` is used, give
        `time_condition` to `Source.only` instead.
    """
    condition = time_condition(frame.schema, rules, low_us, high_us)
    return frame if condition is None else frame.where(condition)


def time_condition(
    schema: StructType, rules: EventRules, low_us: int | None, high_us: int | None
) -> Column | None:
    """The condition of `within` by itself; None if there is none.

    Args:
        schema: the schema of the rows. Columns that it lacks are left for `normalise` to report.
        rules: what is an event.
        low_us: as for `within`.
        high_us: as for `within`.
    """
    # No event lies outside the years 2 to 9998, and no literal may.
    low = None if low_us is None else min(max(low_us, MIN_US), MAX_US + 1)
    high = None if high_us is None else max(min(high_us, MAX_US + 1), MIN_US)
    tests: list[Column] = []
    if rules.time in schema.names:
        tests += _time_tests(schema[rules.time].dataType, rules, low, high)
    if rules.date_column is not None and rules.date_column in schema.names:
        tests += _date_tests(column(rules.date_column), rules.timezone, low, high)
    return reduce(and_, tests) if tests else None


def _time_tests(
    type_: DataType, rules: EventRules, low: int | None, high: int | None
) -> Iterator[Column]:
    # Times whose floor to the tick lies in [low, high) lie in [first, end).
    first = None if low is None else -(-low // rules.tick_us) * rules.tick_us
    end = None if high is None else -(-high // rules.tick_us) * rules.tick_us
    value, unit = column(rules.time), UNITS.get(rules.time_format or "")
    if unit is not None:
        yield from _number_tests(value, type_, unit, first, end)
    elif rules.time_format is not None:
        return
    elif isinstance(type_, TimestampType):
        if first is not None:
            yield value >= F.timestamp_micros(F.lit(first))
        if end is not None:
            yield value < F.timestamp_micros(F.lit(end))
    elif isinstance(type_, TimestampNTZType | DateType):
        to_type = _wall_clock if isinstance(type_, TimestampNTZType) else _date
        if first is not None:
            yield value >= to_type(least_from(to_local, F.lit(first), rules.timezone))
        if end is not None:
            yield value <= to_type(most_until(to_local, F.lit(end - 1), rules.timezone))


def _number_tests(
    value: Column, type_: DataType, unit: int, first: int | None, end: int | None
) -> Iterator[Column]:
    if isinstance(type_, DoubleType):
        # A quotient of integers is the nearest double, so the next double is beyond it.
        if first is not None:
            yield value >= math.nextafter((first - DOUBLE_ERROR_US) / unit, -math.inf)
        if end is not None:
            yield value <= math.nextafter((end + DOUBLE_ERROR_US) / unit, math.inf)
        return
    # In whole units: a decimal's fraction is in doubt only in the unit that a bound lies in.
    least = None if first is None else first // unit
    limit = None if end is None else -(-end // unit)
    if isinstance(type_, IntegralType):
        if least is not None:
            yield value >= F.lit(least).cast("bigint")
        if limit is not None:
            yield value < F.lit(limit).cast("bigint")
    elif isinstance(type_, DecimalType):
        # Only a literal of the column's own type is pushed down, and it must fit.
        beyond = 10 ** (type_.precision - type_.scale)
        if least is not None and abs(least) < beyond:
            yield value >= F.lit(least).cast(type_)
        if limit is not None and abs(limit) < beyond:
            yield value < F.lit(limit).cast(type_)


def _date_tests(
    value: Column, timezone: str, low: int | None, high: int | None
) -> Iterator[Column]:
    given = value.try_cast("date")
    if low is not None:
        yield given >= _date(least_from(to_local, F.lit(low), timezone))
    if high is not None:
        yield given <= _date(most_until(to_local, F.lit(high - 1), timezone))


def _wall_clock(local: Column) -> Column:
    return F.timestamp_add("MICROSECOND", local, F.expr("TIMESTAMP_NTZ'1970-01-01 00:00:00'"))


def _date(local: Column) -> Column:
    return _wall_clock(local).cast("date")
