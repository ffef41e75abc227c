"""With nothing late, a batch join gives what a streaming join makes of the events."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from backfill import join
from backfill.errors import ReplayError, WindowError
from backfill.replay import Event, replay_join
from tests import drawn

MS = 1_000
WITHIN = ("20ms", "5ms")


def event(key: Any, time: int | None, arrival: int, **more: Any) -> Event:
    return Event(key=key, time=time, arrival=arrival, **more)


def streams() -> st.SearchStrategy[list[tuple[int, bool]]]:
    """Times in ms, in order, and whether the event is on the left side."""
    times = drawn.few_or_many(st.tuples(st.integers(0, 60), st.booleans()))
    return times.map(lambda stream: sorted(stream, key=lambda pair: pair[0]))


def split(case: list[tuple[int, bool]]) -> tuple[list[Event], list[Event]]:
    every = [(event("a", at * MS, n), left) for n, (at, left) in enumerate(case)]
    return [e for e, left in every if left], [e for e, left in every if not left]


@pytest.mark.parametrize("how", ["inner", "left", "full"])
def test_the_same_pairs(spark: SparkSession, how: str) -> None:
    cases = drawn.cases(streams(), 100)
    frames = []
    for side in (0, 1):
        made = [(n, e.time, e.arrival) for n, case in enumerate(cases) for e in split(case)[side]]
        frames.append(spark.createDataFrame(made, "key int, time bigint, arrival int"))
    joined = join(
        *frames, on="key", time="time", time_format="epoch_us", within=WITHIN, how=how
    ).select("key", "arrival", "arrival_right")
    by_key: dict[int, list[Any]] = {}
    for key, *pair in joined.collect():
        by_key.setdefault(key, []).append(tuple(pair))
    expected = {}
    for number, case in enumerate(cases):
        left, right = split(case)
        replayed = replay_join(left, right, within=WITHIN, how=how, grace="1s")
        pairs = [(emission.left, emission.right) for emission in replayed.emissions]
        lefts = {record.arrival for record in left}
        pairs += [(n, None) if n in lefts else (None, n) for n in replayed.pending]
        assert not replayed.dropped
        if how == "inner":
            flink = replay_join(left, right, engine="flink", within=WITHIN, watermark_delay="1s")
            assert sorted(
                (emission.left, emission.right) for emission in flink.emissions
            ) == sorted(pairs)
        batches = [
            [
                replace(record, batch=record.arrival // 4, time=(record.time or 0) + MS)
                for record in side
            ]
            for side in (left, right)
        ]
        delays = {"watermark_delay": "1s", "right_watermark_delay": "2s"}
        spark_found = replay_join(*batches, engine="spark", how=how, within=WITHIN, **delays)
        made = [(emission.left, emission.right) for emission in spark_found.emissions]
        made += [(n, None) if n in lefts else (None, n) for n in spark_found.pending]
        assert sorted(made, key=str) == sorted(pairs, key=str)
        if pairs:
            expected[number] = sorted(pairs, key=str)
    drawn.check(
        {key: sorted(pairs, key=str) for key, pairs in by_key.items()},
        expected,
        lambda key: cases[key],
    )


def test_retention_loses_pairs() -> None:
    """Without grace, a store that has taken an event hides the oldest one that it should reach."""
    left = [event("a", 0, 0), event("b", 20 * MS, 1)]
    right = [event("a", 20 * MS, 2)]
    for grace, pairs in (("0s", [(0, None), (None, 2)]), ("1ms", [(0, 2)])):
        replayed = replay_join(left, right, within=("0ms", "20ms"), how="full", grace=grace)
        own = [(p.left, p.right) for p in replayed.emissions if p.key == "a"]
        own += [(None, n) for n in replayed.pending if n == 2] + [
            (n, None) for n in replayed.pending if n == 0
        ]
        assert sorted(own, key=str) == sorted(pairs, key=str)


def test_an_interval_join_loses_what_is_exactly_as_far_apart_as_allowed() -> None:
    """The watermark has reached the right event's time: it is not late, but its partner is gone."""
    left = [event("a", 0, 0), event("b", 6 * MS, 2)]
    right = [event("b", 6 * MS, 1), event("a", 5 * MS, 3)]
    for delay, pairs in (("0ms", [(2, 1)]), ("1ms", [(2, 1), (0, 3)])):
        replayed = replay_join(left, right, engine="flink", within="5ms", watermark_delay=delay)
        assert [(emission.left, emission.right) for emission in replayed.emissions] == pairs
        assert not replayed.dropped
    late = replay_join([*left, event("a", 4 * MS, 4)], right, engine="flink", within="5ms")
    assert [(drop.arrival, drop.reason, drop.late_by) for drop in late.dropped] == [(4, "late", MS)]


def test_a_given_watermark() -> None:
    left = [event("a", 0, 0, watermark=9 * MS), event("a", 5 * MS, 1)]
    replayed = replay_join(left, [event("a", 9 * MS, 2)], engine="flink", within="9ms")
    assert (replayed.emissions, [drop.late_by for drop in replayed.dropped]) == ((), [4 * MS])


def test_each_input_has_a_delay_of_its_own() -> None:
    left = [event("a", 10 * MS, 0), event("a", 5 * MS, 2)]
    right = [event("a", 10 * MS, 1)]
    for delays, late in (({}, [4 * MS]), ({"right_watermark_delay": "5ms"}, [])):
        replayed = replay_join(left, right, engine="flink", within="5ms", **delays)
        assert [drop.late_by for drop in replayed.dropped] == late


def test_spark_has_one_watermark_of_both_sides() -> None:
    left = [event("a", time * MS, n, batch=n) for n, time in enumerate([10, 3, 4])]
    right = [event("a", 20 * MS, 9, batch=0)]
    # Ordered by batch: what the first one has seen applies to the third.
    right = [replace(record, arrival=0.5) for record in right]
    for given, dropped in (
        ({}, [2]),
        ({"right_watermark_delay": "17ms"}, []),
        ({"right_watermark_delay": "17ms", "watermark_policy": "max"}, [2]),
        ({"allow_multiple": False}, [1, 2]),
    ):
        replayed = replay_join(left, right, engine="spark", within="10ms", how="full", **given)
        assert [drop.arrival for drop in replayed.dropped] == dropped, given
        assert (replayed.emissions[0].left, replayed.emissions[0].right) == (0, 0.5)
    # A side without events holds the watermark back.
    alone = replay_join(left, [], engine="spark", within="10ms", how="left")
    assert (alone.dropped, alone.emissions, alone.pending) == ((), (), (0, 1, 2))


def test_each_partition_has_a_clock_of_its_own() -> None:
    left = [event("a", 0, 0, partition=0), event("b", 900 * MS, 1, partition=1)]
    replayed = replay_join(left, [], within="1ms", how="left")
    assert (replayed.emissions, replayed.pending) == ((), (0, 1))
    here = [event("a", 0, 0), event("b", 900 * MS, 1)]
    assert replay_join(here, [], within="1ms", how="left").pending == (1,)


def test_what_is_dropped() -> None:
    left = [event(None, 5, 0), event("a", None, 1), event("a", -5, 2), event("a", 5, 3, value=None)]
    replayed = replay_join(left, [], within="1ms", how="left")
    assert [(drop.arrival, drop.reason) for drop in replayed.dropped] == [
        (1, "no_time"),
        (2, "before_epoch"),
        (3, "no_value"),
    ]
    # A left join passes on what has no key.
    assert [(emission.left, emission.right) for emission in replayed.emissions] == [(0, None)]
    assert len(replay_join(left, [], within="1ms").dropped) == 4


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"within": "1us"}, ReplayError, "within: must be whole milliseconds"),
    ({"within": "5 messages"}, ReplayError, "within: must be whole milliseconds"),
    ({"within": ("-1s", "5s")}, WindowError, "the time before the left event can't be negative"),
    ({"engine": "storm"}, ReplayError, "engine: has no known join of two streams"),
    ({"engine": "flink", "how": "left"}, ReplayError, "how: Flink's interval join is an inner"),
    ({"engine": "flink", "grace": "1s"}, ReplayError, "grace: the engine flink has no such"),
    ({"watermark_delay": "1s"}, ReplayError, "watermark_delay: the engine kafka-streams has no"),
    ({"how": "anti"}, WindowError, "how: must be inner or left or full"),
    ({"grace": "-1s"}, ReplayError, "grace: must be whole milliseconds, and not negative"),
    ({"emit_interval": "1us"}, ReplayError, "emit_interval: must be whole milliseconds"),
    ({"store": "cloud"}, WindowError, "store: must be disk or memory"),
    ({"spurious": 1}, WindowError, "spurious: must be true or false"),
    (
        {"engine": "spark", "watermark_policy": "mean"},
        WindowError,
        "watermark_policy: must be min or max",
    ),
    ({"engine": "spark", "right_watermark_delay": "1us"}, ReplayError, "right_watermark_delay: m"),
]


@pytest.mark.parametrize(
    ("given", "error", "message"), REFUSED, ids=lambda parameter: str(parameter)
)
def test_what_is_refused(given: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        replay_join([], [], **{"within": "1s", **given})


def test_spark_joins_batches() -> None:
    with pytest.raises(ReplayError, match="batch: is not known, but Spark joins micro-batches"):
        replay_join([event("a", 0, 0)], [], engine="spark", within="1s")


def test_a_stream_that_has_sent_nothing_has_no_watermark() -> None:
    events = [event("a", 20 * MS, 0), event("a", 0, 1)]
    replayed = replay_join(events, [], engine="flink", within="5ms")
    assert not replayed.dropped


def test_flink_refuses_events_without_a_key() -> None:
    with pytest.raises(ReplayError, match="key: the engine flink fails at an event without one"):
        replay_join([event(None, 0, 0)], [], engine="flink", within="1s")


def test_arrivals_without_an_order() -> None:
    with pytest.raises(ReplayError, match="arrival: arrivals can't be put in order"):
        replay_join([event("a", 0, 0)], [Event(key="a", time=0, arrival=(0, 1))], within="1s")
