"""Flink's interval join of two streams: each event waits for its partners until the watermark."""

from __future__ import annotations

from typing import Any

from sortedcontainers import SortedDict

from backfill.errors import ReplayError
from backfill.replay.clocks import Watermark
from backfill.replay.event import Event
from backfill.replay.result import Dropped
from backfill.replay.stored_join import Emit
from backfill.windows.within import Reach


class IntervalJoin:
    """The operator, for all keys.

    Args:
        reach: how much later than the left event the right one may be, in µs.
        watermark: the smaller one of both streams' watermarks.
        emit: where pairs go.
    """

    def __init__(self, reach: Reach, watermark: Watermark, emit: Emit) -> None:
        self._reaches = {True: reach, False: reach.reversed()}
        self._watermark = watermark
        self._emit = emit
        # By side, then key: the events by time.
        self._waiting: dict[bool, dict[Any, Any]] = {True: {}, False: {}}
        # When the watermark reaches this time, a side's events of a key and a time go.
        self._until: Any = SortedDict()

    @property
    def pending(self) -> list[Event]:
        """No events, because it is an inner join."""
        return []

    def process(self, event: Event, time: int, *, left: bool) -> Dropped | None:
        """Joins an event with the other side's that wait; what is late is dropped."""
        if event.key is None:
            raise ReplayError(
                "the engine flink fails at an event without one",
                field="key",
                value=f"None, at arrival {event.arrival!r}",
                way_out="Leave such events out, as the stream must have done",
            )
        now = self._watermark.now
        late = Dropped(event.arrival, "late", now - time) if time < now else None
        if late is None:
            self._join(event, time, left)
        if self._watermark.see(event, time):
            self._forget()
        return late

    def _join(self, event: Event, time: int, left: bool) -> None:
        reach, key = self._reaches[left], event.key
        others = self._waiting[not left].get(key)
        if others is not None:
            for at in others.irange(time + reach.low, time + reach.high):
                for other in others[at]:
                    one, two = (event, other) if left else (other, event)
                    self._emit(one, two, max(time, at))
        own = self._waiting[left].setdefault(key, SortedDict())
        own.setdefault(time, []).append(event)
        # An event whose time has come already waits for the next watermark.
        until = time + max(0, reach.high)
        self._until.setdefault(until, {})[left, key, time] = None

    def _forget(self) -> None:
        """The watermark rose: removes events that no later event that is in time can reach."""
        while self._until and self._until.keys()[0] <= self._watermark.now:
            for side, key, time in self._until.popitem(0)[1]:
                # All events of one time go together.
                self._waiting[side][key].pop(time, None)
