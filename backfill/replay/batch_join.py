"""Spark's join of two streams: micro-batches, with the events of earlier ones in a state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from backfill.replay.clocks import BatchWatermark
from backfill.replay.event import Event
from backfill.replay.result import Dropped
from backfill.replay.stored_join import Emit
from backfill.windows.within import Reach

_MS = 1_000


@dataclass(slots=True)
class _Kept:
    """An event in the state, and whether it has had a partner."""

    event: Event
    time: int
    met: bool


class BatchJoin:
    """The operator, for all keys.

    A batch drops events by the watermark after the batch before the last one. It joins its left
    events with the right ones of earlier batches, then its right ones with all left ones. Then
    events that no other can reach, by the watermark after the last batch, leave the state; those of
    an outer side that had no partner become rows.

    Args:
        reach: how much later than the left event the right one may be, in µs.
        clock: the watermark of both sides, which it calls True (left) and False.
        outer: whether left events, and right events, without a partner are emitted.
        emit: where rows go.
    """

    def __init__(
        self, reach: Reach, clock: BatchWatermark, outer: tuple[bool, bool], emit: Emit
    ) -> None:
        self._reaches = {True: reach, False: reach.reversed()}
        self._clock = clock
        self._outer = dict(zip((True, False), outer, strict=True))
        self._emit = emit
        # By side, then key.
        self._state: dict[bool, dict[Any, list[_Kept]]] = {True: {}, False: {}}

    @property
    def pending(self) -> list[Event]:
        """The events that may become rows of their own."""
        return [
            held.event
            for left, outer in self._outer.items()
            if outer
            for own in self._state[left].values()
            for held in own
            if not held.met
        ]

    def batch(self, events: Sequence[tuple[Event, int, bool]]) -> list[Dropped]:
        """Joins a batch.

        Args:
            events: in order of arrival, with their times in µs and whether they are the left one's.

        Returns:
            Those that came too late.
        """
        dropped = []
        for wanted in (True, False):
            for event, time, left in events:
                if left != wanted:
                    continue
                if self._counts(event, left):
                    self._clock.see(event, time, left)
                if time <= self._clock.late:
                    dropped.append(Dropped(event.arrival, "late", self._clock.late - time + 1))
                else:
                    self._join(event, time, left)
        self._forget()
        return dropped

    def end_batch(self) -> bool:
        """Ends the batch; returns whether the watermark rose."""
        return self._clock.next_batch()

    def _counts(self, event: Event, left: bool) -> bool:
        """Whether the event moves the watermark: Spark first filters a side that is not outer."""
        return event.key is not None or self._outer[left]

    def _join(self, event: Event, time: int, left: bool) -> None:
        reach = self._reaches[left]
        others = self._state[not left].get(event.key, ()) if event.key is not None else ()
        met = False
        for other in others:
            if reach.low <= other.time - time <= reach.high:
                met = other.met = True
                one, two = (event, other.event) if left else (other.event, event)
                self._emit(one, two, max(time, other.time))
        # Even if it leaves with this batch: another event of the batch may be its partner.
        self._state[left].setdefault(event.key, []).append(_Kept(event, time, met))

    def _until(self, left: bool) -> int:
        """Up to when events of a side leave the state, µs.

        Spark takes the watermark minus the reach in whole milliseconds, truncated towards zero, and
        subtracts one, since both ends are included.
        """
        left_over = self._clock.now - self._reaches[left].high
        whole = abs(left_over) // _MS * (1 if left_over >= 0 else -1)
        return (whole - 1) * _MS

    def _forget(self) -> None:
        for left, outer in self._outer.items():
            until, state = self._until(left), self._state[left]
            for key, own in list(state.items()):
                gone = [held for held in own if held.time <= until]
                if not gone:
                    continue
                kept = [held for held in own if held.time > until]
                if kept:
                    state[key] = kept
                else:
                    del state[key]
                for held in gone if outer else ():
                    if not held.met:
                        one, two = (held.event, None) if left else (None, held.event)
                        self._emit(one, two, held.time)


def batches_of(
    events: Iterable[tuple[Event, bool]], numbers: Sequence[int]
) -> list[tuple[int, list[tuple[Event, bool]]]]:
    """The events of each batch, by its number."""
    batches: list[tuple[int, list[tuple[Event, bool]]]] = []
    for event, number in zip(events, numbers, strict=True):
        if not batches or batches[-1][0] != number:
            batches.append((number, []))
        batches[-1][1].append(event)
    return batches
