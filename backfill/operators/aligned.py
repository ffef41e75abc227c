"""Aligned windows (tumbling, hopping, cumulating) from slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill.aggregates.bound import Bound, running
from backfill.alignment import first_start, in_zone, months, phase
from backfill.columns import END, EVENTS, FIRST, START
from backfill.engines import Engine
from backfill.operators.calendar import CalendarCumulating, CalendarWindows, Clock
from backfill.operators.fixed import FixedCumulating, FixedWindows
from backfill.operators.grids import Cutting
from backfill.operators.hopping import hopping
from backfill.operators.pivot import WIDEST, pivoted
from backfill.time.durations import Calendar, Fixed
from backfill.windows import Aligned, CumulatingWindow, HoppingWindow

#: With fewer windows per event than this, listing them is as fast as running aggregates.
WORTHWHILE = 8


class Layout(Protocol):
    """Where a window definition's windows lie. All times are µs since the epoch."""

    def cutting(self) -> Cutting:
        """Slices in which all instants share their windows."""

    def windows(self, at: Column) -> Column:
        """An array of the windows that hold the instant, as structs of start and end."""

    def count(self, at: Column) -> Column:
        """How many windows hold the instant."""

    def is_one(self, start: Column, end: Column) -> Column:
        """Whether there is a window with these bounds."""

    def is_open(self, end: Column, horizon: int) -> Column:
        """Whether an event at the horizon could still join the window that ends there."""


def layout(window: Aligned, engine: Engine, zone: str) -> Layout:
    """Where the windows lie under an engine's rules; calendar spans follow the zone."""
    rules = engine.rules_for(window)
    if isinstance(window, CumulatingWindow):
        size, step = in_zone(window.size, zone), in_zone(window.step, zone)
        # If a calendar span ends within a step, its last window is cut.
        if isinstance(size, Fixed) and isinstance(step, Fixed) and not size.us % step.us:
            return FixedCumulating(size.us, step.us, window.offset.us + first_start(window.size))
        if isinstance(window.size, Calendar):
            clock = Clock(window.size, zone, window.offset.us, months(window))
            return CalendarCumulating(clock, window.step)
    else:
        advance = window.advance if isinstance(window, HoppingWindow) else window.size
        size, every = in_zone(window.size, zone), in_zone(advance, zone)
        if isinstance(size, Fixed) and isinstance(every, Fixed):
            return FixedWindows(
                size.us,
                every.us,
                phase(size, advance, window.offset, rules),
                shift=engine.tick_us if rules.closed == "right" else 0,
                clips=rules.clips_at_epoch,
            )
        if isinstance(window.size, Calendar) and isinstance(advance, Calendar):
            clock = Clock(advance, zone, window.offset.us, months(window))
            return CalendarWindows(window.size, clock)
    raise AssertionError(f"{window} was validated when it was made")


def aligned(
    slices: DataFrame, where: Layout, keys: Sequence[str], aggregates: Sequence[Bound]
) -> DataFrame:
    """Merges slices into the windows that hold them.

    Returns:
        One row per key and window that holds an event: key, start, end (µs), the number of
        events, merged states.
    """
    functions = running(aggregates)
    if functions and isinstance(where, FixedWindows):
        if _few(where, functions):
            return pivoted(slices, where, keys, functions)
        if where.most_each >= WORTHWHILE:
            return hopping(slices, where, keys, functions)
    states = [state for binding in aggregates for state in binding.merge()]
    placed = slices.select("*", F.inline(where.windows(F.col(FIRST))))
    return placed.groupBy(*keys, START, END).agg(F.sum(EVENTS).alias(EVENTS), *states)


def takes_events(where: Layout, aggregates: Sequence[Bound]) -> bool:
    """Whether windows are merged from events as fast as from slices.

    They are if each row is hashed only once or twice: Spark itself combines these on the map side.
    """
    if not isinstance(where, FixedWindows):
        return False
    functions = running(aggregates)
    return where.one_each or (functions is not None and _few(where, functions))


def _few(where: FixedWindows, functions: Mapping[str, str]) -> bool:
    """Whether windows overlap, but so few that a row has room for them side by side."""
    return where.most_each > 1 and where.most_each * len(functions) <= WIDEST
