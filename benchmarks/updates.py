"""The history of updates: the panes that Flink sent for each hour, in order of arrival."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import backfill
from backfill import TumblingWindow
from backfill.replay import Event, replay
from benchmarks.contenders import MEASURES, Contender, written

_HOUR = TumblingWindow(size="1h")
_DELAY = "1m"
_MILLISECOND_US = 1_000


def _ours(events: DataFrame) -> DataFrame:
    sent = backfill.updates(
        events.withColumn("arrived", F.unix_micros("received_at")),
        _HOUR,
        key="user_id",
        time="event_time",
        arrival="arrived",
        aggregates=MEASURES,
        engine="flink",
        watermark_delay=_DELAY,
    )
    return sent.select("user_id", "window_start", "window_end", *MEASURES)


def _replayed(spark: SparkSession, source: Path, out: Path) -> None:
    """All keys in one process, without Spark."""
    columns = ["user_id", "event_time", "received_at", "amount"]
    visits = ds.dataset(source, format="parquet", partitioning="hive").to_table(columns)
    times, arrivals = (visits[name].cast(pa.int64()).to_pylist() for name in columns[1:3])
    rows = zip(
        visits["user_id"].to_pylist(), times, arrivals, visits["amount"].to_pylist(), strict=True
    )
    events = [
        Event(
            key=key,
            # In whole milliseconds, like the engine's times.
            time=time // _MILLISECOND_US * _MILLISECOND_US,
            arrival=(arrived, time, key, amount),
            value={"amount": amount},
        )
        for key, time, arrived, amount in rows
    ]
    sent = replay(
        events, _HOUR, engine="flink", aggregates=MEASURES, watermark_delay=_DELAY
    ).emissions
    instants = pa.timestamp("us", "UTC")
    table = {
        "user_id": [emission.key for emission in sent],
        "window_start": pa.array([emission.start for emission in sent], instants),
        "window_end": pa.array([emission.end for emission in sent], instants),
        **{
            name: [emission.values[name] for emission in sent if emission.values]
            for name in MEASURES
        },
    }
    out.mkdir(parents=True)
    pq.write_table(pa.table(table), out / "0.parquet")


OURS = Contender("backfill", written(_ours))
ONE_PROCESS = Contender("replay", _replayed)
