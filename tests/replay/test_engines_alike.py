"""All engines against plain Python: with nothing late, and with late events."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill import (
    CumulatingWindow,
    HoppingWindow,
    SessionWindow,
    SlidingWindow,
    TumblingWindow,
)
from backfill import aggregates as agg
from backfill.replay import Event, Replayed, replay
from tests import reference

MS = 1_000
GAP = 10 * MS

#: Settings that keep an engine from dropping anything.
PATIENT: dict[str, dict[str, Any]] = {
    "plain": {},
    "kafka-streams": {"grace": "1h"},
    "spark": {"watermark_delay": "1h"},
    "flink": {"watermark_delay": "1h"},
    "beam": {"watermark_delay": "1h"},
    "storm": {"watermark_delay": "1h"},
}
#: Whether the gap is inclusive, and how long after its last event a session ends.
SESSIONS = {
    "plain": (True, 0),
    "kafka-streams": (True, 0),
    "spark": (True, GAP),
    "flink": (True, GAP),
    "beam": (False, GAP),
}
AGGREGATES = {
    "n": agg.count(),
    "total": agg.sum("v"),
    "least": agg.min("v"),
    "kinds": agg.count_distinct("v"),
    "first": agg.first("v"),
    "last": agg.last("v"),
}

streams = st.lists(
    st.builds(
        lambda key, time, value: (key, time * MS, value),
        st.sampled_from(["a", "b"]),
        st.integers(0, 120),
        st.one_of(st.none(), st.integers(-3, 3)),
    ),
    max_size=40,
)
Stream = list[tuple[str, int, Any]]


def events_of(stream: Stream) -> list[Event]:
    return [
        Event(key=key, time=time, arrival=i, value={"v": value})
        for i, (key, time, value) in enumerate(stream)
    ]


def folded(held: list[reference.Event]) -> tuple[Any, ...]:
    values = [e.value for e in held if e.value is not None]
    ordered = sorted(held, key=lambda e: (e.time, e.arrival))
    total = sum(values) if values else None
    least = min(values, default=None)
    return (len(held), total, least, len(set(values)), ordered[0].value, ordered[-1].value)


def all_windows(result: Replayed) -> Counter[Any]:
    windows = [*result.final, *result.pending]
    return Counter((w.key, w.start, w.end, *w.values.values()) for w in windows)


def referred(events: list[Event]) -> list[reference.Event]:
    return [reference.Event(e.key, e.time, e.value["v"], arrival=e.arrival) for e in events]


def session_windows(events: list[Event], engine: str) -> Counter[Any]:
    inclusive, behind = SESSIONS[engine]
    sessions = reference.sessions(referred(events), GAP, inclusive=inclusive)
    return Counter((s[0].key, s[0].time, s[-1].time + behind, *folded(s)) for s in sessions)


@pytest.mark.parametrize("engine", SESSIONS)
@settings(max_examples=60)
@given(stream=streams)
def test_sessions_with_nothing_late(engine: str, stream: Stream) -> None:
    events = events_of(stream)
    window = SessionWindow(gap="10ms")
    result = replay(events, window, engine=engine, aggregates=AGGREGATES, **PATIENT[engine])
    assert not result.dropped
    assert not result.begun_anew
    assert all_windows(result) == session_windows(events, engine)


HOP = 7 * MS
ALIGNED: dict[str, tuple[Any, Any]] = {
    "tumbling": (TumblingWindow(size="10ms"), (10 * MS, 10 * MS)),
    "hopping": (HoppingWindow(size="20ms", advance="7ms"), (20 * MS, HOP)),
}


@pytest.mark.parametrize("engine", PATIENT)
@pytest.mark.parametrize("name", ALIGNED)
@settings(max_examples=40)
@given(stream=streams)
def test_aligned_windows_with_nothing_late(engine: str, name: str, stream: Stream) -> None:
    window, (size, advance) = ALIGNED[name]
    events = events_of(stream)
    result = replay(events, window, engine=engine, aggregates=AGGREGATES, **PATIENT[engine])
    assert not result.dropped
    places = reference.hopping(
        size,
        advance,
        -size if engine == "storm" else 0,
        right=MS if engine == "storm" else 0,
        clipped=engine == "kafka-streams",
    )
    expected = Counter(
        (*place, *folded(held))
        for place, held in reference.grouped(referred(events), places).items()
    )
    assert all_windows(result) == expected


@settings(max_examples=40)
@given(stream=streams)
def test_cumulating_windows(stream: Stream) -> None:
    window = CumulatingWindow(size="20ms", step="5ms")
    events = events_of(stream)
    places = reference.cumulating(20 * MS, 5 * MS)
    expected = Counter(
        (*place, *folded(held))
        for place, held in reference.grouped(referred(events), places).items()
    )
    for engine in ("plain", "flink"):
        result = replay(events, window, engine=engine, aggregates=AGGREGATES, **PATIENT[engine])
        assert all_windows(result) == expected


@settings(max_examples=40)
@given(stream=streams)
def test_processing_time_in_order(stream: Stream) -> None:
    events = events_of(sorted(stream, key=lambda row: row[1]))
    window = SessionWindow(gap="10ms")
    result = replay(events, window, engine="samza", aggregates=AGGREGATES)
    # A timer at the end of the gap runs before the event of that time.
    sessions = reference.sessions(referred(events), GAP, inclusive=False)
    assert all_windows(result) == Counter(
        (s[0].key, s[0].time, s[-1].time, *folded(s)) for s in sessions
    )


@pytest.mark.parametrize("engine", ["plain", "flink"])
@settings(max_examples=40)
@given(stream=streams)
def test_look_back_windows(engine: str, stream: Stream) -> None:
    events = events_of([(key, time + MS, value) for key, time, value in stream])
    settings = PATIENT[engine]
    window = SlidingWindow(size="10ms")
    result = replay(events, window, engine=engine, aggregates=AGGREGATES, **settings)
    own = referred(events)
    expected = Counter(
        (
            e.key,
            e.time - GAP,
            e.time,
            *folded([o for o in own if o.key == e.key and e.time - GAP <= o.time <= e.time]),
        )
        for e in own
    )
    assert all_windows(result) == expected


# Settings with which each engine drops events at a disorder of 20 ms.
LATE: dict[str, dict[str, Any]] = {
    "kafka-streams": {"grace": "5ms", "retention": "1h"},
    "spark": {"watermark_delay": "5ms", "batch_size": 3},
    "flink": {"watermark_delay": "5ms"},
    "beam": {"watermark_delay": "5ms"},
}


@pytest.mark.parametrize("engine", LATE)
@settings(max_examples=150)
@given(stream=streams)
def test_sessions_with_late_events_are_those_of_the_others(engine: str, stream: Stream) -> None:
    """Except keys with windows begun anew, which an engine that keeps all state does not have."""
    events = events_of(stream)
    window = SessionWindow(gap="10ms")
    result = replay(events, window, engine=engine, aggregates=AGGREGATES, **LATE[engine])
    lost = {d.arrival for d in result.dropped}
    anew = {w.key for w in result.begun_anew}
    accepted = [e for e in events if e.arrival not in lost and e.key not in anew]
    windows = Counter({w: n for w, n in all_windows(result).items() if w[0] not in anew})
    assert windows == session_windows(accepted, engine)
    if engine == "kafka-streams":
        assert not anew


@pytest.mark.parametrize("engine", LATE)
@pytest.mark.parametrize("name", ALIGNED)
@settings(max_examples=60)
@given(stream=streams)
def test_aligned_windows_with_late_events_lack_them(engine: str, name: str, stream: Stream) -> None:
    window, (size, advance) = ALIGNED[name]
    events = events_of(stream)
    result = replay(events, window, engine=engine, aggregates=AGGREGATES, **LATE[engine])
    lost = {(d.arrival, d.start) for d in result.dropped_windows}
    places = reference.hopping(size, advance, clipped=engine == "kafka-streams")
    grouped = {
        (key, start, end): kept
        for (key, start, end), held in reference.grouped(referred(events), places).items()
        if (kept := [e for e in held if (e.arrival, start) not in lost])
    }
    assert all_windows(result) == Counter((*p, *folded(held)) for p, held in grouped.items())
    whole = {e.arrival for e in events} - {e.arrival for held in grouped.values() for e in held}
    assert {d.arrival for d in result.dropped} == whole


@settings(max_examples=60)
@given(stream=streams, engine=st.sampled_from(sorted(LATE)))
def test_final_is_what_the_emissions_amount_to(stream: Stream, engine: str) -> None:
    result = replay(
        events_of(stream),
        SessionWindow(gap="10ms"),
        engine=engine,
        aggregates=AGGREGATES,
        **LATE[engine],
    )
    table: dict[Any, Any] = {}
    for emission in result.emissions:
        table.pop((emission.key, emission.start, emission.end), None)
        if emission.values is not None:
            table[emission.key, emission.start, emission.end] = emission.values
    standing = [*result.final, *result.superseded]
    assert {(w.key, w.start, w.end): w.values for w in standing} == table
    assert [e for e in result.emissions if e.arrival is not None] == [
        e for e in result.as_of(len(stream)) if e.arrival is not None
    ]
