"""A job that still runs has not completed its last windows, which does not make them missing."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backfill import Job
from backfill.spec import JobSpec
from tests.files import write_rows
from tests.memory_store import MemoryStore

pytestmark = pytest.mark.usefixtures("interpreted")

JOB = """
source: {path: ../events, format: parquet}
events: {key: user, time: at, arrival: place}
engine: %s
windows:
  sessions: {session: {gap: 30s}, aggregates: {n: count}}
  minutes: {tumbling: {size: 60s}, aggregates: {n: count}}
  rows: {sliding: {size: 60s}, aggregates: {n: count}}
tables: {path: out}
checks: {builtin: off}
"""
BEGAN = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
#: Key and second in order of arrival. When the input ends the clock stands near 130 s.
EVENTS = [("a", 5), ("b", 20), ("a", 70), ("b", 75), ("c", 130), ("c", 130)]
#: For each kind of window: the rows complete by then, and those that only the end completes.
ROWS: dict[str, tuple[list[Any], list[Any]]] = {
    "sessions": (
        [("a", 5, 5, 1), ("b", 20, 20, 1), ("a", 70, 70, 1), ("b", 75, 75, 1)],
        [("c", 130, 130, 2)],
    ),
    "minutes": (
        [("a", 0, 60, 1), ("b", 0, 60, 1), ("a", 60, 120, 1), ("b", 60, 120, 1)],
        [("c", 120, 180, 2)],
    ),
    # More rows of the last instant may come.
    "rows": (
        [("a", 5, 5, 1), ("b", 20, 20, 1), ("a", 70, 70, 1), ("b", 75, 75, 2)],
        [("c", 130, 130, 2), ("c", 130, 130, 2)],
    ),
}
STREAMS: list[tuple[str, str, dict[str, Any]]] = [
    ("flink", "sessions", {"format": "flink", "api": "datastream"}),
    ("flink", "minutes", {"format": "flink", "api": "sql"}),
    ("flink", "rows", {"format": "flink", "watermark_delay": "1s"}),
    ("beam", "minutes", {"format": "beam", "panes": "discarding"}),
    ("samza", "minutes", {"format": "samza", "panes": "accumulating"}),
]


def at(second: int) -> dt.datetime:
    return BEGAN + dt.timedelta(seconds=second)


@pytest.fixture(scope="module")
def jobs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Job]:
    folder = tmp_path_factory.mktemp("end")
    write_rows(
        folder / "events" / "a.parquet",
        [{"user": key, "at": at(s), "place": place} for place, (key, s) in enumerate(EVENTS)],
    )
    made = {}
    for engine in dict.fromkeys(engine for engine, *_ in STREAMS):
        path = folder / engine / "job.yaml"
        path.parent.mkdir()
        path.write_text(JOB % engine)
        made[engine] = Job(JobSpec.load(path), MemoryStore())
        made[engine].run(spark)
    return made


@pytest.mark.parametrize(("engine", "window", "said"), STREAMS)
def test_the_output_shows_whether_the_end_completed_windows(
    spark: SparkSession,
    tmp_path: Path,
    jobs: dict[str, Job],
    engine: str,
    window: str,
    said: dict[str, Any],
) -> None:
    complete, rest = ROWS[window]

    def causes(rows: list[Any], **more: Any) -> dict[str, tuple[tuple[str, ...], bool]]:
        path = tmp_path / f"{len(rows)}.parquet"
        write_rows(path, [written(engine, window, row) for row in rows])
        reconciled = jobs[engine].reconcile(window, spark, stream=str(path), **said, **more)
        return {
            e.key[0]: (e.explanation.causes, e.explanation.proved) for e in reconciled.differences
        }

    pending, missing = (("pending",), True), (("missing_in_stream",), True)
    if engine == "samza":
        # Its clock is the wall clock, which goes on after the last event: the output shows nothing.
        assert causes(complete[1:]) == {"a": missing, "c": missing}
        assert causes(complete[1:], drained=False) == {"a": missing, "c": pending}
        return
    assert causes(complete, drained=True) == {"c": missing}
    # If the end has completed a window, one that is not there is missing.
    assert causes(complete[1:] + rest) == {"a": missing}
    assert causes(complete[1:]) == {"a": missing, "c": pending}


def written(engine: str, window: str, row: tuple[str, int, int, int]) -> dict[str, Any]:
    key, start, end, events = row
    if window == "rows":
        return {"user": key, "event_time": at(start), "op": "+I", "n": events}
    end += 30 if window == "sessions" else 0
    kind = {"op": "+I"} if engine == "flink" else {"pane_index": 0}
    return {"user": key, "window_start": at(start), "window_end": at(end), "n": events, **kind}


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        ("flink", {"format": "flink", "firing": "accumulating", "watermark_delay": "0s"}),
        ("beam", {"format": "beam", "watermark_delay": "0s", "panes": "accumulating"}),
    ],
)
def test_sent_sessions_that_were_merged_into_one_that_waits(
    spark: SparkSession, tmp_path: Path, engine: str, said: dict[str, Any]
) -> None:
    """Nothing takes them back, and the session that holds them is not written yet."""
    events = [("a", 0), ("d", 0), ("b", 31), ("a", 25), ("d", 25), ("b", 56), ("d", 50)]
    write_rows(
        tmp_path / "events" / "a.parquet",
        [{"user": key, "at": at(s), "place": place} for place, (key, s) in enumerate(events)],
    )
    path = tmp_path / engine / "job.yaml"
    path.parent.mkdir()
    path.write_text(JOB % engine)
    job = Job(JobSpec.load(path), MemoryStore())
    job.run(spark)
    # At 31 s a session of a and one of d were complete; at 56 s, those of two events were.
    sent = [("a", 0, 0, 1), ("d", 0, 0, 1), ("a", 0, 25, 2), ("d", 0, 25, 2)]

    def causes(rows: list[Any]) -> dict[str, tuple[tuple[str, ...], bool]]:
        stream = tmp_path / f"{len(rows)}.parquet"
        panes = [written(engine, "sessions", row) for row in rows]
        write_rows(stream, [{k: v for k, v in pane.items() if k != "op"} for pane in panes])
        reconciled = job.reconcile(
            "sessions", spark, stream=str(stream), allowed_lateness="60s", drained=False, **said
        )
        return {
            e.key[0]: (e.explanation.causes, e.explanation.proved) for e in reconciled.differences
        }

    pending = (("pending",), True)
    assert causes(sent) == {"b": pending, "d": pending}
    assert causes(sent[:3])["d"] != pending
