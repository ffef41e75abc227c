"""The names of time zones; apart from what they do, since a replay does without Spark."""

from __future__ import annotations

import zoneinfo
from functools import cache

from backfill.errors import JobFileError, did_you_mean


def check_zone(timezone: str) -> None:
    """Refuse what is no IANA name of a zone.

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
    """Of all zones: a walk through the zones' folders each time, and asked for at every frame."""
    return frozenset(zoneinfo.available_timezones())
