"""How far an event reaches the rows of windows around single events, and they reach events.

A row of such a window stands at an instant: the time of its event, or the end of a window that
events share. This says which rows a changed event can affect, and which events a row needs. All
spans are [low, high), µs; None is no bound.
"""

from __future__ import annotations

from dataclasses import dataclass

from backfill.windows import CountWindow, EventWindow

Span = tuple[int | None, int | None]


@dataclass(frozen=True)
class Reach:
    """How far apart an event and a row that it affects can be.

    Attributes:
        behind: a row that is this much earlier than an event can hold it, µs.
        ahead: the same of a row that is later; None: every later row of the key.
    """

    behind: int
    ahead: int | None

    def rows(self, span: Span) -> Span:
        """Where the rows are that events of a span can affect."""
        low, high = span
        return _less(low, self.behind), _more(high, self.ahead)

    def events(self, span: Span) -> Span:
        """Where the events are that the rows of a span need."""
        low, high = span
        return _less(low, self.ahead), _more(high, self.behind)


def reach_of(window: EventWindow, tick: int) -> Reach:
    """The reach of an event.

    Args:
        window: the window.
        tick: the engine's resolution of time, µs.
    """
    if isinstance(window, CountWindow) or window.size is None:
        following = None if isinstance(window, CountWindow) else window.following
        return Reach(0 if following is None else following.us, None)
    if window.distinct:
        # The window after an event begins a tick later.
        return Reach(0, window.size.us + tick)
    return Reach(0 if window.following is None else window.following.us, window.size.us)


def _less(at: int | None, by: int | None) -> int | None:
    return None if at is None or by is None else at - by


def _more(at: int | None, by: int | None) -> int | None:
    return None if at is None or by is None else at + by
