"""Count windows: for each event, six aggregates over its key's last 1,000, and by hundreds."""

from __future__ import annotations

from pathlib import Path

import duckdb
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

import backfill
from backfill import CountWindow
from backfill import aggregates as agg
from benchmarks.contenders import MEASURES, Contender, written

_LAST, _EACH = 1_000, 100


def _bounded(rows: DataFrame) -> DataFrame:
    """Adds the columns that the report compares by: windows of a key differ in their last event."""
    last = F.timestamp_seconds("last_event")
    return rows.withColumns({"window_start": last, "window_end": last})


def _ours(events: DataFrame) -> DataFrame:
    rows = backfill.aggregate(
        events,
        CountWindow(size=_LAST, order="time"),
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
    return _bounded(rows)


def _in_order() -> tuple[Column, ...]:
    return F.unix_micros("event_time"), F.col("amount")


def _spark(events: DataFrame) -> DataFrame:
    order = Over.partitionBy("user_id").orderBy(*_in_order())
    frame, amount = order.rowsBetween(1 - _LAST, 0), F.col("amount")
    rows = events.select(
        "user_id",
        F.row_number().over(order).alias("last_event"),
        F.count("*").over(frame).alias("events"),
        F.sum(amount).over(frame).alias("revenue"),
        F.avg(amount).over(frame).alias("mean"),
        F.var_samp(amount).over(frame).alias("variance"),
        F.min(amount).over(frame).alias("least"),
        F.max(amount).over(frame).alias("most"),
        F.min("event_time").over(frame).alias("since"),
        F.max("event_time").over(frame).alias("until"),
    )
    return _bounded(rows)


def _ours_each(events: DataFrame) -> DataFrame:
    window = CountWindow(size=_EACH, advance=_EACH, order="time")
    rows = backfill.aggregate(events, window, key="user_id", time="event_time", aggregates=MEASURES)
    return _bounded(rows)


def _spark_each(events: DataFrame) -> DataFrame:
    order = Over.partitionBy("user_id").orderBy(*_in_order())
    number = F.row_number().over(order)
    rows = (
        events.select("user_id", "event_time", "amount", number.alias("number"))
        .groupBy("user_id", F.floor((F.col("number") - 1) / _EACH).alias("window"))
        .agg(
            F.min("event_time").alias("since"),
            F.max("event_time").alias("until"),
            F.min("number").alias("first_event"),
            F.max("number").alias("last_event"),
            F.count("*").alias("events"),
            F.sum("amount").alias("revenue"),
        )
    )
    return _bounded(rows)


_DUCKDB_LAST = f"""
    select user_id, row_number() over (w) as last_event,
           make_timestamp(last_event * 1000000) as window_start, window_start as window_end,
           count(*) over last as events, sum(amount) over last as revenue,
           avg(amount) over last as mean, var_samp(amount) over last as variance,
           min(amount) over last as least, max(amount) over last as most,
           min(event_time) over last as since, max(event_time) over last as until
    from '{{source}}/*/*.parquet'
    window w as (partition by user_id order by event_time, amount),
        last as (partition by user_id order by event_time, amount
                 rows between {_LAST - 1} preceding and current row)"""

_DUCKDB_EACH = f"""
    with numbered as (
        select *, row_number() over (partition by user_id order by event_time, amount) as number
        from '{{source}}/*/*.parquet')
    select user_id, make_timestamp(max(number) * 1000000) as window_start,
           window_start as window_end, min(event_time) as since, max(event_time) as until,
           min(number) as first_event, max(number) as last_event,
           count(*) as events, sum(amount) as revenue
    from numbered group by user_id, (number - 1) // {_EACH}"""


def _duckdb(name: str, query: str) -> Contender:
    def run(spark: SparkSession, source: Path, out: Path) -> None:
        out.mkdir()
        with duckdb.connect() as connection:
            connection.sql("set threads = 2")
            connection.sql(f"copy ({query.format(source=source)}) to '{out}/part.parquet'")

    return Contender(name, run)


OURS = Contender("backfill", written(_ours))
ROWS_FRAME = Contender("ROWS frame", written(_spark))
DUCKDB = _duckdb("DuckDB", _DUCKDB_LAST)
OURS_EACH = Contender("backfill", written(_ours_each))
ROW_NUMBER = Contender("row_number + groupBy", written(_spark_each))
DUCKDB_EACH = _duckdb("DuckDB", _DUCKDB_EACH)
