"""Users' columns that begin with an underscore, as helper columns do, or have to be quoted."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill import BotRule, Metric, SessionWindow, aggregate, as_of, bots, metrics_at, sessionize
from backfill import aggregates as agg

#: Names as in exports, and as this library's own.
NAMES = ["_id", "_time", "_TIME2", "_reason", "_new", "_Cut", "_row", "_gap", "_value0", "_key0"]
NAMES += ["_known0", "_usable", "_session", "_rule0", "_date", "_first", "_last", "_in0"]
BY_KEY = {"key": "user", "time": "t", "time_format": "epoch_s"}
RULES = SessionWindow(
    gap="30m", new_when=["camp", "_new"], start_when="_row <> '_row'", max_duration="1h"
)


def _sessions(events: DataFrame) -> DataFrame:
    return sessionize(events, RULES, **BY_KEY)


def _bots(events: DataFrame) -> DataFrame:
    rule = BotRule(name="quick", events=1, where="_rule0 = '_rule0'")
    return bots(events, [rule], gap="30m", id="_id", **BY_KEY)


def _metrics(events: DataFrame) -> DataFrame:
    own = [Metric("n", "count", by=["user"], windows=["1h"], step="5m")]
    return metrics_at(events, own, time="t", time_format="epoch_s")


def _as_of(events: DataFrame) -> DataFrame:
    others = events.select("user", "t", F.lit(1).alias("one"))
    return as_of(events, others, on="user", time="t", time_format="epoch_s")


@pytest.mark.parametrize("function", [_sessions, _bots, _metrics, _as_of])
def test_they_are_kept(spark: SparkSession, function: Callable[[DataFrame], DataFrame]) -> None:
    few = spark.createDataFrame(
        [("a", 0, "x"), ("a", 60, "y"), ("a", 120, "x"), ("b", 5, None), (None, 9, "x")],
        "user string, t long, camp string",
    )
    result = function(few.select("*", *(F.lit(name).alias(name) for name in NAMES)))
    kept = result.select("user", "t", *NAMES).collect()
    assert sorted(map(tuple, kept), key=repr) == sorted(
        ((user, t, *NAMES) for user, t, _ in few.collect()), key=repr
    )


def test_they_are_aggregated(spark: SparkSession) -> None:
    events = spark.createDataFrame([("a", 0)], "user string, t long")
    events = events.select("*", *(F.lit(name).alias(name) for name in NAMES))
    values = {f"v{i}": agg.first(name) for i, name in enumerate(NAMES)}
    result = aggregate(events, SessionWindow(gap="30m"), aggregates=values, **BY_KEY)
    assert [tuple(row) for row in result.select(*values).collect()] == [tuple(NAMES)]


def test_names_that_sql_quotes(spark: SparkSession) -> None:
    """The names of a dimension and a metric, with several groupings side by side."""
    events = spark.createDataFrame([("a", 0), ("b", 60)], "`geo.o``clock` string, t long")
    own = Metric("n.`", "count", by=[["geo.o`clock"], []], windows=["1h"], step="5m")
    result = metrics_at(events, [own], time="t", time_format="epoch_s")
    names = ["geo.o`clock", "t", "n.`_by_geo.o`clock_1h", "n.`_by_all_1h", "ties"]
    assert result.columns == names
    assert sorted(map(tuple, result.collect())) == [("a", 0, 1, 1, 0), ("b", 60, 1, 2, 0)]
