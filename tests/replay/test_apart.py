"""Keys replayed apart, each event with the clock that the whole stream had."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from backfill import HoppingWindow, SessionWindow, SlidingWindow
from backfill.errors import ReplayError
from backfill.replay import Event, Replayed
from backfill.replay.clocks import NEVER
from tests.replay.stream import MS, arriving, event, run

GAP = SessionWindow(gap="10ms")
HOPS = HoppingWindow(size="20ms", advance="10ms")
RANGE = SlidingWindow(size="10ms")

streams = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 90)), max_size=40)


def stream_times(events: list[Event]) -> tuple[list[Event], int | None]:
    """Kafka's clock: the largest time before the event."""
    now = NEVER
    clocked = []
    for record in events:
        assert record.time is not None
        clocked.append(replace(record, clock=now))
        now = max(now, record.time)
    return clocked, now if events else None


def watermarks(delay: int, start: int) -> Any:
    """The largest time before the event, less the delay."""

    def clocks(events: list[Event]) -> tuple[list[Event], int | None]:
        now = start
        clocked = []
        for record in events:
            assert record.time is not None
            clocked.append(replace(record, clock=now))
            now = max(now, record.time - delay)
        return clocked, now if events else None

    return clocks


def batches(size: int, delay: int) -> Any:
    """Spark's watermark of two batches ago; at the end, the one that the last batch evicts by."""

    def clocks(events: list[Event]) -> tuple[list[Event], int | None]:
        after = [0]  # the watermark after each batch, starting with the one before any
        clocked = []
        for first in range(0, len(events), size):
            batch = events[first : first + size]
            late = after[-2] if len(after) > 1 else 0
            clocked += [replace(e, clock=late, batch=first // size) for e in batch]
            after.append(max(after[-1], *(e.time - delay for e in batch if e.time is not None)))
        # The batch without data at the end evicts by the last batch's watermark, if that rose.
        return clocked, after[-1] if events else None

    return clocks


EVER = -(10**15)
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any], Any]] = {
    "kafka-streams": ("kafka-streams", {"grace": "5ms"}, {"grace": "5ms"}, stream_times),
    "suppressed": (
        "kafka-streams",
        {"grace": "5ms", "emit": "suppressed"},
        {"grace": "5ms", "emit": "suppressed"},
        stream_times,
    ),
    "flink": (
        "flink",
        {"watermark_delay": "5ms", "allowed_lateness": "4ms"},
        {"allowed_lateness": "4ms"},
        watermarks(6 * MS, EVER),
    ),
    "beam": ("beam", {"watermark_delay": "5ms"}, {}, watermarks(5 * MS, EVER)),
    "spark": ("spark", {"watermark_delay": "5ms", "batch_size": 3}, {}, batches(3, 5 * MS)),
}


def outcome(results: list[Replayed]) -> tuple[Any, ...]:
    """Everything in the results, except when it was emitted."""
    kinds = ("final", "pending", "superseded", "begun_anew")
    windows = [
        Counter((w[:3], w.values["n"]) for r in results for w in getattr(r, k)) for k in kinds
    ]
    return (
        *windows,
        Counter(d for r in results for d in r.dropped),
        Counter(d for r in results for d in r.dropped_windows),
        Counter((e[1:4], e.values and e.values["n"], e.op) for r in results for e in r.emissions),
    )


@pytest.mark.parametrize("window", [GAP, HOPS], ids=str)
@pytest.mark.parametrize("name", CASES)
@settings(max_examples=120)
@given(stream=streams)
def test_together_and_apart_are_the_same(name: str, window: Any, stream: Any) -> None:
    engine, whole_settings, own_settings, clocks = CASES[name]
    events = arriving(*stream)
    whole = run(events, window, engine, **whole_settings)
    with_clocks, end = clocks(events)
    apart = [
        run(own, window, engine, end_clock=end, **own_settings)
        for key in "abc"
        if (own := [e for e in with_clocks if e.key == key])
    ]
    assert outcome(apart) == outcome([whole])


@settings(max_examples=200)
@given(stream=st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(range(0, 50, 5)))))
@example(stream=[("a", 0), ("b", 10), ("a", 10)])
def test_a_session_that_ended_just_a_gap_ago_is_hidden_by_the_same_instant(stream: Any) -> None:
    # Without grace, another key's event at this instant hides it; the key's own does not.
    events = arriving(*stream)
    whole = run(events, GAP, "kafka-streams", grace="0s")
    with_clocks, end = stream_times(events)
    apart = [
        run(own, GAP, "kafka-streams", grace="0s", end_clock=end)
        for key in "ab"
        if (own := [e for e in with_clocks if e.key == key])
    ]
    assert outcome(apart) == outcome([whole])


@settings(max_examples=60)
@given(stream=streams)
def test_look_back_windows_apart(stream: Any) -> None:
    events = arriving(*stream)
    whole = run(events, RANGE, "flink", watermark_delay="5ms")
    with_clocks, end = watermarks(5 * MS, EVER)(events)
    apart = [
        run(own, RANGE, "flink", end_clock=end)
        for key in "abc"
        if (own := [e for e in with_clocks if e.key == key])
    ]
    assert outcome(apart) == outcome([whole])


def test_what_cannot_be_replayed_apart() -> None:
    events = [replace(e, clock=e.time) for e in arriving(1, 2)]
    for window, more in [
        (GAP, {"caching": True}),
        (GAP, {"emit": "on_close"}),
        (SlidingWindow(size="1ms", distinct=True), {}),
    ]:
        with pytest.raises(ReplayError, match="clock: with these windows and settings"):
            run(events, window, "kafka-streams", **more)
    for engine in ("plain", "samza"):
        with pytest.raises(ReplayError, match="clock: with these windows and settings"):
            run(events, GAP, engine)
    with pytest.raises(ReplayError, match="clock: either every event has a clock"):
        run([*events, event(9, "a", 9)], GAP, "kafka-streams")
    with pytest.raises(ReplayError, match="clock: either every event has a clock"):
        run(arriving(1), GAP, "kafka-streams", end_clock=5)
