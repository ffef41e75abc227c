"""Ways to the same windows. Each reads Parquet and writes Parquet: key, start, end, count, sum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import duckdb
import polars as pl
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

import backfill
from backfill import HoppingWindow, SessionWindow
from backfill import aggregates as agg

GAP_US = 30 * 60 * 1_000_000
MEASURES = {"events": agg.count(), "revenue": agg.sum("amount")}

Run = Callable[[SparkSession, Path, Path], None]


@dataclass(frozen=True)
class Contender:
    """One way to compute them.

    Attributes:
        name: in the report.
        run: reads a folder of events, writes a folder of windows.
        end_shift_us: how much later than ours its windows end, by its convention.
    """

    name: str
    run: Run
    end_shift_us: int = 0


def written(build: Callable[[DataFrame], DataFrame]) -> Run:
    """Computes from Parquet with Spark, and writes the result."""

    def run(spark: SparkSession, source: Path, out: Path) -> None:
        build(spark.read.parquet(str(source))).write.parquet(str(out))

    return run


def our_sessions(
    *,
    id: str | None = None,
    combine: bool | None = None,
    time_format: str | None = None,
    timezone: str = "UTC",
) -> Run:
    def build(events: DataFrame) -> DataFrame:
        return backfill.aggregate(
            events,
            SessionWindow(gap="30m"),
            key="user_id",
            time="event_time",
            time_format=time_format,
            timezone=timezone,
            aggregates=MEASURES,
            id=id,
            combine=combine,
        )

    return written(build)


def our_visits(*, ruled: bool) -> Run:
    """Sessions of events that have a campaign, with rules or without."""
    rules = {"max_duration": "4h", "new_when": "campaign"} if ruled else {}

    def build(events: DataFrame) -> DataFrame:
        return backfill.aggregate(
            events,
            SessionWindow(gap="30m", **rules),
            key="user_id",
            time="event_time",
            aggregates=MEASURES,
        )

    return written(build)


def our_hopping(size: str, advance: str) -> Run:
    def build(events: DataFrame) -> DataFrame:
        return backfill.aggregate(
            events,
            HoppingWindow(size=size, advance=advance),
            key="user_id",
            time="event_time",
            aggregates=MEASURES,
        )

    return written(build)


def _measures() -> tuple[Column, Column]:
    return F.count("*").alias("events"), F.sum("amount").alias("revenue")


def _by_window(events: DataFrame, window: Column) -> DataFrame:
    return (
        events.groupBy("user_id", window.alias("w"))
        .agg(*_measures())
        .select("user_id", "w.start", "w.end", "events", "revenue")
        .withColumnsRenamed({"start": "window_start", "end": "window_end"})
    )


def _session_window(events: DataFrame) -> DataFrame:
    return _by_window(events, F.session_window("event_time", "30 minutes"))


def _deduplicated(events: DataFrame) -> DataFrame:
    return _session_window(events.dropDuplicates(["user_id", "event_time", "event_id"]))


def _lag(events: DataFrame) -> DataFrame:
    order = Over.partitionBy("user_id").orderBy("t")
    near = F.col("t") - F.lag("t").over(order) <= GAP_US
    return (
        events.select("user_id", "amount", F.unix_micros("event_time").alias("t"))
        .withColumn("begins", F.when(near, 0).otherwise(1))
        .withColumn("n", F.sum("begins").over(order.rowsBetween(Over.unboundedPreceding, 0)))
        .groupBy("user_id", "n")
        .agg(F.min("t").alias("start"), F.max("t").alias("end"), *_measures())
        .select(
            "user_id",
            F.timestamp_micros("start").alias("window_start"),
            F.timestamp_micros("end").alias("window_end"),
            "events",
            "revenue",
        )
    )


def _hopping_window(size: str, advance: str) -> Run:
    return written(lambda events: _by_window(events, F.window("event_time", size, advance)))


_DUCKDB_EVENTS = """
    with flagged as (
        select user_id, event_time as first, event_time as last, 1 as events, amount as revenue,
               coalesce(event_time - lag(event_time) over w > interval 30 minutes, true) as begins
        from '{source}/*/*.parquet'
        window w as (partition by user_id order by event_time))"""

_DUCKDB_SLICES = """
    with slices as (
        select user_id, epoch_us(event_time) // 1800000000 as slice, min(event_time) as first,
               max(event_time) as last, count(*) as events, sum(amount) as revenue
        from '{source}/*/*.parquet' group by user_id, slice),
    flagged as (
        select *, coalesce(first - lag(last) over w > interval 30 minutes, true) as begins
        from slices window w as (partition by user_id order by slice))"""

_DUCKDB_SESSIONS = """,
    numbered as (
        select *, sum(begins::int) over (
            partition by user_id order by first rows unbounded preceding) as n
        from flagged)
    select user_id, min(first) as window_start, max(last) as window_end,
           sum(events)::bigint as events, sum(revenue) as revenue
    from numbered group by user_id, n"""


def _duckdb(flagged: str) -> Run:
    def run(spark: SparkSession, source: Path, out: Path) -> None:
        out.mkdir()
        with duckdb.connect() as connection:
            connection.sql("set threads = 2")
            query = flagged.format(source=source) + _DUCKDB_SESSIONS
            connection.sql(f"copy ({query}) to '{out}/part.parquet'")

    return run


def _polars(spark: SparkSession, source: Path, out: Path) -> None:
    out.mkdir()
    begins = (
        (pl.col("event_time").diff() > pl.duration(minutes=30))
        | (pl.col("user_id") != pl.col("user_id").shift())
    ).fill_null(value=True)
    (
        pl.scan_parquet(f"{source}/*/*.parquet")
        .select("user_id", "event_time", "amount")
        .sort("user_id", "event_time")
        .with_columns(n=begins.cum_sum())
        .group_by("user_id", "n")
        .agg(
            window_start=pl.col("event_time").min(),
            window_end=pl.col("event_time").max(),
            events=pl.len(),
            revenue=pl.col("amount").sum(),
        )
        .drop("n")
        .sink_parquet(out / "part.parquet")
    )


_JOB = """
source: {{path: {source}, format: parquet}}
events: {{key: user_id, time: event_time}}
windows:
  sessions: {{session: {{gap: 30m}}, aggregates: {{events: count, revenue: sum(amount)}}}}
{more}tables: {{path: {out}}}
"""
_MORE_WINDOWS = """\
  hourly: {tumbling: {size: 1h}, aggregates: {events: count, revenue: sum(amount)}}
  daily: {tumbling: {size: 24h}, aggregates: {events: count, revenue: sum(amount)}}
"""


_UNCHECKED = "checks: {builtin: off}\n"


def job_of_sessions(source: Path, out: Path, *, more: str = "") -> Path:
    """A job file in a new folder, with further settings."""
    out.mkdir()
    job = out / "job.yaml"
    job.write_text(_JOB.format(source=source, out=out, more=more))
    return job


def _job(more: str) -> Run:
    def run(spark: SparkSession, source: Path, out: Path) -> None:
        backfill.Job.load(job_of_sessions(source, out, more=more)).run(spark)

    return run


OURS = Contender("backfill", our_sessions())
OURS_PLAIN = Contender("backfill, a gap only", our_visits(ruled=False))
OURS_RULED = Contender("backfill, with rules", our_visits(ruled=True))
OURS_WITH_ID = Contender("backfill, with id", our_sessions(id="event_id"))
SESSION_WINDOW = Contender("session_window", written(_session_window), end_shift_us=GAP_US)
DROP_DUPLICATES = Contender(
    "dropDuplicates + session_window", written(_deduplicated), end_shift_us=GAP_US
)
LAG = Contender("lag + cumulative sum", written(_lag))
DUCKDB = Contender("DuckDB", _duckdb(_DUCKDB_EVENTS))
DUCKDB_SLICES = Contender("DuckDB over slices", _duckdb(_DUCKDB_SLICES))
POLARS = Contender("Polars", _polars)
OURS_APART = Contender("backfill, combine=False", our_sessions(combine=False))
JOB_OF_THREE = Contender("job of three windows", _job(_MORE_WINDOWS))
JOB_OF_SESSIONS = Contender("job of sessions alone", _job(""))
JOB_UNCHECKED = Contender("the same without its gate", _job(_MORE_WINDOWS + _UNCHECKED))


def hopping(size: str, advance: str) -> Contender:
    """Ours."""
    return Contender("backfill", our_hopping(size, advance))


def hopping_window(size: str, advance: str) -> Contender:
    """Spark's."""
    return Contender("window()", _hopping_window(size, advance))
