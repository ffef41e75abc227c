"""Sliding windows: for each event, aggregates over its key's last 24 hours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
from pyspark.sql import Column, DataFrame, SparkSession, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

import backfill
from backfill import SlidingWindow
from backfill import aggregates as agg
from backfill.aggregates import Aggregate
from benchmarks.contenders import Contender, written

_DAY_US = 86_400_000_000


@dataclass(frozen=True)
class Measure:
    """One aggregate: ours, and the same over Spark's frame."""

    ours: Aggregate
    frame: Callable[[WindowSpec], Column]


#: The report compares windows by these.
_COMMON = {
    "events": Measure(agg.count(), lambda day: F.count("*").over(day)),
    "revenue": Measure(agg.sum("amount"), lambda day: F.sum("amount").over(day)),
}
SIX = {
    **_COMMON,
    "mean": Measure(agg.mean("amount"), lambda day: F.avg("amount").over(day)),
    "variance": Measure(agg.variance("amount"), lambda day: F.var_samp("amount").over(day)),
    "least": Measure(agg.min("amount"), lambda day: F.min("amount").over(day)),
    "most": Measure(agg.max("amount"), lambda day: F.max("amount").over(day)),
}
#: Each of these is computed beside the common ones.
OTHERS = {
    "distinct": Measure(
        agg.count_distinct("page"), lambda day: F.size(F.collect_set("page").over(day))
    ),
    "approximate": Measure(
        agg.count_distinct("page", approximate=True),
        lambda day: F.approx_count_distinct("page").over(day),
    ),
    "quantile": Measure(
        agg.quantile("amount", 0.9), lambda day: F.percentile_approx("amount", 0.9).over(day)
    ),
    "first": Measure(agg.first("page"), lambda day: F.first("page").over(day)),
    "last": Measure(agg.last("page"), lambda day: F.last("page").over(day)),
}


def _bounded(rows: DataFrame) -> DataFrame:
    """Adds the columns that the report compares by."""
    time = F.col("event_time")
    return rows.withColumns({"window_start": time, "window_end": time})


def range_frame(measures: Mapping[str, Measure] = SIX) -> Contender:
    """Spark's."""

    def build(events: DataFrame) -> DataFrame:
        day = Over.partitionBy("user_id").orderBy("t").rangeBetween(-_DAY_US, 0)
        timed = events.withColumn("t", F.unix_micros("event_time"))
        values = (measure.frame(day).alias(name) for name, measure in measures.items())
        return _bounded(timed.select("user_id", "event_time", *values))

    return Contender("RANGE frame", written(build))


def ours(measures: Mapping[str, Measure] = SIX) -> Contender:
    """Ours."""

    def build(events: DataFrame) -> DataFrame:
        rows = backfill.aggregate(
            events,
            SlidingWindow(size="24h"),
            key="user_id",
            time="event_time",
            aggregates={name: measure.ours for name, measure in measures.items()},
        )
        return _bounded(rows)

    return Contender("backfill", written(build))


def beside(name: str) -> Mapping[str, Measure]:
    """The common measures and another one."""
    return {**_COMMON, name: OTHERS[name]}


def _duckdb(spark: SparkSession, source: Path, out: Path) -> None:
    out.mkdir()
    with duckdb.connect() as connection:
        connection.sql("set threads = 2")
        connection.sql(f"""
            copy (
                select user_id, event_time, event_time as window_start, event_time as window_end,
                       count(*) over day as events, sum(amount) over day as revenue,
                       avg(amount) over day as mean, var_samp(amount) over day as variance,
                       min(amount) over day as least, max(amount) over day as most
                from '{source}/*/*.parquet'
                window day as (partition by user_id order by event_time
                               range between interval 24 hours preceding and current row)
            ) to '{out}/part.parquet'
        """)


DUCKDB = Contender("DuckDB", _duckdb)
