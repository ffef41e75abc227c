"""Sets of dates, as half-open ranges."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from backfill.time.epoch import micros_of, moment_of

DAY = dt.timedelta(days=1)

Range = tuple[dt.date, dt.date]


@dataclass(frozen=True)
class Dates:
    """A set of dates.

    Attributes:
        ranges: [from, to), in order, neither touching nor empty. `date.min` and `date.max` stand
            for no bound.
    """

    ranges: tuple[Range, ...] = ()

    @staticmethod
    def of(ranges: Iterable[Range]) -> Dates:
        """The union of ranges that may overlap."""
        joined: list[Range] = []
        for low, high in sorted(pair for pair in ranges if pair[0] < pair[1]):
            if joined and low <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
            else:
                joined.append((low, high))
        return Dates(tuple(joined))

    @staticmethod
    def union(sets: Iterable[Dates]) -> Dates:
        """The dates that are in any of these sets."""
        return Dates.of(pair for dates in sets for pair in dates.ranges)

    @staticmethod
    def between(low: dt.date, high: dt.date) -> Dates:
        """[low, high)."""
        return Dates.of([(low, high)])

    @staticmethod
    def from_json(value: Iterable[Iterable[str]]) -> Dates:
        """Reads what `json` returned."""
        pairs = (tuple(map(dt.date.fromisoformat, texts)) for texts in value)
        return Dates.of((low, high) for low, high in pairs)

    def json(self) -> list[list[str]]:
        """Pairs of ISO dates."""
        return [[low.isoformat(), high.isoformat()] for low, high in self.ranges]

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __contains__(self, date: dt.date) -> bool:
        return any(low <= date < high for low, high in self.ranges)

    def __or__(self, other: Dates) -> Dates:
        return Dates.of([*self.ranges, *other.ranges])

    def __and__(self, other: Dates) -> Dates:
        return Dates.of(
            (max(low, start), min(high, end))
            for low, high in self.ranges
            for start, end in other.ranges
        )

    def __sub__(self, other: Dates) -> Dates:
        return self & other.rest()

    def rest(self) -> Dates:
        """All other dates."""
        edges = [dt.date.min, *(edge for pair in self.ranges for edge in pair), dt.date.max]
        return Dates.of(zip(edges[::2], edges[1::2], strict=True))

    def days(self) -> Iterator[dt.date]:
        """Each date; only for sets with bounds."""
        for low, high in self.ranges:
            for number in range((high - low).days):
                yield low + number * DAY

    def spans(self, zone: str) -> list[tuple[int | None, int | None]]:
        """The instants of each range, [from, to) in µs; None if there is no bound."""
        return [(midnight(low, zone), midnight(high, zone)) for low, high in self.ranges]


ALL = Dates.between(dt.date.min, dt.date.max)
NONE = Dates()


def midnight(date: dt.date, zone: str) -> int | None:
    """The instant at which a date begins in the zone, µs; None for `date.min` and `date.max`.

    Of two midnights it is the earlier; one that clocks skip moves forward.
    """
    if date in (dt.date.min, dt.date.max):
        return None
    return micros_of(dt.datetime.combine(date, dt.time(), ZoneInfo(zone)))


def date_of(instant: int, zone: str) -> dt.date:
    """The zone's date at an instant (µs); `date.min` or `date.max` beyond the calendar."""
    try:
        local = moment_of(instant).astimezone(ZoneInfo(zone)).date()
        # Where clocks go back over midnight, a date begins and is left once more.
        begins = midnight(local + DAY, zone)
    except OverflowError:
        return dt.date.min if instant < 0 else dt.date.max
    return local + DAY if begins is not None and instant >= begins else local
