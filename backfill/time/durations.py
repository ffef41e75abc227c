"""Durations: fixed spans of time in whole microseconds, and calendar spans that follow a zone.

`30m`, `24h`, `7d`, `PT24H` and `30 minutes` are fixed. `1 day`, `2 weeks`, `1 month`, `P1D` are
calendar spans: a day of a zone has 23, 24 or 25 hours. So are `6 local hours`: hours as the zone's
clocks show them, such as from midnight to six.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import Literal

from backfill.errors import WindowError

CalendarUnit = Literal["hour", "day", "week", "month"]

_MICROS = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
DAY_US = _MICROS["d"]
_SPELLED = {"microsecond": "us", "millisecond": "ms", "second": "s", "minute": "m", "hour": "h"}
_CALENDAR: dict[str, tuple[int, CalendarUnit]] = {
    "local hour": (1, "hour"),
    "day": (1, "day"),
    "week": (1, "week"),
    "month": (1, "month"),
    "year": (12, "month"),
}
_ISO_CALENDAR = {"D": "day", "W": "week", "M": "month", "Y": "year"}
_ISO_TIME = {"H": "h", "M": "m", "S": "s"}

_SHORT = re.compile(r"(?:\d+(?:us|µs|ms|s|m|h|d))+")
_SHORT_PART = re.compile(r"(\d+)(us|µs|ms|s|m|h|d)")
_WORDS = re.compile(r"(\d+) +((?:local +)?[a-z]+?)s?")
_ISO_FIXED = re.compile(r"PT((?:\d+(?:\.\d{1,6})?[HMS])+)")
_ISO_PART = re.compile(r"(\d+(?:\.\d{1,6})?)([HMS])")
_ISO_CALENDAR_FORM = re.compile(r"P(\d+)([DWMY])")
_FORMS = (
    "Write it like 500ms, 30s, 30m, 24h, 7d, or 6 local hours, 1 day, 1 week, 1 month for calendar "
    "spans"
)
#: The largest number that a column of longs holds, µs.
_LONGEST_US = (1 << 63) - 1
#: The most and the fewest days that a month of the calendar has.
_LONGEST_MONTH, _SHORTEST_MONTH = 31, 28


@dataclass(frozen=True)
class Fixed:
    """A span of exactly `us` microseconds, whatever the zone."""

    us: int

    def __str__(self) -> str:
        if self.us == 0:
            return "0s"
        for unit in ("d", "h", "m", "s", "ms"):
            if self.us % _MICROS[unit] == 0:
                return f"{self.us // _MICROS[unit]}{unit}"
        return f"{self.us}us"


@dataclass(frozen=True)
class Calendar:
    """`count` hours, days, weeks (from Monday) or months of a zone's calendar and clocks."""

    count: int
    unit: CalendarUnit

    def __str__(self) -> str:
        local = "local " if self.unit == "hour" else ""
        return f"{self.count} {local}{self.unit}{'s' if self.count > 1 else ''}"

    @property
    def local_us(self) -> int:
        """How far the wall clock moves on, whether or not it is set meanwhile; not for months."""
        return self.count * {"hour": 1, "day": 24, "week": 168}[self.unit] * _MICROS["h"]

    @property
    def longest_us(self) -> int:
        """The length of the longest span of this kind on the wall clock."""
        months = self.unit == "month"
        return self.count * _LONGEST_MONTH * DAY_US if months else self.local_us

    @property
    def shortest_us(self) -> int:
        """The length of the shortest span of this kind on the wall clock."""
        months = self.unit == "month"
        return self.count * _SHORTEST_MONTH * DAY_US if months else self.local_us


Duration = Fixed | Calendar


def duration(value: object, *, field: str) -> Duration:
    """Reads a duration.

    Args:
        value: text in one of the forms above, a `datetime.timedelta` (fixed), or a duration.
        field: what the duration is for; named in the error.

    Raises:
        WindowError: for anything else. A bare number is refused, since it has no unit.
    """
    if isinstance(value, Fixed | Calendar):
        return value
    if isinstance(value, dt.timedelta):
        return Fixed(value // dt.timedelta(microseconds=1))
    if isinstance(value, int | float):
        raise WindowError("a bare number has no unit", field=field, value=value, way_out=_FORMS)
    parsed = _parse(value.strip()) if isinstance(value, str) else None
    if parsed is None:
        raise WindowError("not a duration", field=field, value=value, way_out=_FORMS)
    if isinstance(parsed, Fixed) and abs(parsed.us) > _LONGEST_US:
        raise WindowError(
            "is longer than all dates", field=field, value=value, way_out="Use a value such as 30d"
        )
    return parsed


def fixed(value: object, *, field: str) -> Fixed:
    """Reads a duration that may not be a calendar one.

    Raises:
        WindowError: if it is not a duration, or is a calendar one.
    """
    parsed = duration(value, field=field)
    if isinstance(parsed, Calendar):
        raise WindowError(
            "can't be a calendar span",
            field=field,
            value=str(value),
            way_out="Write 24h or 7d for spans of fixed length",
        )
    return parsed


def _parse(text: str) -> Duration | None:
    if text.startswith("-"):
        positive = _parse(text[1:].lstrip())
        return Fixed(-positive.us) if isinstance(positive, Fixed) else None
    if _SHORT.fullmatch(text):
        parts = _SHORT_PART.findall(text.replace("µs", "us"))
        return Fixed(sum(int(number) * _MICROS[unit] for number, unit in parts))
    if match := _ISO_FIXED.fullmatch(text):
        return Fixed(sum(_iso_part(*part) for part in _ISO_PART.findall(match[1])))
    if match := _ISO_CALENDAR_FORM.fullmatch(text):
        return _calendar(int(match[1]), _ISO_CALENDAR[match[2]])
    if match := _WORDS.fullmatch(text.lower()):
        if match[2] in _SPELLED:
            return Fixed(int(match[1]) * _MICROS[_SPELLED[match[2]]])
        word = " ".join(match[2].split())
        if word in _CALENDAR:
            return _calendar(int(match[1]), word)
    return None


def _iso_part(number: str, unit: str) -> int:
    whole, _, fraction = number.partition(".")
    micros = int(whole) * 1_000_000 + int(fraction.ljust(6, "0") or 0)
    return micros * _MICROS[_ISO_TIME[unit]] // 1_000_000


def _calendar(number: int, word: str) -> Calendar:
    factor, unit = _CALENDAR[word]
    return Calendar(number * factor, unit)
