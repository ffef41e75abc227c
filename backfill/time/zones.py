"""The job's time zone, applied to microseconds without Spark's session zone."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

Conversion = Callable[[Column, str], Column]
"""`from_local` or `to_local`."""

_HOUR_US = 3_600_000_000
# Distances around a time, in steps short enough to meet every offset that clocks kept there, and so
# far that what clocks show beyond cannot matter: the offsets of a zone differ by a day and some
# minutes at most, and a skipped time is read with the offset of up to a day before.
_STEPS_US = tuple(hours * _HOUR_US for hours in range(-60, 61, 6))


def from_local(local: Column, timezone: str) -> Column:
    """Instants from wall-clock times, both bigint in µs (a wall clock's as if it were UTC's).

    A time that occurs twice means the earlier instant; one that clocks skip moves forward.
    """
    if timezone == "UTC":
        return local
    return F.unix_micros(F.to_utc_timestamp(F.timestamp_micros(local), timezone))


def to_local(instant: Column, timezone: str) -> Column:
    """Wall-clock times of instants, both bigint in µs."""
    if timezone == "UTC":
        return instant
    return F.unix_micros(F.from_utc_timestamp(F.timestamp_micros(instant), timezone))


def least_from(convert: Conversion, time: Column, timezone: str) -> Column:
    """A lower bound of what times from this one on are converted to, as tight as clocks allow.

    Clocks are set back and forth, so later times may well come before earlier ones: an hour
    before midnight that occurs twice belongs to a day that had ended already.

    Args:
        convert: for `to_local`, a wall clock's time that clocks skip counts as well, as one that
            `from_local` brings into the range.
        time: bigint, µs.
        timezone: by its IANA name.
    """
    return time if timezone == "UTC" else F.least(*_near(convert, time, timezone))


def most_until(convert: Conversion, time: Column, timezone: str) -> Column:
    """An upper bound of what times up to this one are converted to; as for `least_from`."""
    return time if timezone == "UTC" else F.greatest(*_near(convert, time, timezone))


def _near(convert: Conversion, time: Column, timezone: str) -> list[Column]:
    return [convert(time + F.lit(step), timezone) - F.lit(step) for step in _STEPS_US]
