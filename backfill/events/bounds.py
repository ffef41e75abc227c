"""The range of event times of each input, from what is known without reading it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, time
from fractions import Fraction
from math import ceil, floor, isfinite
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegralType,
    TimestampNTZType,
    TimestampType,
)

from backfill.events.files import local_path
from backfill.events.footers import Extent, footer_extent
from backfill.events.model import Source
from backfill.events.normalise import EventRules
from backfill.events.numbers import DOUBLE_ERROR_US
from backfill.events.times import MAX_US, MIN_US, UNITS
from backfill.time.durations import DAY_US
from backfill.time.epoch import micros_of
from backfill.time.zones import from_local, least_from, most_until

Bounds = tuple[int, int]
"""The least and the largest time, both inclusive; µs since the epoch."""

_YEAR_1900_US = -25_567 * DAY_US
# In files of old versions, Spark reads times before 1900 by another calendar and other clocks.
_OLD_CALENDAR_US = 14 * DAY_US


def time_bounds(
    source: Source, rules: EventRules, paths: Collection[str]
) -> dict[str, Bounds | None]:
    """Bounds of the event times of inputs.

    They may be wider than the truth, never narrower. They come from the log of a Delta table,
    from the footers of local Parquet files, and from the folder if `date_column` is one; they are
    about rows that have a time, and with a `date_column` only about those on their date.

    Args:
        source: the source of the inputs.
        rules: what is an event.
        paths: paths of inputs; one footer is read for each.

    Returns:
        By path the least and the largest time, µs since the epoch, both inclusive and floored to
        the tick; None if nothing is known, or no row has a time.

    Raises:
        SourceError: a path is not one of the source's inputs.
    """
    names = [file.path for file in source.inputs(paths)]
    if source.parts:
        wanted = set(names)
        bounds: dict[str, Bounds | None] = {}
        for part in source.parts.values():
            own = [file.path for file in part.snapshot.inputs if file.path in wanted]
            bounds |= time_bounds(part, rules, own)
        return bounds
    times = _times(source, rules, names)
    dates = {path: _day(source, rules.date_column, path) for path in names}
    dates = _instants(source.frame.sparkSession, dates, rules.timezone)
    return {path: _usable(_both(times[path], dates[path]), rules.tick_us) for path in names}


def _times(source: Source, rules: EventRules, names: list[str]) -> dict[str, Bounds | None]:
    schema, unit = source.frame.schema, UNITS.get(rules.time_format or "")
    type_ = schema[rules.time].dataType if rules.time in schema.names else None
    number = unit is not None and isinstance(type_, IntegralType | DecimalType | DoubleType)
    clock = isinstance(type_, TimestampNTZType | DateType)
    if type_ is None or not (number or clock or isinstance(type_, TimestampType)):
        return dict.fromkeys(names)
    with ThreadPoolExecutor(8) as pool:
        extents = pool.map(lambda path: _extent(source, rules.time, path), names)
        bounds = [_micros(extent, type_, unit) for extent in extents]
    times = dict(zip(names, bounds, strict=True))
    return _instants(source.frame.sparkSession, times, rules.timezone) if clock else times


def _extent(source: Source, name: str, path: str) -> Extent | None:
    logged = _logged_extent(*source.statistics.get(path, {}).get(name, (None, None)))
    if logged is not None:
        return logged
    if source.snapshot.format in ("parquet", "delta", "iceberg") and local_path(path) is not None:
        return footer_extent(path, name)
    return None


def _logged_extent(least: Any, largest: Any) -> Extent | None:
    """The extent of values from the log of a Delta table."""
    if isinstance(least, datetime):
        # The log cuts times to milliseconds.
        end = micros_of(largest)
        return Extent(micros_of(least), end - end % 1_000 + 999, True)
    if isinstance(least, date):
        return Extent(_midnight(least), _midnight(largest), True)
    # Decimals are left out: JSON has them as doubles.
    return Extent(least, largest, False) if isinstance(least, int | float) else None


def _midnight(day: date) -> int:
    return micros_of(datetime.combine(day, time()))


def _micros(extent: Extent | None, type_: DataType, unit: int | None) -> Bounds | None:
    """µs since the epoch; of wall clocks if the type has no zone."""
    if extent is None or extent.is_time != (unit is None):
        return None
    if unit is None:
        least, largest = int(extent.least), int(extent.largest)
        return (
            least if least >= _YEAR_1900_US else least - _OLD_CALENDAR_US,
            largest if largest >= _YEAR_1900_US else largest + _OLD_CALENDAR_US,
        )
    if not (isfinite(extent.least) and isfinite(extent.largest)):
        return None
    error = DOUBLE_ERROR_US if isinstance(type_, DoubleType) else 0
    least, largest = floor(Fraction(extent.least) * unit), ceil(Fraction(extent.largest) * unit)
    return least - error, largest + error


def _day(source: Source, date_column: str | None, path: str) -> Bounds | None:
    """The day of the folder that a file is in, as µs of the wall clock."""
    text = source.folders.get(path, {}).get(date_column or "")
    # Spark reads more forms as dates, but it certainly reads this one as this date.
    if text is None or not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
        return None
    try:
        start = _midnight(date.fromisoformat(text))
    except ValueError:
        return None
    return start, start + DAY_US - 1


def _instants(
    spark: SparkSession, local: Mapping[str, Bounds | None], timezone: str
) -> dict[str, Bounds | None]:
    """From wall clocks to instants, by the clocks that Spark reads events with."""
    known = sorted({pair for pair in local.values() if pair is not None})
    if timezone == "UTC" or not known:
        return dict(local)
    text = str([list(pair) for pair in known])
    ends = F.posexplode(F.from_json(F.lit(text), "array<array<bigint>>"))
    rows = spark.range(1).select(ends.alias("place", "ends"))
    bounds = rows.select(
        "place",
        least_from(from_local, F.col("ends")[0], timezone),
        most_until(from_local, F.col("ends")[1], timezone),
    ).collect()
    instants = {known[place]: (least, most) for place, least, most in bounds}
    return {path: None if pair is None else instants[pair] for path, pair in local.items()}


def _both(times: Bounds | None, dates: Bounds | None) -> Bounds | None:
    if times is None or dates is None:
        return times or dates
    both = max(times[0], dates[0]), min(times[1], dates[1])
    # If no row is on its folder's date, any bounds are right.
    return both if both[0] <= both[1] else dates


def _usable(bounds: Bounds | None, tick_us: int) -> Bounds | None:
    """Bounds of events only: times in units other than the job file's can overflow a BIGINT."""
    if bounds is None:
        return None
    least, largest = (min(max(bound, MIN_US), MAX_US) for bound in bounds)
    return least - least % tick_us, largest - largest % tick_us
