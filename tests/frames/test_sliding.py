"""Sliding windows against plain Python: for each event, which events surround it."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import pytest
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from backfill import SlidingWindow, aggregate
from backfill import aggregates as agg
from backfill.aggregates import Aggregate
from backfill.engines import ENGINES
from backfill.errors import AggregateError, WindowError
from backfill.replay import Event as Arriving
from backfill.replay import replay
from tests import drawn
from tests.event_frames import frame, rows
from tests.on_sail import ON_SAIL, computed
from tests.reference import Event

COMMON = {"key": "key", "time": "time", "time_format": "epoch_us"}
DAY = 86_400_000_000
AGGREGATES: dict[str, Aggregate] = {
    "n": agg.count(),
    "present": agg.count("value"),
    "total": agg.sum("value"),
    "least": agg.min("value"),
    "most": agg.max("value", where="value < 5"),
    "middle": agg.mean("cast(value as int)"),
    "spread": agg.stddev("value"),
    "first": agg.first("value"),
    "last": agg.last("value"),
    "values": agg.collect_list("value"),
    "distinct": agg.count_distinct("value"),
    "median": agg.quantile("value", 0.5, exact=True),
    "about": agg.count_distinct("value", approximate=True),
    "near": agg.quantile("value", 0.5),
}
HERE = {name: kind for name, kind in AGGREGATES.items() if computed(kind, of_events=True)}


@cache
def clusters(unit: int) -> st.SearchStrategy[list[Event]]:
    """Events around the boundaries of windows and slices of `unit` µs, with ties among them."""
    time = st.builds(
        lambda n, fine: n * unit + fine, st.integers(-70, 70), st.sampled_from([-1, 0, 0, 1])
    )
    event = st.tuples(st.sampled_from("ab"), time, st.none() | st.integers(-9, 9))
    return drawn.few_or_many(event).map(
        # Arrivals are not in the order of time, and two are at once.
        lambda cluster: [Event(k, t, v, None, i // 2) for i, (k, t, v) in enumerate(cluster)]
    )


def order(event: Event) -> Any:
    return (event.time, event.arrival, event.value is not None, event.value or 0)


def folded(events: Iterable[Event]) -> tuple[Any, ...]:
    """What the aggregates in HERE give."""
    inside = sorted(events, key=order)
    values = [e.value for e in inside if e.value is not None]
    distinct = len(set(values))
    by_name = {
        "n": len(inside),
        "present": len(values),
        "total": sum(values) if values else None,
        "least": min(values, default=None),
        "most": max((v for v in values if v < 5), default=None),
        "middle": sum(values) / len(values) if values else None,
        "spread": statistics.stdev(values) if len(values) > 1 else None,
        "first": inside[0].value if inside else None,
        "last": inside[-1].value if inside else None,
        "values": values,
        "distinct": distinct,
        "median": statistics.median(values) if values else None,
        "about": distinct,
        # For up to 200 values the sketch gives the lower of the two in the middle.
        "near": sorted(values)[(len(values) - 1) // 2] if values else None,
    }
    return tuple(by_name[name] for name in HERE)


def around(event: Event, own: Sequence[Event], window: SlidingWindow) -> list[Event]:
    assert event.time is not None
    start = float("-inf") if window.size is None else event.time - window.size.us
    if window.before:
        place = (event.time, event.arrival)
        return [e for e in own if start <= e.time and (e.time, e.arrival) < place]  # type: ignore[operator]
    end = event.time + (window.following.us if window.following else 0)
    return [e for e in own if start <= e.time <= end]  # type: ignore[operator]


WINDOWS = [
    (SlidingWindow(size="64us"), 2),
    (SlidingWindow(size="64us", before=True), 2),
    (SlidingWindow(size="7us"), 1),
    (SlidingWindow(size="97us", before=True), 3),
    (SlidingWindow(size="3h"), 3_600_000_000 // 8),
    (SlidingWindow(size="10us", following="6us"), 1),
    (SlidingWindow(size="90m", following="90m"), 3_600_000_000 // 8),
    (SlidingWindow(size=None), DAY // 4),
    (SlidingWindow(size=None, before=True), DAY // 4),
    (SlidingWindow(size=None, following="1h"), DAY // 8),
]


@pytest.mark.parametrize("count", [0, 100])
@pytest.mark.parametrize(("window", "unit"), WINDOWS, ids=str)
def test_each_event_has_what_surrounds_it(
    spark: SparkSession, window: SlidingWindow, unit: int, count: int
) -> None:
    cases = drawn.cases(clusters(unit), count) if count else []
    events = drawn.apart(cases)
    given = frame(spark, [*events, Event("0:a", None, 1), Event(None, 5, 1)])
    result = aggregate(given, window, aggregates=HERE, arrival="arrival", **COMMON)
    windows: dict[str, Counter[Any]] = {}
    for key, time, *values in rows(result):
        windows.setdefault(key, Counter())[(time, *map(_comparable, values))] += 1
    own: dict[str, list[Event]] = {}
    for event in events:
        own.setdefault(str(event.key), []).append(event)
    expected = {
        key: Counter(
            (e.time, *map(_comparable, folded(around(e, mine, window))))  # type: ignore[arg-type]
            for e in mine
        )
        for key, mine in own.items()
    }
    drawn.check(windows, expected, lambda key: cases[drawn.number(key)])


def _comparable(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 9)
    return tuple(value) if isinstance(value, list) else value


def test_distinct_windows_are_those_of_kafka_streams(spark: SparkSession) -> None:
    """KIP-450's windows, as the replay has them when nothing is late, before 1970 too."""
    window = SlidingWindow(size="10ms", distinct=True)
    drawn_times = drawn.few_or_many(st.integers(-5, 80)).map(sorted)
    cases = drawn.cases(drawn_times, 200)
    events = drawn.apart(
        [Event("a", t * 1000, i % 3, None, i) for i, t in enumerate(times)] for times in cases
    )
    counted = {
        "n": agg.count(),
        "total": agg.sum("value"),
        "values": agg.count_distinct("value"),
    }
    given = frame(spark, [*events, Event("0:a", None, 1)])
    result = aggregate(given, window, aggregates=counted, engine="kafka-streams", **COMMON)
    windows: dict[str, set[Any]] = {}
    for key, *row in rows(result):
        assert tuple(row) not in windows.setdefault(key, set())
        windows[key].add(tuple(row))
    expected = {}
    for number, times in enumerate(cases):
        arriving = [
            Arriving(key="a", time=t * 1000, arrival=i, value={"value": i % 3})
            for i, t in enumerate(times)
        ]
        replayed = replay(arriving, window, engine="kafka-streams", grace="1h", aggregates=counted)
        assert not replayed.dropped_windows
        if replayed.final:
            expected[f"{number}:a"] = {(w.start, w.end, *w.values.values()) for w in replayed.final}
    drawn.check(windows, expected, lambda key: cases[drawn.number(key)])


@pytest.mark.parametrize("engine", ["plain", "flink"])
def test_they_are_those_of_the_replay(spark: SparkSession, engine: str) -> None:
    window, ms = SlidingWindow(size="10ms"), 1000
    cases = drawn.cases(drawn.few_or_many(st.integers(1, 90)), 100)
    placed = [[Event("a", t * ms + i % 2, i) for i, t in enumerate(times)] for times in cases]
    result = aggregate(
        frame(spark, [*drawn.apart(placed), Event("0:a", None, 1)]),
        window,
        aggregates={"n": agg.count(), "total": agg.sum("value")},
        engine=engine,
        **COMMON,
    )
    windows: dict[str, Counter[Any]] = {}
    for key, *row in rows(result):
        windows.setdefault(key, Counter())[tuple(row)] += 1
    expected = {}
    patient = {} if engine == "plain" else {"watermark_delay": "1h"}
    for number, events in enumerate(placed):
        replayed = replay(
            [
                Arriving(key="a", time=e.time, arrival=i, value={"value": e.value})
                for i, e in enumerate(events)
            ],
            window,
            engine=engine,
            aggregates={"n": agg.count(), "total": agg.sum("value")},
            **patient,  # type: ignore[arg-type]
        )
        if replayed.final:
            expected[f"{number}:a"] = Counter(
                (w.end, w.values["n"], w.values["total"]) for w in replayed.final
            )
    assert ENGINES[engine].tick_us == (1 if engine == "plain" else 1000)
    drawn.check(windows, expected, lambda key: cases[drawn.number(key)])


def test_a_copy_of_an_event_counts_once(spark: SparkSession) -> None:
    events = [
        Event("a", 10, 1, "x", 2),
        Event("a", 10, 5, "x", 1),
        Event("a", 12, 7, None, 3),
        Event("a", 12, 7, None, 3),
    ]
    result = aggregate(
        frame(spark, events),
        SlidingWindow(size="5us"),
        aggregates={"n": agg.count(), "total": agg.sum("value")},
        id="id",
        arrival="arrival",
        **COMMON,
    )
    assert result.columns == ["key", "event_time", "id", "n", "total"]
    assert sorted(rows(result), key=str) == [
        ("a", 10, "x", 1, 5),
        ("a", 12, None, 3, 19),
        ("a", 12, None, 3, 19),
    ]


def test_an_id_that_is_of_the_key_is_there_once(spark: SparkSession) -> None:
    events = spark.createDataFrame(
        [("a", 0, "x"), ("a", 0, "x")], "key string, time long, id string"
    )
    given = {**COMMON, "key": ["key", "id"], "id": "id"}
    result = aggregate(events, SlidingWindow(size="1h"), aggregates={"n": agg.count()}, **given)
    assert result.columns == ["key", "id", "event_time", "n"]
    assert [row["n"] for row in result.collect()] == [1]


@pytest.mark.spark_only
def test_sums_of_doubles_do_not_drift(spark: SparkSession) -> None:
    """A huge value that has left a window leaves nothing behind."""
    values = [1e300, 1.0, float("inf"), float("nan"), *([0.1] * 200)]
    events = frame(spark, [Event("a", i, v) for i, v in enumerate(values)], "double")
    result = aggregate(
        events,
        SlidingWindow(size="9us"),
        aggregates={"total": agg.sum("value"), "spread": agg.variance("value")},
        **COMMON,
    )
    by_time = {time: values for _, time, *values in rows(result)}
    for time in range(13, len(values)):
        total, spread = by_time[time]
        assert total == pytest.approx(1.0, abs=1e-14)
        assert spread == pytest.approx(0.0, abs=1e-30)


@pytest.mark.parametrize("before", [False, True])
def test_distinct_values_are_counted_by_when_each_was_seen_last(
    spark: SparkSession, before: bool
) -> None:
    """Zeros of both signs are one value, NaN is one, NULL none; a missing arrival is first."""
    value = st.sampled_from([None, 0.0, -0.0, float("nan"), 1.5, -7.0])
    event = st.tuples(st.integers(-12, 12), value, st.none() | st.integers(0, 3))
    cases = drawn.cases(drawn.few_or_many(event), 200)
    events = drawn.apart([Event("a", t, v, None, a) for t, v, a in one] for one in cases)
    window = SlidingWindow(size="5us", before=before)
    result = aggregate(
        frame(spark, [*events, Event("0:a", None, 1.0)], "double"),
        window,
        aggregates={
            "values": agg.count_distinct("value"),
            "small": agg.count_distinct("value", where="value < 1", approximate=not ON_SAIL),
        },
        arrival="arrival",
        **COMMON,
    )
    windows: dict[str, Counter[Any]] = {}
    for key, *row in rows(result):
        windows.setdefault(key, Counter())[tuple(row)] += 1
    expected = {}
    for number, one in enumerate(cases):
        counts: Counter[Any] = Counter()
        for t, _, a in one:
            place = (t, -1 if a is None else a)
            inside = [
                v
                for at, v, arrival in one
                if v is not None
                and t - 5 <= at <= t
                and (not before or (at, -1 if arrival is None else arrival) < place)
            ]
            # Python's NaN is not equal to itself; the text of a number is.
            texts = {str(v + 0.0) for v in inside}
            counts[t, len(texts), len({str(v + 0.0) for v in inside if v < 1})] += 1
        if one:
            expected[f"{number}:a"] = counts
    drawn.check(windows, expected, lambda key: cases[drawn.number(key)])


def test_null_keys_are_a_group_where_the_engine_has_them(spark: SparkSession) -> None:
    events = [Event(None, 5_000, 1), Event(None, 6_000, 2), Event("a", 6_000, 4)]
    result = aggregate(
        frame(spark, events),
        SlidingWindow(size="3ms"),
        aggregates={"total": agg.sum("value")},
        engine="flink",
        **COMMON,
    )
    assert sorted(rows(result), key=str) == [
        ("a", 6_000, 4),
        (None, 5_000, 1),
        (None, 6_000, 3),
    ]


def test_a_key_of_two_columns_may_have_one_that_is_null(spark: SparkSession) -> None:
    events = [Event("a", 5, 1), Event("a", 6, 2), Event("a", 6, 4, "x"), Event(None, 6, 8)]
    result = aggregate(
        frame(spark, events),
        SlidingWindow(size="3us"),
        aggregates={"total": agg.sum("value"), "distinct": agg.count_distinct("value")},
        **(COMMON | {"key": ["key", "id"]}),
    )
    assert sorted(rows(result), key=str) == [
        ("a", "x", 6, 4, 1),
        ("a", None, 5, 1, 1),
        ("a", None, 6, 3, 2),
    ]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SlidingWindow(size="1h", before=True, following="1h"), "following: can't be comb"),
        (lambda: SlidingWindow(size=None, distinct=True), "size: distinct windows need a size"),
        (lambda: SlidingWindow(size="1h", before=1), "before: must be true or false"),  # type: ignore[arg-type]
        (lambda: SlidingWindow(size="1h", following="0s"), "following: must be greater"),
    ],
)
def test_what_has_no_meaning_is_refused(make: Any, message: str) -> None:
    with pytest.raises(WindowError, match=message):
        make()


@pytest.mark.spark_only
def test_what_sliding_windows_do_not_have_is_refused(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    events = frame(spark, [Event("a", 1, 1)])
    own = agg.custom("value", partial=F.max, merge=F.greatest)
    with pytest.raises(AggregateError, match=r"is not available for sliding windows.*Use an aggr"):
        aggregate(events, SlidingWindow(size="1h"), aggregates={"own": own}, **COMMON)
    with pytest.raises(WindowError, match="combine: has no meaning for sliding windows"):
        aggregate(events, SlidingWindow(size="1h"), aggregates={}, combine=True, **COMMON)
    with pytest.raises(AggregateError, match="event_time"):
        aggregate(
            events, SlidingWindow(size="1h"), aggregates={"event_time": agg.count()}, **COMMON
        )
