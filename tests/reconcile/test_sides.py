"""Which keys of two tables differ, by checksums."""

from __future__ import annotations

import math
from collections import Counter
from datetime import datetime, timezone
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, LongType

from backfill.columns import END, START
from backfill.reconciliation import compare
from backfill.reconciliation.compare import Sides
from backfill.reconciliation.syndromes import POWERS, weights


def _keys(sides: Sides) -> list[tuple[Any, ...]]:
    """The keys that differ, some of them looked for among those of a whole bucket."""
    found = sides.differing(sides.totals(), DataFrame.persist)
    keys = found.windows.select(*sides.keys).distinct().collect()
    assert len(keys) == found.keys
    return [tuple(row) for row in keys]


def test_values_that_have_changed_places_with_a_null_differ(spark: SparkSession) -> None:
    schema = f"a string, b string, {START} long, {END} long, least long, most long"
    ours = [("x", None, 0, 1, None, 5), ("y", "z", 0, 1, 2, None), ("same", None, 0, 1, None, 7)]
    theirs = [("x", None, 0, 1, 5, None), (None, "x", 0, 1, 2, 3), ("same", None, 0, 1, None, 7)]
    moved = [("y", "z", 0, 1, 2, None), (None, "x", 0, 1, 2, 3)]
    batch, stream = (
        spark.createDataFrame(rows, schema) for rows in ([*ours, moved[1]], [*theirs, moved[0]])
    )
    sides = Sides(batch, stream, ["a", "b"], {"least": LongType(), "most": LongType()})
    totals = sides.totals()
    assert (totals.batch, totals.stream, len(totals.off)) == (4, 4, 1)
    assert _keys(sides) == [("x", None)]


AT = datetime(2026, 1, 10, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("type", "ours", "theirs"),
    [
        ("array<int>", [1, None], [1]),
        ("array<array<int>>", [[1], [2]], [[1, 2]]),
        ("array<string>", [], None),
        ("struct<a: int, b: int>", (None, 5), (5, None)),
        ("map<string, int>", {"a": 1}, {"a": 2}),
        ("array<timestamp>", [AT], [AT.replace(microsecond=1)]),
        ("string", "", None),
        ("double", 0.0, None),
        ("double", 1_234_567_890.12, 1_234_567_890.13),
        ("double", 1.0, 1.0 + 2**-52),
        ("double", 0.0, 5e-324),
        ("double", 1.7976931348623157e308, math.inf),
        ("double", math.inf, -math.inf),
        ("double", math.nan, None),
        ("float", 1.0, 1.0 + 2**-23),
        ("decimal(38, 18)", Decimal("1E-18"), Decimal("2E-18")),
    ],
)
def test_values_of_every_shape_are_told_apart(
    spark: SparkSession, type: str, ours: Any, theirs: Any
) -> None:
    schema = f"key string, {START} long, {END} long, value {type}"
    alike = [("u1", 0, 1, ours), ("u2", 0, 1, theirs)]
    batch, stream = (
        spark.createDataFrame([*alike, ("u3", 0, 1, each)], schema) for each in (ours, theirs)
    )
    values = {"value": batch.schema["value"].dataType}
    assert _keys(Sides(batch, stream, ["key"], values)) == [("u3",)]


ROWS = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 2), st.integers(0, 1)), max_size=12
)


@settings(max_examples=40)
@given(alike=ROWS, ours=ROWS, theirs=ROWS)
@example(alike=[("g", 0, 1)], ours=[("b", 0, 1)], theirs=[("g", 0, 0), ("g", 0, 0), ("d", 0, 1)])
def test_the_keys_that_differ_are_found_whatever_shares_their_bucket(
    spark: SparkSession, alike: list[Any], ours: list[Any], theirs: list[Any]
) -> None:
    schema = f"key string, {START} long, {END} long, n long"
    rows = [[(key, start, start, n) for key, start, n in [*alike, *own]] for own in (ours, theirs)]
    rows[0] = list(dict.fromkeys(rows[0]))  # a table has no window twice, a stream may
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare, "_BUCKET_BITS", 1)
        patch.setattr(compare, "_WEIGHT_BITS", 2)
        # So few that often nothing is left of what differs, and its weight misleads.
        patch.setattr(compare, "_SUMMED_BITS", 2)
        batch, stream = (spark.createDataFrame(each, schema) for each in rows)
        sides = Sides(batch, stream, ["key"], {"n": LongType()})
        totals = sides.totals()
        found = {key for (key,) in _keys(sides)}
    counts = [Counter(each) for each in rows]
    off = {row[0] for row in {*counts[0], *counts[1]} if counts[0][row] != counts[1][row]}
    assert found == off
    assert (totals.batch, totals.stream) == (len(rows[0]), len(rows[1]))


def test_hardly_anything_that_is_alike_is_looked_at_twice(spark: SparkSession) -> None:
    rows = spark.range(12_000).select(
        F.concat(F.lit("u"), F.col("id") % 4_000).alias("key"),
        F.col("id").alias(START),
        F.col("id").alias(END),
        F.lit(1).cast("long").alias("n"),
    )
    lost = {f"u{key}" for key in (5, 77, 1_234)}
    held = []

    def keep(frame: DataFrame) -> DataFrame:
        held.append(frame)
        return frame.persist()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare, "_BUCKET_BITS", 6)  # some 60 keys a bucket
        sides = Sides(rows, rows.where(~F.col("key").isin(*lost)), ["key"], {"n": LongType()})
        found = sides.differing(sides.totals(), keep)
    assert {row["key"] for row in found.windows.collect()} == lost
    assert 9 <= held[0].count() < 40


LEFT = st.dictionaries(
    st.integers(0, 63), st.integers(-(2**23), 2**23).filter(bool), min_size=1, max_size=4
)


def _told(*left: dict[int, int]) -> list[list[int]]:
    """The weights that are told of buckets in which keys of these weights left these sums."""
    sums = [
        [sum(each * weight**power for weight, each in one.items()) for one in left]
        for power in range(POWERS)
    ]
    return [list(each) for each in weights([np.array(each) for each in sums], 6)]


@given(left=st.lists(LEFT, min_size=1, max_size=20))
@example(left=[{0: 5, 63: -5}])
@example(left=[{1: 5, 2: -2, 3: 1}])
@example(left=[{5: 2**23}, {1: 5, 2: -2}, {0: -1}])
def test_one_or_two_weights_are_told_by_what_they_leave(left: list[dict[int, int]]) -> None:
    for one, told in zip(left, _told(*left), strict=True):
        if len(one) == 1:
            assert told == list(one)
        elif len(one) == 2:
            assert set(one) <= set(told)
        # More may look like two, which the look at their windows finds.


def test_two_weights_are_seldom_told_with_others() -> None:
    drawn = Random(7)
    left = [
        {
            weight: drawn.choice([-1, 1]) * drawn.randrange(1, 2**23)
            for weight in drawn.sample(range(64), 2)
        }
        for _ in range(1_000)
    ]
    exact = [set(told) == set(one) for one, told in zip(left, _told(*left), strict=True)]
    assert sum(exact) > 990


def test_no_weight_is_told_where_nothing_is_left_or_too_much() -> None:
    drawn = Random(7)
    many = [{weight: drawn.randrange(-(2**23), 2**23) for weight in range(40)} for _ in range(500)]
    assert _told({}) == [[]]
    assert weights([np.array([0]), np.array([0]), np.array([3])], 6) == [[]]
    assert sum(not told for told in _told(*many)) > 490


DOUBLES = st.one_of(
    st.floats(),
    st.sampled_from([0.0, -0.0, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308]),
    st.integers(-(2**53), 2**53).map(float),
)


@settings(max_examples=10)
@given(st.lists(st.tuples(DOUBLES, st.integers(-3, 3)), min_size=300, max_size=300))
def test_no_two_doubles_that_differ_are_alike(
    spark: SparkSession, drawn: list[tuple[float, int]]
) -> None:
    """Each pair is a key of its own; the other value is some steps away."""
    schema = f"key int, {START} long, {END} long, value double"
    ours = [value for value, _ in drawn]
    theirs = [_stepped(value, steps) for value, steps in drawn]
    batch, stream = (
        spark.createDataFrame([(key, 0, 1, each) for key, each in enumerate(own)], schema)
        for own in (ours, theirs)
    )
    found = {key for (key,) in _keys(Sides(batch, stream, ["key"], {"value": DoubleType()}))}
    different = {
        key
        for key, (one, other) in enumerate(zip(ours, theirs, strict=True))
        if not (one == other or (math.isnan(one) and math.isnan(other)))
    }
    # Zeros are alike whatever their sign, which the second look says.
    zeros = {key for key, one in enumerate(ours) if one == theirs[key] == 0.0}
    assert different <= found <= different | zeros


def _stepped(value: float, steps: int) -> float:
    for _ in range(abs(steps)):
        value = math.nextafter(value, math.copysign(math.inf, steps))
    return value
