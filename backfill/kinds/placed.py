"""The kinds of windows whose events are placed by number or by offset.

What an event changes is not near it in time: one more event moves those after it to other windows.
So all events of a key are read again, and the rows that the event can reach are replaced.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from backfill.columns import (
    BEGIN,
    CLOSED,
    END,
    EVENT_TIME,
    EVENTS,
    FIRST_EVENT,
    LAST_EVENT,
    OWN,
    START,
)
from backfill.engines import Engine, Rules
from backfill.kinds.reach import Reach
from backfill.operators.grids import floor_to
from backfill.time.durations import Fixed
from backfill.time.spans import Span
from backfill.windows import CountWindow

#: No event is this far from 1970, µs, and adding it to an instant does not overflow.
FAR = 1 << 62


@dataclass(frozen=True)
class Placed:
    """What windows by number and by offset have in common."""

    reach: Reach

    def windows_each(self, at: Column) -> Column:
        """See `Kind`: except for the events that `owned` leaves out."""
        return F.lit(1)

    def owned(self, events: Column) -> Column:
        """How many of a key's events, given their number, are counted in `held`."""
        return events

    def reported_end(self) -> Column:
        """See `Kind`."""
        return F.col(END)

    def last(self, end: int) -> int:
        """See `Kind`."""
        return end

    def all_ended(self, at: Column, limit: int) -> Column:
        """See `Kind`: an event can affect all later windows."""
        return F.lit(False)

    def affected(self, span: Span) -> Column:
        """See `Kind`."""
        low, _ = self.reach.rows(span)
        return F.lit(True) if low is None else F.col(END) >= low

    def needs(self, start: Column, end: Column) -> tuple[Column, Column]:
        """See `Kind`: all events of the key."""
        return F.lit(-FAR), F.lit(FAR)

    def events_of(self, span: Span) -> Span:
        """See `Kind`."""
        return None, None


@dataclass(frozen=True)
class CountRows(Placed):
    """Windows by number of events; an extent replaces the rows that stand in it.

    A row stands at its END, the largest time in it.
    """

    window: CountWindow
    rules: Rules
    engine: Engine
    held: str = OWN

    @property
    def open_us(self) -> int:
        """See `Kind`."""
        advance = self.window.advance
        return advance.us if isinstance(advance, Fixed) else 0

    def owned(self, events: Column) -> Column:
        """See `Placed`: in some engines, the events after a key's last window are in none."""
        size, advance = self.window.size, self.window.advance
        if isinstance(advance, Fixed) or advance == 1:
            return events
        rest = F.pmod(events, F.lit(advance))
        if isinstance(size, Fixed) or not self.rules.counts_rest:
            return events - rest
        beyond = 0 if size is None else max(0, advance - size)
        return events - F.when(rest > beyond, F.lit(0).cast("long")).otherwise(rest)

    def bounds(self) -> tuple[Column, Column]:
        """See `Kind`."""
        end = F.unix_micros("window_end")
        return end, end

    def reported(self) -> list[Column]:
        """See `Kind`."""
        return [
            F.timestamp_micros(BEGIN).alias("window_start"),
            F.timestamp_micros(END).alias("window_end"),
            F.col(FIRST_EVENT),
            F.col(LAST_EVENT),
        ]

    def is_open(self, horizon: int) -> Column:
        """See `Kind`: the next event could join it."""
        advance = self.window.advance
        if isinstance(advance, int):
            return F.pmod(LAST_EVENT, F.lit(advance)) != 0
        shift = self.engine.tick_us if self.rules.closed == "right" else 0
        period = (horizon - shift) // advance.us * advance.us
        return floor_to(F.col(END) - shift, advance.us, 0) >= period

    def place(self) -> Column:
        """See `Kind`."""
        return F.col(END)

    def met(self, start: Column, end: Column) -> Column:
        """See `Kind`."""
        return F.col(END).between(start, end)


@dataclass(frozen=True)
class MessageSessions(Placed):
    """Sessions whose gap is a number of messages; an extent replaces those that end in it.

    Not those that start in it: some of those that began before the limit of retention go on.
    """

    held: str = EVENTS
    open_us: int = 0

    def bounds(self) -> tuple[Column, Column]:
        """See `Kind`."""
        return F.unix_micros("window_start"), F.unix_micros("window_end")

    def reported(self) -> list[Column]:
        """See `Kind`."""
        return [
            F.timestamp_micros(START).alias("window_start"),
            F.timestamp_micros(END).alias("window_end"),
        ]

    def is_open(self, horizon: int) -> Column:
        """See `Kind`: that is unknown for a key's last session in a partition."""
        return ~F.col(CLOSED)

    def place(self) -> Column:
        """See `Kind`."""
        return F.col(START)

    def met(self, start: Column, end: Column) -> Column:
        """See `Kind`."""
        return F.col(END).between(start, end)


class AtEventTime:
    """What the rows of all joins have in common: they stand at the time of an event."""

    def bounds(self) -> tuple[Column, Column]:
        """See `Kind`."""
        at = F.unix_micros(EVENT_TIME)
        return at, at

    def reported(self) -> list[Column]:
        """See `Kind`."""
        return [F.timestamp_micros(END).alias(EVENT_TIME)]


@dataclass(frozen=True)
class CountedPairs(AtEventTime, Placed):
    """The rows of a join by number of events; an extent replaces those that stand in it."""

    held: str = OWN
    open_us: int = 0

    def is_open(self, horizon: int) -> Column:
        """See `Kind`: the next event of the other side could join it."""
        return ~F.col(CLOSED)

    def place(self) -> Column:
        """See `Kind`."""
        return F.col(END)

    def met(self, start: Column, end: Column) -> Column:
        """See `Kind`."""
        return F.col(END).between(start, end)
