"""Operators that depend on commits and on the wall clock, through `Job.reconcile`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from backfill import Job
from backfill.errors import ColumnError, JobFileError
from tests.engines.recordings import Recording
from tests.engines.test_recorded_kafka import BROKER, DRIVER, through_broker
from tests.files import write_rows
from tests.on_sail import ROWS

pytestmark = pytest.mark.usefixtures("interpreted")

JOB = """
source: {path: events, format: parquet}
events: {key: key, time: time, time_format: epoch_ms, id: id, arrival: [partition, offset]}
engine: kafka-streams
windows:
  written: {%s, aggregates: {n: count}}
tables: {path: out}
checks: {builtin: off}
stream:
  path: output.%s
  format: kafka-streams
  bytes: hex
  grace: %s
"""


#: The causes for each recording: with its commits and restarts, and without.
CAUSES = {
    "session-10s": (
        {"late": 42, "redelivered": 27, "engine_loss": 1},
        {"late": 42, "redelivered": 27, "unexplained": 1},
    ),
    "tumbling-10s": (
        {"late": 60, "redelivered": 24},
        {"late": 60, "redelivered": 24},
    ),
}


def job_of(folder: Path, recording: Recording, **columns: Any) -> Job:
    """The recording's input as a job, with further columns, and its output and commits in files."""
    (folder / "events").mkdir()
    events = pa.Table.from_pylist(list(recording.input()))
    for name, values in columns.items():
        events = events.append_column(name, [values])
    pq.write_table(events, folder / "events" / "a.parquet")
    write_rows(folder / f"output.{ROWS}", recording.rows("output"))
    if recording.has("commits"):
        commits = [[row["partition"], row["offset"] - 1] for row in recording.rows("commits")]
        (folder / "commits.json").write_text(json.dumps(commits))
    ((kind, fields),) = recording.settings["window"].items()
    inside = ", ".join(f"{name}: {value}" for name, value in fields.items())
    window = f"{kind}: {{{inside}}}"
    (folder / "job.yaml").write_text(JOB % (window, ROWS, recording.settings["grace"]))
    return Job.load(folder / "job.yaml")


@pytest.mark.slow
@pytest.mark.parametrize("recording", BROKER, ids=lambda recording: recording.name)
def test_commits_and_restarts_explain_what_a_cache_wrote(
    spark: SparkSession, tmp_path: Path, recording: Recording
) -> None:
    job = job_of(tmp_path, recording)
    job.run(spark)
    plain = job.reconcile("written", spark, caching=True)
    _, first = through_broker(recording)
    reconciled = job.reconcile(
        "written",
        spark,
        caching=True,
        commits=str(tmp_path / "commits.json"),
        restarts=[list(restart) for restart in first.items()],
    )
    # What the cache wrote at each commit decides about one session of the recording.
    expected, unmarked = CAUSES[recording.settings["name"]]
    assert (reconciled.causes, reconciled.possible) == (expected, 0)
    assert plain.causes == unmarked


@pytest.mark.slow
def test_offsets_need_events_that_have_them(spark: SparkSession, tmp_path: Path) -> None:
    path = job_of(tmp_path, BROKER[0]).spec.path
    path.write_text(path.read_text().replace("[partition, offset]", "arrival"))
    job = Job.load(path)
    job.run(spark)
    with pytest.raises(JobFileError, match=r"^stream\.restarts: needs offsets.*events\.arrival"):
        job.reconcile("written", spark, restarts=[[0, 12]])


@pytest.mark.slow
def test_emission_at_intervals_of_the_wall_clock(spark: SparkSession, tmp_path: Path) -> None:
    (recording,) = (
        candidate for candidate in DRIVER if candidate.name.endswith("/session-10s-close-throttled")
    )
    processed = [50 * count for count in range(1, len(recording.input()) + 1)]
    path = job_of(tmp_path, recording, processed=processed).spec.path
    path.write_text(path.read_text().replace("[partition, offset]", "arrival"))
    job = Job.load(path)
    job.run(spark)
    settings = {"emit": "on_close", "emit_interval": "1s"}
    reconciled = job.reconcile("written", spark, **settings, wall_clock="processed")
    # The store has deleted most of what had closed before the operator looked for it.
    expected = {"engine_loss": 239, "late": 56, "redelivered": 4, "pending": 3}
    assert (reconciled.causes, reconciled.possible) == (expected, 0)
    with pytest.raises(ColumnError, match=r"^stream\.wall_clock: no such column.*'processd'"):
        job.reconcile("written", spark, **settings, wall_clock="processd")
