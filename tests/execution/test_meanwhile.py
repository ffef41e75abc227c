"""Others publish between a run's beginning and its end: they conflict, or nothing is lost."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from backfill.errors import TableError
from tests.execution.begun import Run, begun, begun_all, begun_late
from tests.execution.test_invariant import DAYS, SEEDS, SEQUENCES, SOME, many
from tests.execution.world import World, at, day
from tests.memory_store import MemoryStore
from tests.on_sail import ON_SAIL
from tests.reference import Event

pytestmark = pytest.mark.usefixtures("interpreted")


def meanwhile(world: World, do: Callable[[], object], *, commit: int = 1) -> None:
    """Does something once, just before the next commit to a table or before a later one."""
    store: Any = world.store
    publish, numbers = store.publish, itertools.count(1)

    def interrupted(*arguments: Any, **more: Any) -> int:
        if next(numbers) == commit:
            store.publish = publish
            do()
        done: int = publish(*arguments, **more)
        return done

    store.publish = interrupted


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> World:
    made = World(tmp_path, spark, windows=("sessions",), store=MemoryStore())
    made.write("0", [Event("a", at(0, 10)), Event("a", at(1, 10)), Event("a", at(2, 10))])
    return made


def merged(world: World) -> None:
    """Checks that after a merge the tables are what all events make, whatever came before."""
    world.recompute()
    world.check()


def test_late_events_of_a_date_that_another_run_computes(world: World) -> None:
    world.run(0, 1)
    world.run(2, 3)
    of_the_night = begun(world, 1, 2)
    world.write("late", [Event("a", at(0, 11)), Event("a", at(1, 11))])
    meanwhile(world, of_the_night)
    # The other run covers the second day without this file, which has events there.
    with pytest.raises(
        TableError, match="one of the two covers further dates, for which the other"
    ):
        world.job.recompute(world.spark)
    assert len(world.rows("sessions")) == 3
    merged(world)
    assert len(world.rows("sessions")) == 5


def test_a_date_that_is_computed_without_late_events_that_others_know(world: World) -> None:
    world.run(0, 1)
    world.run(2, 3)
    of_the_night = begun(world, 1, 2)
    world.write("late", [Event("a", at(0, 11)), Event("a", at(1, 11))])
    assert world.job.recompute(world.spark) is not None
    # This run has not seen the file, which the other one counted where nothing was covered.
    with pytest.raises(
        TableError, match="one of the two covers further dates, for which the other"
    ):
        of_the_night()
    assert len(world.rows("sessions")) == 3
    world.run(1, 2)
    merged(world)
    assert len(world.rows("sessions")) == 5


def test_a_conflict_at_the_second_table_says_that_the_first_is_published(
    spark: SparkSession, tmp_path: Path
) -> None:
    world = World(tmp_path, spark, store=MemoryStore())
    world.write("0", [Event("a", at(0, 10)), Event("a", at(2, 10))])
    world.run_all()
    world.write("1", [Event("a", at(2, 20))])
    world.recompute()
    first, second = world.windows
    before = {name: world.rows(name) for name in (first, second)}
    world.write("late", [Event("b", at(0, 11))])

    def restored() -> None:
        assert isinstance(world.store, MemoryStore)
        world.store.restore(second, 0, run_id="other", metadata={})

    meanwhile(world, restored, commit=2)
    with pytest.raises(TableError, match=rf"^{second}: .* Published so far: {first}\. Run again"):
        world.job.recompute(world.spark)
    assert len(world.rows(first)) == len(before[first]) + 1
    assert world.rows(second) != before[second]
    merged(world)


def test_what_another_run_has_counted_stays_counted(world: World) -> None:
    world.run_all()
    world.write("late", [Event("a", at(0, 11))])

    def run() -> None:
        world.write("x", [Event("a", at(2, 9))])
        world.job.run(world.spark, date=day(2))

    meanwhile(world, run)
    merged(world)
    done = world.recompute()
    assert done is None or done.read == 0
    world.check()


def test_a_chunk_does_not_know_what_was_merged_since(world: World) -> None:
    session = [Event("a", at(0, 23, 50)), Event("a", at(1, 0, 10))]
    world.write("1", session)
    world.run_all()

    def progress(message: str) -> None:
        if message.startswith("2 of 2"):
            world.write("late", [Event("a", at(0, 23, 55))])
            merged(world)

    done = world.job.run(world.spark, start=day(0), end=day(2), chunk=1, progress=progress)
    assert len(done.chunks) == 1
    assert "counted an input that this one has not seen" in str(done.failures[0].error)
    world.check()
    assert world.recompute() is None


def test_a_chunk_is_computed_again_after_others_have_changed_its_dates(world: World) -> None:
    def chunks() -> list[int]:
        done = world.job.run(world.spark, start=day(0), end=day(3), chunk=1)
        return [skipped.dates[0].day for skipped in done.skipped]

    chunks()
    assert chunks() == [1, 2, 3]
    world.write("x", [Event("a", at(1, 10, 10))])
    merged(world)
    world.remove("x")
    # The source is what it was when the chunks were committed, but the table is not.
    assert chunks() == [1, 3]
    world.old = set()
    world.check()
    assert chunks() == [1, 2, 3]
    world.job.forget("a", spark=world.spark)
    assert world.rows("sessions") == []
    assert chunks() == []
    world.check()


@pytest.mark.slow
def test_any_runs_at_once(spark: SparkSession, tmp_path: Path) -> None:
    folders = itertools.count()
    runs = st.tuples(
        st.sampled_from(["late", "late", "range", "range", "chunks", "all"]),
        st.integers(0, DAYS - 1),
        st.integers(1, 2),
    )
    # Which of the runs that have begun ends next, and whether another ends within it.
    ends = st.tuples(st.integers(0, 2), st.none() | st.integers(1, 3))

    @settings(max_examples=3 * SEQUENCES if ON_SAIL else SEQUENCES, deadline=None)
    @given(
        with_id=st.booleans(),
        first=SEEDS,
        low=st.integers(0, DAYS - 2),
        steps=st.lists(st.tuples(SEEDS, runs, st.booleans(), ends), min_size=3, max_size=4),
    )
    def check(with_id: bool, first: int, low: int, steps: list[Any]) -> None:
        windows = ("sessions", "hopping", "moving")
        folder = tmp_path / str(next(folders))
        world = World(folder, spark, with_id, windows=windows, store=MemoryStore())
        world.write_alike("0", [*many(first), SOME])
        world.run(low, low + 2)
        open_: list[Run] = []

        def end(which: int) -> None:
            if open_:
                with suppress(TableError):
                    open_.pop(which % len(open_))()

        for number, (arrived, (kind, start, length), finishes, (which, within)) in enumerate(steps):
            if kind == "late":
                open_.append(begun_late(world))
            elif kind == "all":
                open_.append(begun_all(world))
            else:
                chunk = 1 if kind == "chunks" else None
                open_.append(begun(world, start, start + length, chunk))
            world.write_alike(f"{number + 1}", many(arrived))
            open_.append(begun_late(world))
            if finishes:
                if within is not None:
                    meanwhile(world, lambda: end(0), commit=within)
                end(which)
        while open_:
            end(0)
        merged(world)

    check()
