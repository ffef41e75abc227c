"""The streaming join of two streams, event by event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, NamedTuple

from backfill.engines import ENGINES
from backfill.errors import ReplayError
from backfill.replay.clocks import NEVER, Throttle, WallClock, Watermark
from backfill.replay.event import Event
from backfill.replay.interval_join import IntervalJoin
from backfill.replay.result import Dropped
from backfill.replay.stored_join import JoinSettings, StoredJoin
from backfill.time.durations import fixed
from backfill.window_arguments import choice, flag
from backfill.within import Reach, read_within

_OUTER = {"inner": (False, False), "left": (True, False), "full": (True, True)}
_STORES = ("disk", "memory")
#: The settings of each engine's join, with their defaults.
_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "kafka-streams": {"grace": "0s", "spurious": False, "emit_interval": "0s", "store": "disk"},
    "flink": {"watermark_delay": "0s"},
}


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
    engine: str = "kafka-streams",
    how: str = "inner",
    grace: object = None,
    spurious: bool | None = None,
    emit_interval: object = None,
    store: str | None = None,
    watermark_delay: object = None,
) -> JoinReplayed:
    """What a streaming join of two streams makes of these events.

    Kafka Streams joins an event as it comes with the other side's events that its store still
    shows: those later than the largest time that the store has taken, less its retention, which is
    before + after + grace. Nothing else is late. So a pair can be lost, and its events be emitted
    alone. Events without a partner are emitted alone when another event moves stream time past
    their window and the grace, and at once if their window lies before stream time when they come;
    those without a key at once. They are looked for by the time of the last one that was held back
    when they were looked for before, so they may come late (as in Kafka Streams 3.1 to 4.3).

    Flink's interval join drops events earlier than the watermark, and joins the others with those
    of the other side that still wait: until the watermark has come to where their partners can be
    no later. It has inner joins only.

    Args:
        left: the left stream's events. Those of both streams are fed by `arrival`, which is unique
            among both. Each partition has a task of its own (Kafka Streams), or a watermark
            (Flink).
        right: the right stream's events.
        within: (before, after): how much earlier, and later, than the left event the right one may
            be; one duration for both.
        engine: kafka-streams or flink.
        how: inner, left or full (Kafka Streams' outerJoin).
        grace: how long after its window an event without a partner is held back; 0s by default.
        spurious: an event without a partner so far is emitted alone at once, also if a partner
            comes later: as before 3.1, and since then with windows made by `JoinWindows.of`.
        emit_interval: how often, by the wall clock, events without a partner are looked for; at
            every event by default, while Kafka Streams' own default is a second.
        store: where events are kept: on "disk", whose segments keep some events longer than
            retention, or in "memory".
        watermark_delay: how much a stream's watermark stays behind the largest time in it, and a
            millisecond; 0s by default. The operator's is the least one, and there is none before
            each stream and partition has sent one. Events that bring a `watermark` move it instead.

    Returns:
        What the operator emitted, dropped and still holds. Pairs that one event makes come in order
        of time; Flink gives them in no order.

    Raises:
        WindowError: if `within`, `how` or `spurious` can't be used.
        ReplayError: if the engine has no such join or setting, or an event can't be used.

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
    given = {
        "grace": grace,
        "spurious": spurious,
        "emit_interval": emit_interval,
        "store": store,
        "watermark_delay": watermark_delay,
    }
    settings = _settings(engine, how, given)
    tick = ENGINES[engine].tick_us
    reach = read_within(within)
    if not isinstance(reach, Reach) or reach.low % tick or reach.high % tick:
        raise ReplayError(
            "must be whole milliseconds, before and after",
            field="within",
            value=str(within),
            way_out='Write it like ("5m", "30m")',
        )
    ordered = _in_order(left, right)
    run = _Run()
    if engine == "flink":
        watermark = Watermark(
            inputs=frozenset((is_left, event.partition) for event, is_left in ordered),
            delay=_span(settings["watermark_delay"], "watermark_delay", tick) + tick,
            every=1,
            start=NEVER,
            given=any(event.watermark is not None for event, _ in ordered),
            tick=tick,
        )
        operator = IntervalJoin(reach, watermark, run.emit)
        # A stream's partition is an input, whatever the other stream's is called.
        ordered = [
            (replace(event, partition=(is_left, event.partition)), is_left)
            for event, is_left in ordered
        ]
        return run.feed(ordered, tick, lambda partition: operator)
    wall = WallClock()
    interval = _span(settings["emit_interval"], "emit_interval", tick)
    of_each = JoinSettings(
        reach=reach,
        grace=_span(settings["grace"], "grace", tick),
        outer=_OUTER[how],
        spurious=flag(settings["spurious"], field="spurious"),
        memory=choice(settings["store"], _STORES, field="store") == "memory",
        tick=tick,
    )
    tasks = {
        partition: StoredJoin(of_each, Throttle(wall, interval), run.emit, run.refuse)
        for partition in {event.partition for event, _ in ordered}
    }
    return run.feed(ordered, tick, tasks.__getitem__, wall)


class _Run:
    """Feeds events to operators, and keeps what becomes of them."""

    def __init__(self) -> None:
        self._now: Any = None
        self._emissions: list[Paired] = []
        self._dropped: list[Dropped] = []
        self._refused: list[Any] = []

    def emit(self, left: Event | None, right: Event | None, time: int) -> None:
        either = left or right
        assert either is not None
        one, other = (each and each.arrival for each in (left, right))
        self._emissions.append(Paired(self._now, either.key, one, other, time))

    def refuse(self, event: Event) -> None:
        self._refused.append(event.arrival)

    def feed(
        self,
        ordered: Iterable[tuple[Event, bool]],
        tick: int,
        operator: Callable[[Any], StoredJoin | IntervalJoin],
        wall: WallClock | None = None,
    ) -> JoinReplayed:
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
        held = (event.arrival for each in operators.values() for event in each.pending)
        return JoinReplayed(
            emissions=tuple(self._emissions),
            dropped=tuple(self._dropped),
            refused=tuple(self._refused),
            pending=tuple(sorted(held)),
        )


def _settings(engine: str, how: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The engine's settings, as given or by default."""
    if engine not in _SETTINGS:
        raise ReplayError(
            "has no join of two streams that is known here",
            field="engine",
            value=engine,
            way_out="Joins are known of " + ", ".join(sorted(_SETTINGS)),
        )
    if choice(how, tuple(_OUTER), field="how") != "inner" and engine == "flink":
        raise ReplayError(
            "Flink's interval join is an inner join",
            field="how",
            value=how,
            way_out="Leave it out",
        )
    defaults = _SETTINGS[engine]
    for name, value in given.items():
        if value is not None and name not in defaults:
            raise ReplayError(
                f"the engine {engine} has no such setting for joins",
                field=name,
                value=value,
                way_out="Leave it out; it has " + ", ".join(defaults),
            )
    return {
        name: default if given[name] is None else given[name] for name, default in defaults.items()
    }


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
