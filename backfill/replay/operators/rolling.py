"""Rolling counters: slots of time that are summed at every tick of the wall clock."""

from __future__ import annotations

from collections import deque
from typing import Any, ClassVar

from backfill.errors import WindowError
from backfill.replay.clocks import ProcessingTime
from backfill.replay.event import Event
from backfill.replay.folding import State
from backfill.replay.setup import Operator, Setup
from backfill.time.durations import Fixed
from backfill.windows import HoppingWindow


class RollingCounter(Operator):
    """Outputs each known key's events of the last `size`, at every multiple of the advance.

    A key without events is output once more, with nothing in it, and forgotten. Time is the wall
    clock's, and an event at a tick comes after it: a window is [end - size, end).
    """

    takes: ClassVar[frozenset[str]] = frozenset({"rolling"})

    def __init__(self, setup: Setup) -> None:
        window = setup.window
        assert isinstance(window, HoppingWindow)
        size, advance = window.size, window.advance
        assert isinstance(size, Fixed)
        assert isinstance(advance, Fixed)
        if size.us % advance.us:
            raise WindowError(
                f"the size {size} is not a whole number of slots",
                field="advance",
                value=str(advance),
                way_out="Choose an advance that divides the size",
            )
        self._output = setup.output
        self._folding = setup.folding
        self._size = size.us
        self._slot = advance.us
        self._clock = ProcessingTime(every=advance.us)
        self._keys: dict[Any, deque[State]] = {}

    def process(self, event: Event, time: int) -> None:
        """Lets the ticks that have passed run, then counts the event in the latest slot."""
        before = self._clock.now
        if self._clock.turn(time):
            for tick in range(before + self._slot, self._clock.now + 1, self._slot):
                if not self._keys:
                    break
                self._turn(tick, event.arrival)
        slots = self._keys.get(event.key)
        if slots is None:
            slots = deque([self._folding.empty()], maxlen=self._size // self._slot)
            self._keys[event.key] = slots
        self._folding.add(slots[-1], event, time)

    def finish(self) -> None:
        """What no tick has counted is pending."""
        tick = self._clock.now + self._slot
        for key, slots in self._keys.items():
            total = self._total(slots)
            if total.count:
                window = self._output.window(key, tick - self._size, tick, total)
                self._output.pending.append(window)

    def _turn(self, tick: int, arrival: Any) -> None:
        for key, slots in list(self._keys.items()):
            total = self._total(slots)
            self._output.send(arrival, key, tick - self._size, tick, total, "final", None)
            if not total.count:
                del self._keys[key]
            slots.append(self._folding.empty())

    def _total(self, slots: deque[State]) -> State:
        total = self._folding.empty()
        for slot in slots:
            total = self._folding.merge(total, self._folding.copy(slot))
        return total
