"""Joins: events at even microseconds with events at odd ones that are close in time."""

from __future__ import annotations

from pathlib import Path

import duckdb
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import backfill
from benchmarks.contenders import Contender, written

_MINUTES = 5


def _sides(events: DataFrame) -> tuple[DataFrame, DataFrame]:
    odd = F.pmod(F.unix_micros("event_time"), F.lit(2)) == 1
    carried = events.select("user_id", "event_id", "event_time", "amount")
    return carried.where(~odd), carried.where(odd)


def _bounded(pairs: DataFrame) -> DataFrame:
    """Selects the columns that the report compares by: a pair is named by its events' ids."""
    return pairs.select(
        F.concat("event_id", F.lit(" "), "event_id_right").alias("user_id"),
        F.col("event_time").alias("window_start"),
        F.col("event_time_right").alias("window_end"),
        F.lit(1).alias("events"),
        (F.col("amount") + F.col("amount_right")).alias("revenue"),
    )


def ours(within: str = f"{_MINUTES}m") -> Contender:
    """Ours, for events up to `within` apart."""

    def build(events: DataFrame) -> DataFrame:
        left, right = _sides(events)
        return _bounded(backfill.join(left, right, on="user_id", time="event_time", within=within))

    return Contender("backfill", written(build))


def _range_condition(events: DataFrame) -> DataFrame:
    """On whole numbers: adding an interval to a timestamp takes many times as long."""
    left, right = _sides(events)
    named = right.withColumnsRenamed({name: f"{name}_right" for name in right.columns})
    apart = F.unix_micros("event_time_right") - F.unix_micros("event_time")
    near = apart.between(-_MINUTES * 60_000_000, _MINUTES * 60_000_000)
    return _bounded(left.join(named, (F.col("user_id") == F.col("user_id_right")) & near))


_QUERY = f"""
    with events as (select * from '{{source}}/*/*.parquet')
    select a.event_id || ' ' || b.event_id as user_id, a.event_time as window_start,
           b.event_time as window_end, 1 as events, a.amount + b.amount as revenue
    from events a join events b
    on a.user_id = b.user_id and b.event_time between
        a.event_time - interval {_MINUTES} minutes and a.event_time + interval {_MINUTES} minutes
    where epoch_us(a.event_time) % 2 = 0 and epoch_us(b.event_time) % 2 = 1"""


def _duckdb(spark: SparkSession, source: Path, out: Path) -> None:
    out.mkdir()
    with duckdb.connect() as connection:
        connection.sql("set threads = 2")
        connection.sql(f"copy ({_QUERY.format(source=source)}) to '{out}/part.parquet'")


RANGE_CONDITION = Contender("equi-join with a range condition", written(_range_condition))
DUCKDB = Contender("DuckDB", _duckdb)
