"""What depends on the kind of a window: where its rows are in time, and which events are in them.

Sessions, aligned windows and windows around single events differ only in this, once they are
computed. START and END are the columns of a row's bounds in µs. For a session they are its first
and last event, for an aligned window its start and end. For a window around an event both are the
time of that event (for distinct windows, which events share, the first and last instant), for a
metric's row its step, for a pair the time of its left event, and for a count window the largest
time in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Protocol

from pyspark.sql import Column
from pyspark.sql import functions as F

from backfill.columns import END, EVENT_TIME, EVENTS, HOLDS_FROM, START
from backfill.engines import Engine, Rules
from backfill.kinds.placed import CountedPairs, CountRows, MessageSessions
from backfill.kinds.reach import Reach, reach_of
from backfill.kinds.standing import JoinRows, Standing, StepRows
from backfill.operators.aligned import Layout, layout
from backfill.operators.fixed import FixedWindows
from backfill.operators.session import last_event, reported_end, session_is_open
from backfill.operators.session_rules import ruled_session_is_open
from backfill.time.spans import Span
from backfill.windows import (
    AnyWindow,
    CountWindow,
    JoinWindow,
    RollingWindow,
    SessionWindow,
    SlidingWindow,
    by_place,
    key_of,
)

_START_AND_END = ("window_start", "window_end")


def times_of(window: AnyWindow) -> tuple[str, str]:
    """The columns of a table that hold a row's first and last instant; they may be the same."""
    if isinstance(window, CountWindow):
        return "window_end", "window_end"
    if isinstance(window, RollingWindow):
        return HOLDS_FROM, HOLDS_FROM
    single = of_each_event(window) or isinstance(window, JoinWindow)
    return (EVENT_TIME, EVENT_TIME) if single else _START_AND_END


def row_order(window: AnyWindow, key: tuple[str, ...]) -> tuple[str, ...]:
    """The order of a table's rows within its files: by key, then by first instant."""
    return (*key_of(window, key), times_of(window)[0])


def of_each_event(window: AnyWindow) -> bool:
    """Whether each row of the table belongs to one event, whose time and id it has."""
    return isinstance(window, SlidingWindow) and not window.distinct


class Kind(Protocol):
    """A kind of window, by an engine's rules."""

    @property
    def held(self) -> str:
        """The column whose sum over rows equals the sum of `windows_each` over the events."""

    @property
    def open_us(self) -> int:
        """How long before the horizon an open window can have ended, µs."""

    def windows_each(self, at: Column) -> Column:
        """In how many windows an event at this instant is counted."""

    def bounds(self) -> tuple[Column, Column]:
        """START and END of a row of the table."""

    def reported(self) -> list[Column]:
        """The columns of the table that say when a window is, from START and END."""

    def reported_end(self) -> Column:
        """The end, µs, as it is in the table."""

    def last(self, end: int) -> int:
        """END of a row, from its end in the table; µs."""

    def is_open(self, horizon: int) -> Column:
        """Whether an event at the horizon (µs) could still join the window."""

    def all_ended(self, at: Column, limit: int) -> Column | None:
        """Whether all windows that an event at this instant can be in ended before the limit.

        None if that depends on other events.
        """

    def affected(self, span: Span) -> Column:
        """Whether an event of the span can be in the window, or create it."""

    def place(self) -> Column:
        """START of the extent that holds the window and ends at its END."""

    def needs(self, start: Column, end: Column) -> tuple[Column, Column]:
        """From when to when events are needed to compute the windows of an extent, inclusive."""

    def events_of(self, span: Span) -> Span:
        """The same for extents within a span."""

    def met(self, start: Column, end: Column) -> Column:
        """Whether a window is one of those that an extent replaces."""


@dataclass(frozen=True)
class Sessions:
    """Windows whose bounds follow from the events of a key; an extent replaces what it meets."""

    window: SessionWindow
    rules: Rules
    zone: str
    held: str = EVENTS

    @property
    def open_us(self) -> int:
        """See `Kind`."""
        return self.window.gap.us

    def windows_each(self, at: Column) -> Column:
        """See `Kind`."""
        return F.lit(1)

    def bounds(self) -> tuple[Column, Column]:
        """See `Kind`."""
        start, end = map(F.unix_micros, _START_AND_END)
        return start, last_event(end, self.window, self.rules)

    def reported(self) -> list[Column]:
        """See `Kind`."""
        return _reported(self.reported_end())

    def reported_end(self) -> Column:
        """See `Kind`."""
        return reported_end(F.col(END), self.window, self.rules)

    def last(self, end: int) -> int:
        """See `Kind`."""
        return last_event(end, self.window, self.rules)

    def is_open(self, horizon: int) -> Column:
        """See `Kind`."""
        if self.window.has_rules:
            return ruled_session_is_open(self.window, self.rules, self.zone, horizon)
        return session_is_open(F.col(END), self.window, self.rules, horizon)

    def all_ended(self, at: Column, limit: int) -> None:
        """See `Kind`."""

    def affected(self, span: Span) -> Column:
        """See `Kind`."""
        low, high = span
        return _all(
            None if low is None else F.col(END) >= low,
            None if high is None else F.col(START) < high,
        )

    def place(self) -> Column:
        """See `Kind`."""
        return F.col(START)

    def needs(self, start: Column, end: Column) -> tuple[Column, Column]:
        """See `Kind`."""
        return start, end

    def events_of(self, span: Span) -> Span:
        """See `Kind`."""
        return span

    def met(self, start: Column, end: Column) -> Column:
        """See `Kind`."""
        return (F.col(START) <= end) & (F.col(END) >= start)


@dataclass(frozen=True)
class AlignedWindows:
    """Windows whose bounds follow from the clock; an extent replaces the window with its bounds."""

    where: Layout
    held: str = EVENTS
    open_us: int = 0

    def windows_each(self, at: Column) -> Column:
        """See `Kind`."""
        return self.where.count(at)

    def bounds(self) -> tuple[Column, Column]:
        """See `Kind`."""
        start, end = map(F.unix_micros, _START_AND_END)
        return start, end

    def reported(self) -> list[Column]:
        """See `Kind`."""
        return _reported(F.col(END))

    def reported_end(self) -> Column:
        """See `Kind`."""
        return F.col(END)

    def last(self, end: int) -> int:
        """See `Kind`."""
        return end

    def is_open(self, horizon: int) -> Column:
        """See `Kind`."""
        return self.where.is_open(F.col(END), horizon)

    def all_ended(self, at: Column, limit: int) -> Column:
        """See `Kind`."""
        last = F.array_max(F.transform(self.where.windows(at), lambda window: window[END]))
        return F.coalesce(last < limit, F.lit(True))

    def affected(self, span: Span) -> Column:
        """See `Kind`."""
        low, high = span
        shift = self.where.shift if isinstance(self.where, FixedWindows) else 0
        return _all(
            None if low is None else F.col(END) + shift > low,
            None if high is None else F.col(START) + shift < high,
        )

    def place(self) -> Column:
        """See `Kind`."""
        return F.col(START)

    def needs(self, start: Column, end: Column) -> tuple[Column, Column]:
        """See `Kind`."""
        return start, end

    def events_of(self, span: Span) -> Span:
        """See `Kind`."""
        return span

    def met(self, start: Column, end: Column) -> Column:
        """See `Kind`."""
        return (F.col(START) == start) & (F.col(END) == end)


@dataclass(frozen=True)
class EventRows(Standing):
    """Windows around single events."""

    window: SlidingWindow

    @property
    def open_us(self) -> int:
        """See `Kind`."""
        return self.behind

    def bounds(self) -> tuple[Column, Column]:
        """See `Kind`."""
        start, end = map(F.unix_micros, times_of(self.window))
        return start, end

    def reported(self) -> list[Column]:
        """See `Kind`."""
        if of_each_event(self.window):
            return [F.timestamp_micros(END).alias(EVENT_TIME)]
        return _reported(F.col(END))

    def is_open(self, horizon: int) -> Column:
        """See `Kind`: an event at the same time as another comes after it."""
        if self.window.before:
            return F.lit(False)
        return F.col(END) + self.behind >= horizon


def kind_of(window: AnyWindow, engine: Engine, zone: str) -> Kind:
    """The kind of a window.

    Args:
        window: the window.
        engine: the engine whose rules apply.
        zone: the time zone of windows that follow a calendar.

    Raises:
        WindowError: if the engine refuses the window.
    """
    if isinstance(window, CountWindow):
        return CountRows(reach(window, engine), window, engine.rules_for(window), engine)
    if isinstance(window, SlidingWindow):
        engine.check(window)
        return EventRows(reach(window, engine), window)
    if isinstance(window, RollingWindow):
        engine.check(window)
        return StepRows(reach(window, engine), window)
    if isinstance(window, JoinWindow):
        engine.check(window)
        near = reach(window, engine)
        return CountedPairs(near) if by_place(window) else JoinRows(near, window)
    if isinstance(window, SessionWindow) and by_place(window):
        return MessageSessions(reach(window, engine))
    if isinstance(window, SessionWindow):
        return Sessions(window, engine.rules_for(window), zone)
    return AlignedWindows(layout(window, engine, zone))


def reach(window: AnyWindow, engine: Engine) -> Reach:
    """How far apart an event and a row of such a window that it affects can be.

    Args:
        window: a window around single events, by number or by offset, a metric's, or a join's.
        engine: the engine whose rules apply.
    """
    return reach_of(window, engine.tick_us, rest=engine.rules_for(window).counts_rest)


def _reported(end: Column) -> list[Column]:
    return [
        F.timestamp_micros(START).alias("window_start"),
        F.timestamp_micros(end).alias("window_end"),
    ]


def _all(*conditions: Column | None) -> Column:
    return reduce(
        and_, [condition for condition in conditions if condition is not None], F.lit(True)
    )
