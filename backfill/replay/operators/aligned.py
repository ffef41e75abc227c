"""Tumbling, hopping and cumulating windows that fire as a clock passes their ends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from backfill.replay.event import Event
from backfill.replay.pane import Pane
from backfill.replay.panes import Panes
from backfill.replay.setup import Setup


class AlignedPanes(Panes):
    """Each window is judged, and kept, by itself."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._windows = setup.assigner()
        self._open: dict[tuple[Any, int, int], Pane] = {}

    def update(self, event: Event, time: int) -> None:
        """Adds the event to those of its windows that are not gone, the latest one first."""
        key, arrival = event.key, event.arrival
        least: int | None = None
        kept = False
        for start, end in reversed(self._windows(time)):
            late_by = self.late_by(end)
            if late_by > 0:
                least = late_by if least is None else min(least, late_by)
                self._output.drop_window(arrival, key, start, end, late_by)
                continue
            pane = self._open.get((key, start, end))
            if pane is None:
                pane = self._open[key, start, end] = Pane(key, start, end)
                self.schedule(pane)
            self.add(pane, event, time)
            kept = True
        if not kept:
            self._output.drop(arrival, "no_window" if least is None else "late", least)

    def ends(self, time: int) -> Iterable[int]:
        """The ends of the windows that hold it."""
        return (end for _, end in self._windows(time))

    def forget(self, pane: Pane) -> None:
        """Its state is cleared."""
        del self._open[pane.key, pane.start, pane.end]
