"""Which aligned windows hold an instant, in plain Python. Times are µs since the epoch.

`backfill.operators` does the same in Spark columns. Everything is floored, so times before 1970
need no special case.
"""

from __future__ import annotations

import datetime as dt
from bisect import bisect_left
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo

from backfill.engines import PLAIN, Rules
from backfill.time.durations import DAY_US, Calendar, Duration, Fixed
from backfill.time.epoch import MICROSECOND, micros_of, moment_of
from backfill.windows import Aligned, CumulatingWindow, HoppingWindow

#: The windows that hold an instant, as (start, end), the earliest start or end first.
Assigner = Callable[[int], list[tuple[int, int]]]

_FIRST_MONDAY = 4 * DAY_US
_UTC = frozenset({"UTC", "Etc/UTC", "GMT", "Etc/GMT", "Etc/UCT", "Zulu", "Universal"})
_ZERO = dt.datetime(1970, 1, 1)
_WEEK, _NONE = dt.timedelta(weeks=1), dt.timedelta(0)


def in_zone(span: Duration, zone: str) -> Duration:
    """The span, fixed if the zone is UTC, where hours, days and weeks have a fixed length."""
    if isinstance(span, Calendar) and span.unit != "month" and zone in _UTC:
        return Fixed(span.local_us)
    return span


def first_start(span: Duration) -> int:
    """The first start from the epoch on: weeks begin on Mondays; the epoch was a Thursday."""
    return _FIRST_MONDAY if isinstance(span, Calendar) and span.unit == "week" else 0


def months(window: Aligned) -> int:
    """How many months after January windows of months begin."""
    return 0 if window.phase is None else window.phase.count


def phase(size: Fixed, advance: Duration, offset: Fixed, rules: Rules) -> int:
    """How far from multiples of the advance windows of a fixed size start, µs."""
    by_end = size.us if rules.aligned == "end" else 0
    return offset.us + first_start(advance) - by_end


def assigner(
    window: Aligned, rules: Rules = PLAIN.rules, *, tick: int = 1, zone: str = "UTC"
) -> Assigner:
    """The function from an instant to the windows that hold it.

    Args:
        window: the windows; calendar spans follow the zone.
        rules: the engine's rules.
        tick: the engine's resolution of time, µs.
        zone: the time zone's name.
    """
    # Windows (start, end] become [start, end) a tick earlier.
    shift = tick if rules.closed == "right" else 0
    if isinstance(window, CumulatingWindow):
        size, step = in_zone(window.size, zone), in_zone(window.step, zone)
        # If a calendar span ends within a step, its last window is cut short.
        if isinstance(size, Fixed) and isinstance(step, Fixed) and not size.us % step.us:
            return _cumulating(size.us, step.us, window.offset.us + first_start(window.size))
        if isinstance(window.size, Calendar):
            calendar = _Calendar(window.size, zone, window.offset.us, months(window))
            return _calendar_cumulating(calendar, window.step)
    else:
        advance = window.advance if isinstance(window, HoppingWindow) else window.size
        size, every = in_zone(window.size, zone), in_zone(advance, zone)
        if isinstance(size, Fixed) and isinstance(every, Fixed):
            begin = phase(size, advance, window.offset, rules)
            return _hopping(size.us, every.us, begin, shift, rules.clips_at_epoch)
        if isinstance(window.size, Calendar) and isinstance(advance, Calendar):
            calendar = _Calendar(advance, zone, window.offset.us, months(window))
            return _calendar_hopping(window.size, calendar)
    raise AssertionError(f"{window} was validated when it was made")


def _hopping(size: int, advance: int, phase: int, shift: int, clips: bool) -> Assigner:
    def tumbling(at: int) -> list[tuple[int, int]]:
        at -= shift
        start = at - (at - phase) % advance
        return [(start, start + size)]

    def windows(at: int) -> list[tuple[int, int]]:
        at -= shift
        last = at - (at - phase) % advance
        before = at - size
        first = before - (before - phase) % advance + advance
        if clips and first < 0:
            first %= advance
        return [(start, start + size) for start in range(first, last + 1, advance)]

    return tumbling if size == advance and not (clips and phase) else windows


def _cumulating(size: int, step: int, phase: int) -> Assigner:
    def windows(at: int) -> list[tuple[int, int]]:
        start = at - (at - phase) % size
        first = at - (at - start) % step + step
        return [(start, end) for end in range(first, start + size + 1, step)]

    return windows


class _Calendar:
    """The instants at which a zone's hours, days, weeks or months begin, `offset` after midnight.

    Spans of several months are counted from `phase` months after January.
    """

    def __init__(self, every: Calendar, zone: str, offset: int, phase: int) -> None:
        self.phase = phase
        self.every = every
        self.zone = ZoneInfo(zone)
        self.offset = offset
        self.start = lru_cache(maxsize=4096)(self._start)

    def index(self, at: int) -> int:
        """The number of the span that holds the instant; it grows with time."""
        wall = moment_of(at).astimezone(self.zone).replace(tzinfo=None)
        local = micros_of(wall) - self.offset
        near = self._local_index(local)
        # If clocks go back over a boundary, the wall clock shows times before it once more.
        while at >= self.start(near + 1):
            near += 1
        while at < self.start(near):
            near -= 1
        return near

    def local(self, index: int) -> dt.datetime:
        """The wall clock's time when a span begins, without the offset."""
        if self.every.unit == "month":
            return _months(_ZERO, index * self.every.count + self.phase)
        return _ZERO + (first_start(self.every) + index * self.every.local_us) * MICROSECOND

    def begins(self, local: dt.datetime) -> int:
        """The instant of a wall clock's time: the earlier of two, or moved forward."""
        wall = local + self.offset * MICROSECOND
        return micros_of(wall.replace(tzinfo=self.zone))

    def _start(self, index: int) -> int:
        return self.begins(self.local(index))

    def _local_index(self, local: int) -> int:
        if self.every.unit == "month":
            date = _ZERO + local * MICROSECOND
            return ((date.year - 1970) * 12 + date.month - 1 - self.phase) // self.every.count
        return (local - first_start(self.every)) // self.every.local_us


def steps_back(size: Calendar, every: Calendar, zone: str) -> int:
    """How many steps before an instant's own step a window can begin and still hold the instant.

    Args:
        size: the size of the windows.
        every: the step.
        zone: the time zone's name.
    """
    further = 0
    if every.shortest_us < DAY_US:
        # When clocks go forward, they pass the skipped steps in no time.
        _, forward = _longest_jumps_us(zone)
        further = max(0, forward - every.shortest_us)
    return (size.longest_us + further) // every.shortest_us + 1


def most_jumped(every: Calendar, zone: str) -> int:
    """How many spans a zone's clocks may pass, or show again, at once: at least 1.

    Args:
        every: the spans' length.
        zone: the time zone's name.
    """
    if every.unit != "hour":
        return 1
    return max(1, *(-(-jump // every.local_us) for jump in _longest_jumps_us(zone)))


@lru_cache
def _longest_jumps_us(zone: str) -> tuple[int, int]:
    """The furthest that the zone's clocks went back, and forward, at once; a day for a date."""
    # Compared week by week: no zone has gone back within a week of going forward.
    first, weeks = dt.datetime(1800, 1, 1, tzinfo=dt.timezone.utc), 21_000
    local = ZoneInfo(zone)
    offsets = [(first + n * _WEEK).astimezone(local).utcoffset() or _NONE for n in range(weeks)]
    jumps = [(late - early) // MICROSECOND for early, late in pairwise(offsets)]
    return -min(0, *jumps), max(0, *jumps)


def _calendar_hopping(size: Calendar, calendar: _Calendar) -> Assigner:
    before = steps_back(size, calendar.every, calendar.zone.key)

    @lru_cache(maxsize=4096)
    def window(index: int) -> tuple[int, int]:
        return calendar.start(index), calendar.begins(_later(calendar.local(index), size))

    def windows(at: int) -> list[tuple[int, int]]:
        last = calendar.index(at)
        near = (window(index) for index in range(last - before, last + 1))
        # Two of the times that clocks skip may be the same instant.
        return [*dict.fromkeys((start, end) for start, end in near if start <= at < end)]

    def tumbling(at: int) -> list[tuple[int, int]]:
        return [window(calendar.index(at))]

    return tumbling if size == calendar.every else windows


def _calendar_cumulating(calendar: _Calendar, step: Duration) -> Assigner:
    @lru_cache(maxsize=4096)
    def ends(index: int) -> list[int]:
        start, last = calendar.start(index), calendar.start(index + 1)
        if isinstance(step, Fixed):
            return [*range(start + step.us, last, step.us), last]
        times: list[int] = []
        steps = 1
        local = calendar.local(index)
        while not times or times[-1] < last:
            later = Calendar(steps * step.count, step.unit)
            times.append(min(calendar.begins(_later(local, later)), last))
            steps += 1
        # Two of the times that clocks skip may be the same instant, and later ones may come first.
        return sorted({*times})

    def windows(at: int) -> list[tuple[int, int]]:
        index = calendar.index(at)
        all_ends = ends(index)
        start = calendar.start(index)
        return [(start, end) for end in all_ends[bisect_left(all_ends, at + 1) :]]

    return windows


def _later(local: dt.datetime, span: Calendar) -> dt.datetime:
    if span.unit == "month":
        return _months(local, span.count)
    return local + span.local_us * MICROSECOND


def _months(local: dt.datetime, months: int) -> dt.datetime:
    """Months later, on the same day of the month, or on its last one if it is too short."""
    index = local.year * 12 + local.month - 1 + months
    following = dt.date((index + 1) // 12, (index + 1) % 12 + 1, 1)
    last = (following - dt.timedelta(days=1)).day
    return local.replace(year=index // 12, month=index % 12 + 1, day=min(local.day, last))
