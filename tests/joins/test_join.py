"""Pairs that are close in time, checked by looking at every pair."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from backfill import HoppingWindow, SessionWindow, TumblingWindow, join
from backfill.alignment import assigner
from backfill.errors import ColumnError, JobFileError, WindowError
from tests import drawn
from tests.event_frames import rows
from tests.joins import reference
from tests.joins.reference import HOWS, Case, Row

COMMON: dict[str, Any] = {"on": ["key", "part"], "time": "time", "time_format": "epoch_us"}
UNIT = 10
#: The setting, and what it allows before and after in µs.
WITHIN = {
    "both": (("20us", "10us"), 20, 10),
    "none": (("0s", "0s"), 0, 0),
    "before": (("1us", "0s"), 1, 0),
    "after": (("0s", "30us"), 0, 30),
    "even": ("15us", 15, 15),
    "all": (("20000d", "9000000d"), 1 << 60, 1 << 60),
}


@cache
def cases() -> list[Case]:
    hot = [Row("hot", n // 3, n % 4) for n in range(-40, 40)]
    alike = [Row("a", 5, 1)] * 3
    some = [([], []), ([], alike), (alike, []), (alike, alike * 2), (hot, hot[::2])]
    return [*some, *drawn.cases(reference.sides(UNIT), 300)]


def found(spark: SparkSession, how: str, within: Any, **more: Any) -> Counter[Any]:
    left, right = (reference.frame(spark, side) for side in reference.apart(cases()))
    return Counter(rows(join(left, right, how=how, within=within, **COMMON, **more)))


def close(left: list[Row], right: list[Row], i: int, j: int, before: int, after: int) -> bool:
    one, other = left[i], right[j]
    if one.time is None or other.time is None or not reference.same_key(one, other):
        return False
    return one.time - before <= other.time <= one.time + after


@pytest.mark.parametrize(
    ("how", "name"),
    [
        *((how, name) for how in HOWS for name in ("both", "none")),
        *(("full", name) for name in ("before", "after", "even", "all")),
    ],
)
def test_pairs_are_those_of_plain_python(spark: SparkSession, how: str, name: str) -> None:
    within, before, after = WITHIN[name]
    expected = reference.by_case(
        cases(),
        lambda left, right: reference.joined(
            left, right, how, lambda i, j: close(left, right, i, j, before, after)
        ),
    )
    drawn.check(found(spark, how, within), expected, reference.case_of(cases()))


@pytest.mark.parametrize("how", HOWS)
def test_a_further_condition(spark: SparkSession, how: str) -> None:
    def meets(left: list[Row], right: list[Row], i: int, j: int) -> bool:
        a, b = left[i].value, right[j].value
        more = a is not None and b is not None and a <= b
        return more and left[i].arrival == right[j].arrival and close(left, right, i, j, 20, 10)

    expected = reference.by_case(
        cases(),
        lambda left, right: reference.joined(
            left, right, how, lambda i, j: meets(left, right, i, j)
        ),
    )
    where = "left.value <= right.value AND left.arrival = right.arrival"
    same = found(spark, how, ("20us", "10us"), where=where)
    drawn.check(same, expected, reference.case_of(cases()))


WINDOWS = [
    TumblingWindow(size="20us", offset="3us"),
    HoppingWindow(size="30us", advance="10us"),
    HoppingWindow(size="25us", advance="7us", offset="2us"),
]


@pytest.mark.parametrize(
    ("how", "unique"),
    [*((how, True) for how in HOWS), *((how, False) for how in ("inner", "left", "full"))],
)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_pairs_of_windows(
    spark: SparkSession, how: str, window: TumblingWindow | HoppingWindow, unique: bool
) -> None:
    windows = assigner(window)

    def shared(left: list[Row], right: list[Row], i: int, j: int) -> list[tuple[int, int]]:
        if not close(left, right, i, j, 100, 100):
            return []
        held = windows(right[j].time)  # type: ignore[arg-type]
        return [bounds for bounds in windows(left[i].time) if bounds in held]  # type: ignore[arg-type]

    def expected(left: list[Row], right: list[Row]) -> Counter[Any]:
        once = reference.joined(left, right, how, lambda i, j: bool(shared(left, right, i, j)))
        if unique:
            return once
        alone: Counter[Any] = Counter()
        for row, count in once.items():
            if row[2] is None or row[5] is None:
                alone[(*row, None, None)] = count
        for i, one in enumerate(left):
            for j, other in enumerate(right):
                for bounds in shared(left, right, i, j):
                    pair = (*one.whole, other.time, other.value, other.arrival)
                    alone[(*pair, *bounds)] += 1
        return alone

    every = reference.by_case(cases(), expected)
    drawn.check(found(spark, how, window, unique=unique), every, reference.case_of(cases()))


def test_one_group_of_all_events(spark: SparkSession) -> None:
    events = spark.range(5).selectExpr("id", "timestamp_seconds(id) at")
    result = join(events, events, on=[], time="at", within=("1s", "0s"))
    assert result.columns == ["id", "at", "id_right", "at_right"]
    pairs = sorted((row.id, row.id_right) for row in result.collect())
    assert pairs == sorted((n, n - back) for n in range(5) for back in (0, 1) if n >= back)


@pytest.mark.spark_only
def test_every_type_of_key(spark: SparkSession) -> None:
    """Zeros of either sign are equal, and so are NaNs, as everywhere in Spark."""
    kinds = (
        "(double('NaN'), 0.0D, true, date'2026-01-01', x'00', 1.5BD, timestamp_ntz'2026-01-01')",
        "(double('NaN'), -0.0D, true, date'2026-01-01', x'00', 1.5BD, timestamp_ntz'2026-01-01')",
    )
    one, other = (
        spark.sql(f"SELECT *, timestamp_seconds(0) at FROM VALUES {kind} t(a, b, c, d, e, f, g)")
        for kind in kinds
    )
    for how, pairs in (("inner", 1), ("anti", 0), ("full", 1)):
        result = join(one, other, on=list("abcdefg"), time="at", within="1s", how=how)
        assert result.count() == pairs
    other = other.withColumn("c", F.lit(False))
    assert join(one, other, on=list("abcdefg"), time="at", within="1s").count() == 0


@pytest.mark.spark_only
def test_texts_that_a_collation_takes_for_equal(spark: SparkSession) -> None:
    one, other = (
        spark.sql(f"SELECT collate('{letter}', 'UTF8_LCASE') AS user, timestamp_seconds(0) at")
        for letter in "Aa"
    )
    assert join(one, other, on="user", time="at", within="1s").count() == 1
    assert join(one, other, on="user", time="at", within="1s", how="anti").count() == 0


def test_columns_of_the_result(spark: SparkSession) -> None:
    left = spark.sql("SELECT 1 `user id`, timestamp_seconds(0) `a.t`, 'l' `Page`, 2 `it``s`")
    right = spark.sql("SELECT 'r' page, 1 `user id`, timestamp_seconds(1) `b.t`, 3 `it``s`")
    for how in ("inner", "left", "full"):
        result = join(left, right, on="user id", time=("a.t", "b.t"), within="1s", how=how)
        names = ["user id", "a.t", "Page", "it`s", "page_right", "b.t", "it`s_right"]
        assert result.columns == names
        [row] = result.collect()
        assert (row["Page"], row["page_right"], row["it`s"], row["it`s_right"]) == ("l", "r", 2, 3)
    result = join(left, right, on="user id", time=("a.t", "b.t"), within="1s", how="semi")
    assert result.columns == left.columns


def test_times_in_the_zone(spark: SparkSession) -> None:
    left = spark.sql("SELECT 1 k, timestamp_ntz'2026-07-01 02:00:00' at")
    right = spark.sql("SELECT 1 k, timestamp'2026-07-01 00:00:00Z' at")
    common: dict[str, Any] = {"on": "k", "time": "at", "within": "1us"}
    assert join(left, right, timezone="Europe/Berlin", **common).count() == 1
    assert join(left, right, **common).count() == 0


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"within": ("5m",)}, WindowError, "within: must be two durations, before and after"),
    ({"within": 5}, WindowError, "within: a bare number has no unit"),
    ({"within": ("-5m", "30m")}, WindowError, "the time before the left event can't be negative"),
    ({"within": ("5m", "-1s")}, WindowError, "the time after the left event can't be negative"),
    ({"within": "1 day"}, WindowError, "within: can't be a calendar span"),
    (
        {"within": TumblingWindow(size="1 day")},
        WindowError,
        "within: events can't be joined within calendar windows",
    ),
    ({"within": SessionWindow(gap="1h")}, WindowError, "within: not a duration"),
    ({"unique": False}, WindowError, "unique: pairs are repeated only for tumbling and hopping"),
    (
        {"unique": False, "within": TumblingWindow(size="1h"), "how": "semi"},
        WindowError,
        "unique: pairs are repeated only for",
    ),
    ({"unique": 1}, WindowError, "unique: must be true or false"),
    ({"how": "outer"}, WindowError, "how: must be inner or left or full or semi or anti"),
    ({"on": "usr"}, ColumnError, "on: the left side has no such column .*'usr'.*'user'"),
    ({"on": "word"}, ColumnError, "on: is string on the left side and int on the right"),
    ({"time": "tme"}, ColumnError, "left.time: there is no such column"),
    ({"time": ("at", "word")}, ColumnError, "right.word: it is int, and time_format"),
    ({"time": ("at", "at", "at")}, ColumnError, "time: must be one column, or the left side's"),
    ({"timezone": "Mars"}, JobFileError, "timezone: there is no such time zone"),
    ({"where": " "}, WindowError, "where: must be a predicate"),
    ({"where": "right.amont > 1"}, WindowError, "where: does not fit the two sides"),
    pytest.param(
        *({"where": "right.word"}, WindowError, "where: does not fit the two sides"),
        marks=pytest.mark.spark_only,
    ),
    ({"where": "at > at"}, WindowError, "where: does not fit the two sides"),
]


@pytest.mark.parametrize(
    ("given", "error", "message"), REFUSED, ids=lambda parameter: str(parameter)
)
def test_what_is_refused(
    spark: SparkSession, given: dict[str, Any], error: type[Exception], message: str
) -> None:
    left = spark.sql("SELECT 1 AS user, timestamp_seconds(0) at, 'a' word")
    right = spark.sql("SELECT 1 AS user, timestamp_seconds(0) at, 1 word")
    with pytest.raises(error, match=message):
        join(left, right, **{"on": "user", "time": "at", "within": "1s", **given})


def test_the_window_of_a_pair(spark: SparkSession) -> None:
    events = spark.sql("SELECT 1 AS user, timestamp_seconds(90) at")
    hours = HoppingWindow(size="2m", advance="1m")
    common: dict[str, Any] = {"on": "user", "time": "at", "within": hours, "unique": False}
    result = join(events, events, **common)
    assert result.columns == ["user", "at", "at_right", "window_start", "window_end"]
    bounds = sorted(row[3:] for row in rows(result))
    assert bounds == [(0, 120_000_000), (60_000_000, 180_000_000)]
    with pytest.raises(ColumnError, match="unique: the result would have two columns"):
        join(events.selectExpr("*", "1 Window_End"), events, **common)


def test_names_that_are_taken(spark: SparkSession) -> None:
    left = spark.sql("SELECT 1 AS user, timestamp_seconds(0) at")
    twice = spark.sql("SELECT 1 AS user, timestamp_seconds(0) at, 1 AT_right")
    own = spark.sql("SELECT 1 AS user, timestamp_seconds(0) at, 1 _Backfill_Time")
    exported = spark.sql("SELECT 1 AS user, timestamp_seconds(0) at, 7 _Time")
    common: dict[str, Any] = {"on": "user", "time": "at", "within": "1s"}
    assert [row._Time for row in join(left, exported, **common).collect()] == [7]
    with pytest.raises(ColumnError, match="right: the result would have two columns of this name"):
        join(left, twice, **common)
    with pytest.raises(ColumnError, match="right: is a name that the join itself uses"):
        join(left, own, **common)
    with pytest.raises(ColumnError, match="left: is the name of two columns"):
        join(left.select("*", "at"), left, **common)
