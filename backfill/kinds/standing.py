"""Windows whose rows stand at an instant and depend on the events near it, as kinds of windows.

Around single events, of metrics, and of joins: a row that an event can change is near the event.
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
    """What is alike of them; an extent replaces the rows that stand in it.

    A row stands at its END.
    """

    reach: Reach

    @property
    def held(self) -> str:
        """As `Kind` has it."""
        return OWN

    def windows_each(self, at: Column) -> Column:
        """As `Kind` has it: each event is counted in the row that is its own."""
        return F.lit(1)

    def reported_end(self) -> Column:
        """As `Kind` has it."""
        return F.col(END)

    def last(self, end: int) -> int:
        """As `Kind` has it."""
        return end

    def all_ended(self, at: Column, limit: int) -> Column:
        """As `Kind` has it."""
        return F.lit(False) if self.reach.ahead is None else at + self.reach.ahead < limit

    def affected(self, span: Span) -> Column:
        """As `Kind` has it."""
        low, high = self.reach.rows(span)
        after = F.lit(True) if low is None else F.col(END) >= low
        return after if high is None else after & (F.col(END) < high)

    def place(self) -> Column:
        """As `Kind` has it."""
        return F.col(END)

    def events_of(self, span: Span) -> Span:
        """As `Kind` has it."""
        return self.reach.events(span)

    def needs(self, start: Column, end: Column) -> tuple[Column, Column]:
        """As `Kind` has it."""
        first = F.lit(-FAR) if self.reach.ahead is None else start - self.reach.ahead
        return first, end + self.behind

    def reached(self, at: Column) -> tuple[Column, Column]:
        """From when to when the rows stand that an event at this instant can affect, inclusive."""
        last = F.lit(FAR) if self.reach.ahead is None else at + self.reach.ahead
        return at - self.behind, last

    def met(self, start: Column, end: Column) -> Column:
        """As `Kind` has it."""
        return F.col(END).between(start, end)

    @property
    def behind(self) -> int:
        """How much earlier than an event a row can be that it affects, µs."""
        assert self.reach.behind is not None
        return self.reach.behind


@dataclass(frozen=True)
class StepRows(Standing):
    """The rows of a metric."""

    window: RollingWindow

    @property
    def open_us(self) -> int:
        """As `Kind` has it."""
        return 0

    def bounds(self) -> tuple[Column, Column]:
        """As `Kind` has it."""
        at = F.unix_micros(HOLDS_FROM)
        return at, at

    def reported(self) -> list[Column]:
        """As `Kind` has it."""
        return [F.timestamp_micros(END).alias(HOLDS_FROM)]

    def is_open(self, horizon: int) -> Column:
        """As `Kind` has it: an event at a step counts from the next one on."""
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
        """As `Kind` has it."""
        return self.behind

    def is_open(self, horizon: int) -> Column:
        """As `Kind` has it: a partner can still come, or one more."""
        within = self.window.in_time
        later: Column = F.lit(within.high).cast("long")
        if self.window.how == "full":
            before = F.lit(-within.low).cast("long")
            later = F.when(F.col(LEFT_TIME).isNull(), before).otherwise(later)
        return F.col(END) + later >= horizon
