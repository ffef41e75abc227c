"""Events and the last ones of the other stream, against plain Python."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backfill import join, messages
from backfill.errors import ColumnError, WindowError
from tests import drawn
from tests.event_frames import rows
from tests.joins import reference
from tests.joins.reference import HOWS, Case, Counter, Row

COMMON: dict[str, Any] = {"on": ["key", "part"], "time": "time", "time_format": "epoch_us"}


@cache
def cases() -> list[Case]:
    hot = [Row("hot", n // 3, n % 4, arrival=n) for n in range(-40, 40)]
    alike = [Row("a", 5, 1)] * 3
    some = [([], []), ([], alike), (alike, []), (alike, alike * 2), (hot, hot[::5])]
    return [*some, *drawn.cases(reference.sides(10), 200)]


def pairs(left: list[Row], right: list[Row], count: int, *, arrived: bool) -> set[tuple[int, int]]:
    """Indexes of left and right events: each event with the last ones of the other side so far."""
    indexes: set[tuple[int, int]] = set()
    usable = [
        (event, side, index)
        for side, events in enumerate((left, right))
        for index, event in enumerate(events)
        if None not in (event.key, event.part, event.time)
    ]
    usable.sort(
        key=lambda one: (
            one[0].time,
            one[0].arrival if arrived else 0,
            one[1],
            one[0].value is not None,
            one[0].value or 0,
            one[0].arrival,
        )
    )
    for key in {(event.key, event.part) for event, _, _ in usable}:
        so_far: tuple[list[int], list[int]] = ([], [])
        for event, side, index in usable:
            if (event.key, event.part) != key:
                continue
            for other in so_far[1 - side][-count:]:
                indexes.add((index, other) if side == 0 else (other, index))
            so_far[side].append(index)
    return indexes


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize(
    ("count", "arrived", "where"), [(1, False, False), (3, True, False), (4, True, True)]
)
def test_pairs_are_those_of_plain_python(
    spark: SparkSession, how: str, count: int, arrived: bool, where: bool
) -> None:
    left, right = reference.apart(cases())
    result = join(
        reference.frame(spark, left),
        reference.frame(spark, right),
        within=messages(count),
        how=how,
        where="left.value = right.value" if where else None,
        arrival="arrival" if arrived else None,
        **COMMON,
    )

    def expected(left: list[Row], right: list[Row]) -> Counter[tuple[Any, ...]]:
        indexes = pairs(left, right, count, arrived=arrived)
        if where:
            indexes = {(i, j) for i, j in indexes if None is not left[i].value == right[j].value}
        return reference.joined(left, right, how, lambda i, j: (i, j) in indexes)

    every = reference.by_case(cases(), expected)
    drawn.check(reference.Counter(rows(result)), every, reference.case_of(cases()))


def test_the_text_of_a_number(spark: SparkSession) -> None:
    events = spark.range(4).selectExpr("1 key", "id", "timestamp_seconds(id) at")
    joined = join(events, events, on="key", time="at", within="2 messages").collect()
    # At one instant the left event comes first.
    pairs = {(row.id, row.id_right) for row in joined}
    assert pairs == {(a, b) for a in range(4) for b in range(4) if -1 <= b - a < 2 or a - b == 2}


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"within": "0 messages"}, WindowError, "must be a whole number of messages, at least 1"),
    ({"arrival": "rank"}, ColumnError, "arrival: the right side has no such column"),
    ({"arrival": "tags"}, ColumnError, "arrival: is map<int,int>, which can't order events"),
    ({"arrival": "part"}, ColumnError, "arrival: is int and bigint on the two sides, but must"),
    ({"within": "5m", "arrival": "id"}, WindowError, "arrival: has no meaning if within is not"),
]


@pytest.mark.parametrize(
    ("given", "error", "message"), REFUSED, ids=lambda parameter: str(parameter)
)
def test_what_is_refused(
    spark: SparkSession, given: dict[str, Any], error: type[Exception], message: str
) -> None:
    left = spark.sql("SELECT 1 AS user, timestamp_seconds(0) at, 1 tags, 1 rank, 1 part, 1 id")
    right = spark.sql("SELECT 1 AS user, timestamp_seconds(0) at, map(1, 2) tags, 1L part, 1 id")
    with pytest.raises(error, match=message):
        join(left, right, **{"on": "user", "time": "at", "within": messages(1), **given})
