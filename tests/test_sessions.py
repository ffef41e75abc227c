"""Sessions against plain Python, under every engine's rules."""

from __future__ import annotations

from struct import pack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from xxhash import xxh64_intdigest

from backfill import SessionWindow, aggregate, sessionize
from backfill import aggregates as agg
from tests import reference
from tests.frames import frame, rows
from tests.reference import Event

GAP = 60_000_000
COMMON = {"key": "key", "time": "time", "time_format": "epoch_us"}

#: Gap edge, end after the last event, tick, NULL as a key, events before 1970.
ENGINES = {
    "plain": (True, 0, 1, False, True),
    "kafka-streams": (True, 0, 1_000, False, False),
    "spark": (True, GAP, 1, True, True),
    "flink": (True, GAP, 1_000, True, True),
    "beam": (False, GAP, 1_000, False, True),
    "storm": (True, 0, 1_000, False, True),
    "samza": (True, 0, 1_000, False, True),
}

# Instants around multiples of the gap, on both sides of 1970, one tick to either side, and ties.
times = st.one_of(
    st.none(),
    st.builds(
        lambda n, tick, fine: n * GAP // 2 + tick * 1_000 + fine,
        st.integers(-6, 6),
        st.integers(-1, 1),
        st.integers(-1, 1),
    ),
)
events = st.lists(
    st.builds(Event, st.sampled_from(["a", "b", "", None]), times, st.integers(-9, 9)),
    max_size=60,
)


def expected(given_events: list[Event], engine: str) -> set[tuple]:
    inclusive, behind, tick, null_key, before_1970 = ENGINES[engine]
    used = reference.usable(given_events, null_key=null_key, tick=tick)
    used = [e for e in used if before_1970 or e.time >= 0]
    found = reference.sessions(used, GAP, inclusive=inclusive)
    return {
        (s[0].key, s[0].time, s[-1].time + behind, len(s), sum(e.value for e in s)) for s in found
    }


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=5)
@given(events=events, combine=st.sampled_from([None, False]))
def test_sessions_are_those_of_plain_python(
    spark: SparkSession, engine: str, events: list[Event], combine: bool | None
) -> None:
    result = aggregate(
        frame(spark, events),
        SessionWindow(gap="60s"),
        aggregates={"events": agg.count(), "total": agg.sum("value")},
        engine=engine,
        combine=combine,
        **COMMON,
    )
    found = rows(result.drop("session_id"))
    assert len(found) == len(set(found))
    assert set(found) == expected(events, engine)


@settings(max_examples=6)
@given(events=events)
def test_sessionize_gives_every_event_its_session(spark: SparkSession, events: list[Event]) -> None:
    given_frame = frame(spark, events)
    result = sessionize(given_frame, SessionWindow(gap="60s"), **COMMON)
    assert result.columns[: len(given_frame.columns)] == given_frame.columns
    found = rows(result)
    assert len(found) == len(events)

    number: dict[tuple, int] = {}
    expected_rows = []
    for session in sorted(
        reference.sessions(reference.usable(events), GAP), key=lambda s: s[0].time
    ):
        key = session[0].key
        number[key] = number.get(key, 0) + 1
        ordered = sorted(session, key=lambda e: (e.time, e.value))
        for place, e in enumerate(ordered, 1):
            bounds = (session[0].time, session[-1].time)
            expected_rows.append((e.key, e.time, e.value, *bounds, number[key], place))
    placed = [(*row[:3], *row[6:]) for row in found if row[5] is not None]
    assert sorted(placed) == sorted(expected_rows)
    left_out = [row for row in found if row[5] is None]
    assert all(row[5:] == (None,) * 5 for row in left_out)
    assert len(left_out) == sum(1 for e in events if e.key is None or e.time is None)


def test_ids_are_alike_in_both_and_depend_on_key_and_start_alone(spark: SparkSession) -> None:
    some = frame(spark, [Event("a", 0, 1), Event("a", 5, 2), Event("b", GAP * 5, 3)])
    window = SessionWindow(gap="60s")
    one = aggregate(some, window, aggregates={"n": agg.count()}, **COMMON)
    ids = {row["session_id"] for row in one.collect()}
    assert ids == {row["session_id"] for row in sessionize(some, window, **COMMON).collect()}
    # Ids outlive this code: they are in users' tables. Length and text of the key, start in µs.
    known = set()
    for text, start in ((b"a", 0), (b"b", 300_000_000)):
        halves = []
        for number in (0, 1):
            hashed = 42
            for part in (pack("<i", number), pack("<i", 1), text, pack("<q", start)):
                hashed = xxh64_intdigest(part, seed=hashed)
            halves.append(f"{hashed | 1 << 63:016X}")
        known.add("".join(halves))
    assert ids == known
    wider = aggregate(some, SessionWindow(gap="61s"), aggregates={"n": agg.count()}, **COMMON)
    assert ids == {row["session_id"] for row in wider.collect()}


def test_composite_keys_do_not_run_together(spark: SparkSession) -> None:
    some = spark.createDataFrame(
        [("a", "bc", 0), ("ab", "c", 0), (None, "abc", 0), ("abc", None, 0), (None, None, 0)],
        "`k.1` string, `k 2` string, t bigint",
    )
    result = aggregate(
        some,
        SessionWindow(gap="1s"),
        key=["k.1", "k 2"],
        time="t",
        time_format="epoch_us",
        aggregates={"n": agg.count()},
    )
    found = result.collect()
    assert len(found) == 4  # partly NULL keys are keys; only all NULL is none
    assert len({row["session_id"] for row in found}) == 4


def test_no_key_is_one_group(spark: SparkSession) -> None:
    some = frame(spark, [Event("a", 0), Event("b", GAP), Event(None, 2 * GAP)])
    result = aggregate(
        some,
        SessionWindow(gap="60s"),
        key=[],
        time="time",
        time_format="epoch_us",
        aggregates={"n": agg.count()},
    )
    assert rows(result.drop("session_id")) == [(0, 2 * GAP, 3)]


def test_order_of_rows_and_partitions_change_nothing(spark: SparkSession) -> None:
    some = frame(
        spark, [Event(f"k{i % 7}", (i * 7919 % 1000) * GAP // 3, i % 5) for i in range(400)]
    )
    window = SessionWindow(gap="60s")
    kinds = {
        "n": agg.count(),
        "first": agg.first("value"),
        "last": agg.last("value"),
        "all": agg.collect_list("value"),
    }
    results = [
        {tuple(map(str, row)) for row in rows(aggregate(each, window, aggregates=kinds, **COMMON))}
        for each in (some, some.orderBy(F.desc("value")).repartition(7), some.coalesce(1))
    ]
    assert results[0] == results[1] == results[2]


def test_the_hot_key_is_combined_before_the_exchange(spark: SparkSession) -> None:
    hot = [Event("hot", i * 1_000_000, 1) for i in range(500)]
    cold = [Event(f"c{i}", i * 1_000_000, 1) for i in range(20)]
    result = aggregate(
        frame(spark, hot + cold), SessionWindow(gap="60s"), aggregates={"n": agg.count()}, **COMMON
    )
    counts = {row["key"]: row["n"] for row in result.collect()}
    assert counts["hot"] == 500
    assert sum(counts.values()) == 520
