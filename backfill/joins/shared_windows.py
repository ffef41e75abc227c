"""Pairs of events that lie in the same tumbling or hopping window."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from backfill.alignment import phase
from backfill.columns import TIME
from backfill.engines import PLAIN
from backfill.errors import WindowError
from backfill.joins.sides import Sides
from backfill.operators.grids import floor_to
from backfill.time.durations import Fixed
from backfill.windows import HoppingWindow, TumblingWindow
from backfill.windows.join_window import LEFT, RIGHT
from backfill.windows.within import Reach


@dataclass(frozen=True)
class SharedWindows:
    """Windows [start, start + size), one every `advance` from `phase` on; all µs."""

    size: int
    advance: int
    phase: int

    @classmethod
    def of(cls, window: TumblingWindow | HoppingWindow) -> SharedWindows:
        """The windows of a definition.

        Raises:
            WindowError: its size or advance follows a calendar.
        """
        advance = window.advance if isinstance(window, HoppingWindow) else window.size
        if not isinstance(window.size, Fixed) or not isinstance(advance, Fixed):
            raise WindowError(
                "events can't be joined within calendar windows",
                field="within",
                value=str(window),
                way_out="Use a fixed size such as 24h",
            )
        begin = phase(window.size, advance, window.offset, PLAIN.rules)
        return cls(window.size.us, advance.us, begin)

    @property
    def reach(self) -> Reach:
        """No two events of a window are further apart."""
        return Reach(1 - self.size, self.size - 1)

    def hold_both(self) -> Column:
        """Whether some window holds both events of a pair."""
        return self._last() + self.size > F.greatest(*self._times())

    def starts(self) -> Column:
        """Where the windows that hold both events start; NULL if there is no pair."""
        # The start of the window before the first one that ends after the later event.
        before = floor_to(F.greatest(*self._times()) - self.size, self.advance, self.phase)
        instants = F.sequence(before + self.advance, self._last(), F.lit(self.advance))
        return F.when(F.col(f"{RIGHT}.{TIME}").isNotNull(), instants)

    def _last(self) -> Column:
        return floor_to(F.least(*self._times()), self.advance, self.phase)

    @staticmethod
    def _times() -> tuple[Column, Column]:
        return Sides.of(LEFT, TIME), Sides.of(RIGHT, TIME)
