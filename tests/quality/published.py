"""A job whose tables are published, and then spoiled by hand."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from backfill import Job
from tests.tables import rows_of, version_of

MINUTE = 60_000_000
DAY = 24 * 60 * MINUTE
START = 1_767_225_600_000_000  # 2026-01-01
JOB = """\
source: {{path: src, format: parquet}}
events: {{key: user, time: at, id: id}}
windows:
  sessions: {{session: {{gap: 30m}}, aggregates: {{n: count}}}}
  hopping: {{hopping: {{size: 3h, advance: 1h}}, aggregates: {{n: count}}}}
tables: {{path: out}}
{}
"""
Event = tuple[str | None, int | None]


def job(folder: Path, events: list[Event], checks: str = "") -> Job:
    """A job over these events (key, µs), with an id each."""
    (folder / "src").mkdir(parents=True, exist_ok=True)
    write(folder / "src" / "a.parquet", events)
    path = folder / "job.yaml"
    path.write_text(JOB.format(checks))
    return Job.load(path)


def copied(made: Job, folder: Path) -> Job:
    """A copy in another folder, without running anything again."""
    shutil.copytree(made.spec.path.parent, folder, dirs_exist_ok=True)
    return Job.load(folder / "job.yaml")


def write(path: Path, events: list[Event]) -> None:
    table = pa.table(
        {
            "user": pa.array([key for key, _ in events], pa.string()),
            "at": pa.array([at for _, at in events], pa.timestamp("us", "UTC")),
            "id": pa.array([f"{path.stem}{i}" for i in range(len(events))], pa.string()),
        }
    )
    pq.write_table(table, path)


def spoil(
    job: Job, spark: SparkSession, name: str, change: Callable[[DataFrame], DataFrame]
) -> None:
    """Replaces a table's rows with changed ones."""
    rows = change(rows_of(job.store, spark, name))
    staged = job.store.stage(
        name, rows, run_id="spoiled", partition_by=("date",), sort_by=("window_start",)
    )

    def same(before: dict[str, Any] | None) -> dict[str, Any]:
        assert before is not None
        return before

    job.store.publish(
        name,
        staged,
        replace="all",
        base=version_of(job.store, name),
        dates=None,
        metadata={},
        record=same,
    )


def failed(outcomes: Any) -> set[tuple[str, str]]:
    return {(outcome.table, outcome.check.name) for outcome in outcomes if not outcome.success}


def versions(job: Job) -> dict[str, int | None]:
    return {name: version_of(job.store, name) for name in (*job.spec.windows, "quarantine")}


def date(number: int) -> dt.date:
    return dt.date(2026, 1, 1) + dt.timedelta(days=number)
