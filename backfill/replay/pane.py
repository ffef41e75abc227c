"""A window that is held, and what is known about it."""

from __future__ import annotations

from typing import Any

from backfill.replay.folding import State
from backfill.replay.triggering import Place, Since

_NOTHING: tuple[frozenset[Place], frozenset[Place]] = (frozenset(), frozenset())


class Pane:
    """A window that is held: its bounds, its content, and what of it has been emitted.

    Attributes:
        total: the whole content of the window; with discarding panes, what its panes add up to.
        fresh: with discarding panes, the content since the last pane; else None.
        unseen: the number of events since the last pane.
        since: when the first and the last of these events came; None if there are none.
        came: for a window that is done, the number of events since it was complete.
        came_since: when these came; an early trigger sees them if the window is no longer complete.
        emitted: the values of the last pane, or None before the first one.
        fired: if that matters, which triggers have fired of those that its early and its late one
            combine.
        stands: with retracting panes, the bounds of those that are not retracted yet.
        done: whether it was complete and has fired, or can only fire late.
        end: the first time that is no longer in the window.
        counts_as_on_time: whether it began late, from sessions that merged in one bundle, and
            counts as if it had fired on time.
        deadline: the end that the clock is compared with.
        made: the number of its latest timer, which orders timers of the same time.
        gone: whether it has come to its end, or was merged into another.
        spent: whether its early trigger, or its late one once it is done, will not fire again.
    """

    __slots__ = (
        *("deadline", "done", "end", "fresh", "gone", "key", "since", "spent", "stands", "start"),
        *("came", "came_since", "counts_as_on_time", "emitted", "fired", "made", "total", "unseen"),
    )

    def __init__(self, key: Any, start: int, end: int) -> None:
        self.key = key
        self.start = start
        self.end = self.deadline = end
        self.made = 0
        self.gone = False
        self.spent = False
        self.counts_as_on_time = False
        self.fired = _NOTHING
        self.since: Since | None = None
        self.came = 0
        self.came_since: Since | None = None
        self.stands: list[tuple[int, int]] = []
        self.total: State | None = None
        self.fresh: State | None = None
        self.unseen = 0
        self.emitted: Any = None
        self.done = False
