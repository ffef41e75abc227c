"""The names of time zones, in a module without Spark, since a replay runs without it."""

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
    """The names of all zones: finding them walks through folders, and every frame needs them."""
    return frozenset(zoneinfo.available_timezones())
