"""The slow, obvious way: plain Python over lists of events, written from the engines' rules."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

US = dt.timedelta(microseconds=1)
HOUR = 3_600_000_000
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


@dataclass(frozen=True)
class Event:
    key: str | None
    time: int | None  # µs
    value: Any = None
    id: str | None = None
    arrival: int = 0


def instant(us: int) -> dt.datetime:
    return EPOCH + us * US


def micros(moment: dt.datetime) -> int:
    return (moment - EPOCH) // US


def usable(events: Iterable[Event], *, null_key: bool = False, tick: int = 1) -> list[Event]:
    return [
        Event(e.key, e.time - e.time % tick, e.value, e.id, e.arrival)
        for e in events
        if e.time is not None and (null_key or e.key is not None)
    ]


def distinct(events: Iterable[Event]) -> list[Event]:
    """Events of equal key, time and id once: the smallest by arrival, then by value."""
    kept: dict[Any, Event] = {}
    for place, e in enumerate(events):
        same = (e.key, e.time, e.id) if e.id is not None else place
        other = kept.get(same)
        if other is None or _rank(e) < _rank(other):
            kept[same] = e
    return list(kept.values())


def _rank(e: Event) -> Any:
    return (e.arrival, e.value is not None, e.value)


def sessions(events: list[Event], gap: int, *, inclusive: bool = True) -> list[list[Event]]:
    """Each key's events in order of time, cut wherever two are further apart than the gap."""
    parts: list[list[Event]] = []
    for key in {e.key for e in events}:
        own = sorted((e for e in events if e.key == key), key=lambda e: e.time)
        current = [own[0]]
        for e in own[1:]:
            apart = e.time - current[-1].time
            if apart <= gap if inclusive else apart < gap:
                current.append(e)
            else:
                parts.append(current)
                current = [e]
        parts.append(current)
    return parts


def grouped(
    events: list[Event], windows: Callable[[int], list[tuple[int, int]]]
) -> dict[tuple[str | None, int, int], list[Event]]:
    """The events of each (key, start, end)."""
    groups: dict[tuple[str | None, int, int], list[Event]] = {}
    for e in events:
        for start, end in windows(e.time):
            groups.setdefault((e.key, start, end), []).append(e)
    return groups


def surrounding(
    events: list[Event], back: int | None, ahead: int = 0, *, before: bool = False
) -> list[tuple[Event, list[Event]]]:
    """Each event with those of its key from `back` before it to `ahead` after it.

    With `before`, only with those that come before it in order of time and arrival.
    """
    by_key: dict[str | None, list[Event]] = {}
    for e in events:
        by_key.setdefault(e.key, []).append(e)
    return [
        (
            e,
            [
                o
                for o in by_key[e.key]
                if (back is None or o.time >= e.time - back)
                and o.time <= e.time + ahead
                and (not before or (o.time, o.arrival) < (e.time, e.arrival))
            ],
        )
        for e in events
    ]


def distinct_windows(
    events: list[Event], size: int, *, tick: int = 1
) -> dict[tuple[str | None, int], list[Event]]:
    """By key and end, the windows [t - size, t] and [t + 1 tick, t + 1 tick + size] of events."""
    ends = {(e.key, end) for e in events for end in (e.time, e.time + tick + size)}
    windows = {
        (key, end): [e for e in events if e.key == key and end - size <= e.time <= end]
        for key, end in ends
    }
    return {place: own for place, own in windows.items() if own}


def hopping(
    size: int, advance: int, offset: int = 0, *, right: int = 0, clipped: bool = False
) -> Callable[[int], list[tuple[int, int]]]:
    """Tries every start around the event. `right` is the tick if windows are (start, end]."""

    def windows(t: int) -> list[tuple[int, int]]:
        near = (t - offset) // advance
        starts = (offset + n * advance for n in range(near - size // advance - 2, near + 3))
        inside = [s for s in starts if (s < t <= s + size if right else s <= t < s + size)]
        return [(s, s + size) for s in inside if not (clipped and s < 0)]

    return windows


def cumulating(size: int, step: int, offset: int = 0) -> Callable[[int], list[tuple[int, int]]]:
    def windows(t: int) -> list[tuple[int, int]]:
        start = (t - offset) // size * size + offset
        return [(start, end) for end in range(start + step, start + size + 1, step) if t < end]

    return windows


@cache
def local(zone: str, date: dt.date, offset: int = 0) -> int:
    """The instant of a local midnight, plus the offset on the wall clock.

    `fold=0` takes the earlier of two; a time that does not exist moves forward by the gap.
    """
    wall = dt.datetime.combine(date, dt.time()) + offset * US
    return micros(wall.replace(tzinfo=ZoneInfo(zone), fold=0).astimezone(dt.timezone.utc))


def local_hours(
    zone: str, size: int, advance: int | None = None, offset: int = 0
) -> Callable[[int], list[tuple[int, int]]]:
    """Tries every window that begins at a multiple of `advance` hours on the zone's clocks."""
    every = advance or size
    zero = dt.date(1970, 1, 1)

    def windows(t: int) -> list[tuple[int, int]]:
        near = t // (every * HOUR)
        reach = (size + 48) // every + 2
        bounds = (
            (local(zone, zero, begin + offset), local(zone, zero, begin + size * HOUR + offset))
            for begin in (n * every * HOUR for n in range(near - reach, near + reach))
        )
        # Two of the times that clocks leave out may be the same instant.
        return [*dict.fromkeys((start, end) for start, end in bounds if start <= t < end)]

    return windows


def growing_hours(zone: str, step: int = 1) -> Callable[[int], list[tuple[int, int]]]:
    """A day's windows that grow by `step` hours on the zone's clocks."""
    days = calendar(zone, (1, "day"))

    def windows(t: int) -> list[tuple[int, int]]:
        [(start, last)] = days(t)
        date = instant(start).astimezone(ZoneInfo(zone)).date()
        ends = {min(local(zone, date, hours * HOUR), last) for hours in range(step, 25, step)}
        return [(start, end) for end in sorted(ends | {last}) if t < end]

    return windows


def add_months(date: dt.date, months: int) -> dt.date:
    index = date.year * 12 + date.month - 1 + months
    first = dt.date(index // 12, index % 12 + 1, 1)
    last = (dt.date(index // 12 + (index % 12 == 11), (index + 1) % 12 + 1, 1) - first).days
    return first.replace(day=min(date.day, last))


def calendar(
    zone: str,
    size: tuple[int, str],
    advance: tuple[int, str] | None = None,
    offset: int = 0,
    phase: int = 0,
) -> Callable[[int], list[tuple[int, int]]]:
    """Walks over all dates around the event and tries each that a window may start on."""
    advance = advance or size

    def starts_on(date: dt.date) -> bool:
        count, unit = advance
        if unit == "month":
            return date.day == 1 and (date.year * 12 + date.month - 1 - phase) % count == 0
        if unit == "week":
            return (date - dt.date(1970, 1, 5)).days % (7 * count) == 0
        return (date - dt.date(1970, 1, 1)).days % count == 0

    def after(date: dt.date) -> dt.date:
        count, unit = size
        if unit == "month":
            return add_months(date, count)
        return date + dt.timedelta(days=count * (7 if unit == "week" else 1))

    def windows(t: int) -> list[tuple[int, int]]:
        day = instant(t).date()
        reach = size[0] * {"day": 1, "week": 7, "month": 31}[size[1]] + 3
        dates = (day + dt.timedelta(days=n) for n in range(-reach, 4))
        bounds = (
            (local(zone, d, offset), local(zone, after(d), offset)) for d in dates if starts_on(d)
        )
        return [(start, end) for start, end in bounds if start <= t < end]

    return windows
