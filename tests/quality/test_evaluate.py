"""The outcomes of checks on both engines, and that making checks leaves nothing behind."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill.quality.evaluate import evaluate
from tests.connect import Programs
from tests.on_sail import spark_only
from tests.quality.given import check, outcome, outcomes

BETWEEN = "expect_column_values_to_be_between"
NOT_NULL = "expect_column_values_to_not_be_null"


@pytest.fixture
def kathmandu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Python's own zone, a quarter of an hour off any other."""
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    """Twelve rows, ten seconds apart, from five microseconds before 1970 on."""
    return (
        spark.range(12)
        .select(
            F.concat(F.lit("user "), F.col("id") % 3).alias("user"),
            F.timestamp_micros(F.col("id") * 10_000_000 - 5).alias("time"),
            F.col("id").alias("n"),
            F.when(F.col("id") > 3, F.col("id").cast("decimal(20,2)")).alias("price"),
        )
        .coalesce(1)
    )


def test_outcomes_are_in_the_order_of_the_checks() -> None:
    frame = pd.DataFrame({"user": list("aabbb"), "n": range(5), "w": [None, 1.5, None, 2, 3]})
    validation = evaluate(
        frame,
        [
            check("expect_table_row_count_to_equal", value=5),
            check(BETWEEN, column="n", max_value=2),
            check(NOT_NULL, "warn", about="a weight is missing", column="w"),
            check("expect_column_mean_to_be_between", column="n", min_value=3),
            check(BETWEEN, column="n", max_value=9),
        ],
        table="sessions",
        run_id="run-1",
        key=["user"],
    )
    assert [verdict.success for verdict in validation.outcomes] == [True, False, False, False, True]
    assert [verdict.unexpected for verdict in validation.outcomes] == [None, 2, 2, None, 0]
    assert [verdict.observed for verdict in validation.outcomes] == [5, 40.0, 40.0, 2.0, 0.0]
    assert validation.outcomes[1].examples == ({"user": "b", "n": 3}, {"user": "b", "n": 4})
    assert [verdict.check.expectation for verdict in validation.failed] == [
        BETWEEN,
        "expect_column_mean_to_be_between",
    ]
    assert [verdict.check.about for verdict in validation.warned] == ["a weight is missing"]
    assert (validation.table, validation.run_id) == ("sessions", "run-1")
    assert validation.document["statistics"]["unsuccessful_expectations"] == 3
    severities = [
        result["expectation_config"]["severity"] for result in validation.document["results"]
    ]
    assert severities == ["critical", "critical", "warning", "critical", "critical"]
    json.dumps(validation.document, allow_nan=False)


def test_no_checks() -> None:
    validation = evaluate(pd.DataFrame({"n": [1]}), [], table="events", run_id="r")
    assert validation.outcomes == ()
    assert validation.document["success"] is True


def test_the_same_check_twice() -> None:
    twice = [check(BETWEEN, severity, column="n", min_value=2) for severity in ("error", "warn")]
    validation = evaluate(pd.DataFrame({"n": [1]}), twice, table="events", run_id="r")
    assert (len(validation.failed), len(validation.warned)) == (1, 1)
    validation = evaluate(pd.DataFrame({"x": [1]}), twice, table="events", run_id="r")
    assert (len(validation.failed), len(validation.warned)) == (1, 1)


def test_five_examples_at_most(frame: DataFrame) -> None:
    verdict = outcome(frame, BETWEEN, ("user", "time"), column="n", min_value=99)
    assert (verdict.unexpected, len(verdict.examples)) == (12, 5)
    assert verdict.examples[0] == {"user": "user 0", "time": "1969-12-31T23:59:59.999995Z", "n": 0}


def test_without_a_key_the_values_are_shown(frame: DataFrame) -> None:
    assert outcome(frame, BETWEEN, column="n", max_value=10).examples == ({"n": 11},)
    assert outcome(frame.toPandas(), BETWEEN, column="n", max_value=10).examples == ({"n": 11},)


def test_values_are_of_jsons_types(frame: DataFrame) -> None:
    verdict = outcome(frame, "expect_column_values_to_be_null", ("time",), column="price")
    assert verdict.examples[0] == {"time": "1970-01-01T00:00:39.999995Z", "price": "4.00"}
    odd = frame.select(
        F.struct("n", F.lit(1).alias("b")).alias("s"),
        F.lit(b"ab").alias("bytes"),
        F.expr("time - timestamp'1970-01-01'").alias("span"),
        F.array("time").alias("times"),
        F.lit(float("nan")).alias("nan"),
        F.expr("date'1582-01-01'").alias("day"),
        F.lit(None).cast("int").alias("x"),
    )
    names = tuple(odd.columns[:-1])
    verdict = outcome(odd.limit(1), NOT_NULL, names, column="x")
    assert json.loads(json.dumps(verdict.examples, allow_nan=False))[0] == {
        "s": {"n": 0, "b": 1},
        "bytes": "YWI=",
        "span": verdict.examples[0]["span"],
        "times": verdict.examples[0]["times"],
        "nan": "NaN",
        "day": "1582-01-01",
        "x": None,
    }
    floats = pd.DataFrame({"x": [float("inf"), float("nan"), 1.0]})
    [far, whole] = outcomes(
        floats,
        check(BETWEEN, column="x", max_value=2),
        check("expect_column_max_to_be_between", column="x", max_value=2),
    )
    assert far.examples == ({"x": "Infinity"},)
    assert whole.observed == "Infinity"


def test_a_check_that_cannot_be_made_takes_no_other_with_it(frame: DataFrame) -> None:
    checks = [
        check(BETWEEN, column="n", max_value=10),
        check(BETWEEN, column="nn", max_value=10),
        check(BETWEEN, column="user", max_value=10),
        check("expect_nothing_that_is_known", column="n"),
        check("expect_column_values_to_match_regex", column="user", regex="("),
        check(NOT_NULL, column="n"),
    ]
    for batch in (frame, frame.toPandas()):
        verdicts = outcomes(batch, *checks)
        assert [one.success for one in verdicts] == [False, False, False, False, False, True]
        assert [one.problem is None for one in verdicts] == [True, False, False, False, False, True]
        assert verdicts[0].unexpected == 1
        assert verdicts[1].problem == 'Error: The column "nn" in BatchData does not exist.'
        assert verdicts[3].problem == "expect_nothing_that_is_known not found"
        for one in verdicts:
            assert "\n" not in (one.problem or "")


@pytest.mark.usefixtures("kathmandu")
@pytest.mark.parametrize(
    "bound",
    [
        "1970-01-01T00:01:00",
        "1970-01-01T05:45:00+05:45",
        datetime(1970, 1, 1, 0, 1),
        datetime(1970, 1, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))),
        date(1970, 1, 2),
    ],
)
def test_times_are_those_of_utc(frame: DataFrame, bound: Any) -> None:
    """Whatever the zones of the session (it is Newfoundland's) and of Python."""
    at = bound
    if isinstance(bound, str):
        at = datetime.fromisoformat(bound)
    if not isinstance(at, datetime):
        at = datetime.combine(at, datetime.min.time())
    at = at if at.tzinfo else at.replace(tzinfo=timezone.utc)
    below = sum(n * 10_000_000 - 5 < at.timestamp() * 1_000_000 for n in range(12))
    verdicts = outcomes(
        frame,
        check(BETWEEN, column="time", min_value=bound),
        check("expect_column_max_to_be_between", column="time", max_value=bound),
    )
    assert verdicts[0].unexpected == below
    assert [verdict.success for verdict in verdicts] == [below == 0, below == 12]


@spark_only
@pytest.mark.usefixtures("kathmandu")
def test_what_is_aggregated_is_told_in_utc(frame: DataFrame) -> None:
    verdict = outcome(
        frame, "expect_column_min_to_be_between", column="time", min_value="1970-01-01T00:00:00"
    )
    assert not verdict.success
    assert verdict.observed == "1969-12-31T23:59:59.999995Z"


def test_types_are_seen_as_they_are(frame: DataFrame) -> None:
    of_type = "expect_column_values_to_be_of_type"
    assert outcome(frame, of_type, column="time", type_="TimestampType").success


def test_a_query(frame: DataFrame) -> None:
    views = frame.sparkSession.catalog.listTables()
    query = "select n from {batch} where time >= '1970-01-01 00:01:00'"
    verdict = outcome(frame, "unexpected_rows_expectation", unexpected_rows_query=query)
    assert (verdict.success, verdict.unexpected) == (False, 5)
    assert verdict.examples == tuple({"n": n} for n in range(7, 12))
    assert frame.sparkSession.catalog.listTables() == views


def test_a_condition_on_rows(frame: DataFrame) -> None:
    verdict = outcome(frame, BETWEEN, column="n", max_value=5, row_condition="user = 'user 0'")
    assert (verdict.unexpected, verdict.observed) == (2, 50.0)


@spark_only
def test_success_costs_no_search_for_examples(spark: SparkSession, frame: DataFrame) -> None:
    """What the documentation of `evaluate` says about passes; each is one job on one partition."""

    def jobs(name: str, **arguments: Any) -> int:
        spark.sparkContext.setJobGroup(name, name)
        try:
            outcome(frame, **arguments)
        finally:
            spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
        return len(spark.sparkContext.statusTracker().getJobIdsForGroup(name))

    good = jobs("good", expectation=BETWEEN, column="n", max_value=11)
    bad = jobs("bad", expectation=BETWEEN, column="n", max_value=3)
    assert good == 2
    assert good < bad <= 3 * good


def test_nothing_is_left_behind(
    spark: SparkSession, frame: DataFrame, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    import great_expectations as ge
    from great_expectations.data_context.data_context.context_factory import project_manager

    mine = ge.get_context(mode="ephemeral")
    zone = spark.conf.get("spark.sql.session.timeZone")
    level = logging.getLogger("great_expectations").level
    capfd.readouterr()
    try:
        for batch in (frame, frame.toPandas()):
            outcomes(batch, check(BETWEEN, column="n", max_value=3), check(NOT_NULL, column="x"))
        assert project_manager.get_current_project() is mine
        assert mine.data_sources.all() == {}
    finally:
        project_manager.set_project(None)
    assert spark.conf.get("spark.sql.session.timeZone") == zone
    assert logging.getLogger("great_expectations").level == level
    assert capfd.readouterr() == ("", "")


CONNECT = """
import json, sys
from pyspark.sql import functions as F
from tests.connect import session
from tests.quality.given import check, outcomes

spark = session("America/St_Johns")
frame = spark.range(12).select(
    (F.col("id") % 3).alias("user"),
    F.timestamp_micros(F.col("id") * 10_000_000 - 5).alias("time"),
    F.col("id").alias("n"),
)
assert type(frame).__module__.startswith("pyspark.sql.connect")
found = outcomes(
    frame,
    check("expect_column_values_to_be_between", column="n", max_value=10),
    check("expect_column_values_to_be_between", column="time", min_value="1970-01-01T00:01:00"),
    check("expect_compound_columns_to_be_unique", column_list=["user", "time"]),
    check("expect_sessions_to_be_apart", key=["user"], start="time", end="time", gap="30s"),
    check("expect_events_to_be_conserved", column="n", events=66),
    check("expect_column_values_to_be_of_type", column="time", type_="TimestampType"),
    check("unexpected_rows_expectation", unexpected_rows_query="select n from {batch} where n > 9"),
    shown=("user",),
)
zone = spark.conf.get("spark.sql.session.timeZone")
print(json.dumps([zone, [[one.success, one.unexpected, one.problem] for one in found]]))
"""


@spark_only
@pytest.mark.slow
def test_the_same_over_connect(over_connect: Programs) -> None:
    assert over_connect.last_line("-c", CONNECT) == [
        "America/St_Johns",
        [
            [False, 1, None],
            [False, 7, None],
            [True, 0, None],
            [False, 9, None],
            [True, None, None],
            [True, None, None],
            [False, 2, None],
        ],
    ]
