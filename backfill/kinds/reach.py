"""How far events and the rows of windows around single events reach each other.

A row of such a window stands at an instant: the time of its event, or the end of a window that
events share; a count window stands at the largest time in it, a metric's row at its step, a pair at
the time of its left event. This says which rows a changed event can affect, and which events a row
needs.
"""

from __future__ import annotations

from dataclasses import dataclass

from backfill.time.durations import Fixed
from backfill.time.spans import Span
from backfill.windows import (
    AnyWindow,
    CountWindow,
    JoinWindow,
    RollingWindow,
    SlidingWindow,
    by_place,
)


@dataclass(frozen=True)
class Reach:
    """How far apart an event and a row that it affects can be.

    Attributes:
        behind: a row that is this much earlier than an event can hold it, µs; None: every
            earlier row of the key.
        ahead: the same for a later row; None: every later row of the key.
    """

    behind: int | None
    ahead: int | None

    def rows(self, span: Span) -> Span:
        """The span of the rows that events of a span can affect."""
        low, high = span
        return _less(low, self.behind), _more(high, self.ahead)

    def events(self, span: Span) -> Span:
        """The span of the events that the rows of a span need."""
        low, high = span
        return _less(low, self.ahead), _more(high, self.behind)


def reach_of(window: AnyWindow, tick: int, *, rest: bool = True) -> Reach:
    """The reach of an event.

    Args:
        window: a window around single events, by number or by offset, a metric's, or a join's.
        tick: the engine's resolution of time, µs.
        rest: the events after the last full count window are a window too.
    """
    if isinstance(window, CountWindow):
        return _of_count(window, rest)
    if isinstance(window, RollingWindow):
        # No row depends on an event at its own step. But a row at the first instant of a date
        # belongs to this date.
        return Reach(0, window.reach_us)
    if isinstance(window, JoinWindow) and not by_place(window):
        return Reach(window.furthest.high, -window.furthest.low)
    if not isinstance(window, SlidingWindow):
        return Reach(None, None)
    if window.size is None:
        return Reach(0 if window.following is None else window.following.us, None)
    if window.distinct:
        # The window after an event begins a tick later.
        return Reach(0, window.size.us + tick)
    return Reach(0 if window.following is None else window.following.us, window.size.us)


def _of_count(window: CountWindow, rest: bool) -> Reach:
    """In order of time, only the last window of a key or of a period is moved by a later event."""
    if window.order == "arrival":
        return Reach(None, None)
    if isinstance(window.advance, Fixed):
        return Reach(window.advance.us, None)
    grows = rest and window.advance > 1 and not isinstance(window.size, Fixed)
    return Reach(None if grows else 0, None)


def _less(at: int | None, by: int | None) -> int | None:
    return None if at is None or by is None else at - by


def _more(at: int | None, by: int | None) -> int | None:
    return None if at is None or by is None else at + by
