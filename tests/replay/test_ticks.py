"""Keys replayed apart, with the moments at which other keys moved the clocks: the same results."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill import (
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEventTime,
    AfterProcessingTime,
    AfterSilence,
    HoppingWindow,
    Repeatedly,
    SessionWindow,
)
from backfill.engines import engine as engine_named
from backfill.errors import ReplayError
from backfill.replay import Event, Replayed
from backfill.replay.apart import Apart
from backfill.replay.clocks import NEVER
from tests.replay.stream import MS, arriving, event, run

GAP = SessionWindow(gap="10ms")
HOPS = HoppingWindow(size="20ms", advance="10ms")

streams = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 90), st.integers(0, 9)), max_size=40
)
OFTEN = Repeatedly(AfterAny(AfterCount(3), AfterAll(AfterProcessingTime("6ms"), AfterCount(2))))
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "kafka-streams": ("kafka-streams", {"grace": "5ms"}),
    "suppressed": ("kafka-streams", {"grace": "5ms", "emit": "suppressed"}),
    "flink": ("flink", {"watermark_delay": "5ms", "allowed_lateness": "4ms", "early": OFTEN}),
    "sql-group": ("flink", {"api": "sql-group", "watermark_delay": "5ms"}),
    "beam": ("beam", {"watermark_delay": "5ms"}),
    "beam, retracting": (
        "beam",
        {
            "allowed_lateness": "20ms",
            "early": OFTEN,
            "late": Repeatedly(AfterAny(AfterSilence("4ms"), AfterEventTime("7ms"))),
            "accumulation": "retracting",
        },
    ),
    "beam, once": ("beam", {"early": AfterEventTime("3ms"), "late": AfterCount(2)}),
    "samza": ("samza", {"early": Repeatedly(AfterProcessingTime("7ms"))}),
    "samza, timers": ("samza", {"timer_interval": "15ms", "early": AfterSilence("8ms")}),
}


def arrivals(stream: Any, *, in_time: bool) -> list[Event]:
    wall, events = 0, []
    for i, (key, time, step) in enumerate(stream):
        wall += step
        own = wall if in_time else time
        events.append(event(i, key, own, wall_clock=wall * MS))
    return events


def levels(events: list[Event], apart: Apart) -> list[int]:
    """The operator's clock after each event."""
    behind = apart.settings.watermark_delay + apart.streaming.lag_ticks * apart.engine.tick_us
    every = apart.settings.timer_interval or 1
    now, clocks = NEVER, []
    for record in events:
        assert record.time is not None
        now = max(now, (record.time - behind) // every * every)
        clocks.append(now)
    return clocks


def own_stream(events: list[Event], key: str, apart: Apart) -> list[Event]:
    """A key's events with the clock before each, and others' where it reaches what is due."""
    after = levels(events, apart)
    placed: list[tuple[int, bool, Event]] = []
    dues, delays = apart.dues(), apart.delays()
    for i, record in enumerate(events):
        if record.key != key:
            continue
        assert record.time is not None
        assert record.wall_clock is not None
        before = after[i - 1] if i else NEVER
        placed.append((i, False, replace(record, clock=before) if apart.clocked else record))
        reached = [
            [j for j, level in enumerate(after) if level >= due] for due in dues(record.time)
        ]
        reached += [
            [
                j
                for j, other in enumerate(events)
                if (other.wall_clock or 0) >= record.wall_clock + d
            ]
            for d in delays
        ]
        for places in reached:
            if places:
                at = places[0]
                passing = replace(events[at], key=key, time=None, clock=after[at], passes=True)
                placed.append((at, True, passing))
    return [record for *_, record in sorted(placed, key=lambda row: row[:2])]


def emissions_of(result: Replayed, key: str) -> list[Any]:
    return [emission for emission in result.emissions if emission.key == key]


@pytest.mark.parametrize("window", [GAP, HOPS], ids=str)
@pytest.mark.parametrize("name", CASES)
@settings(max_examples=150)
@given(stream=streams)
def test_together_and_apart_send_the_same_at_the_same_arrivals(
    name: str, window: Any, stream: Any
) -> None:
    engine, given_settings = CASES[name]
    events = arrivals(stream, in_time=engine == "samza")
    whole = run(events, window, engine, **given_settings)
    apart = Apart.of(window, engine_named(engine), "UTC", given_settings)
    for key in "abc":
        own = own_stream(events, key, apart)
        assert emissions_of(run(own, window, engine, **given_settings), key) == emissions_of(
            whole, key
        )


def test_several_keys_at_once_are_no_different() -> None:
    engine, given_settings = CASES["beam, retracting"]
    events = arrivals([("a", 1, 1), ("b", 30, 9), ("c", 4, 3), ("a", 60, 9)], in_time=False)
    whole = run(events, GAP, engine, **given_settings)
    apart = Apart.of(GAP, engine_named(engine), "UTC", given_settings)
    both = [record for key in "ab" for record in own_stream(events, key, apart)]
    result = run(both, GAP, engine, **given_settings)
    for key in "ab":
        assert emissions_of(result, key) == emissions_of(whole, key)


@pytest.mark.parametrize(
    ("engine", "more", "message"),
    [
        ("storm", {}, "engine: with it, under storm"),
        ("kafka-streams", {"caching": True}, "caching: with it, under kafka-streams"),
        ("kafka-streams", {"emit": "on_close"}, "emit: with it, under kafka-streams"),
        ("flink", {"restarts": [0]}, "restarts: with it, under flink"),
    ],
)
def test_what_cannot_be_replayed_apart(engine: str, more: dict[str, Any], message: str) -> None:
    with pytest.raises(ReplayError, match=message):
        Apart.of(HOPS, engine_named(engine), "UTC", more)
    run(arriving(1), HOPS, engine, **more)
