"""The names of time zones; apart from what they do, since a replay needs them without Spark."""

from __future__ import annotations

import zoneinfo
from functools import cache

from backfill.errors import JobFileError, did_you_mean


def check_zone(timezone: str) -> None:
    """Refuses names that are not IANA names of time zones.

    Raises:
        JobFileError: with the nearest name.
    """
    names = _names()
    if timezone not in names:
        near = did_you_mean(timezone, names)
        raise JobFileError(
            "there is no such time zone",
            field="timezone",
            value=timezone,
            way_out=near if near.startswith("Did") else "A name such as UTC or Europe/Berlin",
        )


@cache
def _names() -> frozenset[str]:
    """The names of all zones: a walk through their folders each time, and needed at every frame."""
    return frozenset(zoneinfo.available_timezones())
