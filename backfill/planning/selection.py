"""Which dates were asked for, by Python's arguments or the command's options."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from backfill.errors import JobFileError
from backfill.time.dates import DAY, Range
from backfill.time.instants import date_named

# The names in errors: for those who call from Python, and for those who type a command.
_START, _END, _DATE, _CHUNK = "start (--from)", "end (--to)", "date (--date)", "chunk (--chunk)"


@dataclass(frozen=True)
class Selection:
    """Which dates were asked for.

    Attributes:
        dates: None: every date.
        missing: only dates that are not covered.
        chunk: the most days in one run; None: one run for each range.
    """

    dates: Range | None = None
    missing: bool = False
    chunk: int | None = None

    @property
    def everything(self) -> bool:
        """Nothing was selected."""
        return self.dates is None and not self.missing


def selected(
    zone: str,
    start: str | dt.date | None,
    end: str | dt.date | None,
    *,
    date: str | dt.date | None = None,
    missing: bool = False,
    chunk: int | None = None,
) -> Selection:
    """Reads a selection; its arguments are those of `Job.run`.

    Raises:
        JobFileError: invalid dates, or dates that contradict each other.
    """
    if date is not None and (start is not None or end is not None):
        raise JobFileError("can't be combined with a range", field=_DATE, value=date)
    if (start is None) != (end is None):
        field, other = (_END, _START) if end is None else (_START, _END)
        raise JobFileError("is missing", field=field, way_out=f"Give it together with {other}")
    if chunk is not None and (type(chunk) is not int or chunk < 1):
        raise JobFileError(
            "must be a number of days, at least one",
            field=_CHUNK,
            value=chunk,
            way_out="Give a whole number, such as 7",
        )
    dates: Range | None = None
    if date is not None:
        one = _read(date, _DATE, zone)
        if one == dt.date.max:
            raise JobFileError("is the last possible date", field=_DATE, value=str(one))
        dates = (one, one + DAY)
    elif start is not None and end is not None:
        dates = (_read(start, _START, zone), _read(end, _END, zone))
        if dates[0] >= dates[1]:
            raise JobFileError(
                f"is not after {dates[0]}",
                field=_END,
                value=str(dates[1]),
                way_out="The end of a range is exclusive",
            )
    if chunk is not None and dates is None and not missing:
        raise JobFileError(
            "needs a range to split",
            field=_CHUNK,
            value=chunk,
            way_out="Also give a range, or missing",
        )
    return Selection(dates, missing, chunk)


def _read(value: object, field: str, zone: str) -> dt.date:
    date = _date(value, zone)
    if date is None:
        raise JobFileError(
            "is not a valid date",
            field=field,
            value=str(value),
            way_out="Write it like 2026-01-31, today or yesterday",
        )
    return date


def _date(value: object, zone: str) -> dt.date | None:
    # To Python, a datetime is a date too; in another zone it may be another date.
    if isinstance(value, dt.date):
        return None if isinstance(value, dt.datetime) else value
    return date_named(value, ZoneInfo(zone)) if isinstance(value, str) else None
