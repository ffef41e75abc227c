"""The input ends: a drained operator completes its last windows, a running one does not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill import (
    AfterCount,
    AfterProcessingTime,
    HoppingWindow,
    Repeatedly,
    SessionWindow,
    SlidingWindow,
    TumblingWindow,
)
from backfill import aggregates as agg
from backfill.errors import ReplayError
from backfill.replay import Event, replay
from backfill.windows import AnyWindow

OPERATORS: list[tuple[str, str | None, AnyWindow, dict[str, Any]]] = [
    (engine, api, window, {})
    for engine, api in (
        ("flink", "datastream"),
        ("flink", "sql"),
        ("flink", "sql-group"),
        ("beam", None),
        ("samza", None),
    )
    for window in (
        SessionWindow(gap="20s"),
        TumblingWindow(size="60s"),
        HoppingWindow(size="60s", advance="30s"),
    )
    if not (engine == "samza" and isinstance(window, HoppingWindow))
]
OPERATORS += [
    ("flink", "sql", SlidingWindow(size="60s"), {}),
    ("flink", "datastream", SessionWindow(gap="20s"), {"early": 2, "allowed_lateness": "30s"}),
    ("beam", None, SessionWindow(gap="20s"), {"late": 3, "allowed_lateness": "60s"}),
    (
        "beam",
        None,
        TumblingWindow(size="60s"),
        {"early": Repeatedly(AfterProcessingTime("5s"))},
    ),
    ("samza", None, TumblingWindow(size="60s"), {"early": AfterCount(2)}),
]
SECOND = 1_000_000


@pytest.mark.parametrize(("engine", "api", "window", "policy"), OPERATORS)
@settings(max_examples=40)
@given(places=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 300)), max_size=12))
def test_what_the_end_completes_is_pending_otherwise(
    engine: str,
    api: str | None,
    window: AnyWindow,
    policy: dict[str, Any],
    places: list[tuple[str, int]],
) -> None:
    if engine == "samza":
        # Its time is the wall clock, which does not go back.
        places = sorted(places, key=lambda place: place[1])
    events = [
        Event(key=key, time=second * SECOND, arrival=arrival)
        for arrival, (key, second) in enumerate(places)
    ]

    def made(**more: Any) -> Any:
        counts = {"n": agg.count()}
        return replay(events, window, engine=engine, api=api, aggregates=counts, **policy, **more)

    drained, running = made(), made(drained=False)
    assert drained == made(drained=True)
    assert drained.pending == ()
    completed = [emission for emission in drained.emissions if emission.arrival is None]
    assert list(running.emissions) == [e for e in drained.emissions if e.arrival is not None]
    assert running.dropped == drained.dropped
    pending = sorted((e.key, e.start, e.end, e.values["n"]) for e in running.pending)
    sent = [(e.key, e.start, e.end, e.values["n"]) for e in completed if e.values is not None]
    if engine == "beam":
        # Its panes are deltas: the one that completes a window has what is new; pending has all.
        sent = [(e.key, e.start, e.end, e.values["n"]) for e in drained.final]
        gone = [(e.key, e.start, e.end, e.values["n"]) for e in running.final]
        assert {*sent} - {*gone} <= {*pending} <= {*sent}
    else:
        assert pending == sorted(sent)


@pytest.mark.parametrize("engine", ["plain", "kafka-streams", "spark", "storm"])
def test_other_engines_have_no_such_setting(engine: str) -> None:
    with pytest.raises(ReplayError, match=r"drained: the engine .* has no such setting"):
        replay([], TumblingWindow(size="60s"), engine=engine, drained=False)
