"""Aligned windows of fixed length: which windows hold an instant, as column arithmetic.

Times are µs since the epoch. Everything is floored, so times before 1970 need no special case.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from backfill.columns import END, START
from backfill.operators.grids import Grid, floor_to


@dataclass(frozen=True)
class FixedWindows:
    """Windows [start, start + size) every `advance`, or (start, start + size] if closed right.

    Attributes:
        shift: subtracted from an instant first: one tick where windows are closed on the right,
            which turns (start, end] into [start, end).
        clips: no window starts before the epoch (Kafka Streams).
    """

    size: int
    advance: int
    offset: int
    shift: int
    clips: bool

    @property
    def one_each(self) -> bool:
        """Whether every event is in exactly one window."""
        return self.size == self.advance

    @property
    def most_each(self) -> int:
        """The largest number of windows that an event is in."""
        return -(-self.size // self.advance)

    def cutting(self) -> Grid:
        """Slices in which all instants share their windows."""
        return Grid.of(self.size, self.advance, phase=self.offset + self.shift)

    def windows(self, at: Column) -> Column:
        """An array of the windows that hold the instant, as structs of start and end."""
        first, last = self.range(at)
        if self.one_each:
            return F.array(self._struct(last))
        starts = F.when(first <= last, F.sequence(first, last, F.lit(self.advance)))
        return F.transform(starts, self._struct)

    def count(self, at: Column) -> Column:
        """How many windows hold the instant."""
        first, last = self.range(at)
        return F.greatest(F.floor((last - first) / self.advance) + 1, F.lit(0))

    def is_one(self, start: Column, end: Column) -> Column:
        """Whether there is a window with these bounds."""
        own = (floor_to(start, self.advance, self.offset) == start) & (end - start == self.size)
        return own & (start >= 0) if self.clips else own

    def is_open(self, end: Column, horizon: int) -> Column:
        """Whether an event at the horizon could still join the window that ends there."""
        return end > horizon - self.shift

    def range(self, at: Column) -> tuple[Column, Column]:
        """The starts of the first and of the last window that hold the instant."""
        at = at - self.shift
        last = floor_to(at, self.advance, self.offset)
        first = floor_to(at - self.size, self.advance, self.offset) + self.advance
        return (F.greatest(first, F.lit(0)) if self.clips else first), last

    def _struct(self, start: Column) -> Column:
        return F.struct(start.alias(START), (start + self.size).alias(END))


@dataclass(frozen=True)
class FixedCumulating:
    """Windows from each start, every `size`, that end `step`, 2 `step`, … `size` later."""

    size: int
    step: int
    offset: int

    def cutting(self) -> Grid:
        """Slices in which all instants share their windows."""
        return Grid.of(self.size, self.step, phase=self.offset)

    def windows(self, at: Column) -> Column:
        """An array of the windows that hold the instant, as structs of start and end."""
        start, first = self._range(at)
        ends = F.sequence(first, start + self.size, F.lit(self.step))
        return F.transform(ends, lambda end: F.struct(start.alias(START), end.alias(END)))

    def count(self, at: Column) -> Column:
        """How many windows hold the instant."""
        start, first = self._range(at)
        return F.floor((start + self.size - first) / self.step) + 1

    def is_one(self, start: Column, end: Column) -> Column:
        """Whether there is a window with these bounds."""
        length = end - start
        steps = (length > 0) & (length <= self.size) & (F.pmod(length, F.lit(self.step)) == 0)
        return (floor_to(start, self.size, self.offset) == start) & steps

    def is_open(self, end: Column, horizon: int) -> Column:
        """Whether an event at the horizon could still join the window that ends there."""
        return end > horizon

    def _range(self, at: Column) -> tuple[Column, Column]:
        start = floor_to(at, self.size, self.offset)
        return start, start + floor_to(at - start, self.step, 0) + self.step
