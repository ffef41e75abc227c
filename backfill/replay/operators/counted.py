"""Count windows in order of arrival: the last `size` events of a key, after every `advance`."""

from __future__ import annotations

from collections import deque
from typing import Any

from backfill.replay.event import Event
from backfill.replay.folding import State
from backfill.replay.settings import Settings
from backfill.replay.setup import Operator, Setup
from backfill.windows import CountWindow


class Counted(Operator):
    """Fires by count alone: nothing is late, the first windows are partial, the tail is kept.

    A window's bounds are the least and the largest event time in it.
    """

    def __init__(self, setup: Setup) -> None:
        assert isinstance(setup.window, CountWindow)
        self._output = setup.output
        self._folding = setup.folding
        self._advance = setup.window.advance
        # Only an interface that looks back from rows has windows without a size.
        assert setup.window.size is not None
        self._size = setup.window.size
        self._held: dict[Any, deque[tuple[Event, int]]] = {}
        self._since: dict[Any, int] = {}

    @classmethod
    def apart(cls, settings: Settings) -> bool:
        """No clock decides anything."""
        return True

    def process(self, event: Event, time: int) -> None:
        """Counts the event."""
        key = event.key
        held = self._held.get(key)
        if held is None:
            held = self._held[key] = deque(maxlen=self._size)
        held.append((event, time))
        since = self._since.get(key, 0) + 1
        if since == self._advance:
            since = 0
            start, end, state = self._window(list(held))
            self._output.send(event.arrival, key, start, end, state, "final", None, event.arrival)
        self._since[key] = since

    def finish(self) -> None:
        """What the next windows would hold of the events so far is pending."""
        for key, since in self._since.items():
            kept = self._size - (self._advance - since)
            if since and kept > 0:
                start, end, state = self._window(list(self._held[key])[-kept:])
                self._output.pending.append(self._output.window(key, start, end, state))

    def _window(self, held: list[tuple[Event, int]]) -> tuple[int, int, State]:
        state = self._folding.empty()
        for event, time in held:
            self._folding.add(state, event, time)
        times = [time for _, time in held]
        return min(times), max(times), state
