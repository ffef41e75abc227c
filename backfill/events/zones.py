"""The job's time zone: checked, and applied to microseconds without Spark's session zone."""

from __future__ import annotations

import zoneinfo

from pyspark.sql import Column
from pyspark.sql import functions as F

from backfill.errors import JobFileError, did_you_mean


def check_zone(timezone: str) -> None:
    """Refuse what is no IANA name of a zone.

    Raises:
        JobFileError: with the nearest name.
    """
    names = zoneinfo.available_timezones()
    if timezone not in names:
        near = did_you_mean(timezone, names)
        raise JobFileError(
            "there is no such time zone",
            field="timezone",
            value=timezone,
            way_out=near if near.startswith("Did") else "A name such as UTC or Europe/Berlin",
        )


def from_local(local: Column, timezone: str) -> Column:
    """Instants from wall-clock times, both bigint in µs (a wall clock's as if it were UTC's).

    The earlier of two; one that clocks leave out moves forward.
    """
    if timezone == "UTC":
        return local
    return F.unix_micros(F.to_utc_timestamp(F.timestamp_micros(local), timezone))


def to_local(instant: Column, timezone: str) -> Column:
    """Wall-clock times of instants, both bigint in µs."""
    if timezone == "UTC":
        return instant
    return F.unix_micros(F.from_utc_timestamp(F.timestamp_micros(instant), timezone))
