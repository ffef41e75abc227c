"""The latest event before another, checked by looking at every pair."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from backfill import as_of
from backfill.errors import ColumnError, WindowError
from tests import drawn
from tests.event_frames import rows
from tests.joins import reference
from tests.joins.reference import Case, Row

COMMON: dict[str, Any] = {"on": ["key", "part"], "time": "time", "time_format": "epoch_us"}


@cache
def cases() -> list[Case]:
    hot = [Row("hot", n // 3, n % 4) for n in range(-40, 40)]
    alike = [Row("a", 5, 1)] * 3
    some = [([], []), ([], alike), (alike, []), (alike, alike * 2), (hot, hot[::2])]
    return [*some, *drawn.cases(reference.sides(10), 300)]


def before(
    own: Row, right: list[Row], *, tolerance: int | None, exact: bool, arrived: bool
) -> tuple[Any, ...]:
    candidates = [
        other
        for other in right
        if None not in (own.time, other.time)
        and reference.same_key(own, other)
        and (other.time < own.time or (exact and other.time == own.time))  # type: ignore[operator]
        and (tolerance is None or own.time - other.time <= tolerance)  # type: ignore[operator]
    ]
    if not candidates:
        return reference.NO_RIGHT
    # Columns in their order: value, then arrival; NULL is the least.
    last = max(
        candidates,
        key=lambda row: (
            row.time,
            row.arrival if arrived else 0,
            row.value is not None,
            row.value or 0,
            row.arrival,
        ),
    )
    return last.time, last.value, last.arrival


@pytest.mark.parametrize("tolerance", [None, 1, 20])
@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("arrived", [True, False])
def test_the_latest_before_is_that_of_plain_python(
    spark: SparkSession, tolerance: int | None, exact: bool, arrived: bool
) -> None:
    left, right = reference.apart(cases())
    result = as_of(
        reference.frame(spark, left),
        reference.frame(spark, right),
        tolerance=None if tolerance is None else f"{tolerance}us",
        allow_exact=exact,
        arrival="arrival" if arrived else None,
        **COMMON,
    )
    expected = reference.by_case(
        cases(),
        lambda left, right: Counter(
            (*own.whole, *before(own, right, tolerance=tolerance, exact=exact, arrived=arrived))
            for own in left
        ),
    )
    drawn.check(Counter(rows(result)), expected, reference.case_of(cases()))


def test_columns_of_the_result(spark: SparkSession) -> None:
    left = spark.sql("SELECT timestamp_seconds(9) `a.t`, 'l' `Page`, 1 `user id`")
    right = spark.sql(
        "SELECT map('x', 1) page, 1 `user id`, timestamp_seconds(1) `b.t`, NULL::int nothing"
    )
    result = as_of(left, right, on="user id", time=("a.t", "b.t"))
    assert result.columns == ["a.t", "Page", "user id", "page_right", "b.t", "nothing"]
    [row] = result.collect()
    assert (row["Page"], row["page_right"], row["nothing"]) == ("l", {"x": 1}, None)
    assert row["b.t"] is not None


def test_nothing_is_left_of_what_is_too_long_before(spark: SparkSession) -> None:
    """Not even in columns within columns."""
    left = spark.range(4).selectExpr("0 AS user", "timestamp_seconds(id * 10) AS at")
    right = spark.sql(
        "SELECT 0 AS user, timestamp_seconds(0) AS at, 7 AS x, named_struct('a', 8) AS info"
    )
    result = as_of(left, right, on="user", time="at", tolerance="10s")
    matches = result.select("at", "x", "info.a", F.col("info").isNull().alias("none")).orderBy("at")
    near, far = (7, 8, False), (None, None, True)
    assert [tuple(row)[1:] for row in matches.collect()] == [near, near, far, far]


def test_without_a_key(spark: SparkSession) -> None:
    events = spark.range(3).selectExpr("id", "timestamp_seconds(id) at")
    result = as_of(events, events, on=[], time="at", allow_exact=False)
    assert sorted((row.id, row.id_right) for row in result.collect()) == [(0, None), (1, 0), (2, 1)]


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"tolerance": "0s"}, WindowError, "tolerance: must be greater than zero"),
    ({"tolerance": "1 day"}, WindowError, "tolerance: can't be a calendar span"),
    ({"allow_exact": "no"}, WindowError, "allow_exact: must be true or false"),
    ({"arrival": "rank"}, ColumnError, "arrival: the right side has no such column"),
    ({"arrival": "tags"}, ColumnError, "arrival: is map<int,int>, which can't order events"),
    ({"on": "usr"}, ColumnError, "on: the left side has no such column"),
]


@pytest.mark.parametrize(
    ("given", "error", "message"), REFUSED, ids=lambda parameter: str(parameter)
)
def test_what_is_refused(
    spark: SparkSession, given: dict[str, Any], error: type[Exception], message: str
) -> None:
    events = spark.sql("SELECT 1 AS user, timestamp_seconds(0) at, map(1, 2) tags")
    with pytest.raises(error, match=message):
        as_of(events, events, **{"on": "user", "time": "at", **given})
