"""What is past retention is quarantined, not published, and can be dropped; nothing else is."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from backfill import Job
from backfill.errors import JobFileError
from tests.execution.world import HOUR, World, at
from tests.reference import Event
from tests.tables import paths_of

pytestmark = pytest.mark.usefixtures("interpreted")

# 24 hours before the horizon, at day 3, 12:00.
LIMIT = at(2, 12)


def old(tag: str = "") -> list[Event]:
    """Events around the limit; those of the key `gone` are beyond it for every window."""
    return [
        Event(f"gone{tag}", at(2, 7), 1),  # its last window of three hours ends at 10:00
        Event(f"gone{tag}", at(2, 7, 20), 2),
        Event(f"across{tag}", at(2, 11, 45), 3),  # its session goes on past the limit
        Event(f"across{tag}", at(2, 12, 10), 4),
        Event(f"window{tag}", at(2, 11), 5),  # its session has ended, its windows have not
    ]


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> World:
    world = World(tmp_path, spark, windows=("sessions", "hopping"), retention="24h")
    world.write("now", [Event("now", at(3, 12), 1)])
    return world


def check(world: World) -> None:
    """Checks for the windows of a rebuild without retention that do not end before the limit."""
    expected = {
        "sessions": {("across", at(2, 11, 45), at(2, 12, 10)), ("now", at(3, 12), at(3, 12))},
        "hopping": {
            (key, start, start + 3 * HOUR)
            for key, hours in {"across": (9, 10, 11, 12), "window": (9, 10, 11)}.items()
            for hour in hours
            if (start := at(2, hour)) + 3 * HOUR >= LIMIT
        }
        | {("now", at(3, hour), at(3, hour + 3)) for hour in (10, 11, 12)},
    }
    for name, rows in expected.items():
        assert {row[:3] for row in world.rows(name)} == rows, name
    assert world.quarantined() == [("beyond_retention", "gone")] * 2


def test_a_full_run_quarantines_what_is_beyond_retention(world: World) -> None:
    world.write("old", [*old(), Event("gone", at(2, 7), 1)])
    world.write("old", old())
    result = world.job.run(world.spark)
    check(world)
    assert result.quarantined == {"beyond_retention": 2}
    assert (result.read, result.accepted, result.duplicates) == (6, 4, 0)


@pytest.mark.slow
def test_late_events_beyond_retention_are_quarantined_once(world: World) -> None:
    world.job.run(world.spark)
    world.write("old", old())
    result = world.job.recompute(world.spark)
    assert result is not None
    assert result.quarantined == {"beyond_retention": 2}
    assert (result.read, result.accepted) == (5, 3)
    # Only dates that were covered are published: day 2 is not.
    assert {row[0] for row in world.rows("sessions")} == {"now"}
    result = world.job.run(world.spark, start="2026-01-03", end="2026-01-04")
    check(world)
    assert result.quarantined == {"beyond_retention": 2}
    assert result.read == result.accepted + result.duplicates + 2
    world.job.run(world.spark)
    check(world)


@pytest.mark.slow
def test_copies_of_an_event_beyond_retention_are_all_quarantined(
    spark: SparkSession, tmp_path: Path
) -> None:
    world = World(tmp_path, spark, with_id=True, windows=("sessions",), retention="24h")
    world.write("a", [Event("now", at(3, 12), 1, "x"), *[Event("gone", at(1), 1, "y")] * 2])
    result = world.job.run(spark)
    assert (result.read, result.accepted, result.duplicates) == (3, 1, 0)
    assert world.quarantined() == [("beyond_retention", "gone")] * 2


@pytest.mark.slow
def test_expire_drops_what_has_ended_and_nothing_else(world: World) -> None:
    world.retention = None
    world.write_job()
    world.write("old", old())
    world.write("older", [Event("older", at(0, 5), 1)])
    world.run_all()
    world.check()
    before = {name: set(world.rows(name)) for name in world.windows}
    with pytest.raises(JobFileError, match="retention: is not set"):
        world.job.expire(world.spark)
    world.retention = "24h"
    world.write_job()
    done = world.job.expire(world.spark)
    for name, rows in before.items():
        ended = {row for row in rows if row[2] < LIMIT}
        assert ended
        assert set(world.rows(name)) == rows - ended
        assert done[name].rows == len(ended)
        assert done[name].before == LIMIT
    assert not any("2026-01-01" in path for path in paths_of(world.job.store, "sessions"))
    assert {expired.version for expired in world.job.expire(world.spark).values()} == {None}
    runs = world.job.history()
    assert (runs[0]["kind"], runs[0]["tables"]["sessions"]["changed"]) == ("expire", 3)

    # A late event joins a session that was dropped: all of the session comes back.
    world.write("late", [Event("gone", at(2, 7, 45), 1), Event("window", at(2, 11, 30), 1)])
    world.write("bridge", [Event("window", at(2, 11, 50), 1), Event("window", at(2, 12, 5), 1)])
    result = world.job.recompute(world.spark)
    assert result is not None
    assert result.quarantined == {"beyond_retention": 1}
    sessions = {row[0]: row[1:4] for row in world.rows("sessions")}
    assert sessions["window"] == (at(2, 11), at(2, 12, 5), 4)
    assert "gone" not in sessions


@pytest.mark.slow
def test_retention_that_grows_brings_dropped_windows_back_whole(world: World) -> None:
    world.write("old", old())
    world.job.run(world.spark)
    world.retention = "10d"
    world.write_job()
    late = [Event("gone", at(2, 7, 40), 9)]
    world.write("late", late)
    world.job.recompute(world.spark)
    sessions = {row[0]: row[1:5] for row in world.rows("sessions")}
    assert sessions["gone"] == (at(2, 7), at(2, 7, 40), 3, 12)
    counts = {row[1]: row[3] for row in world.rows("hopping") if row[0] == "gone"}
    assert counts == {at(2, hour): 3 for hour in (5, 6, 7)}


def test_the_plan_does_not_miss_dates_past_retention(world: World) -> None:
    world.write("old", [Event("a", at(0, 5), 1), Event("a", at(2, 13), 1)])
    plan = world.job.plan(world.spark, missing=True, explain=False)
    assert [str(stage.dates[0]) for stage in plan.stages if stage.dates] == ["2026-01-03"]
    everything = world.job.plan(world.spark, explain=False)
    states = {str(state.dates[0]): state.state for state in everything.windows["sessions"]}
    assert states["2026-01-01"] == "past_retention"


class TestAsAFullRun:
    """Windows that the limit cuts through are published whole, whatever kind of run it is."""

    JOB = """
source: {path: src, format: parquet}
events: {key: user, time: at, arrival: offset}
retention: 36h
windows:
  %s
tables: {path: %s}
checks: {builtin: {quarantined_share: off}}
"""

    @staticmethod
    def write(folder: Path, name: str, events: Sequence[tuple[str, int, int, int]]) -> None:
        """Events of a key, a day of January 2026, an hour and an offset."""
        (folder / "src").mkdir(exist_ok=True)
        rows = {
            "user": [key for key, *_ in events],
            "at": [dt.datetime(2026, 1, d, h, tzinfo=dt.timezone.utc) for _, d, h, _ in events],
            "offset": [offset for *_, offset in events],
        }
        pq.write_table(pa.table(rows), folder / "src" / f"{name}.parquet")

    def jobs(self, folder: Path, windows: str) -> list[Job]:
        pair = []
        for name in ("out", "fresh"):
            (folder / f"{name}.yaml").write_text(self.JOB % (windows, name))
            pair.append(Job.load(folder / f"{name}.yaml"))
        return pair

    @staticmethod
    def rows(job: Job, spark: SparkSession) -> dict[str, list[Any]]:
        return {
            name: sorted(
                tuple(row)
                for row in job.table(name, spark)
                .select("user", "window_start", "window_end", "n")
                .collect()
            )
            for name in job.spec.windows
        }

    @pytest.mark.parametrize(
        ("windows", "events", "first"),
        [
            ("w: {tumbling: {size: 1 week}, %s}", [("a", 10, 12, 1), ("a", 12, 12, 2)], 10),
            (
                "w: {hopping: {size: 2 days, advance: 1 day}, %s}",
                [("a", 7, 12, 0), ("a", 10, 12, 1), ("a", 12, 12, 2)],
                # The window of the 9th and the 10th ends at the limit, and so not before it.
                10,
            ),
            ("w: {session: {gap: 72h}, %s}", [("a", 10, 12, 1), ("a", 12, 12, 2)], 10),
            # A date without events near the limit.
            (
                "w: {session: {gap: 72h}, %s}",
                [("b", 2, 1, 0), ("a", 7, 23, 1), ("a", 10, 20, 2), ("a", 12, 10, 3)],
                7,
            ),
            (
                "w: {session: {gap: 20h}, %s}",
                [
                    ("b", 2, 1, 0),
                    ("a", 5, 3, 1),
                    *(("a", d, h, 10 * d + h) for d in range(6, 13) for h in (3, 15)),
                ],
                6,
            ),
            ("w: {session: {gap: 2 messages}, %s}", [("a", 8, 1, 1), ("a", 12, 12, 2)], 8),
        ],
        ids=[
            "tumbling",
            "hopping",
            "session",
            "session with a free day",
            "long session",
            "messages",
        ],
    )
    def test_of_missing_dates(
        self,
        spark: SparkSession,
        tmp_path: Path,
        windows: str,
        events: list[tuple[str, int, int, int]],
        first: int,
    ) -> None:
        self.write(tmp_path, "all", events)
        job, fresh = self.jobs(tmp_path, windows % "aggregates: {n: count}")
        plan = job.plan(spark, missing=True, explain=False)
        assert min(stage.dates[0] for stage in plan.stages if stage.dates).day == first
        job.run(spark, missing=True)
        fresh.run(spark)
        tables = self.rows(job, spark)
        assert tables == self.rows(fresh, spark)
        assert tables["w"]
        assert not job.plan(spark, missing=True, explain=False).stages

    def test_of_a_late_message(self, spark: SparkSession, tmp_path: Path) -> None:
        windows = "w: {session: {gap: 3 messages}, aggregates: {n: count}}"
        job, fresh = self.jobs(tmp_path, windows)
        self.write(tmp_path, "all", [("a", 10, 2, 10), ("a", 12, 4, 11), ("b", 13, 0, 20)])
        job.run(spark)
        self.write(tmp_path, "late", [("a", 12, 6, 12)])
        job.recompute(spark)
        fresh.run(spark)
        tables = self.rows(job, spark)
        assert tables == self.rows(fresh, spark)
        assert sorted(row[3] for row in tables["w"]) == [1, 3]
