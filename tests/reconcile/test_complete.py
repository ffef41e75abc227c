"""Spark's complete mode against the batch: what a session was before it grew does not matter."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from backfill import Job
from tests.files import write_rows
from tests.on_sail import ROWS

pytestmark = pytest.mark.usefixtures("interpreted")

JOB = """
source: {path: ../events, format: parquet}
events: {key: user, time: at, arrival: [batch, place]}
engine: spark
windows:
  sessions: {session: {gap: 60s}, aggregates: {n: count}}
tables: {path: out}
stream: {path: stream.%s, format: spark-complete, emit: complete}
checks: {builtin: off}
"""
#: Batch, key, second. After batch 2 the watermark is at 5,000 s, by which batch 4 is judged.
EVENTS = [(0, "a", 1_000), (1, "a", 1_030), (2, "b", 5_000), (3, "b", 5_010), (4, "a", 1_080)]


def at(second: int) -> str:
    return dt.datetime.fromtimestamp(second, dt.timezone.utc).isoformat()


def test_a_late_event_of_a_session_that_grew_is_explained(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "events").mkdir()
    (tmp_path / "job").mkdir()
    columns = {
        "batch": [batch for batch, _, _ in EVENTS],
        "place": list(range(len(EVENTS))),
        "user": [key for _, key, _ in EVENTS],
        "at": pa.array([dt.datetime.fromtimestamp(s, dt.timezone.utc) for _, _, s in EVENTS]),
    }
    pq.write_table(pa.table(columns), tmp_path / "events" / "a.parquet")
    written = [("a", 1_000, 1_090, 2), ("b", 5_000, 5_070, 2)]
    rows = [
        {"batch_id": 4, "user": user, "window_start": at(start), "window_end": at(end), "n": n}
        for user, start, end, n in written
    ]
    write_rows(tmp_path / "job" / f"stream.{ROWS}", rows)
    path = tmp_path / "job" / "job.yaml"
    path.write_text(JOB % ROWS)
    job = Job.load(path)
    job.run(spark)

    reconciled = job.reconcile("sessions", spark)
    causes = [
        (difference.key, difference.explanation.causes) for difference in reconciled.differences
    ]
    # The batch has one session of three events; the stream dropped the last of them.
    assert (reconciled.matched, causes) == (1, [(("a",), ("late",))])
    assert all(difference.explanation.proved for difference in reconciled.differences)
