"""Tumbling, hopping and cumulating windows that fire as a clock passes their ends."""

from __future__ import annotations

from typing import Any

from backfill.replay.clocks import NEVER
from backfill.replay.event import Event
from backfill.replay.panes import Pane, Panes
from backfill.replay.setup import Setup


class AlignedPanes(Panes):
    """Each window is judged, and kept, by itself."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._windows = setup.assigner()
        self._open: dict[tuple[Any, int, int], Pane] = {}
        self._late_by_time = setup.streaming.late == "event"
        self._fired_to = NEVER

    def update(self, event: Event, time: int) -> None:
        """Adds the event to those of its windows that are not gone, the latest one first."""
        key, arrival = event.key, event.arrival
        if self._late_by_time and time < self._now:
            for start, end in self._windows(time):
                self._output.drop_window(arrival, key, start, end, self._now - time)
            self._output.drop(arrival, "late", self._now - time)
            return
        least: int | None = None
        kept = False
        for start, end in reversed(self._windows(time)):
            pane = self._open.get((key, start, end))
            if pane is None:
                late_by = self._gone(end)
                if late_by > 0:
                    least = late_by if least is None else min(least, late_by)
                    self._output.drop_window(arrival, key, start, end, late_by)
                    continue
                pane = self._open[key, start, end] = Pane(key, start, end)
                self.schedule(pane)
            self.add(pane, event, time)
            kept = True
        if not kept:
            self._output.drop(arrival, "no_window" if least is None else "late", least)

    def forget(self, pane: Pane) -> None:
        """Its state is cleared."""
        del self._open[pane.key, pane.start, pane.end]

    def fired(self, pane: Pane) -> None:
        """Windows fire in order of their ends."""
        self._fired_to = pane.end

    def _gone(self, end: int) -> int:
        if self._late_by_time:
            # An event at the watermark is not late, but the window that ends there may have fired.
            return self._tick if end <= self._fired_to else 0
        return self.late_by(end)
