"""Aligned windows in a store, with stream time and retention."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar

from backfill.replay.clocks import StreamTime
from backfill.replay.emitters import EMITTERS, Closing
from backfill.replay.event import Event
from backfill.replay.folding import State
from backfill.replay.keys import window_key_bytes
from backfill.replay.operators.stored import InStore
from backfill.replay.settings import Settings
from backfill.replay.setup import Setup
from backfill.replay.stores.cache import CachedWindows
from backfill.replay.stores.segments import segment_interval
from backfill.replay.stores.window_store import Entry, WindowStore
from backfill.windows import HoppingWindow, SlidingWindow, TumblingWindow


class Stored(InStore):
    """One partition's windows of one size, in a store.

    Args:
        size: a window's end minus its start, in µs.
        spans: how many sizes the store keeps windows for.
        strict: whether a window is closed only when its end is before the close time, not at it.
    """

    _stored: WindowStore

    takes: ClassVar[frozenset[str]] = frozenset(
        {
            "grace",
            "retention",
            "segment_interval",
            "segments",
            "caching",
            "commits",
            "restarts",
            "restored",
            "store",
            "emit_interval",
        }
    )

    def __init__(self, setup: Setup, size: int, *, spans: int, strict: bool) -> None:
        settings = setup.settings
        self._output = setup.output
        self._folding = setup.folding
        self._size = size
        self._tick = setup.tick
        self._grace = settings.grace
        memory = settings.store == "memory"
        # What was in memory is always restored.
        self._restored = settings.restored or memory
        self._throttle = setup.throttle()
        self._clock = StreamTime()
        self._arrival: Any = None
        retention = settings.retention
        if retention is None:
            retention = size * spans + settings.grace
        self._stored = WindowStore(
            size=size,
            grace=settings.grace,
            retention=retention,
            interval=settings.segment_interval
            or segment_interval(retention, segments=settings.segments),
            memory=memory,
            by_time=settings.emit == "on_close",
            tick=setup.tick,
            expired=self._expired,
            refused=self._refused,
        )
        self._emitter = EMITTERS[settings.emit](
            setup.output,
            Closing(
                settings.grace,
                strict,
                setup.tick,
                lambda start: start >= self._stored.visible_from,
                lambda key, start, end: window_key_bytes(key, start),
                lambda end, state: state.latest,
            ),
        )
        self._watches = self._emitter.watches
        self._cache = CachedWindows(self._stored, self._changed) if settings.caching else None
        self._store: WindowStore | CachedWindows = self._cache or self._stored

    @abstractmethod
    def update(self, event: Event, time: int, close: int) -> bool:
        """Adds the event to its windows, except for those that are closed.

        Returns:
            Whether the operator looks for windows that have closed after it.
        """

    def process(self, event: Event, time: int) -> None:
        """Moves stream time, then adds the event."""
        clock = self._clock
        if time > clock.now:
            clock.now = time
        close = clock.now - self._grace
        looks = self.update(event, time, close)
        if looks and self._watches and self._throttle.opens():
            self._emitter.closed(event.arrival, close)

    def _put(self, event: Event, start: int, state: State) -> None:
        stored = self._store.put(event.key, start, state)
        # What is emitted on close is read from the store when it closes.
        if self._cache is None and (stored or not self._watches):
            end = start + self._size
            self._emitter.send(event.arrival, event.key, start, end, state, "update", state.latest)

    def _changed(self, key: Any, start: int, state: State) -> None:
        end = start + self._size
        self._emitter.send(self._arrival, key, start, end, state, "update", state.latest)

    def _refused(self, entry: Entry) -> None:
        key, start, state = entry
        self._output.refused.append(self._output.window(key, start, start + self._size, state))

    def _expired(self, entry: Entry) -> None:
        key, start, state = entry
        self._emitter.expired(key, start, start + self._size, state)


class StoredWindows(Stored):
    """Tumbling and hopping windows: each is judged, and kept, by itself."""

    def __init__(self, setup: Setup) -> None:
        assert isinstance(setup.window, TumblingWindow | HoppingWindow)
        self._windows = setup.assigner()
        start, end = self._windows(0)[0]
        super().__init__(setup, end - start, spans=1, strict=False)

    @classmethod
    def apart(cls, settings: Settings) -> bool:
        """Unless other keys' events decide when the cache is flushed, or segments deleted."""
        return not settings.caching and settings.emit != "on_close" and not settings.restarts

    def dues(self, time: int) -> Iterable[int]:
        """When a buffer sends the windows that hold it."""
        return (end + self._grace for _, end in self._windows(time))

    def turn(self, clock: int, time: int, arrival: Any) -> None:
        """Emits what earlier events of other keys made due."""
        self._clock.now = clock
        self._emitter.reached(arrival, clock)

    def update(self, event: Event, time: int, close: int) -> bool:
        """Adds to the windows whose end is after the close time, by ascending start."""
        key, store, folding = event.key, self._store, self._folding
        kept = False
        late_by = 0
        for start, end in self._windows(time):
            if end <= close:
                late_by = close - end + self._tick
                self._output.drop_window(event.arrival, key, start, end, late_by)
                continue
            kept = True
            state = store.fetch(key, start)
            if state is None:
                state = folding.single(event, time)
            else:
                folding.add(state, event, time)
            self._put(event, start, state)
        if not kept:
            self._output.drop(event.arrival, "late", late_by)
        return True


class StoredSliding(Stored):
    """KIP-450: the distinct windows [t - d, t] and [t + 1, t + 1 + d] of the events' times.

    Windows that a late event should have made from others' events can be missing, and those that
    it made can hold too little: the counts are not a function of the accepted events.
    """

    def __init__(self, setup: Setup) -> None:
        assert isinstance(setup.window, SlidingWindow)
        assert setup.window.size is not None
        super().__init__(setup, setup.window.size.us, spans=2, strict=True)
        self._kept = False

    def process(self, event: Event, time: int) -> None:
        """A record without a value is dropped, and stream time does not see it."""
        if event.value is None:
            self._output.drop(event.arrival, "no_value")
        else:
            super().process(event, time)

    def update(self, event: Event, time: int, close: int) -> bool:
        """Updates the windows that hold the event, and makes those that it brings about.

        Kafka Streams is done with an event that is late, or early, before it looks for windows that
        have closed.
        """
        if time + self._size < close:
            self._output.drop(event.arrival, "late", close - time - self._size)
            return False
        self._kept = False
        early = time < self._size
        if early:
            self._early(event, time, close)
        else:
            self._usual(event, time, close)
        if not self._kept:
            self._output.drop(event.arrival, "late", close - time)
        return not early

    def _usual(self, event: Event, time: int, close: int) -> None:
        key, size, tick = event.key, self._size, self._tick
        starts: set[int] = set()
        before: State | None = None  # what the nearest window before the event's left one holds
        after: State | None = None  # what the latest window around the event holds
        left = right = False
        previous: int | None = None
        near = self._store.fetch_range(key, max(0, time - 2 * size), time + tick, latest_first=True)
        for start, state in near:
            starts.add(start)
            end, latest = start + size, state.latest
            if start == time + tick:
                right = True
            elif end > time:
                after = after or state
                self._add(event, time, start, state, close)
            elif end == time:
                left = True
                self._add(event, time, start, state, close)
                if latest >= time:
                    return  # an event of this time made all the windows
                previous = latest
            else:
                before, previous = state, latest
                break
        if previous is not None:
            start = previous + tick
            if start not in starts and start + size >= time:
                self._add(event, time, start, None, close)
        if not left:
            reached = previous is not None and time - size <= previous
            self._add(event, time, time - size, before if reached else None, close)
        if not right and after is not None and after.latest > time:
            self._put(event, time + tick, after)

    def _early(self, event: Event, time: int, close: int) -> None:
        """Events nearer to the epoch than the length share the window [0, d]."""
        key, tick = event.key, self._tick
        starts: set[int] = set()
        shared: State | None = None
        after: State | None = None
        right = False
        previous: int | None = None
        for start, state in self._store.fetch_range(key, 0, time + tick):
            starts.add(start)
            if start == 0:
                shared = state
                if state.latest < time:
                    previous = state.latest
            elif start <= time:
                after = state
                self._add(event, time, start, state, close)
            else:
                right = True
        if after is None and shared is not None and shared.latest > time:
            after = shared
        if not right and after is not None and after.latest > time:
            self._put(event, time + tick, after)
        if previous is not None and previous + tick not in starts:
            self._add(event, time, previous + tick, None, close)
        self._add(event, time, 0, shared, close)

    def _add(self, event: Event, time: int, start: int, state: State | None, close: int) -> None:
        end = start + self._size
        if end < close:
            self._output.drop_window(event.arrival, event.key, start, end, close - end)
            return
        self._kept = True
        if state is None:
            self._put(event, start, self._folding.single(event, time))
        else:
            # Windows share what they hold, as it was before this event.
            state = self._folding.copy(state)
            self._folding.add(state, event, time)
            self._put(event, start, state)
