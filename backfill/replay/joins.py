"""The streaming join of two streams, event by event."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

from backfill.engines import ENGINES
from backfill.errors import ReplayError
from backfill.replay.clocks import Throttle, WallClock
from backfill.replay.event import Event
from backfill.replay.result import Dropped
from backfill.replay.stored_join import JoinSettings, StoredJoin
from backfill.time.durations import fixed
from backfill.window_arguments import choice, flag
from backfill.within import Reach, read_within

_OUTER = {"inner": (False, False), "left": (True, False), "full": (True, True)}
_STORES = ("disk", "memory")


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


def replay_join(
    left: Iterable[Event],
    right: Iterable[Event],
    *,
    within: object,
    how: str = "inner",
    grace: object = "0s",
    spurious: bool = False,
    emit_interval: object = "0s",
    store: str = "disk",
) -> JoinReplayed:
    """What Kafka Streams' join of two streams makes of these events.

    An event is joined as it comes with the other side's events that its store still shows: those
    later than the largest time that the store has taken, less its retention, which is before +
    after + grace. Nothing else is late. So a pair can be lost, and its events be emitted alone.

    Events without a partner are emitted alone when another event moves stream time past their
    window and the grace, and at once if their window lies before stream time when they come; those
    without a key at once. They are looked for by the time of the last one that was held back when
    they were looked for before, so they may come late (as in Kafka Streams 3.1 to 4.3).

    Args:
        left: the left stream's events. Those of both streams are fed by `arrival`, which is unique
            among both, and each partition has a task of its own.
        right: the right stream's events.
        within: (before, after): how much earlier, and later, than the left event the right one may
            be; one duration for both.
        how: inner, left or full (Kafka Streams' outerJoin).
        grace: how long after its window an event without a partner is held back.
        spurious: an event without a partner so far is emitted alone at once, also if a partner
            comes later: as before 3.1, and since then with windows made by `JoinWindows.of`.
        emit_interval: how often, by the wall clock, events without a partner are looked for; at
            every event by default, while Kafka Streams' own default is a second.
        store: where events are kept: on "disk", whose segments keep some events longer than
            retention, or in "memory".

    Returns:
        What the operator emitted, dropped and still holds.

    Raises:
        WindowError: if `within`, `how` or `spurious` can't be used.
        ReplayError: if another setting, or an event, can't be used.

    Example:
        >>> from backfill.replay import Event, replay_join
        >>> clicks = [Event(key="a", time=0, arrival=0), Event(key="a", time=60_000_000, arrival=3)]
        >>> buys = [Event(key="a", time=5_000_000, arrival=1)]
        >>> found = replay_join(clicks, buys, within=("0s", "10s"), how="left")
        >>> [(pair.left, pair.right, pair.timestamp) for pair in found.emissions]
        [(0, 1, 5000000)]
        >>> found.pending
        (3,)
    """
    tick = ENGINES["kafka-streams"].tick_us
    reach = read_within(within)
    if not isinstance(reach, Reach) or reach.low % tick or reach.high % tick:
        raise ReplayError(
            "must be whole milliseconds, before and after",
            field="within",
            value=str(within),
            way_out='Write it like ("5m", "30m")',
        )
    settings = JoinSettings(
        reach=reach,
        grace=_span(grace, "grace", tick),
        outer=_OUTER[choice(how, tuple(_OUTER), field="how")],
        spurious=flag(spurious, field="spurious"),
        memory=choice(store, _STORES, field="store") == "memory",
        tick=tick,
    )
    wall, interval = WallClock(), _span(emit_interval, "emit_interval", tick)
    emissions: list[Paired] = []
    dropped: list[Dropped] = []
    refused: list[Any] = []
    now: Any = None

    def emit(one: Event | None, other: Event | None, time: int) -> None:
        either = one or other
        assert either is not None
        arrivals = [each and each.arrival for each in (one, other)]
        emissions.append(Paired(now, either.key, arrivals[0], arrivals[1], time))

    tasks: dict[Any, StoredJoin] = {}
    for event, is_left in _in_order(left, right):
        wall.see(event)
        now = event.arrival
        if event.time is None or event.time < 0:
            reason = "no_time" if event.time is None else "before_epoch"
            dropped.append(Dropped(now, reason))
            continue
        task = tasks.get(event.partition)
        if task is None:
            task = tasks[event.partition] = StoredJoin(
                settings,
                Throttle(wall, interval),
                emit,
                lambda late: refused.append(late.arrival),
            )
        reason_not = task.process(event, event.time - event.time % tick, left=is_left)
        if reason_not is not None:
            dropped.append(Dropped(now, reason_not))
    pending = sorted(each.arrival for task in tasks.values() for each in task.pending)
    return JoinReplayed(
        emissions=tuple(emissions),
        dropped=tuple(dropped),
        refused=tuple(refused),
        pending=tuple(pending),
    )


def _span(value: object, field: str, tick: int) -> int:
    span = fixed(value, field=field)
    if span.us < 0 or span.us % tick:
        raise ReplayError(
            "must be whole milliseconds, not negative",
            field=field,
            value=str(value),
            way_out="Use a value such as 10s",
        )
    return span.us


def _in_order(left: Iterable[Event], right: Iterable[Event]) -> list[tuple[Event, bool]]:
    """The events of both sides by arrival, and whether they are the left one's."""
    every = [*((each, True) for each in left), *((each, False) for each in right)]
    arrival = attrgetter("arrival")
    try:
        return sorted(every, key=lambda one: arrival(one[0]))
    except TypeError as error:
        raise ReplayError(
            f"arrivals can't be put in order: {error}",
            field="arrival",
            way_out="Give each event a number, or each a tuple of numbers",
        ) from None
