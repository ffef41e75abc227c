"""The main function: takes events, and returns what the operator made of them."""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import fields
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from backfill.engines import Engine
from backfill.engines import engine as engine_named
from backfill.errors import ReplayError
from backfill.replay.event import Event
from backfill.replay.feeding import Partitioned, in_batches, one_by_one
from backfill.replay.folding import Aggregated, Folding
from backfill.replay.interface import choose
from backfill.replay.operators import OPERATORS
from backfill.replay.output import Output
from backfill.replay.result import Replayed
from backfill.replay.settings import Settings, resolve
from backfill.replay.setup import Operator, Setup
from backfill.streaming import Streaming
from backfill.time.durations import Fixed
from backfill.time.zone_names import check_zone
from backfill.triggers import AnyTrigger
from backfill.windows import EventWindow, SessionWindow, Window


def replay(
    events: Iterable[Event],
    window: Window | EventWindow,
    *,
    engine: str | Engine = "plain",
    aggregates: Mapping[str, Aggregated] = MappingProxyType({}),
    timezone: str = "UTC",
    keep_events: bool = False,
    api: str | None = None,
    emit: str | None = None,
    grace: object = None,
    retention: object = None,
    segment_interval: object = None,
    segments: int | None = None,
    past_retention: str | None = None,
    caching: bool | None = None,
    commits: int | str | Fixed | Collection[Any] | None = None,
    restarts: Collection[Any] | None = None,
    restored: bool | None = None,
    store: str | None = None,
    emit_interval: object = None,
    watermark_delay: object = None,
    watermark_every: int | None = None,
    allowed_lateness: object = None,
    early: int | AnyTrigger | None = None,
    early_after: object = None,
    early_once: bool | None = None,
    late: int | AnyTrigger | None = None,
    accumulation: str | None = None,
    batch_size: int | None = None,
    idle_batches: bool | None = None,
    allow_multiple: bool | None = None,
    timer_interval: object = None,
    rolling: bool | None = None,
    drained: bool | None = None,
    end_clock: int | None = None,
) -> Replayed:
    """What a streaming operator makes of these events.

    Each setting belongs to some of the engines. If it is not given, the engine's default holds; if
    the engine does not have it, it is refused.

    Args:
        events: in any order; they are fed by `arrival`.
        window: what is computed.
        engine: plain, kafka-streams, spark, flink, beam, storm or samza.
        aggregates: by name, over plain fields of the events' values. For one without a form in
            Python, windows have their `events` instead of its value.
        timezone: of calendar windows.
        keep_events: give the arrivals of the events in each window and emission.
        api: which of the engine's interfaces: datastream, sql (table-valued functions and OVER)
            or sql-group for Flink. By default the first that has the window.
        emit: on_update, on_close or suppressed (Kafka Streams); append, update or complete
            (Spark); on_close, or on_update for a pane after every event (Flink, Beam, Samza).
        grace: Kafka Streams' grace period.
        retention: of its store; at least what windows and grace need.
        segment_interval: of its store; by default half the retention, at least a minute.
        segments: instead, the number of segments from which KIP-94 computes the interval.
        past_retention: for KIP-94's drafts, which judge only whether the store still keeps the
            session: an event past retention is dropped ("drop"), or aggregated and forwarded but
            not stored ("forward"). The retention is a day by default.
        caching: whether the store has a cache; then the last values go downstream at commits.
        commits: after how many events it commits, the arrivals of the events after which it does,
            or how often by the wall clock ("30s"). It also commits when it restarts and at the end.
        restarts: arrivals of the events before which the operator restarts.
        restored: whether a restart restores the state from the changelog, from which the store
            learns how far time had come. Otherwise the state is found on disk, and the store's
            stream time is lost too.
        store: where its windows are: on "disk" (RocksDB), or in "memory", where windows past
            retention are deleted one by one, not by segments, and restarts restore the rest.
        emit_interval: how often, by the wall clock, it looks for windows to emit on close; at every
            event by default, while Kafka Streams' own default is a second.
        watermark_delay: the bound on disorder that derived watermarks wait for; Storm's lag.
        watermark_every: after how many events of an input its next watermark is derived.
        allowed_lateness: how long after its end a window takes late events.
        early: after how many events a window that is not complete sends a pane, again and again; or
            a trigger of `backfill.triggers`, which sends a pane whenever it fires.
        early_after: instead, how long after the first event since the last pane the next one comes
            (Samza's timeSinceFirstMessage).
        early_once: whether only the first of these panes comes (Samza's triggers that are not
            repeated).
        late: after how many late events a pane comes, or a trigger that sends it; what is left
            comes when the window goes. The first event of a window that begins late fires it
            immediately, except for sessions that are merged from several events of one bundle.
        accumulation: accumulating panes repeat what was sent, discarding panes are deltas; with
            retracting, the last pane is taken back before the next one repeats it.
        batch_size: how many events are in a micro-batch (Spark) or a bundle (Beam), if they do not
            name theirs; 1 by default. Panes by count come at the end of a bundle, with all its
            events, and the watermark stands still within a bundle.
        idle_batches: whether the query is idle after each batch, so that one without data follows
            if the watermark rose. At the end of the input one follows anyway.
        allow_multiple: spark.sql.streaming.statefulOperator.allowMultiple.
        timer_interval: how often timers run in processing time; all the time by default.
        rolling: whether a hopping window is a rolling counter of processing time.
        drained: whether the end of the input completes all windows (Flink, Beam, Samza; the
            default), as when the input is bounded or the job was drained. If false, the job still
            runs, or was stopped, and windows that its clock has not completed are pending.
        end_clock: if events bring the clock, where it stood when the input ended, in µs.

    Returns:
        What the operator emitted, dropped and still holds.

    Raises:
        JobFileError: if there is no such engine.
        WindowError: if the engine has no such window, a duration is not valid, or a flag is neither
            true nor false.
        ReplayError: if it has no such setting, or could not take the events.
        AggregateError: if an aggregate is of more than a plain field.
        ColumnError: if an event lacks a field that is aggregated.

    Example:
        >>> from backfill import SessionWindow, aggregates as agg
        >>> from backfill.replay import Event, replay
        >>> events = [
        ...     Event(key="a", time=second * 1_000_000, arrival=place)
        ...     for place, second in enumerate([0, 20, 200, 30])
        ... ]
        >>> minutes = SessionWindow(gap="60s")
        >>> counts = {"n": agg.count()}
        >>> found = replay(
        ...     events, minutes, engine="kafka-streams", grace="10s", aggregates=counts
        ... )
        >>> [(window.start, window.end, window.values["n"]) for window in found.final]
        [(0, 20000000, 2), (200000000, 200000000, 1)]
        >>> [(event.arrival, event.reason, event.late_by) for event in found.dropped]
        [(3, 'late', 100000000)]
    """
    given = {name: value for name, value in locals().items() if name in SETTINGS}
    row = engine if isinstance(engine, Engine) else engine_named(str(engine))
    check_zone(timezone)
    streaming, kind, settings = chosen(window, row, {**given, "api": api})
    ordered = _in_order(events)
    _check_places(ordered, settings)
    setup = Setup(
        window=window,
        engine=row,
        streaming=streaming,
        settings=settings,
        zone=timezone,
        output=Output(Folding(aggregates, keep_events), _reach(row, window)),
        inputs=frozenset(event.partition for event in ordered),
        marked=any(event.watermark is not None for event in ordered),
        clocked=_clocked(ordered, streaming.shares_its_clock and kind.apart(settings), end_clock),
        end_clock=end_clock,
    )
    machine = Partitioned(setup, kind) if streaming.feed == "partitions" else kind(setup)
    feed = in_batches if streaming.feed in ("batches", "bundles") else one_by_one
    with without_collection():
        return feed(ordered, setup, machine)


#: The arguments of `replay` that say how an operator runs.
SETTINGS = frozenset(field.name for field in fields(Settings))


def chosen(
    window: Window | EventWindow, engine: Engine, given: Mapping[str, Any]
) -> tuple[Streaming, type[Operator], Settings]:
    """The interface, the operator and its settings; `given`: arguments of `replay`, and `api`.

    Raises:
        WindowError: if the engine has no such window.
        ReplayError: if it has no such setting.
    """
    engine.check(window)
    settings = dict(given)
    api, rolling = settings.pop("api", None), bool(settings.get("rolling"))
    streaming, name = choose(engine, window, api, rolling=rolling)
    kind = OPERATORS[name]
    takes = kind.takes
    if isinstance(window, SessionWindow):
        takes -= streaming.not_of_sessions
    return streaming, kind, resolve(settings, engine, streaming, takes)


def _clocked(events: list[Event], apart: bool, end_clock: int | None) -> bool:
    events = [event for event in events if not event.passes]
    clocked = sum(event.clock is not None for event in events)
    if clocked and not apart:
        raise ReplayError(
            "with these windows and settings, keys can't be replayed separately",
            field="clock",
            way_out="Leave it out, and give all the events that the operator saw",
        )
    if clocked != len(events) and (clocked or end_clock is not None):
        raise ReplayError(
            "either every event has a clock, or none has",
            field="clock",
            value=f"given for {clocked} of {len(events)} events",
            way_out="Give it for every event, and end_clock only then",
        )
    return bool(clocked)


@contextmanager
def without_collection() -> Iterator[None]:
    """Keeps Python from looking for garbage meanwhile, then restores the setting.

    A replay makes many objects but no cycles; looking for cycles takes a third of its time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _check_places(events: list[Event], settings: Settings) -> None:
    """Checks that each given place is the arrival of an event; others would have no effect."""
    named: list[tuple[str, Any]] = [
        (name, place)
        for name, given in (("restarts", settings.restarts), ("commits", settings.commits))
        if isinstance(given, list | tuple | Set)
        for place in given
    ]
    arrivals = {event.arrival for event in events} if named else ()
    for name, place in named:
        if place not in arrivals:
            raise ReplayError(
                "is not the arrival of an event",
                field=name,
                value=place,
                way_out="Give arrivals of events"
                + (f", such as {events[-1].arrival!r}" if events else ""),
            )


def _reach(engine: Engine, window: Window | EventWindow) -> int | None:
    if not isinstance(window, SessionWindow):
        return None
    reach = window.gap.us if engine.rules.session_end == "last_event" else 0
    return reach if engine.rules.gap_inclusive else reach - engine.tick_us


def _in_order(events: Iterable[Event]) -> list[Event]:
    try:
        ordered = sorted(events, key=attrgetter("arrival"))
    except TypeError as error:
        raise ReplayError(
            f"arrivals can't be put in order: {error}",
            field="arrival",
            way_out="Give each event a number, or each a tuple of numbers",
        ) from None
    try:
        for event in ordered:
            hash(event.key)
    except TypeError as error:
        raise ReplayError(
            f"events can't be grouped by it: {error}",
            field="key",
            way_out="Give a value or a tuple of values",
        ) from None
    return ordered
