"""Dates and times as people give them, in the job's zone."""

from __future__ import annotations

import datetime as dt
import re
from zoneinfo import ZoneInfo

from backfill.errors import JobFileError
from backfill.time.epoch import micros_of

_DAYS_BACK = {"today": 0, "yesterday": 1}


def instant_us(given: str | dt.date, zone: ZoneInfo, *, option: str) -> int:
    """The instant that a date or a time means, in µs since the epoch.

    Args:
        given: `2026-01-31` (midnight in the zone), `2026-01-31T12:00` (in the zone, unless an
            offset or Z is given), `today`, `yesterday`; or a `date` or `datetime`, read likewise.
            An ambiguous local time means the earlier one; one that does not exist moves forward.
        zone: the job's time zone.
        option: what it was given for; named in the error.

    Raises:
        JobFileError: if it is neither.
    """
    moment = None
    if isinstance(given, str):
        moment = _moment(given.strip(), zone)
    elif isinstance(given, dt.date):
        moment = _in_zone(given, zone)
    if moment is None:
        raise JobFileError(
            "not a date or a time",
            field=option,
            value=str(given),
            way_out="Write it like 2026-01-31, 2026-01-31T12:00, today or yesterday",
        )
    # With fold=0, Python's own rule for the zone is the one above.
    return micros_of(moment)


def date_named(text: str, zone: ZoneInfo) -> dt.date | None:
    """The date that `2026-01-31`, `today` or `yesterday` means in a zone; None for other texts."""
    if text in _DAYS_BACK:
        return dt.datetime.now(zone).date() - dt.timedelta(days=_DAYS_BACK[text])
    # Newer Pythons read more forms than 3.10 does, such as 20260131 and 2026-W05.
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        return None
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        return None


def _moment(text: str, zone: ZoneInfo) -> dt.datetime | None:
    date = date_named(text, zone)
    if date is not None:
        return _in_zone(date, zone)
    if not re.match(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d", text):
        return None
    try:
        return _in_zone(dt.datetime.fromisoformat(re.sub("[Zz]$", "+00:00", text)), zone)
    except ValueError:
        return None


def _in_zone(given: dt.date, zone: ZoneInfo) -> dt.datetime:
    if not isinstance(given, dt.datetime):
        return dt.datetime.combine(given, dt.time(), zone)
    return given if given.tzinfo else given.replace(tzinfo=zone)
