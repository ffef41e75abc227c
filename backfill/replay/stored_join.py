"""Kafka Streams' join of two streams: a store per side, and one for events without a partner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sortedcontainers import SortedDict

from backfill.replay.clocks import StreamTime, Throttle
from backfill.replay.event import Event
from backfill.replay.keys import key_bytes
from backfill.replay.result import Dropped
from backfill.replay.stores.segments import segment_interval
from backfill.replay.stores.window_store import Entry, WindowStore
from backfill.windows.within import Reach

#: Called with the events of a pair, of which one can be missing, and the time of the record.
Emit = Callable[["Event | None", "Event | None", int], None]


@dataclass(frozen=True, kw_only=True)
class JoinSettings:
    """The settings of the join, for both streams.

    Attributes:
        reach: how much later than the left event the right one may be, in µs.
        grace: how long after its window an event without a partner is held back, in µs.
        outer: whether left events, and right events, without a partner are emitted.
        spurious: whether they are emitted at once, as before Kafka Streams 3.1.
        memory: whether the stores are in memory.
        tick: the resolution of time, in µs.
    """

    reach: Reach
    grace: int
    outer: tuple[bool, bool]
    spurious: bool
    memory: bool
    tick: int


class StoredJoin:
    """One task: both streams' events of one partition.

    Args:
        settings: of the join.
        throttle: how often events without a partner are looked for.
        emit: where pairs go.
        refused: called with an event that its store does not take, as it is past retention.
    """

    def __init__(
        self,
        settings: JoinSettings,
        throttle: Throttle,
        emit: Emit,
        refused: Callable[[Event], None],
    ) -> None:
        self._settings = settings
        self._throttle = throttle
        self._emit = emit
        self._refused = refused
        self._clock = StreamTime()
        retention = settings.reach.length + settings.grace

        def refuse(entry: Entry) -> None:
            refused(entry[2][-1])

        def store() -> WindowStore:
            return WindowStore(
                size=settings.reach.length,
                grace=settings.grace,
                interval=segment_interval(retention),
                tick=settings.tick,
                memory=settings.memory,
                refused=refuse,
            )

        # By whether they are the left side's.
        self._stores = {True: store(), False: store()}
        # How far from an event of this side its partners may be.
        self._reaches = {True: settings.reach, False: settings.reach.reversed()}
        self._outer = {True: settings.outer[0], False: settings.outer[1]}
        self._holds_back = any(settings.outer) and not settings.spurious
        # Events held back, in the order of the store: time, side (right first), bytes of the key.
        self._alone: Any = SortedDict()
        # The time of one of them, which decides whether to look for any; None: unknown.
        self._least: int | None = None

    @property
    def pending(self) -> list[Event]:
        """Events that are still held back."""
        return [event for held in self._alone.values() for event in held]

    def process(self, event: Event, time: int, *, left: bool) -> Dropped | None:
        """Joins an event with what the other side's store shows, unless it is dropped."""
        clock = self._clock
        clock.now = max(clock.now, time)
        if event.value is None:
            # On disk, nothing is put in this case.
            if event.key is not None and self._settings.memory and not self._stores[left].see(time):
                self._refused(event)
            return Dropped(event.arrival, "no_value")
        if event.key is None:
            if not self._outer[left]:
                return Dropped(event.arrival, "no_key")
            self._forward(left, event, None, time)
            return None
        if self._holds_back and time == clock.now:
            self._emit_alone(left)
        reach = self._reaches[left]
        low, high = max(0, time + reach.low), max(0, time + reach.high)
        met = False
        for at, others in self._stores[not left].fetch_range(event.key, low, high):
            for other in others:
                met = True
                self._alone.pop((at, not left, key_bytes(event.key)), None)
                self._forward(left, event, other, max(time, at))
        if self._outer[left] and not met:
            if not self._holds_back or high < clock.now:
                self._forward(left, event, None, time)
            else:
                self._least = time if self._least is None else min(time, self._least)
                self._alone.setdefault((time, left, key_bytes(event.key)), []).append(event)
        store = self._stores[left]
        same = store.fetch(event.key, time) or ()
        store.put(event.key, time, (*same, event))
        return None

    def _emit_alone(self, left: bool) -> None:
        """Emits events that have been held back until their windows closed."""
        now, grace = self._clock.now, self._settings.grace
        behind = self._reaches[left].high + grace
        # If no time is known, what the engine computes with overflows if there is a wait.
        if (behind <= 0) if self._least is None else (self._least + behind >= now):
            return
        if not self._throttle.opens():
            return
        self._least = None
        open_sides: set[bool] = set()
        emitted = []
        for (time, side, key), held in self._alone.items():
            # The last one that is looked at counts, not the earliest: the rest may well be looked
            # for much later than they could be.
            self._least = time
            if len(open_sides) == 2:
                break
            if time + self._reaches[side].high + grace >= now:
                open_sides.add(side)
                continue
            for event in held:
                self._forward(side, event, None, time)
            emitted.append((time, side, key))
        for place in emitted:
            del self._alone[place]

    def _forward(self, left: bool, own: Event, other: Event | None, time: int) -> None:
        one, two = (own, other) if left else (other, own)
        self._emit(one, two, time)
