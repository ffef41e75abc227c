"""Late events merged into what is published."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill import Job
from backfill.errors import JobFileError, SourceError
from backfill.planning.stages import MergeStage
from tests.execution.world import GAP, MINUTE, WINDOWS, World, at
from tests.reference import Event

pytestmark = pytest.mark.usefixtures("interpreted")

SHAPES = [
    [Event("a", at(1, 1, 30), 7)],  # exactly the gap from two events
    [Event("a", at(1, 1) + GAP + 1, 7)],
    [Event("a", at(1, 1, 25), 7), Event("a", at(1, 1, 50), 1), Event("a", at(1, 2, 30), 1)],
    [Event("a", at(1, 0, 45), 7)],  # a session begins earlier
    [Event("b", at(2, 0, 30), 7)],
    [Event("b", at(2, 0, 40), 7), Event("b", at(1, 23, 20), 7)],
    [Event("c", at(3, 11, 40), 7), Event("d", at(1, 5), None)],
    [Event("c", at(3, 12), 5), Event(None, at(3, 12), 5)],
]


def history(prefix: str = "") -> dict[str, list[Event]]:
    """The events by file, with keys that begin with the prefix."""
    a, b, c = (f"{prefix}{key}" for key in "abc")
    return {
        "a": [Event(a, at(1, hour), hour) for hour in (1, 2, 3, 6)],
        "b": [Event(b, at(1, 23, 50), 5), Event(b, at(2, 0, 10), None)],
        "c": [Event(c, at(3, 12), 5)],
    }


@pytest.fixture(scope="module")
def run_once(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> World:
    world = World(tmp_path_factory.mktemp("late"), spark)
    for name, events in history().items():
        world.write(name, events)
    world.run_all()
    return world


@pytest.fixture
def world(run_once: World, tmp_path: Path) -> World:
    return run_once.copied(tmp_path)


@pytest.mark.slow
def test_late_events_join_what_they_touch(spark: SparkSession, tmp_path: Path) -> None:
    # Keys do not affect each other, so each shape has keys of its own.
    world = World(tmp_path, spark, windows=WINDOWS)
    late = []
    files: dict[str, list[Event]] = {}
    for number, shape in enumerate(SHAPES):
        for name, events in history(str(number)).items():
            files.setdefault(name, []).extend(events)
        late += [replace(event, key=event.key and f"{number}{event.key}") for event in shape]
    for name, events in files.items():
        world.write(name, events)
    world.run_all()
    world.write("late", late)
    assert world.recompute()
    world.check()
    assert not world.recompute()
    world.check()


def test_windows_that_are_only_added_have_the_columns_types(
    spark: SparkSession, tmp_path: Path
) -> None:
    types = ("tinyint", "bigint", "double", "decimal(9, 2)", "decimal(28, 3)")
    numbers = [f"{name}(cast(value as {type}))" for name in ("sum", "mean") for type in types]
    others = "count, min(value), max(value), first(value), stddev(value), collect_set(value)"
    listed = [*numbers, *others.split(", "), "count_distinct(value)", "duration"]
    aggregates = "".join(f'\n      a{i}: "{aggregate}"' for i, aggregate in enumerate(listed))
    (tmp_path / "job.yaml").write_text(f"""
source: {{path: src, format: parquet}}
events: {{key: user, time: at}}
windows:
  sessions:
    session: {{gap: 30m}}
    aggregates: &all {aggregates}
  hours: {{tumbling: {{size: 1h}}, aggregates: *all}}
  halves: {{hopping: {{size: 1h, advance: 30m}}, aggregates: *all}}
tables: {{path: out}}
checks: {{builtin: {{freshness: off}}}}
""")
    job = Job.load(tmp_path / "job.yaml")
    world = World(tmp_path, spark)
    world.write("first", [Event("a", at(1, 1), 7)])
    job.run(spark)
    names = ("sessions", "hours", "halves")
    before = {name: job.table(name, spark).schema for name in names}
    world.write("late", [Event("a", at(1, 5), 2), Event("b", at(1, 1), None)])
    merged = job.recompute(spark)
    assert merged is not None
    assert {name: window.rows for name, window in merged.windows.items()} == dict(
        zip(names, (2, 2, 4), strict=True)
    )
    assert {name: job.table(name, spark).schema for name in names} == before


@pytest.mark.slow
@pytest.mark.spark_only
def test_the_plan_says_how_many_windows_late_events_reach(
    spark: SparkSession, tmp_path: Path
) -> None:
    world = World(
        tmp_path, spark, windows=("sessions", "hopping", "moving", "around", "growing", "ruled")
    )
    late = []
    for number, shape in enumerate(SHAPES):
        for name, events in history(str(number)).items():
            world.write(f"{name}{number}", events)
        late += [replace(event, key=event.key and f"{number}{event.key}") for event in shape]
    world.run_all()
    # Whether a late event reaches a published window, given the window's start and end.
    reached: dict[str, Callable[[int, int, int], bool]] = {
        "sessions": lambda at, start, end: start - GAP <= at <= end + GAP,
        "hopping": lambda at, start, end: start <= at < end,
        "moving": lambda at, start, _: start - 90 * MINUTE <= at <= start,
        "around": lambda at, start, _: start - GAP <= at <= start + 2 * GAP,
        "growing": lambda at, start, _: at <= start,
    }
    expected = {
        name: sum(
            any(e.key == row[0] and e.time and reaches(e.time, row[1], row[2]) for e in late)
            for row in world.rows(name)
        )
        for name, reaches in reached.items()
    }
    assert all(expected.values())
    world.write("late", late)
    (stage,) = world.job.plan(spark, recompute=True).stages
    assert isinstance(stage, MergeStage)
    # An event can change the cuts of a session with rules however far it extends.
    assert [dict(inputs.affected) for inputs in stage.late] == [{**expected, "ruled": None}]


def test_one_late_event_joins_two_sessions(world: World) -> None:
    world.write("late", SHAPES[0])
    world.recompute()
    world.check()


@pytest.mark.slow
def test_a_session_moves_to_another_start_date(world: World) -> None:
    world.write("b2", [Event("e", at(2, 0, 5), 1)])
    world.recompute()
    world.write("late", [Event("e", at(1, 23, 50), 7)])
    world.recompute()
    world.check()


@pytest.mark.slow
def test_no_path_is_not_the_current_folder(world: World) -> None:
    for late in ("", " "):
        with pytest.raises(JobFileError, match="late: is empty"):
            world.job.recompute(world.spark, late=late)


def test_late_events_at_dates_that_are_not_covered_wait(
    spark: SparkSession, tmp_path: Path
) -> None:
    world = World(tmp_path, spark)
    world.write("a", [Event("a", at(1, 23, 50), 1), Event("a", at(2, 12), 2)])
    world.write("b", [Event("b", at(0, 23, 50), 1), Event("b", at(1, 0, 5), 1)])
    world.run(1, 2)
    world.check()
    world.write(
        "late",
        [
            Event("a", at(2, 0, 10), 3),  # extends a published session into a date not covered
            Event("a", at(2, 12, 10), 3),
            Event("c", at(4, 1), 3),
            Event("d", at(0, 3), 3),
        ],
    )
    world.recompute()
    world.check()
    # These join sessions across an edge whose other side is in no table.
    world.write("more", [Event("a", at(2, 0, 35), 1), Event("b", at(1, 0, 30), 1)])
    world.recompute()
    world.check()
    for date in (4, 2, 0, 3):
        world.run(date, date + 1)
        world.check()


@pytest.mark.slow
def test_a_file_of_todays_events_and_last_weeks_late_ones(
    spark: SparkSession, tmp_path: Path
) -> None:
    for order in ("run first", "recompute first"):
        world = World(tmp_path / order.replace(" ", "-"), spark, windows=("sessions",))
        world.write("zero", [Event("a", at(0, 10), 1), Event("b", at(0, 23, 50), 1)])
        world.run(0, 1)
        world.write("one", [Event("a", at(0, 10, 20), 2), Event("b", at(1, 0, 10), 2)])
        if order == "run first":
            world.run(1, 2)
            world.check()
            world.recompute()
        else:
            world.recompute()
            world.check()
            world.run(1, 2)
        world.check()
        assert not world.recompute()


@pytest.mark.slow
def test_given_late_events_are_an_input_ever_after(world: World) -> None:
    path = world.folder / "late.parquet"
    events = [Event("a", at(1, 1, 30), 7)]
    world.write_to(path, events)
    world.files["late"] = events
    assert world.recompute(path)
    world.check()
    assert not world.recompute(path)
    world.run(1, 2)
    world.check()
    path.unlink()
    with pytest.raises(SourceError, match=r"late\.parquet"):
        world.job.run(world.spark, start="2026-01-02", end="2026-01-03")


def test_a_redelivery_of_what_was_counted_changes_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    world = World(tmp_path, spark, with_id=True)
    world.write("a", [Event("a", at(1, 1), 1, "1"), Event("a", at(1, 1), 1, None)])
    world.run_all()
    before = world.rows("sessions")
    world.write("again", [Event("a", at(1, 1), 1, "1")])
    world.recompute()
    world.check()
    assert world.rows("sessions") == before
    world.write("more", [Event("a", at(1, 1), 1, "1"), Event("a", at(1, 1), 1, None)])
    merged = world.recompute()
    # Nothing vanishes: the redelivery was read, and is reported.
    assert merged is not None
    assert (merged.read, merged.accepted, merged.duplicates) == (2, 1, 1)
    world.check()


def test_inputs_that_are_gone_or_changed_are_not_merged(world: World) -> None:
    world.write("a", [Event("a", at(1, 5), 1)])
    with pytest.raises(SourceError, match=r"a\.parquet: an input that was counted has changed"):
        world.recompute()
    (world.folder / "src" / "a.parquet").unlink()
    with pytest.raises(SourceError, match=r"is missing.*--from 2026-01-02 --to 2026-01-03"):
        world.recompute()


@pytest.mark.slow
def test_going_back_forgets_late_events_that_were_given(world: World, tmp_path: Path) -> None:
    job, late = world.job, tmp_path / "given.parquet"
    (first,) = job.history()
    world.write_to(late, [Event("a", at(1, 1, 30), 7)])
    job.recompute(world.spark, late=late)
    done = job.restore(first["run_id"])
    assert done.forgotten == (str(late),)
    assert job.recompute(world.spark) is None
    again = job.recompute(world.spark, late=late)
    assert again is not None
    assert again.accepted == 1
