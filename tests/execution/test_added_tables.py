"""Tables that have counted other inputs than the rest of a job: added, restored, or cut short."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill.errors import JobFileError
from backfill.execution.run_result import RunResult
from tests.execution.world import World, at, day
from tests.memory_store import MemoryStore
from tests.reference import Event

pytestmark = pytest.mark.usefixtures("interpreted")

BOTS = "{gap: 45m, rules: [{name: many, events: 2}]}"
OLD = Event("old", at(0, 3), 1, "o")


def world_of(spark: SparkSession, folder: Path, **settings: str) -> World:
    """A job with one window and a long history; `add` gives it a second one."""
    world = World(folder, spark, True, ("hopping",), store=MemoryStore(), gate=True, **settings)
    world.write("0", [Event("a", at(n, 9), n, f"{n}") for n in range(3)] + [Event(None, at(1, 1))])
    world.run_all()
    return world


def add(world: World) -> None:
    world.windows = ("hopping", "sessions")
    world.write_job()


def quarantined(world: World) -> list[tuple[str, str | None]]:
    rows = world._table("quarantine").to_pylist()
    return sorted((row["reason"], json.loads(row["raw"]).get("user") or "") for row in rows)


def check_counts(result: RunResult | None, read: int, accepted: int, **quarantined: int) -> None:
    assert result is not None
    assert (result.read, result.accepted, result.duplicates) == (read, accepted, 0)
    assert dict(result.quarantined) == quarantined
    assert not [check for check in result.checks if not check.success]


def test_late_bots(spark: SparkSession, tmp_path: Path) -> None:
    world = world_of(spark, tmp_path, bots=BOTS)
    add(world)
    world.job.run(spark, date=day(2))
    late = [Event("a", at(0, 9, minute), 1, f"{minute}") for minute in (5, 10)]
    world.write("1", [*late, Event("b", at(2, 9), 1, "y")])
    # Each row is read once, though two tables lack it.
    check_counts(world.recompute(), 3, 1, many=2)
    world.check()
    # And a row that was counted before is a bot's now.
    assert quarantined(world) == [("many", "a")] * 3 + [("no_key", "")]


def test_events_beyond_retention(spark: SparkSession, tmp_path: Path) -> None:
    world = world_of(spark, tmp_path, retention="40h")
    first = world.job.history()[0]["run_id"]
    world.write("1", [OLD, Event("a", at(3, 9), 3, "3")])
    add(world)
    world.run_all()
    beyond = [("beyond_retention", key) for key in ("a", "a", "old")]
    assert quarantined(world) == [*beyond, ("no_key", "")]
    assert world.job.restore(first).untouched == ("sessions",)
    world.write("2", [Event("b", at(3, 8), 1, "b")])
    # One of the tables has counted the second file, but the quarantine has forgotten it.
    check_counts(world.recompute(), 3, 2, beyond_retention=1)
    assert ("beyond_retention", "old") in quarantined(world)
    assert world.recompute() is None


def test_a_table_with_longer_windows(spark: SparkSession, tmp_path: Path) -> None:
    """What was beyond retention is in a window of a table that was added since."""
    world = world_of(spark, tmp_path, retention="40h")
    # Half an hour after this the windows of three hours have ended, and the session goes on.
    start = at(2, 9) - 40 * 3_600_000_000
    late = [
        Event("b", start - 4 * 3_600_000_000 + n * 1_500_000_000, 1, f"b{n}") for n in range(12)
    ]
    world.write("1", late)
    world.recompute()
    before = quarantined(world)
    assert ("beyond_retention", "b") in before
    add(world)
    world.job.run(spark, start=day(0), end=day(3))
    held = sorted(quarantined(world))
    world.run_all()
    assert quarantined(world) == held != before


def test_a_run_that_was_cut_short(spark: SparkSession, tmp_path: Path) -> None:
    """All tables have counted an input, and the quarantine has not."""
    world = world_of(spark, tmp_path, retention="40h")
    first = world.job.history()[0]["run_id"]
    world.write("1", [OLD, Event(None, at(2, 8)), Event("a", at(2, 10), 3, "3")])
    world.recompute()
    wanted = quarantined(world)
    assert ("beyond_retention", "old") in wanted
    table = world.job.store.open("quarantine")
    assert table is not None
    version = next(one.version for one in table.commits if one.metadata.get("run_id") == first)
    world.job.store.restore("quarantine", version, run_id="cut", metadata={})
    assert quarantined(world) != wanted
    check_counts(world.recompute(), 3, 1, beyond_retention=1, no_key=1)
    assert quarantined(world) == wanted
    assert world.recompute() is None


def test_rows_of_an_input_that_is_gone(spark: SparkSession, tmp_path: Path) -> None:
    world = world_of(spark, tmp_path)
    world.write("1", [Event("b", at(1, 3), 1, "b"), Event(None, at(1, 4)), Event("c", None)])
    world.recompute()
    world.write("2", [Event("b", at(2, 3), 1, "b"), Event(None, at(2, 4))])
    world.recompute()
    assert len(quarantined(world)) == 4
    bad = world.files["1"]
    world.remove("1")
    # A run of other dates leaves what the input held, and its rows.
    world.run(2, 3)
    assert len(quarantined(world)) == 4
    world.run(1, 2)
    world.check()
    assert quarantined(world) == [("no_key", ""), ("no_key", "")]
    # It comes back, and so do its rows.
    world.write("1", bad)
    world.recompute()
    world.check()
    assert len(quarantined(world)) == 4


def test_changes_since_before_a_table_was_added(spark: SparkSession, tmp_path: Path) -> None:
    world = world_of(spark, tmp_path)
    first = world.job.history()[0]["run_id"]
    add(world)
    world.job.run(spark, date=day(2))
    last = world.job.history()[0]["run_id"]
    world.windows = ("hopping",)
    world.write_job()
    world.write("1", [Event("z", at(2, 20), 1, "z")])
    world.recompute()
    later = world.job.history()[0]["run_id"]
    add(world)

    def kinds(run: str) -> list[str]:
        return [row["change"] for row in world.job.changes("sessions", run, spark).collect()]

    assert kinds(first) == kinds(last) == ["inserted"]
    assert kinds(later) == []
    with pytest.raises(JobFileError, match="no run with this id"):
        kinds("20260101T000000-00000000")
