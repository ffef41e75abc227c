"""Arguments that do not fit are refused by name, before Spark computes anything."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import backfill
from backfill import BotRule, CountWindow, Metric, SessionWindow, SlidingWindow, TumblingWindow
from backfill import aggregates as agg
from backfill.errors import BackfillError
from tests.event_frames import from_rows

pytestmark = pytest.mark.usefixtures("interpreted")

GAP = SessionWindow(gap="30m")
BOT = BotRule(name="many", events=3)
METRIC = Metric("n", "count", by=["user"], windows=["1d"], step="1h")


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> DataFrame:
    return from_rows(spark, [("a", 0, 1), ("a", 60, 2)], "user string, s long, x long").selectExpr(
        "user", "timestamp_seconds(s) AS at", "x"
    )


def _aggregate(**other: Any) -> Callable[[DataFrame], DataFrame]:
    given = {"key": "user", "time": "at", "aggregates": {"n": agg.count()}, **other}
    window = given.pop("window", GAP)
    return lambda events: backfill.aggregate(events, window, **given)


def _join(left: Any, right: Any, **other: Any) -> DataFrame:
    return backfill.join(left, right, **{"on": "user", "time": "at", "within": "1m", **other})


def _reconcile_join(events: DataFrame, stream: Any, **other: Any) -> object:
    given = {"on": "user", "time": "at", "within": "1m", "arrival": "x", **other}
    return backfill.reconcile_join(events, events, stream, **given)


def _bots(events: Any, rules: Any) -> DataFrame:
    return backfill.bots(events, rules, gap="30m", key="user", time="at")


def _metrics(events: DataFrame, **other: Any) -> DataFrame:
    return backfill.metrics(events, [METRIC], **{"time": "at", **other})


def test_aggregates_as_a_job_file_has_them(events: DataFrame) -> None:
    given = {"n": "count where x > 1", "total": agg.sum("x")}
    row = _aggregate(aggregates=given)(events).collect()[0]
    assert (row["n"], row["total"]) == (1, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda _: backfill.aggregate(None, GAP, key="user", time="at", aggregates={}), "events: "),
        (lambda e: backfill.aggregate([e], GAP, key="user", time="at", aggregates={}), "events: "),
        (_aggregate(window="30m"), r"window: must be a window \(got '30m'\). Such as Sess"),
        (_aggregate(window=SessionWindow), "window: must be a window"),
        (_aggregate(window=None), "window: must be a window"),
        (_aggregate(key=None), r"key: must be the name of a column, or a list .* \(got 'None'"),
        (_aggregate(key=5), "must be the name of a column"),
        (_aggregate(key=[5]), "must be the name of a column"),
        (lambda e: _aggregate(key=e["user"])(e), "must be the name of a column"),
        (_aggregate(time=5), r"time: must be the name of a column \(got '5'\)"),
        (_aggregate(id=5), r"id: must be the name of a column \(got '5'\)"),
        (_aggregate(arrival=5), "arrival: must be the name of a column"),
        (lambda e: _aggregate(time=e["at"])(e), "time: must be the name of a column"),
        (lambda e: _aggregate(id=e["x"])(e), "id: must be the name of a column"),
        (lambda e: _aggregate(arrival=e["x"])(e), "arrival: must be the name of a column"),
        (_aggregate(aggregates={"n": "min(map(1, x))"}), "takes a value that can be ordered"),
        (_aggregate(aggregates={"n": "max(map(1, x))"}), "takes a value that can be ordered"),
        *(
            (_aggregate(aggregates={"n": f"{name}({value})"}), message)
            for name in ("collect_set", "count_distinct")
            for value, message in (
                ("array(make_interval(1))", "takes a value that can be ordered"),
                ("named_struct('map', map(1, x))", "takes a value that can be ordered"),
                ("named_struct('x', collate(user, 'UTF8_LCASE'))", "treats different texts as eq"),
            )
        ),
        (
            _aggregate(aggregates={"n": "count_distinct(map(1, x), approximate=true)"}),
            "takes a value that can be ordered",
        ),
        (lambda e: _join(e, [1]), r"right: must be a DataFrame of Spark \(got 'list'\)"),
        (lambda e: _join(None, e), r"left: must be a DataFrame of Spark \(got 'NoneType'\)"),
        (lambda e: _join(e, e, time=None), "time: must be one column, or the left side's"),
        (lambda e: _join(e, e, time=e["at"]), "time: must be one column, or the left side's"),
        (lambda e: _join(e, e, on=None), "on: must be the name of a column"),
        (lambda e: _join(e, e, where="left.x >"), "does not fit the two sides: .*[Ss]yntax"),
        (lambda e: backfill.as_of(e, 5, on="user", time="at"), "right: must be a DataFrame"),
        (
            lambda e: backfill.session_join(e, 5, window=GAP, on="user", time="at"),
            "events: must be a DataFrame of Spark",
        ),
        (lambda e: _reconcile_join(e, [1]), "stream: must be a DataFrame of Spark"),
        (lambda e: _reconcile_join(e, e, arrival=None), "arrival: must be the name of a column"),
        (lambda e: _bots(None, [BOT]), "events: must be a DataFrame of Spark"),
        (lambda e: _bots(e, BOT), "rules: must be a list of BotRule"),
        (lambda e: _bots(e, ["x"]), "rules: must be a list of BotRule"),
        (lambda e: _bots(e, None), "rules: must be a list of BotRule"),
        (lambda e: _metrics(e, time=e["at"]), "time: must be the name of a column"),
        (lambda e: _metrics(e, at=["2026-01-01"]), "at: must be a DataFrame of Spark"),
        (
            lambda e: backfill.metrics_at(e, [METRIC], time="at", at=[1]),
            "at: must be a DataFrame of Spark",
        ),
        (
            lambda e: backfill.metrics_at(
                e, [METRIC], time="at", at=e.withColumn("user", F.lit(5))
            ),
            r"at: is int, and string in the events \(got 'user'\)",
        ),
        (lambda e: backfill.table_as_of(5, key="user"), "updates: must be a DataFrame of Spark"),
        (_aggregate(timezone=dt.timezone.utc), "time zone"),
        (_aggregate(engine=None), "engine"),
        (_aggregate(aggregates=None), "aggregates: must be aggregates by the names"),
        (_aggregate(aggregates=[agg.count()]), "aggregates: must be aggregates by the names"),
        (_aggregate(aggregates={"n": "cuont"}), "Did you mean 'count'"),
        (_aggregate(aggregates={"n": agg.count}), "aggregates.n: must be an aggregate"),
        (_aggregate(aggregates={5: agg.count()}), "aggregates.5: must be an aggregate"),
        (_aggregate(key=["user", "user"]), r"key: two columns of the result .* \(got 'user'\)"),
        (
            _aggregate(aggregates={"USER": agg.count()}),
            r"key: two columns of the result .* \(got 'user'\)",
        ),
        (
            _aggregate(aggregates={"Window_Start": agg.count()}),
            r"aggregates: two columns of the result would have this name \(got 'window_start'\)",
        ),
        (
            lambda e: _aggregate(key="window_end")(e.withColumnRenamed("user", "window_end")),
            r"key: two columns of the result would have this name \(got 'window_end'\)",
        ),
        (
            _aggregate(window=SlidingWindow(size="1h"), id="x", aggregates={"X": agg.count()}),
            r"id: two columns of the result would have this name \(got 'x'\)",
        ),
        (
            _aggregate(
                window=CountWindow(size=2, order="time"), aggregates={"n": "count", "N": "count"}
            ),
            r"aggregates: two columns of the result would have this name \(got 'n'\)",
        ),
        (lambda _: agg.sum(None), "needs an expression"),
        (lambda _: agg.sum(5), "must be Spark SQL or a column"),
        (lambda _: agg.count(where=5), "must be Spark SQL or a column"),
        (lambda _: agg.quantile("x", None), "share: must be between 0 and 1"),
        (
            lambda e: backfill.sessionize(e, TumblingWindow(size="1h"), key="user", time="at"),
            "window: must be a window",
        ),
        (lambda e: backfill.metrics(e, ["x"], time="at"), "metrics: must be a list of metrics"),
        (lambda e: backfill.metrics(e, None, time="at"), "metrics: must be a list of metrics"),
        (lambda e: backfill.metrics_at(e, "x", time="at"), "metrics: must be a list of metrics"),
        (
            lambda e: backfill.session_join(e, e, window="30m", on="user", time="at"),
            "window: must be a window",
        ),
    ],
)
def test_what_is_something_else(
    events: DataFrame, call: Callable[[DataFrame], Any], message: str
) -> None:
    with pytest.raises(BackfillError, match=message):
        call(events)
