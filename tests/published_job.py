"""A small job whose tables are published by hand, so that a test can say what each run did."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from backfill.spec import JobSpec
from backfill.store import DeltaStore
from tests.event_frames import from_rows
from tests.tables import paths_of, version_of

JOB = """\
source: {path: events.json, format: json}
events: {key: user, time: at, timezone: Europe/Oslo}
windows:
  sessions: {session: {gap: 30m}, aggregates: {n: count, pages: collect_list(page)}}
  daily: {tumbling: {size: 1 day}, aggregates: {n: count}}
tables: {path: out}
"""

# Key, day of March 2026, first and last event, number of events.
Row = tuple[str | None, int, str, str, int]


class Published:
    """The job, and runs of it."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self.path = folder / "job.yaml"
        self.path.write_text(JOB)
        self.spec = JobSpec.load(self.path)
        self.store = DeltaStore(self.spec.tables)
        self.spark = spark

    def sessions(self, rows: Sequence[Row]) -> DataFrame:
        schema = "user string, day int, first string, last string, n bigint"
        return from_rows(self.spark, rows, schema).selectExpr(
            "user",
            "concat(coalesce(user, ''), ' ', day, ' ', first) session_id",
            "timestamp(concat('2026-03-', day, ' ', first, ':00Z')) window_start",
            "timestamp(concat('2026-03-', day, ' ', last, ':00Z')) window_end",
            "n",
            "array_repeat('/', int(n)) pages",
            "false is_open",
            "n _events",
            "make_date(2026, 3, day) date",
        )

    def run(
        self,
        run_id: str,
        windows: Sequence[Row],
        *,
        name: str = "sessions",
        days: Sequence[int] | None = None,
        **metadata: Any,
    ) -> int:
        """Publishes windows in place of those of the days; by default in place of everything."""
        frame = self.sessions(windows)
        staged = self.store.stage(
            name,
            frame if name == "sessions" else frame.drop("session_id", "pages"),
            run_id=run_id,
            partition_by=("date",),
            sort_by=("user", "window_start"),
        )
        replaced = [f"date=2026-03-{day}/" for day in days or ()]
        live = () if days is None else paths_of(self.store, name)
        return self.store.publish(
            name,
            staged,
            replace="all"
            if days is None
            else [path for path in live if path.startswith(tuple(replaced))],
            base=version_of(self.store, name),
            dates=None,
            metadata={key: str(value) for key, value in metadata.items()},
            record=lambda before: {"runs": [*(before or {"runs": []})["runs"], run_id]},
        )
