"""Sliding windows: for each event six aggregates over its key's last 24 hours."""

from __future__ import annotations

from pathlib import Path

import duckdb
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

import backfill
from backfill import SlidingWindow
from backfill import aggregates as agg
from benchmarks.contenders import Contender, written

_DAY_US = 86_400_000_000


def _bounded(found: DataFrame) -> DataFrame:
    """With the columns that the report compares by."""
    time = F.col("event_time")
    return found.withColumns({"window_start": time, "window_end": time})


def _spark(events: DataFrame) -> DataFrame:
    day = Over.partitionBy("user_id").orderBy("t").rangeBetween(-_DAY_US, 0)
    amount = F.col("amount")
    found = events.select(
        "user_id", "event_time", "amount", F.unix_micros("event_time").alias("t")
    ).select(
        "user_id",
        "event_time",
        F.count("*").over(day).alias("events"),
        F.sum(amount).over(day).alias("revenue"),
        F.avg(amount).over(day).alias("mean"),
        F.var_samp(amount).over(day).alias("variance"),
        F.min(amount).over(day).alias("least"),
        F.max(amount).over(day).alias("most"),
    )
    return _bounded(found)


def _ours(events: DataFrame) -> DataFrame:
    found = backfill.aggregate(
        events,
        SlidingWindow(size="24h"),
        key="user_id",
        time="event_time",
        aggregates={
            "events": agg.count(),
            "revenue": agg.sum("amount"),
            "mean": agg.mean("amount"),
            "variance": agg.variance("amount"),
            "least": agg.min("amount"),
            "most": agg.max("amount"),
        },
    )
    return _bounded(found)


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


OURS = Contender("backfill", written(_ours))
RANGE_FRAME = Contender("RANGE frame", written(_spark))
DUCKDB = Contender("DuckDB", _duckdb)
