"""Dates and times as they are typed, in the job's zone."""

from __future__ import annotations

import datetime as dt
import re
from zoneinfo import ZoneInfo

from backfill.errors import JobFileError

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_DAYS_BACK = {"today": 0, "yesterday": 1}


def instant_us(text: str, zone: ZoneInfo, *, option: str) -> int:
    """The instant that a date or a time means, in µs since the epoch.

    Args:
        text: `2026-01-31` (midnight in the zone), `2026-01-31T12:00` (in the zone, unless an
            offset or Z is given), `today`, `yesterday`. Of an ambiguous local time the earlier
            is meant; one that does not exist moves forward.
        zone: the job's.
        option: what the text was given for; named in the error.

    Raises:
        JobFileError: if it is neither.
    """
    moment = _moment(text.strip(), zone)
    if moment is None:
        raise JobFileError(
            "not a date or a time",
            field=option,
            value=text,
            way_out="Write it like 2026-01-31, 2026-01-31T12:00, today or yesterday",
        )
    # With fold=0, Python's own rule for the zone is the one above.
    return (moment - _EPOCH) // dt.timedelta(microseconds=1)


def _moment(text: str, zone: ZoneInfo) -> dt.datetime | None:
    if text in _DAYS_BACK:
        day = dt.datetime.now(zone).date() - dt.timedelta(days=_DAYS_BACK[text])
        return dt.datetime.combine(day, dt.time(), zone)
    # Newer Pythons read more forms than 3.10 does, such as 20260131 and 2026-W05.
    if not re.match(r"\d{4}-\d\d-\d\d($|[T ]\d\d:\d\d)", text):
        return None
    try:
        moment = dt.datetime.fromisoformat(re.sub("[Zz]$", "+00:00", text))
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=zone)
