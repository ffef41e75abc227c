"""Count windows in order of arrival: the last `size` events of a key, after every `advance`."""

from __future__ import annotations

from collections import deque
from typing import Any

from backfill.replay.event import Event
from backfill.replay.folding import State
from backfill.replay.settings import Settings
from backfill.replay.setup import Operator, Setup
from backfill.time.durations import Fixed
from backfill.windows import CountWindow


class _Key:
    """What is held of a key's events: the last ones, or, without a size, what all add up to."""

    __slots__ = ("bounds", "held", "last", "since", "total")

    def __init__(self, size: int | None, total: State) -> None:
        self.held: deque[tuple[Event, int]] = deque(maxlen=size or 0)
        self.total = total
        self.bounds: tuple[int, int] | None = None
        self.since = 0
        self.last: Any = None


class Counted(Operator):
    """Fires by count alone: nothing is late, and the first windows are partial.

    What the next window would hold of the last events is a window too, or pending, depending on the
    engine. A window's bounds are the smallest and the largest event time in it.
    """

    def __init__(self, setup: Setup) -> None:
        window = setup.window
        assert isinstance(window, CountWindow)
        assert not isinstance(window.size, Fixed)
        assert not isinstance(window.advance, Fixed)
        self._output = setup.output
        self._folding = setup.folding
        self._size = window.size
        self._advance = window.advance
        self._counts_rest = setup.engine.rules.counts_rest
        self._keys: dict[Any, _Key] = {}

    @classmethod
    def apart(cls, settings: Settings) -> bool:
        """No clock decides anything."""
        return True

    def process(self, event: Event, time: int) -> None:
        """Counts the event."""
        own = self._keys.get(event.key)
        if own is None:
            own = self._keys[event.key] = _Key(self._size, self._folding.empty())
        if self._size is None:
            self._folding.add(own.total, event, time)
            low, high = own.bounds or (time, time)
            own.bounds = min(low, time), max(high, time)
        own.held.append((event, time))
        own.last = event.arrival
        own.since += 1
        if own.since == self._advance:
            own.since = 0
            start, end, state = self._window(own, self._size)
            self._send(event.arrival, event.key, start, end, state, own.last)

    def finish(self) -> None:
        """The last events, which fill no window, form one or are pending."""
        for key, own in self._keys.items():
            kept = None if self._size is None else self._size - (self._advance - own.since)
            if not own.since or (kept is not None and kept <= 0):
                continue
            start, end, state = self._window(own, kept)
            if self._counts_rest:
                self._send(None, key, start, end, state, own.last)
            else:
                self._output.pending.append(self._output.window(key, start, end, state))

    def _send(self, arrival: Any, key: Any, start: int, end: int, state: State, row: Any) -> None:
        self._output.send(arrival, key, start, end, state, "final", None, row)

    def _window(self, own: _Key, size: int | None) -> tuple[int, int, State]:
        if size is None:
            assert own.bounds is not None
            return *own.bounds, own.total
        held = list(own.held)[-size:]
        state = self._folding.empty()
        for event, time in held:
            self._folding.add(state, event, time)
        times = [time for _, time in held]
        return min(times), max(times), state
