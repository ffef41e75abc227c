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
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, LongType

from backfill.columns import END, START
from backfill.reconciliation import compare, few_windows
from backfill.reconciliation.compare import Found, Sides
from backfill.reconciliation.syndromes import POWERS, weights
from tests import drawn
from tests.on_sail import spark_only

pytestmark = pytest.mark.usefixtures("interpreted")


def _keys(sides: Sides) -> list[tuple[Any, ...]]:
    """The keys that differ, some of them found by searching a whole bucket."""
    off = sides.differing(sides.totals(), DataFrame.persist)
    keys = off.differing.collect()
    assert len(keys) == off.keys
    _check_few(sides, off)
    return [tuple(row) for row in keys]


def _check_few(sides: Sides, found: Found) -> None:
    """Checks that comparing row by row, as for few windows, finds the same differences."""
    compared = few_windows.compared(sides)
    assert compared is not None
    totals, few = compared
    assert few.few is not None
    assert (totals.batch, totals.stream) == (sides.batch.count(), sides.stream.count())
    windows = [few.windows.toArrow(), few.few, found.windows.toArrow()]
    one, *others = (Counter(map(repr, table.to_pylist())) for table in windows)
    assert others == [one, one]
    assert Counter(few.differing.collect()) == Counter(found.differing.collect())


def test_without_a_key_all_windows_are_of_one(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = f"{START} long, {END} long, n long"
    one, other = ([(0, 1, 5), (1, 2, n)] for n in (6, 7))
    batch, stream = (spark.createDataFrame(rows, schema) for rows in (one, other))
    compared = few_windows.compared(Sides(batch, stream, [], {"n": LongType()}))
    assert compared is not None
    assert compared[1].few is not None
    assert (compared[1].keys, compared[1].few.num_rows, compared[1].windows.count()) == (1, 4, 4)
    assert compared[1].differing.count() == 1
    alike = few_windows.compared(Sides(batch, batch, [], {"n": LongType()}))
    assert alike is not None
    assert alike[1].keys == 0
    monkeypatch.setattr(few_windows, "FEW_WINDOWS", 3)
    assert few_windows.compared(Sides(batch, stream, [], {"n": LongType()})) is None


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


#: A type, and two values of it.
SHAPES: list[tuple[str, Any, Any]] = [
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
]


@spark_only
def test_values_of_every_shape_are_told_apart(spark: SparkSession) -> None:
    """Each shape is a column of its own, in which one of its three keys differs."""
    names = [f"value{number}" for number in range(len(SHAPES))]
    columns = ", ".join(f"{name} {type}" for name, (type, _, _) in zip(names, SHAPES, strict=True))

    def row(key: str, number: int, value: Any) -> tuple[Any, ...]:
        values: list[Any] = [None] * len(SHAPES)
        values[number] = value
        return (f"{number}:{key}", 0, 1, *values)

    sides = []
    for side in (1, 2):
        rows = []
        for number, shape in enumerate(SHAPES):
            alike = [("u1", shape[1]), ("u2", shape[2])]
            rows += [row(key, number, value) for key, value in [*alike, ("u3", shape[side])]]
        sides.append(
            spark.createDataFrame(rows, f"key string, {START} long, {END} long, {columns}")
        )
    values = {name: sides[0].schema[name].dataType for name in names}
    keys = _keys(Sides(*sides, ["key"], values))
    assert sorted(keys) == sorted((f"{number}:u3",) for number in range(len(SHAPES)))


ROWS = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 2), st.integers(0, 1)), max_size=12
)
#: The rows of both sides, and the further rows of each.
PAIRS = st.tuples(ROWS, ROWS, ROWS)
Case = tuple[list[Any], list[Any], list[Any]]


def _check_shared(spark: SparkSession, cases: dict[str, Case], bits: int) -> None:
    """Look for the keys that differ, with 2 ** bits buckets.

    Args:
        spark: a session.
        cases: the cases, by what their keys begin with.
        bits: the length of a bucket's number.
    """
    sides: list[list[Any]] = [[], []]
    for prefix, (alike, *both) in cases.items():
        for rows, own in zip(sides, both, strict=True):
            held = [(prefix + key, start, start, n) for key, start, n in [*alike, *own]]
            # A table has no window twice; a stream may have.
            rows += dict.fromkeys(held) if rows is sides[0] else held
    schema = f"key string, {START} long, {END} long, n long"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare, "_BUCKET_BITS", bits)
        patch.setattr(compare, "_WEIGHT_BITS", 2)
        # So few bits that differences often cancel out, and their weights mislead.
        patch.setattr(compare, "_SUMMED_BITS", 2)
        batch, stream = (spark.createDataFrame(side, schema) for side in sides)
        tables = Sides(batch, stream, ["key"], {"n": LongType()})
        totals = tables.totals()
        keys = {key for (key,) in _keys(tables)}
    assert (totals.batch, totals.stream) == (len(sides[0]), len(sides[1]))
    counts = [Counter(side) for side in sides]
    off = {row[0] for row in {*counts[0], *counts[1]} if counts[0][row] != counts[1][row]}
    drawn.check(
        dict.fromkeys(keys, "differs"),
        dict.fromkeys(off, "differs"),
        case=lambda key: cases[key[:-1]],
    )


# Buckets for some 500 keys: from thirty keys in one to seldom two.
@pytest.mark.parametrize("bits", [4, 6, 8, 10])
def test_the_keys_that_differ_are_found_whatever_shares_their_bucket(
    spark: SparkSession, bits: int
) -> None:
    numbered = enumerate(drawn.cases(PAIRS, 120))
    _check_shared(spark, {f"{number}:": case for number, case in numbered}, bits)


def test_a_key_whose_weight_misleads_is_found(spark: SparkSession) -> None:
    case = ([("g", 0, 1)], [("b", 0, 1)], [("g", 0, 0), ("g", 0, 0), ("d", 0, 1)])
    _check_shared(spark, {"": case}, 1)


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
        off = sides.differing(sides.totals(), keep)
    assert {row["key"] for row in off.windows.collect()} == lost
    assert 9 <= held[0].count() < 40


LEFT = st.dictionaries(
    st.integers(0, 63), st.integers(-(2**23), 2**23).filter(bool), min_size=1, max_size=4
)


def _weights(*left: dict[int, int]) -> list[list[int]]:
    """The weights found for buckets in which keys of these weights left these sums."""
    sums = [
        [sum(remainder * weight**power for weight, remainder in one.items()) for one in left]
        for power in range(POWERS)
    ]
    return [list(candidates) for candidates in weights([np.array(row) for row in sums], 6)]


@given(left=st.lists(LEFT, min_size=1, max_size=20))
@example(left=[{0: 5, 63: -5}])
@example(left=[{1: 5, 2: -2, 3: 1}])
@example(left=[{5: 2**23}, {1: 5, 2: -2}, {0: -1}])
def test_one_or_two_weights_are_told_by_what_they_leave(left: list[dict[int, int]]) -> None:
    for one, candidates in zip(left, _weights(*left), strict=True):
        if len(one) == 1:
            assert candidates == list(one)
        elif len(one) == 2:
            assert set(one) <= set(candidates)
        # More may look like two, which the comparison of their windows finds.


def test_two_weights_are_seldom_told_with_others() -> None:
    drawn = Random(7)
    left = [
        {
            weight: drawn.choice([-1, 1]) * drawn.randrange(1, 2**23)
            for weight in drawn.sample(range(64), 2)
        }
        for _ in range(1_000)
    ]
    exact = [
        set(candidates) == set(one) for one, candidates in zip(left, _weights(*left), strict=True)
    ]
    assert sum(exact) > 990


def test_no_weight_is_told_where_nothing_is_left_or_too_much() -> None:
    drawn = Random(7)
    many = [{weight: drawn.randrange(-(2**23), 2**23) for weight in range(40)} for _ in range(500)]
    assert _weights({}) == [[]]
    assert weights([np.array([0]), np.array([0]), np.array([3])], 6) == [[]]
    assert sum(not candidates for candidates in _weights(*many)) > 490


DOUBLES = st.one_of(
    st.floats(),
    st.sampled_from([0.0, -0.0, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308]),
    st.integers(-(2**53), 2**53).map(float),
)


def test_no_two_doubles_that_differ_are_alike(spark: SparkSession) -> None:
    """Each pair is a key of its own; the other value is some steps away."""
    pairs = drawn.cases(st.tuples(DOUBLES, st.integers(-3, 3)), 3_000)
    schema = f"key int, {START} long, {END} long, value double"
    ours = [value for value, _ in pairs]
    theirs = [_stepped(value, steps) for value, steps in pairs]
    batch, stream = (
        spark.createDataFrame([(key, 0, 1, value) for key, value in enumerate(own)], schema)
        for own in (ours, theirs)
    )
    keys = {key for (key,) in _keys(Sides(batch, stream, ["key"], {"value": DoubleType()}))}
    different = {
        key
        for key, (one, other) in enumerate(zip(ours, theirs, strict=True))
        if not (one == other or (math.isnan(one) and math.isnan(other)))
    }
    # Zeros are alike whatever their sign, but only the second comparison shows it.
    zeros = {key for key, one in enumerate(ours) if one == theirs[key] == 0.0}
    assert different <= keys, [pairs[key] for key in different - keys]
    assert keys <= different | zeros, [pairs[key] for key in keys - different - zeros]


def _stepped(value: float, steps: int) -> float:
    for _ in range(abs(steps)):
        value = math.nextafter(value, math.copysign(math.inf, steps))
    return value
