"""The streaming join of two streams, event by event."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any

from backfill.engines import ENGINES
from backfill.errors import ReplayError
from backfill.replay.batch_join import BatchJoin
from backfill.replay.clocks import NEVER, BatchWatermark, Throttle, WallClock, Watermark
from backfill.replay.event import Event
from backfill.replay.interval_join import IntervalJoin
from backfill.replay.join_run import JoinReplayed, JoinRun
from backfill.replay.stored_join import JoinSettings, StoredJoin
from backfill.time.durations import fixed
from backfill.windows.arguments import choice, flag
from backfill.windows.within import Reach, read_within

_OUTER = {"inner": (False, False), "left": (True, False), "full": (True, True)}
_STORES = ("disk", "memory")
_TICKS = {1: "microseconds", 1_000: "milliseconds"}
#: The settings of each engine's join, with their defaults.
_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "kafka-streams": {"grace": "0s", "spurious": False, "emit_interval": "0s", "store": "disk"},
    "flink": {"watermark_delay": "0s", "right_watermark_delay": None},
    "spark": {
        "watermark_delay": "0s",
        "right_watermark_delay": None,
        "watermark_policy": "min",
        "idle_batches": False,
        "allow_multiple": True,
    },
}


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
    right_watermark_delay: object = None,
    watermark_policy: str | None = None,
    idle_batches: bool | None = None,
    allow_multiple: bool | None = None,
) -> JoinReplayed:
    """What a streaming join of two streams makes of these events.

    Kafka Streams joins an event, when it comes, with the other side's events that its store still
    shows: those later than the largest time that the store has taken minus its retention, which is
    before + after + grace. Nothing else is late. So a pair can be lost, and its events be emitted
    alone. An event without a partner is emitted alone when another event moves stream time past its
    window and the grace, or at once if its window lies before stream time when it comes, or if it
    has no key. When to look for such events is decided by the time of the last one that was held
    back at the previous look, so they may come late (as in Kafka Streams 3.1 to 4.3).

    Flink's interval join drops events earlier than the watermark, and joins the others with those
    of the other side that still wait. An event waits until the watermark has reached the latest
    time that a partner can have. There are only inner joins.

    Spark joins micro-batches, which events name, and drops events that are not later than the
    watermark after the batch before the last one. When the watermark has come so far that no
    partner can come any more, an event leaves; if it had no partner and `how` keeps it, it becomes
    a row of its own. On a side that `how` does not keep, events without a key do not move the
    watermark.

    Args:
        left: the left stream's events. Those of both streams are fed by `arrival`, which is unique
            among both. Each partition has a task of its own (Kafka Streams), or a watermark
            (Flink); under Spark each side has a watermark.
        right: the right stream's events.
        within: (before, after): how much earlier, and later, than the left event the right one may
            be; one duration for both.
        engine: kafka-streams, flink or spark.
        how: inner, left or full (Kafka Streams' outerJoin).
        grace: how long after its window an event without a partner is held back; 0s by default.
        spurious: whether an event without a partner so far is emitted alone at once, even if a
            partner comes later: as before 3.1, and since then with windows made by
            `JoinWindows.of`.
        emit_interval: how often, by the wall clock, events without a partner are looked for; at
            every event by default, while Kafka Streams' own default is a second.
        store: where events are kept: on "disk", whose segments keep some events longer than
            retention, or in "memory".
        watermark_delay: how far a stream's watermark stays behind the largest time in it (in Flink,
            a millisecond more); 0s by default. The operator's watermark is the smallest one. In
            Flink there is none before each stream and partition has sent one; in Spark it begins at
            1970. If events bring a `watermark`, it is moved by these instead, as when Flink leaves
            out idle inputs.
        right_watermark_delay: the same for the right stream; by default that of the left one.
        watermark_policy: min or max, as in `spark.sql.streaming.multipleWatermarkPolicy`; with max,
            the largest of both streams' watermarks counts.
        idle_batches: Spark: whether a batch without data follows each batch that moves the
            watermark, as it does if the query is idle in between. One always follows the last batch
            if that one moves it.
        allow_multiple: as for `replay`.

    Returns:
        What the operator emitted, dropped and still holds. Pairs that one event makes come in order
        of time; Flink gives them in no order, and Spark gives all rows of a batch in none.

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
        "right_watermark_delay": right_watermark_delay,
        "watermark_policy": watermark_policy,
        "idle_batches": idle_batches,
        "allow_multiple": allow_multiple,
    }
    settings = _settings(engine, how, given)
    tick = ENGINES[engine].tick_us
    reach = read_within(within)
    if not isinstance(reach, Reach) or reach.low % tick or reach.high % tick:
        raise ReplayError(
            f"must be whole {_TICKS[tick]}, before and after",
            field="within",
            value=str(within),
            way_out='Write it like ("5m", "30m")',
        )
    ordered = _in_order(left, right)
    run = JoinRun()
    given_marks = any(event.watermark is not None for event, _ in ordered)
    if engine == "spark":
        clock = BatchWatermark(
            delays=_delays(settings, 1_000),
            start=0,
            grain=1_000,
            given=given_marks,
            both=not flag(settings["allow_multiple"], field="allow_multiple"),
            largest=choice(settings["watermark_policy"], ("min", "max"), field="watermark_policy")
            == "max",
        )
        join = BatchJoin(reach, clock, _OUTER[how], run.emit)
        idle = flag(settings["idle_batches"], field="idle_batches")
        return run.in_batches(ordered, join, idle=idle)
    if engine == "flink":
        delays = _delays(settings, tick)
        inputs = {(is_left, event.partition) for event, is_left in ordered}
        # A stream that has sent nothing has sent no watermark either.
        inputs |= {(side, None) for side in {True, False} - {is_left for is_left, _ in inputs}}
        watermark = Watermark(
            delays={partition: delays[partition[0]] + tick for partition in inputs},
            every=1,
            start=NEVER,
            given=given_marks,
            tick=tick,
        )
        operator = IntervalJoin(reach, watermark, run.emit)
        # A stream's partition is an input of its own, even if the other stream has one of that
        # name.
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


def _settings(engine: str, how: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The engine's settings, as given or by default."""
    if engine not in _SETTINGS:
        raise ReplayError(
            "has no known join of two streams",
            field="engine",
            value=engine,
            way_out="Known joins: " + ", ".join(sorted(_SETTINGS)),
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


def _delays(settings: Mapping[str, Any], tick: int) -> dict[bool, int]:
    """How far the left (True) and the right stream's watermark stay behind, in µs."""
    left, right = settings["watermark_delay"], settings["right_watermark_delay"]
    return {
        True: _span(left, "watermark_delay", tick),
        False: _span(left if right is None else right, "right_watermark_delay", tick),
    }


def _span(value: object, field: str, tick: int) -> int:
    span = fixed(value, field=field)
    if span.us < 0 or span.us % tick:
        raise ReplayError(
            "must be whole milliseconds, and not negative",
            field=field,
            value=str(value),
            way_out="Use a value such as 10s",
        )
    return span.us


def _in_order(left: Iterable[Event], right: Iterable[Event]) -> list[tuple[Event, bool]]:
    """The events of both sides by arrival, and whether they are the left one's."""
    every = [*((event, True) for event in left), *((event, False) for event in right)]
    arrival = attrgetter("arrival")
    try:
        return sorted(every, key=lambda one: arrival(one[0]))
    except TypeError as error:
        raise ReplayError(
            f"arrivals can't be put in order: {error}",
            field="arrival",
            way_out="Give each event a number, or each a tuple of numbers",
        ) from None
