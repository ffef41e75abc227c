"""Sessions and windows that are computed in micro-batches, with a state between them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar

from sortedcontainers import SortedDict

from backfill.errors import ReplayError
from backfill.replay.clocks import NEVER
from backfill.replay.event import Event
from backfill.replay.folding import State
from backfill.replay.keys import key_bytes
from backfill.replay.settings import Settings
from backfill.replay.setup import Operator, Setup
from backfill.windows import SessionWindow

#: Key, start, end.
_Bounds = tuple[Any, int, int]


class Batched(Operator):
    """A batch judges lateness by one watermark, then evicts and emits by the next.

    Append emits a window once, when it is evicted; update emits the windows that a batch touched,
    complete emits all at every batch and evicts none. Rows of a batch have no order; here they
    are emitted by end, start and key.
    """

    takes: ClassVar[frozenset[str]] = frozenset(
        {"watermark_delay", "batch_size", "idle_batches", "allow_multiple"}
    )

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._output = setup.output
        self._folding = setup.folding
        self._tick = setup.tick
        self._clock = setup.batches()
        self._mode = setup.settings.emit
        #: The state, by end, start and key as bytes, so that what is over comes first.
        self._state: Any = SortedDict()
        self._touched: dict[Any, None] = {}

    @classmethod
    def apart(cls, settings: Settings) -> bool:
        """A key's groups do not depend on other keys'."""
        return True

    def turn(self, clock: int, time: int, arrival: Any) -> None:
        """Evicts what earlier batches have evicted, by the watermark that now judges lateness."""
        self._clock.late = self._clock.now = clock
        self._evict(arrival)

    @abstractmethod
    def update(self, event: Event, time: int) -> None:
        """Adds the event to the state, unless it is late."""

    def evicted(self, bounds: _Bounds) -> None:
        """A window has left the state."""

    def process(self, event: Event, time: int) -> None:
        """Adds an event of the current batch."""
        self._clock.see(event, time)
        self.update(event, time)

    def mark(self, event: Event) -> None:
        """The batch's watermark rises as with an event that is processed."""
        self._clock.see(event, NEVER)

    def end_batch(self, arrival: Any) -> bool:
        """Emits and evicts; returns whether a batch without data would do so again."""
        if self._mode == "complete":
            self._emit(arrival, self._state)
        elif self._mode == "update":
            self._emit(arrival, sorted(self._touched))
        self._evict(arrival)
        self._touched = {}
        return self._clock.next_batch() and self._mode != "complete"

    def _evict(self, arrival: Any) -> None:
        if self._mode == "complete":
            return
        now = self._clock.now
        while self._state and self._state.keys()[0][0] <= now:
            place, (bounds, state) = self._state.popitem(0)
            self.evicted(bounds)
            if self._mode == "append":
                self._send(arrival, place[0], bounds, state)

    def finish(self) -> None:
        """The last windows stay in the state; only append holds them back."""
        if self._mode == "append":
            self._output.pending.extend(
                self._output.window(key, start, end, state)
                for (key, start, end), state in self._state.values()
            )

    def _put(self, bounds: _Bounds, state: State) -> None:
        place = _place(bounds)
        self._state[place] = bounds, state
        self._touched[place] = None

    def _emit(self, arrival: Any, places: Iterable[Any]) -> None:
        for place in places:
            bounds, state = self._state[place]
            self._send(arrival, place[0], bounds, state)

    def _send(self, arrival: Any, end: int, bounds: _Bounds, state: State) -> None:
        self._output.send(arrival, *bounds, state, "update", self._setup.stamp(end))

    def _late_by(self, end: int) -> int:
        return self._clock.late - end + self._tick


class BatchedWindows(Batched):
    """Tumbling and hopping windows; each is judged by itself."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._windows = setup.assigner()

    def dues(self, time: int) -> Iterable[int]:
        """When the windows that hold it are evicted."""
        return (end for _, end in self._windows(time))

    def update(self, event: Event, time: int) -> None:
        """Complete mode keeps everything, and so drops nothing."""
        key, least, kept = event.key, 0, False
        for start, end in self._windows(time):
            late_by = self._late_by(end)
            if late_by > 0 and self._mode != "complete":
                self._output.drop_window(event.arrival, key, start, end, late_by)
                least = late_by  # the last window is the least late one
                continue
            kept = True
            bounds = key, start, end
            held = self._state.get(_place(bounds))
            if held is None:
                self._put(bounds, self._folding.single(event, time))
            else:
                self._folding.add(held[1], event, time)
                self._touched[_place(bounds)] = None
        if not kept:
            self._output.drop(event.arrival, "late", least)


class BatchedSessions(Batched):
    """Sessions; an event is judged by its own window [t, t + gap), before it is merged."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        assert isinstance(setup.window, SessionWindow)
        if self._mode == "update":
            raise ReplayError(
                "sessions can't be emitted this way",
                field="emit",
                value="update",
                way_out="Emit append or complete",
            )
        self._gap = setup.window.gap.us
        self._by_key: dict[Any, Any] = {}  # of key: sorted dict of end: start

    def dues(self, time: int) -> Iterable[int]:
        """When a session is evicted: a gap after one of its events."""
        return (time + self._gap,)

    def update(self, event: Event, time: int) -> None:
        """Merges the event's window with the state's that it overlaps or touches."""
        gap = self._gap if event.gap is None else event.gap
        start, end = time, time + gap
        if gap <= 0:
            self._output.drop(event.arrival, "no_gap")
            return
        if (late_by := self._late_by(end)) > 0:
            self._output.drop(event.arrival, "late", late_by)
            return
        key = event.key
        sessions = self._by_key.get(key)
        if sessions is None:
            sessions = self._by_key[key] = SortedDict()
        state: State | None = None
        first, last = start, end
        for ends in list(sessions.irange(start)):
            begins = sessions[ends]
            if begins > end:
                break
            del sessions[ends]
            _, held = self._state.pop(_place((key, begins, ends)))
            if self._mode == "complete":
                self._output.removed(key, begins, ends)
            state = held if state is None else self._folding.merge(state, held)
            first, last = min(first, begins), max(last, ends)
        if state is None:
            state = self._folding.single(event, time)
        else:
            self._folding.add(state, event, time)
        sessions[last] = first
        self._put((key, first, last), state)

    def evicted(self, bounds: _Bounds) -> None:
        """The key has one session less."""
        key, _, end = bounds
        sessions = self._by_key[key]
        del sessions[end]
        if not sessions:
            del self._by_key[key]


def _place(bounds: _Bounds) -> tuple[int, int, str, bytes]:
    key, start, end = bounds
    return end, start, type(key).__name__, key_bytes(key)
