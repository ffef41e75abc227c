"""Concurrent runs, sources that change meanwhile, and what is read for late events."""

from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from backfill import Job
from backfill.errors import BackfillError, TableError
from backfill.execution.staging import Staging
from tests.execution.begun import begun, begun_late
from tests.execution.world import World, at, day
from tests.files import write_rows
from tests.reference import Event

pytestmark = pytest.mark.usefixtures("interpreted")

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


@pytest.fixture(scope="module")
def run_once(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> World:
    world = World(tmp_path_factory.mktemp("runs"), spark, windows=("sessions",))
    world.write("zero", [Event("a", at(0, 5), 1), Event("b", at(0, 23, 50), 1)])
    world.write("one", [Event("a", at(1, 5), 1), Event("b", at(1, 0, 10), 1)])
    world.write("three", [Event("a", at(3, 5), 1)])
    world.run(0, 4)
    return world


@pytest.fixture
def world(run_once: World, tmp_path: Path) -> World:
    return run_once.copied(tmp_path)


def test_runs_over_little_data_start_few_spark_jobs(world: World) -> None:
    """Each Spark job takes longer than the work that it does."""
    context = world.spark.sparkContext
    jobs = []
    for name in ("range", "late"):
        context.setJobGroup(name, "")
        if name == "range":
            world.run(1, 2)
        else:
            world.write("late", [Event("a", at(1, 5, 10), 1)])
            world.recompute()
        jobs.append(len(context.statusTracker().getJobIdsForGroup(name)))
    context.setLocalProperty("spark.jobGroup.id", "")
    world.check()
    # Sessions are followed on both sides of the range.
    assert 0 < jobs[0] <= 22, jobs
    assert 0 < jobs[1] <= 14, jobs


@pytest.mark.slow
def test_of_two_runs_that_meet_one_publishes(world: World) -> None:
    first, second, apart = begun(world, 0, 1), begun(world, 1, 2), begun(world, 3, 4)
    winner = first()
    assert winner is not None
    # A session crosses midnight: each of the two runs would replace it.
    with pytest.raises(TableError, match=rf"{winner.run_id}.*[Rr]un .*again"):
        second()
    apart()
    late = begun_late(world)
    world.write("late", [Event("a", at(1, 5, 10), 1)])
    late_too = begun_late(world)
    assert late() is None
    world.run(1, 2)
    with pytest.raises(TableError, match=r"[Rr]un .*again"):
        late_too()
    world.check()


def test_a_source_that_changes_meanwhile_does_not_change_the_run(world: World) -> None:
    run = begun(world, 1, 2)
    world.write("more", [Event("c", at(1, 7), 1)])
    run()
    assert "c" not in {row[0] for row in world.rows("sessions")}
    world.recompute()
    world.check()


@contextmanager
def read_files(spark: SparkSession, patch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """The names of the source's files that are read by plans computed in the block."""
    names: set[str] = set()

    def watch(owner: Any, method: str) -> None:
        real = getattr(owner, method)

        def seen(self: Any, *arguments: Any, **options: Any) -> Any:
            for argument in (self, *arguments):
                if isinstance(argument, DataFrame):
                    names.update(
                        Path(file).name for file in argument.inputFiles() if "/src/" in file
                    )
            return real(self, *arguments, **options)

        within.setattr(owner, method, seen)

    with patch.context() as within:
        for method in ("collect", "count", "localCheckpoint"):
            watch(type(spark.range(1)), method)
        watch(Staging, "_stage")
        yield names


@pytest.mark.slow
def test_what_is_read_for_late_events(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = {
        # If states merge: the late events.
        ("sessions", "hopping"): {"late.parquet"},
        # If an aggregate needs all events: also those that the touched windows may have.
        ("sessions", "exact", "hopping"): {"late.parquet", "one.parquet"},
        # Dropped sessions are in no table: their events are looked for, a day at a time.
        ("ruled",): {"late.parquet", "one.parquet", "zero.parquet"},
    }
    for windows, files in expected.items():
        world = World(tmp_path / str(len(windows)), spark, windows=windows)
        world.write("zero", [Event("a", at(0, 5), 1), Event("b", at(0, 12), 1)])
        world.write("one", [Event("a", at(1, 5), 1), Event("b", at(1, 10), 1)])
        world.write("three", [Event("a", at(3, 5), 1)])
        world.run_all()
        world.write("late", [Event("a", at(1, 5, 10), 1)])
        with read_files(spark, monkeypatch) as names:
            world.recompute()
        assert names == files
        world.check()


@pytest.mark.slow
def test_the_quarantine_follows_an_input_that_changed(world: World) -> None:
    def quarantined() -> list[str]:
        rows = world.job.table("quarantine", world.spark).select("raw").collect()
        return sorted(row["raw"].split('"value":')[1].split(",")[0] for row in rows)

    world.write("bad", [Event(None, at(1, 5), 7), Event("c", at(1, 5), 1)])
    world.write("other", [Event(None, at(1, 5), 9), Event("c", at(1, 5, 5), 1)])
    world.run(1, 2)
    assert quarantined() == ["7", "9"]
    world.write("bad", [Event(None, at(1, 5), 8), Event("c", at(1, 5), 1)])
    world.run(1, 2)
    assert quarantined() == ["8", "9"]
    world.check()


def test_what_was_in_the_future_is_not_any_more(spark: SparkSession, tmp_path: Path) -> None:
    now = dt.datetime.now(dt.timezone.utc)
    before, soon = now - dt.timedelta(days=2), now + dt.timedelta(seconds=4)
    write_rows(
        tmp_path / "src" / "0.parquet", [{"user": "a", "at": moment} for moment in (before, soon)]
    )
    (tmp_path / "job.yaml").write_text(
        "source: {path: src, format: parquet}\n"
        "events: {key: user, time: at, max_future: 0s}\n"
        "windows: {sessions: {session: {gap: 30m}, aggregates: {n: count}}}\n"
        "tables: {path: out}\n"
        "checks: {builtin: off}\n"
    )
    job = Job.load(tmp_path / "job.yaml")
    assert job.run(spark).quarantined == {"future": 1}
    assert [row["is_open"] for row in job.fetch("sessions").to_pylist()] == [True]
    time.sleep(max(0, (soon - dt.datetime.now(dt.timezone.utc)).total_seconds()))
    # A run of the date counts the event, and finds that the other session has ended.
    done = job.run(spark, date=soon.date())
    assert done.horizon_us == (soon - EPOCH) // dt.timedelta(microseconds=1)
    assert [row["is_open"] for row in job.fetch("sessions").to_pylist()] == [False, True]


def test_spans_beyond_the_calendar(spark: SparkSession, tmp_path: Path) -> None:
    """Events that are kept for ever, and windows of everything."""
    write_rows(tmp_path / "src" / "0.parquet", [{"user": "a", "at": "2026-01-10T10:00:00Z"}])
    (tmp_path / "job.yaml").write_text(
        "source: {path: src, format: parquet}\n"
        "events: {key: user, time: at, time_format: iso}\n"
        "windows: {all: {sliding: {size: 1000000d}, aggregates: {n: count}}}\n"
        "retention: 1000000d\n"
        "tables: {path: out}\n"
    )
    job = Job.load(tmp_path / "job.yaml")
    assert job.plan(spark).stages
    assert job.run(spark, missing=True).accepted == 1
    assert job.run(spark, date="2026-01-10").accepted == 1
    done = job.run(spark, start="2026-01-10", end="2026-01-12", chunk=10**7)
    assert [skipped.why[:9] for skipped in done.skipped] == ["no input", "committed"]
    assert job.fetch("all")["n"].to_pylist() == [1]


def test_a_project_that_moves_keeps_what_it_has_counted(
    spark: SparkSession, tmp_path: Path
) -> None:
    world = World(tmp_path / "here", spark, with_id=True)
    world.write("a", [Event("u", at(0), 1, id="1"), Event("u", at(1), 2, id="2")])
    world.run_all()
    world.folder = world.folder.rename(tmp_path / "there")
    world.job = Job.load(world.folder / "job.yaml")
    assert world.recompute() is None
    world.write("b", [Event("u", at(0, minutes=10), 3, id="3")])
    assert world.recompute() is not None
    world.check()


def test_history_tells_how_many_windows_each_run_changed(
    spark: SparkSession, tmp_path: Path
) -> None:
    world = World(tmp_path, spark, windows=("sessions",))
    world.write("a", [Event(f"u{i}", at(i), i) for i in range(3)])
    world.run_all()
    world.run_all()
    world.write("b", [Event("u1", at(1, minutes=10), 1), Event("new", at(1), 1)])
    world.run(1, 2)
    changed = [run["tables"]["sessions"]["changed"] for run in world.job.history()]
    # The last event's session was open and stays so, since the horizon stays: no change.
    assert changed == [2, 0, 3]


def test_a_missing_date_costs_no_look_at_covered_ones(spark: SparkSession, tmp_path: Path) -> None:
    world = World(tmp_path, spark, windows=("sessions",))
    world.write("a", [Event(f"u{i}", at(0, 12), i) for i in range(9)])
    world.run_all()
    # The file keeps its length, time and footer: only reading its rows shows the damage.
    file = tmp_path / "src" / "a.parquet"
    status, content = file.stat(), bytearray(file.read_bytes())
    content[4:200] = bytes(196)
    file.write_bytes(content)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(BackfillError):
        world.job.run(spark, start=day(0), end=day(1))
    world.write("b", [Event("new", at(1, 12), 1)])
    plan = world.job.plan(spark, missing=True)
    assert [(stage.dates, stage.events) for stage in plan.stages] == [((day(1), day(2)), 1)]
    result = world.job.run(spark, missing=True)
    assert (result.accepted, result.windows["sessions"].rows) == (1, 1)


@pytest.mark.parametrize("late", [False, True])
def test_a_table_that_takes_no_commit_is_refused_before_anything_is_computed(
    run_once: World, tmp_path: Path, late: bool
) -> None:
    world = run_once.copied(tmp_path)
    table = DeltaTable(world.folder / "out" / "sessions")
    table.alter.set_table_properties({"delta.appendOnly": "true"})
    world.write("new", [Event("a", at(1, 7), 1)])
    steps: list[str] = []
    act = world.job.recompute if late else partial(world.job.run, date=day(1))
    with pytest.raises(TableError, match=r"only be added .*delta\.appendOnly"):
        act(world.spark, progress=steps.append)
    assert [step.partition(" ")[0] for step in steps] == ["opening"]
    assert not list((world.folder / "out" / "sessions" / "_staging").glob("*"))
