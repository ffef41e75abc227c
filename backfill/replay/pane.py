"""A window that is held, and what is known of it."""

from __future__ import annotations

from typing import Any

from backfill.replay.folding import State
from backfill.replay.triggering import Place, Since

_NOTHING: tuple[frozenset[Place], frozenset[Place]] = (frozenset(), frozenset())


class Pane:
    """A window that is held: its bounds, its content, and what of it has been emitted.

    Attributes:
        total: the content of a window in all; with discarding panes, what its panes add up to.
        fresh: with discarding panes, the content since the last one; else None.
        unseen: the number of events since the last pane.
        since: when the first and the last of them came; None if there is none.
        came: of a window that is done, the number of events since it was complete, and
        came_since: when they came: an early trigger sees them if it is complete no more.
        emitted: the values of the last pane, or None before the first one.
        fired: where that counts, what of the triggers has fired that its early and its late one
            combine.
        stands: with panes that are retracted, the bounds of those that were not yet.
        done: it was complete and has fired, or can only fire late.
        end: the start of what is not in the window any more.
        counts_as_on_time: it began late, as sessions that merged in one bundle, and counts as if it
            had fired on time.
        deadline: the same as it is judged by the clock.
        made: the number of its latest timer, by which those of one time are in order.
        gone: it has come to its end, or was merged into another.
        spent: what its early trigger, or once it is done its late one, had to fire has fired.
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
