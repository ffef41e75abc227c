"""Tables that have counted other inputs than the rest of a job: added, restored, or cut short."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill.errors import JobFileError
from backfill.execution.run_result import RunResult
from tests.execution.world import HOUR, MINUTE, World, at, day
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
    assert world.quarantined() == [("many", "a")] * 3 + [("no_key", "")]


def test_events_beyond_retention(spark: SparkSession, tmp_path: Path) -> None:
    world = world_of(spark, tmp_path, retention="40h")
    first = world.job.history()[0]["run_id"]
    world.write("1", [OLD, Event("a", at(3, 9), 3, "3")])
    add(world)
    world.run_all()
    beyond = [("beyond_retention", key) for key in ("a", "a", "old")]
    assert world.quarantined() == [*beyond, ("no_key", "")]
    assert world.job.restore(first).untouched == ("sessions",)
    world.write("2", [Event("b", at(3, 8), 1, "b")])
    # One of the tables has counted the second file, but the quarantine has forgotten it.
    check_counts(world.recompute(), 3, 2, beyond_retention=1)
    assert ("beyond_retention", "old") in world.quarantined()
    assert world.recompute() is None


def test_a_table_with_longer_windows(spark: SparkSession, tmp_path: Path) -> None:
    """What was beyond retention is in a window of a table that was added since."""
    world = world_of(spark, tmp_path, retention="40h")
    # Half an hour after this the windows of three hours have ended, and the session goes on.
    start = at(2, 9) - 44 * HOUR
    late = [Event("b", start + n * 25 * MINUTE, 1, f"b{n}") for n in range(12)]
    world.write("1", late)
    world.recompute()
    before = world.quarantined()
    assert ("beyond_retention", "b") in before
    add(world)
    world.job.run(spark, start=day(0), end=day(3))
    held = world.quarantined()
    world.run_all()
    assert world.quarantined() == held != before


def test_a_run_that_was_cut_short(spark: SparkSession, tmp_path: Path) -> None:
    """All tables have counted an input, and the quarantine has not."""
    world = world_of(spark, tmp_path, retention="40h")
    first = world.job.history()[0]["run_id"]
    world.write("1", [OLD, Event(None, at(2, 8)), Event("a", at(2, 10), 3, "3")])
    world.recompute()
    wanted = world.quarantined()
    assert ("beyond_retention", "old") in wanted
    forget(world, first)
    assert world.quarantined() != wanted
    check_counts(world.recompute(), 3, 1, beyond_retention=1, no_key=1)
    assert world.quarantined() == wanted
    assert world.recompute() is None


def forget(world: World, run: str) -> None:
    """Takes the quarantine back to a run, as if all later ones had been killed before its turn."""
    table = world.job.store.open("quarantine")
    assert table is not None
    version = next(one.version for one in table.commits if one.metadata.get("run_id") == run)
    world.job.store.restore("quarantine", version, run_id="cut", metadata={})


def test_a_first_run_of_one_date(spark: SparkSession, tmp_path: Path) -> None:
    """It counts all inputs, and shows the quarantine those of its date; nothing was killed."""
    world = World(tmp_path, spark, True, ("hopping",), store=MemoryStore(), retention="24h")
    for number in range(3):
        world.write(f"{number}", [Event("a", at(number, 9), 1, f"{number}")])
    world.job.run(spark, date=day(2))
    # It has two files to look through for rows that are no events.
    check_counts(world.recompute(), 0, 0)
    assert world.quarantined() == []


def test_a_table_and_events_that_become_a_bot_s(spark: SparkSession, tmp_path: Path) -> None:
    """A run that judges events of other dates anew leaves what is beyond retention there."""
    world = world_of(spark, tmp_path, bots=BOTS, retention="20h")
    late = [Event("o", at(0, 20), 1, "o"), Event("u", at(0, 23, 50), 1, "u0")]
    world.write("1", [*late, Event("u", at(1, 0, 10), 1, "u1")])
    world.recompute()
    world.write("2", [Event("u", at(1, 0, 20), 1, "u2")])
    add(world)
    world.job.run(spark, date=day(1))
    held = world.quarantined()
    assert held.count(("many", "u")) == 3
    assert ("beyond_retention", "u") not in held
    assert ("beyond_retention", "o") in held
    world.run_all()
    assert world.quarantined() == held


def test_one_more_table_in_chunks(spark: SparkSession, tmp_path: Path) -> None:
    """Tables that have counted the same but cover other dates need no event judged again."""
    world = world_of(spark, tmp_path, bots=BOTS)
    add(world)
    messages: list[str] = []
    result = world.job.run(spark, missing=True, chunk=1, progress=messages.append)
    assert len(result.chunks) == 3
    assert not [message for message in messages if "judging all events again" in message]
    world._count_all()
    world.check()


def test_rows_of_an_input_that_is_gone(spark: SparkSession, tmp_path: Path) -> None:
    world = world_of(spark, tmp_path)
    world.write("1", [Event("b", at(1, 3), 1, "b"), Event(None, at(1, 4)), Event("c", None)])
    world.recompute()
    world.write("2", [Event("b", at(2, 3), 1, "b"), Event(None, at(2, 4))])
    world.recompute()
    run = world.job.history()[0]["run_id"]
    assert len(world.quarantined()) == 4
    bad = world.files["1"]
    world.remove("1")
    # A run of other dates leaves what the input held, and its rows.
    world.run(2, 3)
    assert len(world.quarantined()) == 4
    world.run(1, 2)
    world.check()
    assert world.quarantined() == [("no_key", ""), ("no_key", "")]
    # A run that was killed before the quarantine's turn leaves that to the next one.
    forget(world, run)
    assert len(world.quarantined()) == 4
    world.run(0, 1)
    assert world.quarantined() == [("no_key", ""), ("no_key", "")]
    # The input comes back, and so do its rows.
    world.write("1", bad)
    world.recompute()
    world.check()
    assert len(world.quarantined()) == 4


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
