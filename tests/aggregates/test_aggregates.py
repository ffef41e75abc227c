"""Every aggregate against plain Python, merged from several slices of each window."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import strategies as st
from pyspark.errors import ArithmeticException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill import HoppingWindow, SessionWindow, SlidingWindow, TumblingWindow, aggregate
from backfill import aggregates as agg
from backfill.aggregates.base import Aggregate
from backfill.errors import AggregateError
from backfill.windows import Window
from tests import drawn, reference
from tests.event_frames import frame
from tests.on_sail import computed
from tests.reference import Event

GAP = 1_000_000
COMMON = {"key": "key", "time": "time", "time_format": "epoch_us"}
MAX = 2**63 - 1


def in_order(events: list[Event]) -> list[Event]:
    return sorted(events, key=lambda e: (e.time, e.arrival, e.value is not None, e.value or 0))


def values(events: list[Event]) -> list[int]:
    return [e.value for e in in_order(events) if e.value is not None]


def over(compute: Callable[[list[int]], Any], least: int = 1) -> Callable[[list[Event]], Any]:
    return lambda events: compute(values(events)) if len(values(events)) >= least else None


def percentile(share: float) -> Callable[[list[int]], float]:
    def compute(numbers: list[int]) -> float:
        ordered, place = sorted(numbers), share * (len(numbers) - 1)
        below, above = ordered[math.floor(place)], ordered[math.ceil(place)]
        return below + (place - math.floor(place)) * (above - below)

    return compute


def reached(steps: list[Callable[[int], bool]], events: list[Event]) -> int:
    """Events of equal time and arrival are in the order of the steps that they meet."""
    places = [
        (e.time, e.arrival, [step(e.value) for step in steps])
        for e in events
        if e.value is not None
    ]
    count, rest = 0, iter(sorted(places))
    while count < len(steps) and any(holds[count] for _, _, holds in rest):
        count += 1
    return count


def seconds(events: list[Event]) -> float | None:
    times = [e.time for e in events]
    return (max(times) - min(times)) / 1_000_000 if times else None


KINDS: dict[str, tuple[Aggregate, Callable[[list[Event]], Any]]] = {
    "count": (agg.count(), len),
    "count_values": (agg.count("value"), lambda es: len(values(es))),
    "count_where": (agg.count(where="value > 0"), lambda es: sum(v > 0 for v in values(es))),
    "sum": (agg.sum("value"), over(sum)),
    "sum_int": (agg.sum("cast(value as int)"), over(sum)),
    "sum_decimal": (
        agg.sum("cast(value as decimal(10, 2)) / 4"),
        over(lambda vs: sum(Decimal(v) / 4 for v in vs)),
    ),
    "sum_double": (agg.sum("cast(value as double)"), over(lambda vs: float(sum(vs)))),
    "sum_where": (
        agg.sum("value", where="value % 2 = 0"),
        lambda es: (
            sum(v for v in values(es) if v % 2 == 0)
            if any(v % 2 == 0 for v in values(es))
            else None
        ),
    ),
    "min": (agg.min("value"), over(min)),
    "max": (agg.max("value"), over(max)),
    "max_text": (agg.max("cast(value as string)"), over(lambda vs: max(map(str, vs)))),
    "mean": (agg.mean("value"), over(statistics.fmean)),
    "variance": (agg.variance("value"), over(lambda vs: float(statistics.variance(vs)), 2)),
    "stddev": (agg.stddev("value"), over(lambda vs: math.sqrt(statistics.variance(vs)), 2)),
    "first": (agg.first("value"), lambda es: in_order(es)[0].value),
    "last": (agg.last("value"), lambda es: in_order(es)[-1].value),
    "first_positive": (
        agg.first("value", where="value > 0"),
        lambda es: next((v for v in values(es) if v > 0), None),
    ),
    "list": (agg.collect_list("value"), values),
    "set": (agg.collect_set("value"), lambda es: sorted(set(values(es)))),
    "distinct": (agg.count_distinct("value"), lambda es: len(set(values(es)))),
    "funnel": (
        agg.funnel(["value > 0", "value % 2 = 0", "value < 0"]),
        lambda es: reached([lambda v: v > 0, lambda v: v % 2 == 0, lambda v: v < 0], es),
    ),
    "path": (agg.path("value", 3), lambda es: values(es)[:3]),
    "duration": (agg.duration(), lambda es: seconds(es)),
    "duration_where": (
        agg.duration(where="value > 0"),
        lambda es: seconds([e for e in es if e.value is not None and e.value > 0]),
    ),
    "bounce": (agg.bounce(), lambda es: len(es) == 1),
    "bounce_where": (
        agg.bounce(where="value > 0"),
        lambda es: sum(v > 0 for v in values(es)) == 1 if any(v > 0 for v in values(es)) else None,
    ),
    # Both sketches are exact, or nearly so, for as few values as these.
    "distinct_hll": (
        agg.count_distinct("value", approximate=True),
        lambda es: len(set(values(es))),
    ),
    "median": (agg.quantile("value", 0.5, exact=True), over(percentile(0.5))),
    "p90": (agg.quantile("value", 0.9, exact=True), over(percentile(0.9))),
    "least": (agg.quantile("value", 0.0), over(lambda vs: float(min(vs)))),
    "most": (agg.quantile("value", 1.0), over(lambda vs: float(max(vs)))),
    "product": (
        agg.custom(
            "cast(value as double)",
            partial=lambda x: F.sum(F.when(x != 0, F.log2(F.abs(x)))),
            merge=lambda a, b: a + b,
            finish=lambda s: F.round(s, 6),
        ),
        lambda es: (
            round(sum(math.log2(abs(v)) for v in values(es) if v), 6) if any(values(es)) else None
        ),
    ),
    # Not commutative, so it shows whether states are merged in order of time.
    "edges": (
        agg.custom(
            "struct(time, value)",
            partial=lambda x: F.struct(
                F.min(x["time"]).alias("begun"), F.max(x["time"]).alias("ended")
            ),
            merge=lambda a, b: F.struct(a["begun"].alias("begun"), b["ended"].alias("ended")),
            finish=lambda s: s["ended"] - s["begun"],
        ),
        lambda es: max(e.time for e in es) - min(e.time for e in es),
    ),
    "changes": (
        agg.fold(
            "value",
            start=lambda: F.struct(F.lit(0).alias("n"), F.lit(None).cast("bigint").alias("at")),
            step=lambda s, x: F.struct(
                (s["n"] + F.when(s["at"].eqNullSafe(x), 0).otherwise(1)).alias("n"), x.alias("at")
            ),
            finish=lambda s: s["n"],
        ),
        lambda es: sum(
            1
            for before, after in zip(
                [None, *(e.value for e in in_order(es))],
                (e.value for e in in_order(es)),
                strict=False,
            )
            if before != after
        ),
    ),
}

events = drawn.few_or_many(
    st.builds(
        Event,
        st.sampled_from("ab"),
        st.integers(-20, 20).map(lambda n: n * GAP // 3),
        st.one_of(st.none(), st.integers(-9, 9)),
        st.none(),
        st.integers(0, 3),
    )
)


def alike(found: Any, expected: Any) -> bool:
    if isinstance(expected, float):
        return found is not None and math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-9)
    return found == expected


def check(
    result: DataFrame,
    groups: dict[tuple[str | None, int], list[Event]],
    kinds: dict[str, tuple[Aggregate, Callable[[list[Event]], Any]]],
    cases: list[list[Event]],
) -> None:
    """Compare every aggregate of every key and start."""
    rows = result.withColumn("at", F.unix_micros("window_start")).collect()
    places = [(row["key"], row["at"]) for row in rows]
    assert len(places) == len(set(places))
    drawn.check(
        {
            (*place, name): row[name]
            for place, row in zip(places, rows, strict=True)
            for name in kinds
        },
        {
            (*place, name): compute(events)
            for place, events in groups.items()
            for name, (_, compute) in kinds.items()
        },
        case=lambda place: cases[drawn.number(place[0])],
        same=alike,
    )


@pytest.mark.parametrize("shape", ["sessions", "tumbling"])
@pytest.mark.parametrize("empty", [False, True])
def test_aggregates_are_those_of_plain_python(spark: SparkSession, shape: str, empty: bool) -> None:
    cases: list[list[Event]] = [[]] if empty else drawn.cases(events, 200)
    together = drawn.apart(cases)
    window = SessionWindow(gap="1s") if shape == "sessions" else TumblingWindow(size="4s")
    result = aggregate(
        frame(spark, together),
        window,
        aggregates={name: kind for name, (kind, _) in KINDS.items()},
        arrival="arrival",
        **COMMON,
    )
    if shape == "sessions":
        groups = {(s[0].key, s[0].time): s for s in reference.sessions(together, GAP)}
    else:
        tumbling = reference.grouped(together, reference.hopping(4 * GAP, 4 * GAP))
        groups = {(key, start): es for (key, start, _), es in tumbling.items()}
    check(result, groups, KINDS, cases)


KINDS = {name: kind for name, kind in KINDS.items() if computed(kind[0])}
RUNNING = {name: kind for name, kind in KINDS.items() if kind[0].running}


# Ways to compute: blocks of windows, a block's windows side by side, and events as they are.
WAYS: dict[str, tuple[Window, bool | None, slice]] = {
    "blocks": (HoppingWindow(size="5s", advance="500ms"), None, slice(None)),
    **{
        f"side by side {i}": (HoppingWindow(size="4s", advance="500ms"), combine, slice(i, None, 3))
        for i, combine in enumerate((None, True, None))
    },
    "tumbling": (TumblingWindow(size="4s"), None, slice(None)),
    "not combined": (SessionWindow(gap="1s"), False, slice(None)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("empty", [False, True])
def test_aggregates_that_run(spark: SparkSession, way: str, empty: bool) -> None:
    cases: list[list[Event]] = [[]] if empty else drawn.cases(events, 100)
    together = drawn.apart(cases)
    assert set(RUNNING) >= {"count", "sum", "sum_decimal", "sum_double", "min", "max_text", "mean"}
    window, combine, part = WAYS[way]
    kinds = dict(list(RUNNING.items())[part])
    result = aggregate(
        frame(spark, together),
        window,
        aggregates={name: kind for name, (kind, _) in kinds.items()},
        combine=combine,
        **COMMON,
    )
    if isinstance(window, SessionWindow):
        groups = {(s[0].key, s[0].time): s for s in reference.sessions(together, GAP)}
    else:
        size = window.size.us
        advance = window.advance.us if isinstance(window, HoppingWindow) else size
        windows = reference.grouped(together, reference.hopping(size, advance))
        groups = {(key, start): held for (key, start, _), held in windows.items()}
    check(result, groups, kinds, cases)


def one(spark: SparkSession, aggregate_: Aggregate, numbers: list[Any], type: str) -> Any:
    """The aggregate over one session, each value in a slice of its own."""
    events = [Event("a", i * GAP, v) for i, v in enumerate(numbers)]
    result = aggregate(
        frame(spark, events, type), SessionWindow(gap="1s"), aggregates={"x": aggregate_}, **COMMON
    )
    [row] = result.collect()
    return row["x"]


@pytest.mark.spark_only
def test_a_sum_overflows_only_if_the_total_does(spark: SparkSession) -> None:
    total = agg.sum("value")
    assert one(spark, total, [MAX, 1, -2], "bigint") == MAX - 1
    assert one(spark, total, [-MAX - 1, -1, 1], "bigint") == -MAX - 1
    assert one(spark, total, [MAX, MAX, -MAX, -MAX - 1], "bigint") == -1
    with pytest.raises(ArithmeticException):
        one(spark, total, [MAX, 1], "bigint")
    with pytest.raises(ArithmeticException):
        one(spark, total, [-MAX - 1, -1], "bigint")


@pytest.mark.spark_only
def test_decimals_keep_their_scale_and_overflow_loudly(spark: SparkSession) -> None:
    large = Decimal("9" * 36 + ".25")
    negative = large.copy_negate()  # exact, where unary minus would round
    assert one(spark, agg.sum("value"), [large, negative, Decimal("0.25")], "decimal(38,2)") == (
        Decimal("0.25")
    )
    with pytest.raises(ArithmeticException):
        one(spark, agg.sum("value"), [large] * 101, "decimal(38,2)")
    assert one(spark, agg.mean("value"), [Decimal("0.10"), Decimal("0.30")], "decimal(5,2)") == (
        Decimal("0.2")
    )


@pytest.mark.spark_only
def test_variance_stays_accurate_far_from_zero(spark: SparkSession) -> None:
    numbers = [1e9 + n for n in (4.0, 7.0, 13.0, 16.0)]
    assert one(spark, agg.variance("value"), numbers, "double") == pytest.approx(30, rel=1e-12)


@pytest.mark.spark_only
def test_nan_infinity_and_negative_zero(spark: SparkSession) -> None:
    nan, inf = float("nan"), float("inf")
    assert math.isnan(one(spark, agg.sum("value"), [1.0, nan], "double"))
    assert math.isnan(one(spark, agg.variance("value"), [1.0, nan, 2.0], "double"))
    assert one(spark, agg.sum("value"), [1.0, inf], "double") == inf
    assert math.isnan(one(spark, agg.max("value"), [1.0, nan], "double"))
    assert one(spark, agg.min("value"), [1.0, nan], "double") == 1.0
    assert one(spark, agg.count_distinct("value"), [0.0, -0.0, nan, nan], "double") == 2
    assert one(spark, agg.count_distinct("value", True), [0.0, -0.0], "double") == 1
    assert one(spark, agg.quantile("value", 0.5), [nan, 3.0], "double") == 3.0
    assert one(spark, agg.quantile("value", 0.5), [nan], "double") is None
    assert one(spark, agg.quantile("value", 0.5, exact=True), [inf, inf], "double") == inf


@pytest.mark.parametrize("window", [SessionWindow(gap="1s"), SlidingWindow(size="1s")], ids=str)
def test_negative_zero_in_arrays_and_structs(spark: SparkSession, window: Any) -> None:
    events = spark.sql(
        "SELECT 'a' key, id * 1000 AS time, array(number) list,"
        " named_struct('x', array(number), 'y', 1) pair"
        " FROM VALUES (0, -0.0D), (1, 0.0D), (2, CAST(NULL AS DOUBLE)) AS v(id, number)"
    )
    wanted = {"list": agg.count_distinct("list"), "pair": agg.count_distinct("pair")}
    if isinstance(window, SessionWindow):
        wanted |= {"lists": agg.collect_set("list"), "pairs": agg.collect_set("pair")}
    rows = aggregate(events, window, aggregates=wanted, **COMMON).collect()
    last = max(rows, key=lambda row: row["list"])
    assert (last["list"], last["pair"]) == (2, 2)
    if isinstance(window, SessionWindow):
        assert sorted(last["lists"], key=repr) == [[0.0], [None]]
        assert sorted((tuple(x), y) for x, y in last["pairs"] if x != [None]) == [((0.0,), 1)]


@pytest.mark.spark_only
def test_sketches_stay_within_their_documented_errors(spark: SparkSession) -> None:
    many = spark.range(20_000).selectExpr("'a' key", "id * 1000000 time", "id % 7919 value")
    row = aggregate(
        many,
        SessionWindow(gap="1s"),
        aggregates={
            "distinct": agg.count_distinct("value", approximate=True),
            "median": agg.quantile("value", 0.5),
        },
        **COMMON,
    ).first()
    assert row is not None
    assert abs(row["distinct"] - 7919) < 4 * 0.016 * 7919
    below = sum(1 for i in range(20_000) if i % 7919 <= row["median"])
    assert abs(below - 10_000) < 2 * 0.0165 * 20_000


def test_which_can_be_merged_and_which_grow() -> None:
    kinds = {name: (kind.mergeable, kind.grows) for name, (kind, _) in KINDS.items()}
    assert {name for name, (mergeable, _) in kinds.items() if not mergeable} == {
        "median",
        "p90",
        "changes",
    }
    assert {name for name, (_, grows) in kinds.items() if grows} == {
        "list",
        "set",
        "distinct",
        "funnel",
        "median",
        "p90",
        "changes",
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("summ(x)", "Did you mean 'sum'"),
        ("sum", "missing a required argument"),
        ("sum(x", "not closed"),
        ("sum(x) foo", "is not allowed after"),
        ("sum(x, y)", "is not a parameter"),
        ("quantile(x, 2)", "share: must be between 0 and 1"),
        ("quantile(x, 0.5, precise=true)", "unexpected keyword"),
        ("(x)", "not an aggregate"),
        ("funnel", "missing a required argument"),
        ("funnel([])", "needs a list of predicates"),
        ("path(page)", "missing a required argument"),
        ("path(page, 0)", "limit: must be a whole number"),
        ("duration(x)", "too many positional arguments"),
        ("", "not an aggregate"),
    ],
)
def test_texts_that_are_refused(text: str, says: str) -> None:
    with pytest.raises(AggregateError, match=says):
        agg.parse(text)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("count", agg.count()),
        ("count(*)", agg.count()),
        ("count where a = 'x, (y'", agg.count(where="a = 'x, (y'")),
        ("sum(f(a, b) * `c)`) WHERE d", agg.sum("f(a, b) * `c)`", where="d")),
        ("quantile(ms, .95, exact=true)", agg.quantile("ms", 0.95, exact=True)),
        ("funnel([page = '/', f(a, 'x,]')])", agg.funnel(["page = '/'", "f(a, 'x,]')"])),
        ("funnel(steps) where d", agg.funnel("steps", where="d")),
        ("path(page, 3) where d", agg.path("page", 3, where="d")),
        ("duration where d", agg.duration(where="d")),
        ("bounce", agg.bounce()),
        ("count_distinct(p, true)", agg.count_distinct("p", approximate=True)),
    ],
)
def test_texts_and_what_they_mean(text: str, same: Aggregate) -> None:
    assert agg.parse(text) == same
    assert agg.parse(str(same)) == same


@pytest.mark.spark_only
@pytest.mark.parametrize(
    ("each", "says"),
    [
        (agg.sum("key"), "takes a number"),
        (agg.mean("cast(value as decimal(38, 38))"), "with fewer than 38 digits after the point"),
        (agg.sum("nosuch"), "nosuch"),
        (agg.sum("value +"), "does not fit"),
        (agg.sum("row_number() over (order by value)"), "must be computed from a single event"),
        (agg.sum("explode(array(1, 2))"), "must be computed from a single event"),
        (agg.sum("sum(value)"), "must be computed from a single event"),
        (agg.count(where="max(value) > 1"), "must be computed from a single event"),
        (agg.count(where="value"), "predicate"),
        (agg.first("map(key, value)"), "can be ordered"),
        (agg.funnel("value"), "funnel|does not fit"),
        (agg.funnel(["value"]), "does not fit"),
    ],
)
def test_what_does_not_fit_the_events_is_told(
    spark: SparkSession, each: Aggregate, says: str
) -> None:
    with pytest.raises(AggregateError, match=says):
        aggregate(frame(spark, []), SessionWindow(gap="1s"), aggregates={"x": each}, **COMMON)


@pytest.mark.parametrize("name", ["key", "window_start", "session_id", "is_open", "_x"])
def test_names_of_the_result_are_refused(spark: SparkSession, name: str) -> None:
    with pytest.raises(AggregateError, match="the name is reserved"):
        aggregate(
            frame(spark, []), SessionWindow(gap="1s"), aggregates={name: agg.count()}, **COMMON
        )


def test_an_empty_name_is_refused(spark: SparkSession) -> None:
    with pytest.raises(AggregateError, match="aggregates: an aggregate has an empty name"):
        aggregate(frame(spark, []), SessionWindow(gap="1s"), aggregates={"": agg.count()}, **COMMON)


@pytest.mark.spark_only
def test_distinct_values_that_spark_hashes_alike(spark: SparkSession) -> None:
    """A hash leaves out NULLs, and where nested values end."""
    frame = spark.sql(
        "SELECT 'a' AS key, timestamp_seconds(n) AS time, v.* FROM VALUES"
        " (1, named_struct('list', array(1, NULL), 'pair', named_struct('x', 'b', 'y', NULL),"
        "                  'lists', array(array(1), array(2)))),"
        " (2, named_struct('list', array(NULL, 1), 'pair', named_struct('x', NULL, 'y', 'b'),"
        "                  'lists', array(array(1, 2)))),"
        " (3, named_struct('list', array(1), 'pair', named_struct('x', 'b', 'y', 'b'),"
        "                  'lists', array(array(1, 2), array()))),"
        " (4, named_struct('list', array(1), 'pair', named_struct('x', 'b', 'y', NULL),"
        "                  'lists', array(array(1, 2)))),"
        " (5, named_struct('list', array(NULL, NULL), 'pair', NULL, 'lists', array(NULL)))"
        " t(n, v)"
    )
    numbers = {
        f"{name}_{approximate}": agg.count_distinct(name, approximate)
        for name in ("list", "pair", "lists")
        for approximate in (False, True)
    }
    for window in (TumblingWindow(size="1h"), SlidingWindow(size="1h")):
        rows = aggregate(frame, window, key="key", time="time", aggregates=numbers).collect()
        last = max(rows, key=lambda row: row["list_False"])
        assert [last[name] for name in numbers] == [4, 4, 3, 3, 4, 4], window


@pytest.mark.spark_only
def test_values_without_an_order_in_copies(spark: SparkSession) -> None:
    """Copies of an event whose inputs include a map: one of them counts, always the same one."""
    rows = [("a", 1, "x", n) for n in (3, 1, 2)] + [("a", 1, None, 5), ("b", 1, "x", None)]
    events = spark.createDataFrame(rows, "key string, time bigint, id string, n int").selectExpr(
        "key", "time", "id", "CASE WHEN n IS NOT NULL THEN map('n', n) END AS pairs"
    )
    numbers = {
        "n": agg.count("pairs"),
        "least": agg.custom(
            "pairs", partial=lambda v: F.min(v["n"]), merge=lambda a, b: F.least(a, b)
        ),
    }
    for window in (TumblingWindow(size="1h"), SessionWindow(gap="1h")):
        windows = aggregate(events, window, id="id", aggregates=numbers, **COMMON)
        assert {(row.key, row.n, row.least) for row in windows.collect()} == {
            ("a", 2, 1),
            ("b", 0, None),
        }
