"""The kinds of windows whose rows stand at an instant and depend on the events near it.

Around single events, of metrics, and of joins: the rows that an event can change are near it.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from backfill.columns import END, HOLDS_FROM, LEFT_TIME, OWN
from backfill.kinds.placed import FAR, AtEventTime
from backfill.kinds.reach import Reach
from backfill.operators.grids import floor_to
from backfill.time.spans import Span
from backfill.windows.join_window import JoinWindow
from backfill.windows.rolling_window import RollingWindow


@dataclass(frozen=True)
class Standing:
    """What these windows have in common; an extent replaces the rows that stand in it.

    A row stands at its END.
    """

    reach: Reach

    @property
    def held(self) -> str:
        """See `Kind`."""
        return OWN

    def windows_each(self, at: Column) -> Column:
        """See `Kind`: each event is counted in the row that is its own."""
        return F.lit(1)

    def reported_end(self) -> Column:
        """See `Kind`."""
        return F.col(END)

    def last(self, end: int) -> int:
        """See `Kind`."""
        return end

    def all_ended(self, at: Column, limit: int) -> Column:
        """See `Kind`."""
        return F.lit(False) if self.reach.ahead is None else at + self.reach.ahead < limit

    def affected(self, span: Span) -> Column:
        """See `Kind`."""
        low, high = self.reach.rows(span)
        after = F.lit(True) if low is None else F.col(END) >= low
        return after if high is None else after & (F.col(END) < high)

    def place(self) -> Column:
        """See `Kind`."""
        return F.col(END)

    def events_of(self, span: Span) -> Span:
        """See `Kind`."""
        return self.reach.events(span)

    def needs(self, start: Column, end: Column) -> tuple[Column, Column]:
        """See `Kind`."""
        first = F.lit(-FAR) if self.reach.ahead is None else start - self.reach.ahead
        return first, end + self.behind

    def reached(self, at: Column) -> tuple[Column, Column]:
        """The first and last instant of rows that an event at this instant can affect."""
        last = F.lit(FAR) if self.reach.ahead is None else at + self.reach.ahead
        return at - self.behind, last

    def met(self, start: Column, end: Column) -> Column:
        """See `Kind`."""
        return F.col(END).between(start, end)

    @property
    def behind(self) -> int:
        """How much earlier than an event a row that it affects can be, µs."""
        assert self.reach.behind is not None
        return self.reach.behind


@dataclass(frozen=True)
class StepRows(Standing):
    """The rows of a metric."""

    window: RollingWindow

    @property
    def open_us(self) -> int:
        """See `Kind`."""
        return 0

    def bounds(self) -> tuple[Column, Column]:
        """See `Kind`."""
        at = F.unix_micros(HOLDS_FROM)
        return at, at

    def reported(self) -> list[Column]:
        """See `Kind`."""
        return [F.timestamp_micros(END).alias(HOLDS_FROM)]

    def is_open(self, horizon: int) -> Column:
        """See `Kind`: an event at a step counts from the next one on."""
        return F.col(END) > horizon

    def is_step(self, at: Column) -> Column:
        """Whether a row can stand at this instant, µs."""
        return floor_to(at, self.window.step.us, self.window.offset.us) == at


@dataclass(frozen=True)
class JoinRows(AtEventTime, Standing):
    """The rows of a join in time."""

    window: JoinWindow

    @property
    def open_us(self) -> int:
        """See `Kind`."""
        return self.behind

    def is_open(self, horizon: int) -> Column:
        """See `Kind`: a partner, or one more, can still come."""
        within = self.window.in_time
        later: Column = F.lit(within.high).cast("long")
        if self.window.how == "full":
            before = F.lit(-within.low).cast("long")
            later = F.when(F.col(LEFT_TIME).isNull(), before).otherwise(later)
        return F.col(END) + later >= horizon
