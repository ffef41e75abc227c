"""Storm's windows of time, which a task cuts from one queue of the events of all its keys."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any, ClassVar

from backfill.replay.clocks import NEVER
from backfill.replay.event import Event
from backfill.replay.operators.aligned import AlignedPanes
from backfill.replay.pane import Pane
from backfill.replay.result import Window
from backfill.replay.settings import Settings
from backfill.replay.setup import Setup
from backfill.time.durations import Fixed
from backfill.windows import HoppingWindow, TumblingWindow


class QueuedPanes(AlignedPanes):
    """Events are late by their own time; whether a window holds the others depends on the queue.

    A window is read from the queue in order of arrival, up to the first event that lies further
    after the window's end than the lag. What came after that event is not in the window. So nothing
    is lost with a watermark that follows every event, but something is with one on a timer, or one
    that waits for another input.

    Windows are read one after the other, each an advance later. If one holds nothing, those up to
    the next event after its end are skipped, and are lost even if they hold earlier events.
    """

    takes: ClassVar[frozenset[str]] = frozenset({"watermark_delay", "watermark_every"})

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._lag = setup.settings.watermark_delay
        self._latest = NEVER
        self._fired_to = NEVER
        window = setup.window
        assert isinstance(window, TumblingWindow | HoppingWindow)
        advance = window.advance if isinstance(window, HoppingWindow) else window.size
        assert isinstance(advance, Fixed)
        self._advance = advance.us
        #: The end of the window that is read next; Storm's windows have no offset.
        self._next = 0
        #: The windows that hold something, by their ends.
        self._ending: dict[int, list[Pane]] = {}
        #: The times of the events after that end.
        self._times: list[int] = []

    @classmethod
    def apart(cls, settings: Settings) -> bool:
        """Other keys' events decide how far the queue is read, and whether a window has fired."""
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
        heappush(self._times, time)

    def late_by(self, end: int) -> int:
        """How much more lag would have kept the event in the window."""
        # An event at the watermark is not late, but the window that ends there may have fired.
        fired = self._tick if end <= self._fired_to else 0
        return max(fired, self._latest - self._lag - end)

    def schedule(self, pane: Pane) -> None:
        """A new window, which has no timer of its own."""
        self._ending.setdefault(pane.end, []).append(pane)

    def finish(self) -> None:
        """The end of the input completes nothing."""
        for end in sorted(self._ending):
            self._output.pending += map(self._as_it_is, self._ending[end])

    def _fire(self, now: int, arrival: Any, *, flush: bool = False) -> None:
        times = self._times
        while self._next <= now:
            end = self._next
            while times and times[0] <= end:
                heappop(times)
            if panes := self._ending.pop(end, None):
                for pane in panes:
                    self.emit(pane, "on_time", arrival)
                    self.forget(pane)
                self._fired_to = end
                self._next = end + self._advance
                continue
            if not times or times[0] > now:
                return
            self._next = -(-times[0] // self._advance) * self._advance
            for skipped in sorted(instant for instant in self._ending if instant < self._next):
                for pane in self._ending.pop(skipped):
                    self._output.lost.append(self._as_it_is(pane))
                    self.forget(pane)

    def _as_it_is(self, pane: Pane) -> Window:
        assert pane.total is not None
        return self._output.window(pane.key, pane.start, pane.end, pane.total)
