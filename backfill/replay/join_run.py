"""What a join of two streams sends downstream as it is fed, event by event or in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from backfill.errors import ReplayError
from backfill.replay.batch_join import BatchJoin, batches_of
from backfill.replay.clocks import WallClock
from backfill.replay.event import Event
from backfill.replay.feeding import batch_numbers
from backfill.replay.interval_join import IntervalJoin
from backfill.replay.result import Dropped
from backfill.replay.stored_join import StoredJoin


class Paired(NamedTuple):
    """One record that went downstream.

    Attributes:
        arrival: the arrival of the event that caused it.
        key: of the pair.
        left, right: the arrivals of its events; None where there is none.
        timestamp: the time that the record carries, in µs.
    """

    arrival: Any
    key: Any
    left: Any
    right: Any
    timestamp: int


@dataclass(frozen=True, kw_only=True)
class JoinReplayed:
    """What the operator did.

    Attributes:
        emissions: all that went downstream, in order.
        dropped: events that were not joined at all.
        refused: arrivals of events that no later one can find, since they were past the store's
            retention when they came.
        pending: arrivals of events that were still held back when the input ended, as a partner
            might have come.
    """

    emissions: tuple[Paired, ...]
    dropped: tuple[Dropped, ...]
    refused: tuple[Any, ...]
    pending: tuple[Any, ...]


class JoinRun:
    """Feeds events to operators, and keeps what becomes of them."""

    def __init__(self) -> None:
        self._now: Any = None
        self._emissions: list[Paired] = []
        self._dropped: list[Dropped] = []
        self._refused: list[Any] = []

    def emit(self, left: Event | None, right: Event | None, time: int) -> None:
        """A row goes downstream."""
        either = left or right
        assert either is not None
        one, other = (event and event.arrival for event in (left, right))
        self._emissions.append(Paired(self._now, either.key, one, other, time))

    def refuse(self, event: Event) -> None:
        """A store does not take the event."""
        self._refused.append(event.arrival)

    def feed(
        self,
        ordered: Iterable[tuple[Event, bool]],
        tick: int,
        operator: Callable[[Any], StoredJoin | IntervalJoin],
        wall: WallClock | None = None,
    ) -> JoinReplayed:
        """Feeds events one by one.

        Args:
            ordered: the events, and whether they are the left stream's.
            tick: times are floored to it, µs.
            operator: the instance for a partition.
            wall: the wall clock that the operators go by, if they go by one.
        """
        operators: dict[int, StoredJoin | IntervalJoin] = {}
        for event, left in ordered:
            self._now = event.arrival
            one = operator(event.partition)
            operators[id(one)] = one
            if wall is not None:
                wall.see(event)
            dropped = None
            time = event.time
            if time is None or (time < 0 and wall is not None):
                dropped = Dropped(self._now, "no_time" if time is None else "before_epoch")
            else:
                dropped = one.process(event, time - time % tick, left=left)
            if dropped is not None:
                self._dropped.append(dropped)
        return self._result(event for join in operators.values() for event in join.pending)

    def in_batches(
        self, ordered: Sequence[tuple[Event, bool]], join: BatchJoin, *, idle: bool
    ) -> JoinReplayed:
        """Feeds micro-batches, and batches without data where there were some.

        Args:
            ordered: the events, and whether they are the left stream's.
            join: the operator.
            idle: whether a batch without data follows each that moves the watermark.
        """
        unknown = next((event for event, _ in ordered if event.batch is None), None)
        if unknown is not None:
            raise ReplayError(
                "is not known, but Spark joins micro-batches",
                field="batch",
                value=f"None, at arrival {unknown.arrival!r}",
                way_out="Name the batch of each event",
            )
        numbers = batch_numbers([event for event, _ in ordered], None)
        batches = batches_of(ordered, numbers)
        more = False
        for place, (number, batch) in enumerate(batches):
            self._now = batch[-1][0].arrival
            timed = []
            for event, left in batch:
                if event.time is None:
                    self._dropped.append(Dropped(event.arrival, "no_time"))
                else:
                    timed.append((event, event.time, left))
            self._dropped += join.batch(timed)
            more = join.end_batch()
            if place + 1 < len(batches):
                for _ in range(batches[place + 1][0] - number - 1 or int(idle and more)):
                    join.batch([])
                    join.end_batch()
        self._now = None
        if more:
            join.batch([])
        return self._result(join.pending)

    def _result(self, pending: Iterable[Event]) -> JoinReplayed:
        held = (event.arrival for event in pending)
        return JoinReplayed(
            emissions=tuple(self._emissions),
            dropped=tuple(self._dropped),
            refused=tuple(self._refused),
            pending=tuple(sorted(held)),
        )
