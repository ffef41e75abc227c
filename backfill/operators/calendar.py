"""Aligned windows of a zone's calendar: local hours, days of 23, 24 and 25 hours, weeks, months.

A window's boundaries are instants: the local midnights (plus the offset) of its dates or, for
hours, the instants at which clocks show them. A local time that occurs twice means the earlier one;
one that does not exist moves forward by the gap. Java's time library, and so Spark, does the same.
Times are µs since the epoch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from backfill.alignment import first_start, most_jumped, steps_back
from backfill.columns import END, START
from backfill.operators.grids import Cutting, floor_to
from backfill.time.durations import DAY_US, Calendar, Duration, Fixed
from backfill.time.zones import from_local, to_local


def local_date(at: Column, zone: str) -> Column:
    """The zone's date at an instant."""
    return F.date_from_unix_date(_day(to_local(at, zone)))


def day_number(at: Column, zone: str) -> Column:
    """The number, from 1970 on, of the date whose span holds the instant.

    Where clocks go back over midnight, the date that has begun goes on.
    """
    return Clock(Calendar(1, "day"), zone).cut(at)


@dataclass(frozen=True)
class Clock:
    """A zone's calendar, cut every `every`, with days that begin `offset` after midnight.

    Hours are counted from the first midnight of 1970, weeks from the Monday after it.

    Spans of several months begin `phase` months after January.
    """

    every: Calendar
    zone: str
    offset: int = 0
    phase: int = 0

    def finer(self, other: Duration) -> Clock:
        """The same clock, cut finely enough for spans that begin at its cuts and last `other`."""
        spans = [span for span in (self.every, other) if isinstance(span, Calendar)]
        hours = [span.count for span in spans if span.unit == "hour"]
        # The hours of a day as well, if days or longer spans are cut besides hours.
        day = [24] if len(hours) < len(spans) else []
        cut = Calendar(math.gcd(*hours, *day), "hour") if hours else Calendar(1, "day")
        return Clock(cut, self.zone, self.offset)

    def cut(self, at: Column) -> Column:
        """The number of the span that holds the instant; it grows with time."""
        near = self._local_index(to_local(at, self.zone) - self.offset)
        most = most_jumped(self.every, self.zone)
        if most == 1:
            return _let(near, lambda index: index + self._correction(index, at))
        return _let(near, lambda index: self._settled(index, at, most))

    def _correction(self, index: Column, at: Column) -> Column:
        # Where clocks go back over a boundary, the wall clock shows the times before it again.
        late = F.when(at >= self.start(index + 1), 1).otherwise(0)
        return late - F.when(at < self.start(index), 1).otherwise(0)

    def _settled(self, near: Column, at: Column, most: int) -> Column:
        """As `_correction`, where clocks may jump over several boundaries at once."""
        later = F.sequence(near, near + most)
        last = F.array_min(F.filter(later, lambda index: at < self.start(index + 1)))

        def begun(last: Column) -> Column:
            earlier = F.sequence(last - most, last)
            return F.array_max(F.filter(earlier, lambda index: self.start(index) <= at))

        return _let(last, begun)

    def start(self, index: Column, later: Calendar | None = None) -> Column:
        """The instant at which a span begins, or the one `later` than that by the calendar."""
        local = self._local(index)
        if later is not None:
            local = _add(local, later)
        return from_local(local + self.offset, self.zone)

    def _local_index(self, local: Column) -> Column:
        if self.every.unit == "month":
            date = F.date_from_unix_date(_day(local))
            months = (F.year(date) - 1970) * 12 + F.month(date) - 1 - self.phase
            return _floor_div(months.cast("long"), self.every.count)
        return _floor_div(local - first_start(self.every), self.every.local_us)

    def _local(self, index: Column) -> Column:
        """What the wall clock shows when a span begins, without the offset; µs."""
        if self.every.unit == "month":
            months = (index * self.every.count + self.phase).cast("int")
            return _midnight(F.add_months(F.date_from_unix_date(F.lit(0)), months))
        return index * self.every.local_us + first_start(self.every)


@dataclass(frozen=True)
class CalendarWindows:
    """Windows of a calendar `size`, one starting with each span that the clock cuts."""

    size: Calendar
    clock: Clock

    @property
    def one_each(self) -> bool:
        """Whether every event is in exactly one window."""
        return self.size == self.clock.every

    def cutting(self) -> Clock:
        """Slices in which all instants share their windows."""
        return self.clock if self.one_each else self.clock.finer(self.size)

    def windows(self, at: Column) -> Column:
        """An array of the windows that hold the instant, as structs of start and end."""
        if self.one_each:
            return F.transform(F.array(self.clock.cut(at)), self._struct)
        before = steps_back(self.size, self.clock.every, self.clock.zone)
        indexes = _let(self.clock.cut(at), lambda last: F.sequence(last - before, last))
        near = F.transform(indexes, self._struct)
        structs = F.filter(near, lambda window: (window[START] <= at) & (at < window[END]))
        # Two local times that clocks skip may be the same instant.
        return F.array_distinct(structs) if self.clock.every.unit == "hour" else structs

    def count(self, at: Column) -> Column:
        """How many windows hold the instant."""
        return F.lit(1) if self.one_each else F.size(self.windows(at))

    def is_one(self, start: Column, end: Column) -> Column:
        """Whether there is a window with these bounds."""
        return _holds(self.windows(start), start, end)

    def is_open(self, end: Column, horizon: int) -> Column:
        """Whether an event at the horizon could still join the window that ends there."""
        return end > horizon

    def _struct(self, index: Column) -> Column:
        start, end = self.clock.start(index), self.clock.start(index, later=self.size)
        return F.struct(start.alias(START), end.alias(END))


@dataclass(frozen=True)
class CalendarCumulating:
    """Windows from each start of a clock's spans, growing by `step`; the last is cut at the end."""

    clock: Clock
    step: Duration

    def cutting(self) -> Cutting:
        """Slices in which all instants share their windows."""
        return self if isinstance(self.step, Fixed) else self.clock.finer(self.step)

    def cut(self, at: Column) -> Column:
        """The end of the fixed step that holds the instant."""
        return F.get(self.windows(at), F.lit(0))[END]

    def windows(self, at: Column) -> Column:
        """An array of the windows that hold the instant, as structs of start and end."""
        return _let(self._span(at), lambda span: self._within(span, at))

    def count(self, at: Column) -> Column:
        """How many windows hold the instant."""
        return F.size(self.windows(at))

    def is_one(self, start: Column, end: Column) -> Column:
        """Whether there is a window with these bounds."""
        return _holds(self.windows(start), start, end)

    def is_open(self, end: Column, horizon: int) -> Column:
        """Whether an event at the horizon could still join the window that ends there."""
        return end > horizon

    def _span(self, at: Column) -> Column:
        def bounds(index: Column) -> Column:
            start, end = self.clock.start(index), self.clock.start(index + 1)
            return F.struct(index.alias("index"), start.alias(START), end.alias(END))

        return _let(self.clock.cut(at), bounds)

    def _within(self, span: Column, at: Column) -> Column:
        start, last = span[START], span[END]
        if isinstance(self.step, Fixed):
            width = self.step.us
            final = start - floor_to(start - last, width, 0)
            ends = F.sequence(_next_step(at, start, width), final, F.lit(width))
        else:
            most = self.clock.every.longest_us // self.step.shortest_us + 1
            steps = [Calendar(n * self.step.count, self.step.unit) for n in range(1, most + 1)]
            ends = F.array(*(self.clock.start(span["index"], later=calendar) for calendar in steps))
        cut = F.array_distinct(F.transform(ends, lambda end: F.least(end, last)))
        left = F.filter(cut, lambda end: end > at)
        return F.transform(left, lambda end: F.struct(start.alias(START), end.alias(END)))


def _let(value: Column, use: Callable[[Column], Column]) -> Column:
    """Computes a value once, however often it is used; else Spark would repeat its expression."""
    # Not [0]: Sail 0.7.2 fails in a part without rows, because of the error that [0] could raise.
    return F.get(F.transform(F.array(value), use), F.lit(0))


def _holds(windows: Column, start: Column, end: Column) -> Column:
    return F.exists(windows, lambda window: (window[START] == start) & (window[END] == end))


def _next_step(at: Column, start: Column, width: int) -> Column:
    return start + floor_to(at - start, width, 0) + width


def _add(local: Column, span: Calendar) -> Column:
    if span.unit == "month":
        date = _midnight(F.add_months(F.date_from_unix_date(_day(local)), span.count))
        return date + F.pmod(local, F.lit(DAY_US))
    return local + span.local_us


def _midnight(date: Column) -> Column:
    return F.unix_date(date).cast("long") * DAY_US


def _day(local: Column) -> Column:
    return _floor_div(local, DAY_US).cast("int")


def _floor_div(number: Column, by: int) -> Column:
    """Whole division towards minus infinity, on longs."""
    return ((number - F.pmod(number, F.lit(by))) / by).cast("long")
