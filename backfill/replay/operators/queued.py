"""Storm's windows of time, which a task cuts from one queue of the events of all its keys."""

from __future__ import annotations

from backfill.replay.clocks import NEVER
from backfill.replay.event import Event
from backfill.replay.operators.aligned import AlignedPanes
from backfill.replay.panes import Pane
from backfill.replay.settings import Settings
from backfill.replay.setup import Setup


class QueuedPanes(AlignedPanes):
    """An event is late by its own time; whether others are depends on the queue.

    A window is read from the queue in order of arrival, up to the first event that lies further
    behind the window's end than the lag. What came after that one is not in the window. So a
    watermark that follows every event loses nothing by this, and one on a timer, or that waits
    for another input, does.
    """

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._lag = setup.settings.watermark_delay
        self._latest = NEVER
        self._fired_to = NEVER

    @classmethod
    def apart(cls, settings: Settings) -> bool:
        """Another key's events decide how far the queue is read, and that a window has fired."""
        return False

    def update(self, event: Event, time: int) -> None:
        """Puts the event in the queue, unless it is before the watermark."""
        late_by = self._now - time
        if late_by > 0:
            for start, end in self._windows(time):
                self._output.drop_window(event.arrival, event.key, start, end, late_by)
            self._output.drop(event.arrival, "late", late_by)
            return
        super().update(event, time)
        self._latest = max(self._latest, time)

    def late_by(self, end: int) -> int:
        """How much more lag would have kept the event in the window."""
        # An event at the watermark is not late, but the window that ends there may have fired.
        fired = self._tick if end <= self._fired_to else 0
        return max(fired, self._latest - self._lag - end)

    def fired(self, pane: Pane) -> None:
        """Windows fire in order of their ends."""
        self._fired_to = pane.end
