"""A job as streaming queries: one for each window or join, one after the other, until drained."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from backfill.columns import REASON
from backfill.errors import JobFileError
from backfill.events import normalise, open_source, spark_errors
from backfill.rows.definition import Definition
from backfill.rows.fitting import check_names
from backfill.session_conf import session_conf
from backfill.spec import JobSpec
from backfill.stream import source_stream as reading
from backfill.stream import streaming_aggregation as windows
from backfill.stream.checkpoints import Checkpoint
from backfill.stream.streaming_join import joined
from backfill.time.durations import Fixed
from backfill.time.epoch import micros_of
from backfill.windows.join_window import JoinWindow

_CONF = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
_POLL_S = 1
# What the queries count in each batch.
_EVENTS, _WINDOWS = "events", "windows"


@dataclass(frozen=True)
class Streamed:
    """What one query did since it was started.

    Attributes:
        read: rows of the source.
        unusable: of these, rows that are no events.
        rows: windows written.
        batches: how many, those without data included.
        watermark_us: at the last batch, µs since the epoch; None if there was no batch.
    """

    read: int = 0
    unusable: int = 0
    rows: int = 0
    batches: int = 0
    watermark_us: int | None = None


def stream(
    spec: JobSpec,
    spark: SparkSession,
    to: Path,
    *,
    files_per_batch: int | None,
    watermark_delay: Fixed | None,
    progress: Callable[[str], None],
) -> dict[str, Streamed]:
    """Runs what `Job.stream` describes.

    Returns:
        What each query did, by window.
    """
    limited = files_per_batch is not None
    if limited and (type(files_per_batch) is not int or files_per_batch < 1):
        problem = "must be a whole number, at least 1"
        raise JobFileError(problem, field="files_per_batch", value=files_per_batch)
    delay = watermark_delay or spec.stream.watermark_delay or Fixed(0)
    delays = delay, spec.stream.right_watermark_delay or delay
    reading.check_streamed(spec.source)
    for name, entry in spec.windows.items():
        windows.check_streamed(name, entry.window)
    checkpoints = [Checkpoint(spec, name, to, delays) for name in spec.windows]
    progress(f"opening {spec.source.path}")
    source = open_source(spark, spec.source)
    for checkpoint in checkpoints:
        checkpoint.check(source.frame.schema)
    with spark_errors(source.snapshot):
        rows = reading.read_stream(spark, spec.source, source, files_per_batch)
        frames = {name: _frame(spec, name, rows, delays) for name in spec.windows}
        done = {}
        for checkpoint in checkpoints:
            checkpoint.begin(source.frame.schema)
            query = _start(spark, frames[checkpoint.window], checkpoint)
            try:
                done[checkpoint.window] = _follow(query, checkpoint.window, progress)
            finally:
                query.stop()
    return done


def _frame(spec: JobSpec, name: str, rows: DataFrame, delays: tuple[Fixed, Fixed]) -> DataFrame:
    """One window's stream of results."""
    window = spec.windows[name].window
    now_us = time.time_ns() // 1_000
    normalised = normalise(rows, spec.event_rules(windows.SPARK, (), now_us))
    observed = normalised.observe(
        _EVENTS, F.count(F.lit(1)).alias("read"), F.count(REASON).alias("unusable")
    )
    events, again = (frame.where(F.col(REASON).isNull()) for frame in (observed, normalised))
    if isinstance(window, JoinWindow):
        # Each side reads the source; its rows are counted once.
        results = joined(
            (events, again),
            window,
            key=spec.key,
            id=spec.id,
            delays_us=(delays[0].us, delays[1].us),
        )
    else:
        definition = Definition(window, spec.windows[name].aggregates)
        check_names(definition.aggregates, spec.key, definition.window)
        results = windows.windowed(
            events, definition, key=spec.key, arrival=spec.arrival, delay_us=delays[0].us
        )
    return results.observe(_WINDOWS, F.count(F.lit(1)).alias("rows"))


def _start(spark: SparkSession, frame: DataFrame, checkpoint: Checkpoint) -> StreamingQuery:
    # A query copies the session, with its settings, when it is started.
    with session_conf(spark, _CONF):
        return (
            frame.writeStream.format("parquet")
            .outputMode("append")
            .option("checkpointLocation", str(checkpoint.folder))
            .trigger(availableNow=True)
            .start(str(checkpoint.output))
        )


def _follow(query: StreamingQuery, name: str, progress: Callable[[str], None]) -> Streamed:
    """Waits until the query has drained its source, and adds up its progress reports."""
    batches: dict[int, Streamed] = {}
    drained = False
    while not drained:
        drained = bool(query.awaitTermination(_POLL_S))
        for report in query.recentProgress:
            # A restart that finds nothing new reports a batch that it did not run.
            if report.batchId not in batches and "addBatch" in report.durationMs:
                batches[report.batchId] = batch = _batch(report)
                progress(
                    f"{name}: batch {report.batchId}: {batch.read:,} rows read, "
                    f"{batch.rows:,} windows written"
                )
    return Streamed(
        read=sum(streamed.read for streamed in batches.values()),
        unusable=sum(streamed.unusable for streamed in batches.values()),
        rows=sum(streamed.rows for streamed in batches.values()),
        batches=len(batches),
        watermark_us=batches[max(batches)].watermark_us if batches else None,
    )


def _batch(progress: StreamingQueryProgress) -> Streamed:
    read, unusable = _counted(progress.observedMetrics[_EVENTS])
    (rows,) = _counted(progress.observedMetrics[_WINDOWS])
    watermark = dt.datetime.fromisoformat(progress.eventTime["watermark"].replace("Z", "+00:00"))
    return Streamed(
        read=read,
        unusable=unusable,
        rows=rows,
        batches=1,
        watermark_us=micros_of(watermark),
    )


def _counted(row: Row) -> list[int]:
    """The counts in order, which Spark Connect gives as one field of the row."""
    fields = row.asDict()
    return list(fields["values"] if "values" in fields else fields.values())
