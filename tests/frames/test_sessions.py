"""Sessions against plain Python, under every engine's rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from struct import pack
from typing import Any

import pytest
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from xxhash import xxh64_intdigest

from backfill import SessionWindow, aggregate, sessionize
from backfill import aggregates as agg
from backfill.errors import ColumnError
from tests import drawn, reference
from tests.event_frames import frame, from_rows, rows
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
events = drawn.few_or_many(
    st.builds(Event, st.sampled_from(["a", "b", "", None]), times, st.integers(-9, 9))
)


def expected(given_events: Iterable[Event], engine: str) -> Counter[tuple]:
    inclusive, behind, tick, null_key, before_1970 = ENGINES[engine]
    used = reference.usable(given_events, null_key=null_key, tick=tick)
    used = [e for e in used if before_1970 or e.time >= 0]
    sessions = reference.sessions(used, GAP, inclusive=inclusive)
    return Counter(
        (s[0].key, s[0].time, s[-1].time + behind, len(s), sum(e.value for e in s))
        for s in sessions
    )


#: How far cases are from each other: far more than the times within one.
FAR = 1_000 * GAP


def apart(cases: list[list[Event]]) -> list[Event]:
    """The events of all cases, by key; all share the NULL key, so its events are apart in time."""
    together = drawn.apart(cases)
    numbers = [number for number, events in enumerate(cases) for _ in events]
    # On both sides of 1970 in turn; those of case 0 stay where they are.
    shifts = [FAR * ((n + 1) // 2) * (-1) ** n for n in numbers]
    return [
        replace(e, time=e.time + shift) if e.key is None and e.time is not None else e
        for e, shift in zip(together, shifts, strict=True)
    ]


def case_of(cases: list[list[Event]], key: str | None, time: int) -> list[Event]:
    if key is not None:
        return cases[drawn.number(key)]
    away = round(time / FAR)
    return cases[2 * away if away > 0 else -2 * away - 1 if away < 0 else 0]


def check_sessions(
    spark: SparkSession, cases: list[list[Event]], engine: str, combine: bool | None
) -> None:
    together = apart(cases)
    result = aggregate(
        frame(spark, together),
        SessionWindow(gap="60s"),
        aggregates={"events": agg.count(), "total": agg.sum("value")},
        engine=engine,
        combine=combine,
        **COMMON,
    )
    drawn.check(
        Counter(rows(result.drop("session_id"))),
        expected(together, engine),
        case=lambda row: case_of(cases, row[0], row[1]),
    )


@pytest.mark.parametrize("combine", [None, False])
@pytest.mark.parametrize("engine", ENGINES)
def test_sessions_are_those_of_plain_python(
    spark: SparkSession, engine: str, combine: bool | None
) -> None:
    check_sessions(spark, drawn.cases(events, 400), engine, combine)


@pytest.mark.parametrize("engine", ENGINES)
def test_no_events_have_no_sessions(spark: SparkSession, engine: str) -> None:
    check_sessions(spark, [[]], engine, None)
    check_sessions(spark, [[]], engine, False)


@pytest.mark.parametrize("empty", [False, True])
def test_sessionize_gives_every_event_its_session(spark: SparkSession, empty: bool) -> None:
    cases: list[list[Event]] = [[]] if empty else drawn.cases(events, 400)
    together = drawn.apart(cases)
    given_frame = frame(spark, together)
    result = sessionize(given_frame, SessionWindow(gap="60s"), **COMMON)
    assert result.columns[: len(given_frame.columns)] == given_frame.columns
    collected = rows(result)
    assert len(collected) == len(together)

    number: dict[tuple, int] = {}
    expected_rows: list[tuple[Any, ...]] = []
    for session in sorted(
        reference.sessions(reference.usable(together), GAP), key=lambda s: s[0].time
    ):
        key = session[0].key
        number[key] = number.get(key, 0) + 1
        ordered = sorted(session, key=lambda e: (e.time, e.value))
        for place, e in enumerate(ordered, 1):
            bounds = (session[0].time, session[-1].time)
            expected_rows.append((e.key, e.time, e.value, *bounds, number[key], place))
    placed = [(*row[:3], *row[6:10]) for row in collected if row[5] is not None]
    drawn.check(
        Counter(placed), Counter(expected_rows), case=lambda row: cases[drawn.number(row[0])]
    )
    left_out = [row for row in collected if row[5] is None]
    assert all(row[5:] == (None,) * 10 for row in left_out)
    assert len(left_out) == sum(1 for e in together if e.key is None or e.time is None)


def test_columns_of_any_name_stay(spark: SparkSession) -> None:
    odd = ["a.b", "c`d", "e f"]
    schema = "key string, at bigint, `a.b` int, `c``d` int, `e f` int"
    events = from_rows(spark, [("a", 0, 1, 2, 3), ("a", 5, 4, 5, 6)], schema)
    for window in (
        SessionWindow(gap="1s"),
        SessionWindow(gap="1s", max_events=1, max_duration="1s"),
    ):
        result = sessionize(events, window, key="key", time="at", time_format="epoch_us")
        assert result.columns[:5] == ["key", "at", *odd]
        assert sorted(tuple(row)[2:5] for row in result.collect()) == [(1, 2, 3), (4, 5, 6)]


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
    sessions = result.collect()
    assert len(sessions) == 4  # partly NULL keys are keys; only all NULL is none
    assert len({row["session_id"] for row in sessions}) == 4


@pytest.mark.spark_only
@pytest.mark.parametrize("collation", ["UTF8_LCASE", "UNICODE_CI", "UTF8_BINARY_RTRIM"])
def test_texts_of_which_different_ones_are_equal_are_no_keys(
    spark: SparkSession, collation: str
) -> None:
    events = spark.sql(f"SELECT 'a' COLLATE {collation} AS who, timestamp_seconds(0) AS at")
    window, counts = SessionWindow(gap="1h"), {"n": agg.count()}
    refused = f"column 'who' is string collate {collation}, which treats different texts as equal"
    with pytest.raises(ColumnError, match=f"key: {refused}.*collate.who, 'UTF8_BINARY'"):
        aggregate(events, window, key="who", time="at", aggregates=counts)
    with pytest.raises(ColumnError, match=f"key: {refused}"):
        sessionize(events, window, key="who", time="at")
    with pytest.raises(ColumnError, match=f"id: {refused}"):
        aggregate(events, window, key=(), time="at", id="who", aggregates=counts)
    binary = events.withColumn("who", F.collate("who", "UTF8_BINARY"))
    assert aggregate(binary, window, key="who", time="at", aggregates=counts).count() == 1


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


@pytest.mark.spark_only
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
        {
            tuple(map(str, row))
            for row in rows(aggregate(variant, window, aggregates=kinds, **COMMON))
        }
        for variant in (some, some.orderBy(F.desc("value")).repartition(7), some.coalesce(1))
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
