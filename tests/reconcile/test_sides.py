"""Which keys of two tables differ, by checksums."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType

from backfill.columns import END, START
from backfill.reconciliation import compare
from backfill.reconciliation.compare import Sides


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
    differing = sides.differing(sides.near(totals.off))
    assert [tuple(row) for row in differing.collect()] == [("x", None)]


ROWS = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 2), st.integers(0, 1)), max_size=12
)


@settings(max_examples=40)
@given(alike=ROWS, ours=ROWS, theirs=ROWS)
def test_the_keys_that_differ_are_found_whatever_shares_their_bucket(
    spark: SparkSession, alike: list[Any], ours: list[Any], theirs: list[Any]
) -> None:
    schema = f"key string, {START} long, {END} long, n long"
    rows = [[(key, start, start, n) for key, start, n in [*alike, *own]] for own in (ours, theirs)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare, "_BUCKET_BITS", 1)
        patch.setattr(compare, "_WEIGHT_BITS", 2)
        batch, stream = (spark.createDataFrame(each, schema) for each in rows)
        sides = Sides(batch, stream, ["key"], {"n": LongType()})
        totals = sides.totals()
        found = {row["key"] for row in sides.differing(sides.near(totals.off)).collect()}
    counts = [Counter(each) for each in rows]
    off = {row[0] for row in {*counts[0], *counts[1]} if counts[0][row] != counts[1][row]}
    assert found == off
    assert (totals.batch, totals.stream) == (len(rows[0]), len(rows[1]))


def test_hardly_anything_that_is_alike_is_near(spark: SparkSession) -> None:
    schema = f"key string, {START} long, {END} long, n long"
    rows = [(f"u{key}", start, start, 1) for key in range(4_000) for start in range(3)]
    lost = {f"u{key}" for key in (5, 77, 1_234)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare, "_BUCKET_BITS", 6)  # some 60 keys a bucket
        batch = spark.createDataFrame(rows, schema)
        stream = spark.createDataFrame([row for row in rows if row[0] not in lost], schema)
        sides = Sides(batch, stream, ["key"], {"n": LongType()})
        near = sides.near(sides.totals().off)
        assert {row["key"] for row in sides.differing(near).collect()} == lost
        assert 9 <= near.count() < 40
