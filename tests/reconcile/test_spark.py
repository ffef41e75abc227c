"""A real Spark query over the job's files, in batches, against the batch: all is explained."""

from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from backfill import reconcile
from backfill.cli import main
from backfill.job import Job
from tests.on_sail import spark_only

pytestmark = pytest.mark.usefixtures("interpreted")

JOB = """
source: {path: events, format: parquet}
events: {key: user, time: at, id: id}
engine: spark
windows:
  sessions: {session: {gap: 1m}, aggregates: {n: count, total: sum(amount)}}
  minutes: {tumbling: {size: 1m}, aggregates: {n: count, total: sum(amount)}}
tables: {path: out}
stream: {path: streamed/sessions, format: spark-append, watermark_delay: 10s}
"""
START = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
#: User, seconds, amount, id: one list for each file, and so for each batch.
BATCHES = [
    [("a", 0, 1, "1"), ("a", 30, 2, "2"), ("b", 10, 3, "3")],
    [("a", 300, 4, "4"), ("b", 20, 5, "5"), ("b", 20, 5, "5")],  # delivered twice
    [("a", 600, 6, "6"), ("c", 610, 7, "7")],
    # The batch before last reached 300 s: what ended before 290 s is late.
    [("b", 40, 8, "8"), ("a", 250, 9, "9"), ("c", 640, 10, "10")],
    [("d", 2_000, 11, "11")],
    [("a", 20, 12, "12"), ("d", 2_010, 13, "13")],
]


@spark_only
# When the query is drained, Spark runs a batch without files, which only its own log counts.
@pytest.mark.slow
@pytest.mark.parametrize("drained_after", [[], [2, 3, 4]])
def test_every_difference_of_a_real_query_is_explained(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    drained_after: list[int],
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(JOB)
    job = Job.load(path)
    (tmp_path / "events").mkdir()
    for number, rows in enumerate(BATCHES):
        if number in drained_after:
            job.stream(spark, to=tmp_path / "streamed", files_per_batch=1)
        table = pa.table(
            {
                "user": [row[0] for row in rows],
                "at": pa.array(
                    [START + dt.timedelta(seconds=row[1]) for row in rows],
                    pa.timestamp("us", "UTC"),
                ),
                "amount": [row[2] for row in rows],
                "id": [row[3] for row in rows],
            }
        )
        file = tmp_path / "events" / f"{number}.parquet"
        pq.write_table(table, file)
        # Spark takes files in the order of their times.
        os.utime(file, (number, number))
    job.run(spark)
    job.stream(spark, to=tmp_path / "streamed", files_per_batch=1)

    for window in ("sessions", "minutes"):
        reconciled = reconcile(
            job,
            window,
            spark,
            stream=str(tmp_path / "streamed" / window),
            checkpoint=str(tmp_path / "streamed" / "_checkpoints" / window),
        )
        explanations = [
            (difference.key, difference.explanation) for difference in reconciled.differences
        ]
        assert reconciled.unexplained == 0, explanations
        assert reconciled.possible == 0, explanations
        assert sum(reconciled.causes.values()) == len(reconciled.differences)
        # The copies are in a window that also lost an event: the first of its causes counts.
        assert set(reconciled.causes) == {"late", "pending"}, explanations
        causes = {cause for _, explanation in explanations for cause in explanation.causes}
        assert causes == {"late", "pending", "redelivered"}, explanations
        assert reconciled.ok(["late", "pending", "redelivered"])
        assert not reconciled.ok(["late", "pending"])

    # Without the checkpoint nothing of that is certain, and the command says so.
    options = ["--accept", "redelivered,pending,late", "--json", "--html", str(tmp_path / "p.html")]
    code = main(["reconcile", str(path), "sessions", *options])
    document = json.loads(capsys.readouterr().out)
    assert code == (0 if document["ok"] else 1)
    assert document["differing"] == sum(document["causes"].values())
    assert document["possible"] > 0
    # At the end of the input the clock had reached the largest time, whatever came when.
    assert document["causes"].keys() == {"late", "pending"}
    assert "<svg" in (tmp_path / "p.html").read_text()


@spark_only
@pytest.mark.slow
def test_every_difference_of_the_samples_own_job_is_proved(
    spark: SparkSession, samples: Path
) -> None:
    """Its events come in several batches, some of them late, some twice, some not usable."""
    files = sorted((samples / "events").rglob("*.parquet"))
    assert len(files) > 3
    for number, path in enumerate(files, 1):
        # In order of the day on which they were received.
        os.utime(path, (number, number))
    job = Job.load(samples / "job.yaml")
    job.run(spark)
    done = job.stream(spark, to=samples / "streamed", files_per_batch=1, watermark_delay="2h")
    for window, rows in (("sessions", 406), ("hourly", 467), ("trailing", 6_346)):
        assert done[window].batches > 3
        reconciled = reconcile(
            job,
            window,
            spark,
            stream=str(samples / "streamed" / window),
            format="spark-append",
            checkpoint=str(samples / "streamed" / "_checkpoints" / window),
            watermark_delay="2h",
        )
        unproved = [
            difference for difference in reconciled.differences if not difference.explanation.proved
        ]
        assert (reconciled.unexplained, reconciled.possible, unproved) == (0, 0, [])
        # Rows without a user are a group in Spark, but not events in the job.
        assert {
            explained.key for explained in reconciled.differences if not explained.difference.batch
        } == {(None,)}
        assert set(reconciled.causes) == {"late", "redelivered", "pending", "missing_in_batch"}
        assert sum(reconciled.causes.values()) == len(reconciled.differences)
        assert reconciled.batch == rows
        differing = sum(len(explained.difference.batch) for explained in reconciled.differences)
        assert reconciled.matched + differing == reconciled.batch
        written = sum(len(explained.difference.stream) for explained in reconciled.differences)
        assert reconciled.matched + written == reconciled.stream == done[window].rows
