"""Runs over parts of the dates: sessions over the edges, holes, corrections, and what stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill.errors import TableError
from tests.execution.world import EVERY, WINDOWS, World, at, day
from tests.printed import plan
from tests.reference import Event
from tests.tables import paths_of

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("interpreted")]


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> World:
    return World(tmp_path, spark)


def chain(key: str, start: int, end: int) -> list[Event]:
    """Events of one session: every 25 minutes from one instant to another."""
    return [Event(key, t, t % 7) for t in range(start, end, 25 * 60_000_000)]


def test_any_partition_of_the_dates_gives_what_a_full_run_gives(
    spark: SparkSession, tmp_path: Path
) -> None:
    world = World(tmp_path, spark, windows=WINDOWS)
    world.write("bot", chain("bot", at(0, 12), at(3, 12)))
    world.write(
        "a", [*chain("a", at(0, 23), at(1, 1)), Event("a", at(2), 1), Event(None, at(1), 1)]
    )
    world.write("b", [Event("b", at(1, 23, 45), 2), Event("b", at(2, 0, 15), None)])
    world.run(1, 2)
    world.check()
    world.run(2, 4)
    world.check()
    world.run(0, 1)
    world.check()
    partly = {name: world.rows(name) for name in world.job.spec.windows}
    world.run_all()
    world.check()
    for name, rows in partly.items():
        assert sorted(rows, key=repr) == sorted(world.rows(name), key=repr)


def test_deleted_and_corrected_events_of_the_range(world: World) -> None:
    bridge = [
        Event("a", at(0, 23, 30), 1),
        Event("a", at(0, 23, 55), 2),
        Event("a", at(1, 0, 20), 3),
    ]
    world.write("zero", [*bridge[:2], *chain("b", at(0, 3), at(0, 5))])
    world.write("one", [bridge[2], Event("a", at(1, 0, 45), 4), Event("a", at(1, 1, 10), 5)])
    world.write("two", [Event("c", at(2, 5), 1)])
    world.run_all()
    world.check()
    # Without its event just before the edge, a session of the day before falls apart.
    world.write("zero", [bridge[0], *chain("b", at(0, 3), at(0, 5))])
    world.run(0, 1)
    world.check()
    world.write("one", [Event("a", at(1, 0, 45), 40), Event("d", at(1, 9), 9)])
    world.run(1, 2)
    world.check()
    # The only events of a date are gone: it is cleared.
    world.write("two", [Event("c", at(0, 5), 1)])
    world.run(2, 3)
    world.run(0, 1)
    world.check()


def test_what_a_range_does_not_hold_stays(world: World) -> None:
    world.write("a", [Event("a", at(number, 12), number) for number in range(4)])
    world.run_all()
    before = {path for path in paths_of(world.job.store, "sessions") if "2026-01-02" not in path}
    world.write("b", [Event("b", at(1, 13), 1), Event("b", at(3, 13), 1)])
    world.run(1, 2)
    world.check()
    after = {path for path in paths_of(world.job.store, "sessions") if "2026-01-02" not in path}
    # The horizon moved, so the last date's open windows were rewritten; nothing else was.
    assert {path for path in before ^ after if "2026-01-04" not in path} == set()


def test_ranges_without_input_are_skipped(world: World) -> None:
    world.write("a", [Event("a", at(0, 12), 1), Event("a", at(3, 12), 1)])
    result = world.job.run(world.spark, start=day(1), end=day(3))
    assert [skipped.dates for skipped in result.skipped] == [(day(1), day(3))]
    assert not result.chunks
    with pytest.raises(TableError, match="does not exist yet"):
        world.job.table("sessions", world.spark)


def test_a_date_with_windows_only_is_computed_and_not_skipped(world: World) -> None:
    world.write("a", [Event("a", at(1, 0, 30), 1)])
    world.run_all()
    # Windows of three hours that begin before midnight hold it, too.
    assert world.job.plan(world.spark, date=day(0)).without_input.ranges == ()
    result = world.job.run(world.spark, date=day(0))
    assert (result.skipped, len(result.chunks)) == ((), 1)
    world.check()


@pytest.mark.spark_only
def test_the_plan_tells_what_is_read_across_the_edges(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.write("zero", [Event("a", at(0, 23, 50), 1)])
    world.write("one", [Event("a", at(1, 0, 5), 1)])
    world.write("three", [Event("a", at(3, 5), 1)])
    text, document = plan(capsys, str(world.job.spec.path), "--date", str(day(1)))
    # The event of the day before shows that this day's session began there.
    assert (document["files"], document["stages"][0]["events"]) == (2, 1)
    assert {beyond["keys"] for beyond in document["beyond"]} == {0}
    assert {beyond["read_from"] < str(day(1)) for beyond in document["beyond"]} == {True}
    (line,) = (sentence for sentence in text.splitlines() if "cross its boundaries" in sentence)
    assert line.startswith(f"For [{day(1)}, {day(2)}) events are read from {day(0)}T")


def test_a_changed_window_is_told_and_refused_in_part(world: World) -> None:
    world.write("a", [Event("a", at(0, 12), 1)])
    world.run_all()
    path = world.folder / "job.yaml"
    path.write_text(path.read_text().replace("{session: {gap: 30m}", "{session: {gap: 20m}", 1))
    changed = type(world.job).load(path)
    with pytest.raises(TableError, match=r"stale.*windows\.sessions \(was .*30m"):
        changed.run(world.spark, date=day(0))
    with pytest.raises(TableError, match="Rebuild all covered dates in one commit"):
        changed.recompute(world.spark)
    plan = changed.plan(world.spark, date=day(0))
    (state,) = plan.windows["sessions"]
    assert (state.state, plan.stages) == ("stale", ())
    assert "windows.sessions (was " in str(state.detail)
    assert "Rebuild all covered dates" in str(plan.refused)
    changed.run(world.spark)
    assert changed.recompute(world.spark) is None


def test_chunks_are_runs_of_their_own_and_are_not_run_twice(
    spark: SparkSession, tmp_path: Path
) -> None:
    world = World(tmp_path, spark, windows=("sessions",))
    world.write("a", [*chain("a", at(0, 22), at(4, 2)), Event("b", at(2), 1)])
    first = world.job.run(world.spark, start=day(0), end=day(5), chunk=2)
    assert [len(first.chunks), first.failures, first.skipped] == [3, (), ()]
    world.counted = {"a": set(EVERY)}
    world.check()
    again = world.job.run(world.spark, start=day(0), end=day(5), chunk=2)
    assert [skipped.why for skipped in again.skipped] == [
        f"committed by run {chunk.run_id}" for chunk in first.chunks
    ]
    world.write("b", [Event("b", at(2, 1), 1)])
    plan = world.job.plan(spark, start=day(0), end=day(5), chunk=2, explain=False)
    assert [stage.done for stage in plan.stages] == [None, None, None]
