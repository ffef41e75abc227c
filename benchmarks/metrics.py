"""Rolling metrics: ten metrics over five windows, as step functions and as of each event."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

import backfill
from backfill import Metric
from backfill import aggregates as agg
from backfill.aggregates import Aggregate
from benchmarks.contenders import MEASURES, Contender, written

WINDOWS = ("1h", "1d", "7d", "30d", "90d")
_TEN: dict[str, Aggregate] = {
    "events": agg.count(),
    "revenue": agg.sum("amount"),
    "mean": agg.mean("amount"),
    "least": agg.min("amount"),
    "most": agg.max("amount"),
    "large": agg.count(where="amount > 50"),
    "large_revenue": agg.sum("amount", where="amount > 50"),
    "viewed": agg.count("page"),
    "pages": agg.count_distinct("page"),
    "last": agg.last("page"),
}
_DAY_US = 86_400_000_000
_HOURS = {"1h": 1, "1d": 24, "7d": 168, "30d": 720, "90d": 2160}


def _metrics(aggregates: dict[str, Aggregate], windows: tuple[str, ...]) -> list[Metric]:
    return [
        Metric(name, aggregate, by=["user_id"], windows=windows, step="1h")
        for name, aggregate in aggregates.items()
    ]


def _ten(events: DataFrame) -> DataFrame:
    return backfill.metrics(events, _metrics(_TEN, WINDOWS), time="event_time")


def _every_hour(events: DataFrame) -> DataFrame:
    """A metric with the bounds that hopping windows have."""
    own = _metrics(dict(MEASURES), ("24h",))
    rows = backfill.metrics(events, own, time="event_time", dense=True).where("events > 0")
    start = F.timestamp_micros(F.unix_micros("valid_from") - _DAY_US)
    return rows.select(
        "user_id", start.alias("window_start"), F.col("valid_from").alias("window_end"), *MEASURES
    )


def _seen(events: DataFrame) -> DataFrame:
    own = _metrics(dict(MEASURES), WINDOWS)
    rows = backfill.metrics_at(events, own, time="event_time").drop("ties")
    return _bounded(rows)


def _frames(events: DataFrame) -> DataFrame:
    by_time = Over.partitionBy("user_id").orderBy("t")
    values = {}
    for window, hours in _HOURS.items():
        frame = by_time.rangeBetween(-hours * 3_600_000_000, 0)
        values[f"events_{window}"] = F.count("*").over(frame)
        values[f"revenue_{window}"] = F.sum("amount").over(frame)
    timed = events.withColumn("t", F.unix_micros("event_time"))
    return _bounded(timed.withColumns(values))


def _bounded(rows: DataFrame) -> DataFrame:
    """Selects the columns that the report compares by: those of the day, as of each event."""
    time = F.col("event_time")
    names = [f"{name}_{window}" for name in MEASURES for window in WINDOWS]
    day = [F.col(f"{name}_1d").alias(name) for name in MEASURES]
    bounds = [time.alias("window_start"), time.alias("window_end")]
    return rows.select("user_id", *bounds, *names, *day)


def _in_cents(events: DataFrame) -> DataFrame:
    """The events with whole amounts, whose sums can be subtracted."""
    return events.withColumn("amount", F.round(F.col("amount") * 100).cast("long"))


TEN = Contender("backfill", written(_ten))
EVERY_HOUR = Contender("backfill", written(_every_hour))
SEEN = Contender("backfill", written(_seen))
FRAMES = Contender("RANGE frames", written(_frames))
SEEN_IN_CENTS = Contender("backfill", written(lambda events: _seen(_in_cents(events))))
FRAMES_IN_CENTS = Contender("RANGE frames", written(lambda events: _frames(_in_cents(events))))
