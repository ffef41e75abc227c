"""What each engine refuses, and what the replay needs of its input."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import pytest

import backfill
from backfill import (
    CountWindow,
    CumulatingWindow,
    HoppingWindow,
    SessionWindow,
    SlidingWindow,
    TumblingWindow,
)
from backfill import aggregates as agg
from backfill.engines import ENGINES
from backfill.errors import AggregateError, ColumnError, JobFileError, ReplayError, WindowError
from backfill.replay import Event, replay
from backfill.replay.operators import OPERATORS
from tests.replay.stream import arriving, rows, run

GAP = SessionWindow(gap="10ms")
TEN = TumblingWindow(size="10ms")
DAY = TumblingWindow(size="1 day")
ZERO = arriving(1)


@pytest.mark.parametrize(
    ("engine", "window", "settings"),
    [
        ("spark", GAP, {"grace": "1s"}),
        ("kafka-streams", GAP, {"watermark_delay": "1s"}),
        ("kafka-streams", TEN, {"past_retention": "drop"}),
        ("storm", TEN, {"allowed_lateness": "1s"}),
        ("flink", TEN, {"late": 2}),
        ("flink", CountWindow(size=2), {"allowed_lateness": "1s"}),
        ("plain", GAP, {"restarts": [1]}),
        ("samza", GAP, {"watermark_delay": "1s"}),
        ("beam", GAP, {"caching": True}),
        ("flink", GAP, {"api": "sql-group", "allowed_lateness": "1s"}),
    ],
    ids=str,
)
def test_settings_that_an_engine_has_not(engine: str, window: Any, settings: Any) -> None:
    name = next(setting for setting in settings if setting != "api")
    with pytest.raises(ReplayError, match=rf"^{name}: .*{engine}"):
        run(ZERO, window, engine, **settings)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"grace": "1 day"}, "grace: can't be a calendar span"),
        ({"grace": "-1s"}, "grace: must be whole milliseconds, and not negative"),
        ({"grace": "1us"}, "grace: must be whole milliseconds"),
        ({"segments": 1}, "segments: must be a whole number, at least 2"),
        ({"segments": 3, "segment_interval": "1m"}, "segments: can't be given together"),
        ({"past_retention": "drop", "grace": "1s"}, "past_retention: can't be given together"),
        ({"past_retention": "keep"}, "past_retention: no such choice"),
        ({"emit": "append"}, "emit: the engine kafka-streams has no such emit policy"),
        ({"emit": "on_close", "caching": True}, "caching: windows emitted on close"),
        ({"commits": 3}, "commits: has no meaning without caching"),
        ({"commits": 0, "caching": True}, "commits: must be a number of events, at least 1"),
        ({"commits": 2.5, "caching": True}, "commits: must be a number of events, at least 1"),
        ({"commits": [7], "caching": True}, "commits: is not the arrival of an event"),
        ({"restarts": 5}, "restarts: must be a list of arrivals"),
        ({"restarts": "12"}, "restarts: must be a list of arrivals"),
        ({"restarts": [(1, 3)]}, "restarts: is not the arrival of an event.*such as 0"),
        ({"restored": True}, "restored: has no meaning without restarts"),
        ({"caching": "no"}, "caching: must be true or false"),
        ({"segment_interval": "0s"}, "segment_interval: must be greater than zero"),
        ({"timezone": "Foo/Bar"}, "timezone: there is no such time zone"),
        ({"commits": "0s", "caching": True}, "commits: must be greater than zero"),
        ({"commits": "often", "caching": True}, "commits: not a duration"),
        (
            {"emit_interval": "1s"},
            "emit_interval: only windows that are emitted on close are looked for at intervals",
        ),
        ({"store": "rocks"}, "store: no such choice"),
        (
            {"segments": 3, "store": "memory"},
            "segments: can't be given together with store='memory'",
        ),
        ({"api": "sql"}, "api: the engine kafka-streams has no such interface"),
    ],
    ids=str,
)
def test_settings_that_cannot_be(settings: Any, says: str) -> None:
    with pytest.raises(ValueError, match=f"^{says}"):
        run(ZERO, GAP, "kafka-streams", **settings)


@pytest.mark.parametrize(
    ("engine", "window"),
    [
        ("storm", GAP),
        ("storm", CumulatingWindow(size="4ms", step="2ms")),
        ("storm", SlidingWindow(size="1ms")),
        ("spark", DAY),
        ("spark", CumulatingWindow(size="4ms", step="2ms")),
        ("spark", SlidingWindow(size="1ms")),
        ("spark", CountWindow(size=2)),
        ("beam", CountWindow(size=2)),
        ("beam", SlidingWindow(size="1ms")),
        ("samza", DAY),
        ("samza", SlidingWindow(size="1ms")),
        ("flink", SlidingWindow(size="1ms", distinct=True)),
        ("plain", SlidingWindow(size="1ms", following="1ms")),
    ],
    ids=str,
)
def test_windows_that_an_engine_has_not(engine: str, window: Any) -> None:
    with pytest.raises(WindowError, match=f"window: the engine {engine} has no such window"):
        run(ZERO, window, engine)


@pytest.mark.parametrize(
    ("api", "window"),
    [
        ("datastream", DAY),
        ("datastream", SlidingWindow(size="1ms")),
        ("sql-group", CumulatingWindow(size="4ms", step="2ms")),
        ("sql", CountWindow(size=2)),
    ],
    ids=str,
)
def test_windows_that_an_interface_has_not(api: str, window: Any) -> None:
    with pytest.raises(WindowError, match=f"in its interface {api}"):
        run(ZERO, window, "flink", api=api)


def test_what_a_constructor_refuses_is_refused() -> None:
    with pytest.raises(WindowError, match="advance: is larger"):
        run(ZERO, HoppingWindow(size="5ms", advance="6ms"), "spark")
    with pytest.raises(WindowError, match="size: must be whole milliseconds"):
        run(ZERO, SlidingWindow(size="1us", distinct=True), "kafka-streams")
    with pytest.raises(JobFileError, match="kafka-streams"):
        run(ZERO, GAP, "kafka-stream")


@pytest.mark.parametrize(
    ("engine", "settings", "says"),
    [
        ("samza", {"timer_interval": "0s"}, "timer_interval: must be greater than zero"),
        ("samza", {"drained": "no"}, "drained: must be true or false"),
        ("samza", {"early_once": True}, "early_once: has no meaning without early or early_after"),
        ("flink", {"emit": "on_update", "early": 3}, "early: .*sends a pane after each event"),
        ("samza", {"emit": "on_update", "early_after": "1s"}, "early_after: .*after each event"),
        ("spark", {"idle_batches": "no"}, "idle_batches: must be true or false"),
        ("spark", {"aggregates": {"n": "count"}}, r"aggregates\.n: is not an aggregate"),
    ],
    ids=str,
)
def test_settings_that_would_do_nothing(engine: str, settings: Any, says: str) -> None:
    with pytest.raises(ValueError, match=f"^{says}"):
        replay(ZERO, GAP, engine=engine, **settings)


def test_a_store_on_disk_has_segments() -> None:
    for settings in ({"segments": 3}, {"segment_interval": "2m"}):
        result = run(ZERO, GAP, "kafka-streams", store="disk", **settings)
        assert rows(result.final) == rows(run(ZERO, GAP, "kafka-streams", **settings).final)


def test_events_that_can_not_be() -> None:
    with pytest.raises(ReplayError, match="key: events can't be grouped by it"):
        run([Event(key=["a"], time=0, arrival=0)], GAP, "plain")
    with pytest.raises(ReplayError, match="batch: must be a whole number"):
        run([Event(key="a", time=0, arrival=0, batch="0")], GAP, "spark")  # type: ignore[arg-type]
    with pytest.raises(JobFileError, match="engine: no such engine"):
        run(ZERO, GAP, None)  # type: ignore[arg-type]


def test_aggregates_are_of_fields() -> None:
    events = [
        Event(key="a", time=i, arrival=i, value={"v": v, "good": good})
        for i, (v, good) in enumerate([(1, True), (2, False), (None, True), (4, None)])
    ]
    made = {
        "n": agg.count(where="good"),
        "values": agg.count("v"),
        "total": agg.sum("v", where="good"),
        "last": agg.last("v", where="good"),
    }
    (only,) = replay(events, GAP, aggregates=made).final
    assert only.values == {"n": 2, "values": 3, "total": 1, "last": None}
    with pytest.raises(
        AggregateError, match=r"aggregates\.x: a replay can only aggregate plain fields"
    ):
        replay(events, GAP, aggregates={"x": agg.sum("v * 2")})
    with pytest.raises(ColumnError, match=r"w: the event that arrived as 0 has no such field"):
        replay(events, GAP, aggregates={"x": agg.sum("w")})


def test_without_a_form_in_python_the_events_are_given() -> None:
    events = [Event(key="a", time=i, arrival=i, value={"v": i}) for i in range(3)]
    kinds = {"n": agg.count(), "median": agg.quantile("v", 0.5)}
    (only,) = replay(events, GAP, aggregates=kinds).final
    assert only.values == {"n": 3}
    assert only.events == (0, 1, 2)
    for made in (agg.count_distinct("v", True), agg.collect_list("v"), agg.collect_set("v")):
        assert made.python is None


def test_arrivals_are_ordered() -> None:
    with pytest.raises(ReplayError, match="arrival: arrivals can't be put in order"):
        run([Event(key="a", time=0, arrival=0), Event(key="a", time=0, arrival="x")], GAP, "plain")
    pairs = [Event(key="a", time=t * 1_000, arrival=(0, t)) for t in (1, 0)]
    assert [e.arrival for e in run(pairs, GAP, "kafka-streams").emissions] == [
        (0, 0),
        (0, 1),
        (0, 1),
    ]


@pytest.mark.parametrize("engine", ENGINES)
def test_no_events_make_nothing(engine: str) -> None:
    result = run([], TEN, engine)
    assert not result.final
    assert result.as_of(0) == ()


def test_every_operator_is_some_engines_and_is_there() -> None:
    named = {
        name
        for engine in ENGINES.values()
        for streaming in engine.streaming.values()
        for name in streaming.operators.values()
    }
    assert named == set(OPERATORS)
    for engine in ENGINES.values():
        for streaming in engine.streaming.values():
            taken = {s for name in streaming.operators.values() for s in OPERATORS[name].takes}
            assert set(streaming.settings) <= taken


WITHOUT_SPARK = """
import sys
from types import SimpleNamespace
from backfill import SessionWindow
from backfill.replay import Event, replay
total = SimpleNamespace(python="sum", expression="v", where=None)
events = [Event(key="a", time=t, arrival=t, value={"v": t}) for t in (1, 2)]
result = replay(events, SessionWindow(gap="1s"), aggregates={"total": total})
assert result.final[0].values == {"total": 3}
absent = {"pyspark", "pandas", "deltalake", "pyarrow", "great_expectations", "pydantic"}
assert not absent & set(sys.modules), absent & set(sys.modules)
"""


def test_it_runs_without_spark() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_SPARK], check=True)


def test_what_is_exported() -> None:
    for name in backfill.replay.__all__:
        assert getattr(backfill.replay, name) is not None
    assert rows(run(arriving(1, 2), TEN, "kafka-streams").final) == [(0, 10, 2)]


def test_events_and_results_can_be_sent_to_other_processes() -> None:
    events = arriving(1, 2)
    result = run(events, TEN, "kafka-streams")
    assert pickle.loads(pickle.dumps(events)) == events
    assert pickle.loads(pickle.dumps(result)) == result
