"""Our own expectations against plain Python, on both engines."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill.quality import gx
from tests.quality.given import outcome

pytestmark = pytest.mark.usefixtures("interpreted")

GAP = 60_000_000
EPOCH = datetime(1970, 1, 1)
APART = "expect_sessions_to_be_apart"
CONSERVED = "expect_events_to_be_conserved"


def sessions(most: int) -> st.SearchStrategy[list[tuple]]:
    """Starts around multiples of half a gap on both sides of 1970, give or take a microsecond."""
    return st.lists(
        st.builds(
            lambda user, site, n, fine, length: (
                user,
                site,
                n * GAP // 2 + fine,
                n * GAP // 2 + fine + length,
            ),
            st.sampled_from(["a", "b", "", None]),
            st.sampled_from([1, None]),
            st.integers(-most, most),
            st.integers(-1, 1),
            st.sampled_from([0, 1, GAP // 2, 3 * GAP]),
        ),
        min_size=most // 2,
        max_size=most,
    )


def expected(rows: list[tuple], inclusive: bool) -> list[tuple]:
    """The sessions that have one of their key before them that is too near; by definition."""
    ordered = sorted(rows, key=lambda row: row[2:])
    return [
        row
        for place, row in enumerate(ordered)
        if any(
            row[2] - other[3] < GAP + inclusive for other in ordered[:place] if other[:2] == row[:2]
        )
    ]


def iso(micros: int) -> str:
    return (EPOCH + timedelta(microseconds=micros)).isoformat(timespec="microseconds") + "Z"


def spark_frame(spark: SparkSession, rows: list[tuple]) -> DataFrame:
    raw = spark.createDataFrame(rows, "user string, site int, start long, end long").coalesce(1)
    return raw.withColumns({name: F.timestamp_micros(name) for name in ("start", "end")})


def apart(frame: Any, **arguments: Any) -> Any:
    return outcome(frame, APART, **{"gap": GAP, "start": "start", "end": "end", **arguments})


def check_against_reference(found: Any, rows: list[tuple], inclusive: bool) -> None:
    near = expected(rows, inclusive)
    assert found.problem is None
    assert (found.success, found.unexpected) == (not near, len(near))
    # Equal sessions of different keys may come in any order.
    shown = [(example["start"], example["end"]) for example in found.examples]
    assert shown == [(iso(start), iso(end)) for _, _, start, end in near[:5]]


@settings(max_examples=60)
@given(rows=sessions(12), inclusive=st.booleans())
def test_sessions_apart_on_pandas(rows: list[tuple], inclusive: bool) -> None:
    frame = pd.DataFrame(rows, columns=["user", "site", "start", "end"])
    for name in ("start", "end"):
        frame[name] = pd.Series(
            [EPOCH + timedelta(microseconds=micros) for micros in frame[name]],
            dtype="datetime64[us]",
        )
    check_against_reference(
        apart(frame, key=["user", "site"], gap_inclusive=inclusive), rows, inclusive
    )


@settings(max_examples=2)
@given(rows=sessions(150), inclusive=st.booleans())
def test_sessions_apart_on_spark(spark: SparkSession, rows: list[tuple], inclusive: bool) -> None:
    verdict = apart(spark_frame(spark, rows), key=["user", "site"], gap_inclusive=inclusive)
    check_against_reference(verdict, rows, inclusive)


def test_a_long_session_hides_no_later_one(spark: SparkSession) -> None:
    # The third is far from the second's end, and within the first.
    rows = [("a", 1, 0, 100 * GAP), ("a", 1, 1, 2), ("a", 1, 50 * GAP, 51 * GAP)]
    verdict = apart(spark_frame(spark, rows), key=["user"])
    assert verdict.unexpected == 2
    assert verdict.examples[1] == {
        "user": "a",
        "start": iso(50 * GAP),
        "end": iso(51 * GAP),
        "previous_end": iso(100 * GAP),
    }


@pytest.mark.parametrize(
    ("distance", "gap", "inclusive", "good"),
    [
        (GAP, "1m", True, False),
        (GAP + 1, "1m", True, True),
        (GAP, "60s", False, True),
        (GAP - 1, GAP, False, False),
        (0, 0, True, False),
        (1, 0, True, True),
    ],
)
def test_the_edge_of_the_gap(distance: int, gap: str | int, inclusive: bool, good: bool) -> None:
    frame = pd.DataFrame({"start": [-5, -5 + distance], "end": [-5, GAP]})
    assert apart(frame, gap=gap, gap_inclusive=inclusive).success is good


def test_kinds_of_times_are_alike(spark: SparkSession) -> None:
    # Summer time begins between the two in the session's zone, but not in UTC.
    start = 1_710_053_940_000_000
    instants = spark_frame(spark, [("a", 1, start, start), ("a", 1, start + GAP, start + GAP)])
    micros = instants.withColumns({name: F.unix_micros(name) for name in ("start", "end")})
    local = micros.withColumns(
        {
            name: F.expr(f"timestampadd(MICROSECOND, `{name}`, TIMESTAMP_NTZ'1970-01-01')")
            for name in ("start", "end")
        }
    )
    for frame in (instants, micros, local):
        assert apart(frame, gap=GAP).unexpected == 1
        assert apart(frame, gap=GAP - 1).unexpected == 0


def test_rows_without_a_time_are_passed_over(spark: SparkSession) -> None:
    rows = [("a", 1, None, 0), ("a", 1, 5, None), ("a", 1, 9 * GAP, 9 * GAP)]
    assert apart(spark_frame(spark, rows), key=["user"]).success


def test_a_column_that_is_missing() -> None:
    verdict = apart(pd.DataFrame({"start": [1], "end": [2]}), key=["strat"])
    assert verdict.problem == "strat: there is no such column. Did you mean 'start'?"
    assert not verdict.success


def test_conservation_is_exact(spark: SparkSession) -> None:
    # Beyond 2^53 a double can't tell these apart.
    frame = spark.createDataFrame([(2**53,), (1,), (None,)], "n long")
    assert outcome(frame, CONSERVED, column="n", events=2**53 + 1).success
    off = outcome(frame, CONSERVED, column="n", events=2**53)
    assert (off.success, off.observed) == (False, 2**53 + 1)
    both = frame.toPandas().astype("Int64")
    assert outcome(both, CONSERVED, column="n", events=2**53 + 1).success
    assert not outcome(both, CONSERVED, column="n", events=2**53).success


def test_nothing_sums_to_nothing(spark: SparkSession) -> None:
    assert outcome(spark.createDataFrame([], "n long"), CONSERVED, column="n", events=0).success


@pytest.mark.parametrize("value", [0.5, "1"])
def test_what_is_no_count_has_no_sum(spark: SparkSession, value: Any) -> None:
    frame = pd.DataFrame({"n": [value]})
    for batch in (frame, spark.createDataFrame(frame)):
        verdict = outcome(batch, CONSERVED, column="n", events=1)
        assert not verdict.success
        assert "can't be a count of events" in (verdict.problem or "")


def test_in_anybodys_suite() -> None:
    """Without anything else of ours: a context, a batch, and a suite's parameter."""
    frame = pd.DataFrame({"start": [0, 1], "end": [0, 1], "n": [3, 4]})
    with gx.context() as context:
        from great_expectations import ExpectationSuite

        from backfill.quality.expectations import ExpectEventsToBeConserved, ExpectSessionsToBeApart

        asset = context.data_sources.add_pandas("mine").add_dataframe_asset("mine")
        batch = asset.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": frame})
        apart = ExpectSessionsToBeApart(gap="1m", start="start", end="end")
        conserved = ExpectEventsToBeConserved(column="n", events={"$PARAMETER": "read"})
        suite = ExpectationSuite(name="mine", expectations=[apart, conserved])
        results = batch.validate(suite, expectation_parameters={"read": 7}).results
    assert {result.expectation_config.type: result.success for result in results} == {
        APART: False,
        CONSERVED: True,
    }


def test_one_row_per_window_needs_no_expectation_of_ours(spark: SparkSession) -> None:
    """Great Expectations' own takes NULLs as equal, as they are in keys."""
    rows = [("a", 1, 0, 1), ("a", 1, 5, 6), (None, 1, 0, 1), (None, 1, 0, 2)]
    columns = ["user", "start"]
    for frame in (spark_frame(spark, rows), spark_frame(spark, rows).toPandas()):
        verdict = outcome(frame, "expect_compound_columns_to_be_unique", column_list=columns)
        assert verdict.unexpected == 2
        assert [example["user"] for example in verdict.examples] == [None, None]
