"""Runs over parts of the events of a job with rules for bots, against all judged at once."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pyspark.sql import SparkSession

from backfill.errors import TableError
from backfill.planning import bots
from tests.execution.joined import JOINS
from tests.execution.world import COUNTS, METRICS, SLIDING, WINDOWS, World, at, day
from tests.memory_store import MemoryStore
from tests.on_sail import ON_SAIL
from tests.reference import Event

pytestmark = pytest.mark.usefixtures("interpreted")

DAYS = 4
#: Sequences in memory, each of hundreds of keys. BACKFILL_SEQUENCES=10: more, with all windows.
SEQUENCES = int(os.environ.get("BACKFILL_SEQUENCES", "0"))
#: Windows of several kinds, so that they are made of the same events; with ids or without.
MIXED = [
    (True, ("sessions", "moving", "values")),
    (False, ("hopping", "ruled", "pairs", "every")),
]
EVERY = list(
    itertools.product((False, True), (WINDOWS, SLIDING, COUNTS, tuple(METRICS), tuple(JOINS)))
)
GAP = 45 * 60_000_000
#: Rules by session and by hour that remove the session or the day; a long pause unmakes a bot.
RULES = (
    "{gap: 45m, rules: [{name: marked, where: value = -3, remove: day},"
    " {name: many, events: 4}, {name: fast, events: 2, per: hour, remove: day},"
    " {name: steady, events: 2, no_pause_longer_than: 40m}]}"
)
#: An event of a person, so that there is always one.
PERSON = Event("someone", at(1, 12), 1, "9")


def many(draw: st.DrawFn) -> list[Event]:
    """Events of many keys around midnights and gaps: each key is a sequence of runs of its own."""
    random = Random(draw(st.integers(0, 2**32)))
    return [
        Event(
            f"{random.choice('abcdefghij')}{random.randrange(40)}",
            at(random.randrange(DAYS))
            + random.choice([0, 1, 2, 3, 30, 31, 32]) * GAP
            + random.choice([-1, 0, 1, GAP // 2, GAP // 3]),
            random.choice([None, 0, 1, 3, *([-3] if random.random() < 0.2 else [])]),
            random.choice(["1", "2", None]),
        )
        for _ in range(random.choice([20, 400, 1000]))
    ]


def _last(world: World) -> str:
    run_id: str = world.job.history()[0]["run_id"]
    return run_id


def _tables(world: World) -> Any:
    rows = {name: sorted(world.rows(name), key=repr) for name in world.windows}
    return rows, world.quarantined_bots()


def machine(make: Callable[[bool], World]) -> type[RuleBasedStateMachine]:
    """Sequences of runs, late files and restores, and of one more table."""
    events = st.composite(many)()

    class Runs(RuleBasedStateMachine):
        @initialize(events=events, texts=st.booleans())
        def begin(self, events: list[Event], texts: bool) -> None:
            self.world = make(texts)
            self.every = self.world.windows
            self._with_windows(self.every[:-1] or self.every)
            self.world.write_alike("0", [*events, PERSON])
            self.done: list[tuple[str, dict[str, set[int]], Any]] = []

        def _with_windows(self, windows: tuple[str, ...]) -> None:
            self.world.windows = windows
            self.world.write_job()

        def _check(self) -> None:
            self.world.check()
            counted = {name: set(days) for name, days in (self.world.counted or {}).items()}
            self.done.append((_last(self.world), counted, _tables(self.world)))

        @rule(events=events)
        def arrive(self, events: list[Event]) -> None:
            self.world.write_alike(str(len(self.world.files)), events)

        @rule(
            low=st.integers(-1, DAYS),
            length=st.integers(1, 3),
            chunk=st.sampled_from([None, None, 1]),
        )
        def run(self, low: int, length: int, chunk: int | None) -> None:
            before = _tables(self.world) if self.world.published else None
            if self.world.run(low, low + length, chunk):
                self._check()
            elif before is not None:
                assert _tables(self.world) == before

        @precondition(lambda self: self.world.published)
        @rule(events=events)
        def recompute(self, events: list[Event]) -> None:
            self.world.write_alike(str(len(self.world.files)), events)
            self.world.recompute()
            self._check()

        @rule()
        def run_all(self) -> None:
            self.world.run_all()
            self._check()

        @precondition(lambda self: self.world.published and self.world.windows != self.every)
        @rule(events=events, length=st.integers(1, 3))
        def add_a_table(self, events: list[Event], length: int) -> None:
            self._with_windows(self.every)
            # The day of an event of a person.
            self.world.job.run(self.world.spark, start=day(1), end=day(1 + length))
            self.recompute(events)

        @precondition(lambda self: len(self.done) > 1)
        @rule(which=st.integers(0, 9), events=events)
        def restore(self, which: int, events: list[Event]) -> None:
            run, counted, tables = self.done[which % len(self.done)]
            untouched = self.world.job.restore(run).untouched
            if untouched:
                # The table that was added since has counted more than the others.
                self.recompute(events)
            else:
                self.world.counted = {name: set(days) for name, days in counted.items()}
                assert _tables(self.world) == tables

    return Runs


@pytest.mark.slow
@pytest.mark.parametrize(("with_id", "windows"), [*MIXED, *(EVERY if SEQUENCES else ())])
def test_any_sequence_of_runs_in_memory(
    spark: SparkSession, tmp_path: Path, with_id: bool, windows: tuple[str, ...]
) -> None:
    numbers = itertools.count()

    def make(texts: bool) -> World:
        folder, store = tmp_path / str(next(numbers)), MemoryStore()
        return World(folder, spark, with_id, windows, store=store, bots=RULES, texts=texts)

    sequences = SEQUENCES or (3 if ON_SAIL else 1)
    steps = settings(max_examples=sequences, stateful_step_count=6, deadline=None)
    run_state_machine_as_test(machine(make), settings=steps)


def test_a_few_runs_in_memory(spark: SparkSession, tmp_path: Path) -> None:
    """As any sequence, but short and with the windows that take the least time."""
    numbers = itertools.count()

    def make(texts: bool) -> World:
        folder, store = tmp_path / str(next(numbers)), MemoryStore()
        return World(folder, spark, True, ("hopping",), store=store, bots=RULES, texts=texts)

    steps = settings(max_examples=1, stateful_step_count=3, deadline=None)
    run_state_machine_as_test(machine(make), settings=steps)


def _steady(key: str, day: int, hours: float = 9) -> list[Event]:
    """A session without a pause of more than half an hour."""
    return [Event(key, at(day, hours + n / 2), n, f"{n}") for n in range(3)]


@pytest.mark.slow
def test_late_events_make_bots_and_people(spark: SparkSession, tmp_path: Path) -> None:
    windows = ("hopping", "ruled", "latest", "values", "sold", "none")
    world = World(tmp_path, spark, True, windows, store=MemoryStore(), bots=RULES)
    world.write(
        "0",
        [
            PERSON,
            # A bot that a longer pause unmakes; another session of its day is not removed.
            *_steady("unmade", 1),
            Event("unmade", at(1, 20), 1, "a"),
            # A person who becomes a bot by one more event, across midnight.
            Event("made", at(1, 23, 50), 1, "a"),
            Event("made", at(2, 0, 10), 1, "b"),
            Event("made", at(0, 3), 1, "c"),
            Event("made", at(2, 15), 1, "d"),
            # Several sessions by the windows' gap that are one by the rules' gap.
            Event("apart", at(1, 5), 1, "a"),
            Event("apart", at(1, 5, 40), 3, "b"),
            Event("apart", at(1, 6, 20), -1, "c"),
            # Another rule becomes the first that holds, and a copy of an event arrives late.
            *_steady("renamed", 1),
            Event("other", at(2, 3), 1, "a"),
        ],
    )
    world.run_all()
    world.check()
    world.write(
        "1",
        [
            Event("unmade", at(1, 10, 43), 1, "late"),
            Event("made", at(2, 0, 20), -3, "late"),
            Event("apart", at(1, 5, 20), 1, "late"),
            Event("renamed", at(1, 9, 15), -3, "late"),
            Event("renamed", at(1, 9), 0, "0"),
            Event("someone", at(1, 12), 1, "9"),
        ],
    )
    world.recompute()
    world.check()
    # The last day has an event of a bot that began before it.
    world.write("2", [Event("other", at(2, 23, 50), 1, "b"), Event("apart", at(2, 4), 1, "d")])
    world.write("3", [Event("other", at(3, 0, 5), -3, "c"), Event("unmade", at(3, 0, 1), 1, "e")])
    world.run(3, 4)
    world.check()


def test_the_first_rows_of_the_quarantine_are_bots(spark: SparkSession, tmp_path: Path) -> None:
    # On Delta's files: an empty table has none.
    world = World(tmp_path, spark, windows=("hopping",), bots=RULES)
    world.write("0", [PERSON, Event("made", at(1, 3), 1)])
    world.run_all()
    world.write("1", [Event("made", at(1, 3, 10), -3)])
    world.recompute()
    world.check()
    assert len(world._table("quarantine")) == 2


@pytest.mark.parametrize("late", [Event(None, at(1, 3)), Event("made", at(1, 3), 1, "1")], ids=str)
def test_late_rows_that_are_no_new_events(spark: SparkSession, tmp_path: Path, late: Event) -> None:
    windows = ("sessions", "ruled", "hopping")
    world = World(tmp_path, spark, True, windows, store=MemoryStore(), bots=RULES)
    world.write("0", [PERSON, Event("made", at(1, 3), 1, "1")])
    world.run_all()
    world.write("1", [late])
    world.recompute()
    world.check()


def test_bots_are_looked_for_once_for_several_tables(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, judged = bots.with_bots, []

    def watched(*arguments: Any, **options: Any) -> Any:
        judged.append(options["name"])
        return real(*arguments, **options)

    def times(*windows: str) -> int:
        folder, store = tmp_path / str(len(windows)), MemoryStore()
        world = World(folder, spark, True, windows, store=store, bots=RULES)
        world.write("0", [PERSON, *_steady("a", 1), Event("made", at(1, 23, 50), 1, "a")])
        world.run_all()
        world.write("1", [Event("made", at(2, 0, 10), -3, "b"), Event("a", at(1, 10, 43), 1, "c")])
        judged.clear()
        world.recompute()
        count = len(judged)
        world.check()
        return count

    monkeypatch.setattr(bots, "with_bots", watched)
    few = times("sessions", "hopping")
    assert few
    assert times("sessions", "exact", "hopping") == few


def test_a_quarantine_that_only_loses_rows_is_published(
    spark: SparkSession, tmp_path: Path
) -> None:
    rules = "{gap: 45m, rules: [{name: steady, events: 2, no_pause_longer_than: 40m}]}"
    world = World(tmp_path, spark, windows=("hopping",), bots=rules)
    world.write("0", [PERSON, *_steady("a", 1)])
    world.run_all()
    assert sum(world.quarantined_bots().values()) == 3
    world.write("1", [Event("a", at(1, 10, 43), 1)])
    result = world.recompute()
    assert result is not None
    assert (result.read, result.accepted, dict(result.quarantined)) == (4, 4, {})
    world.check()
    assert not world.quarantined_bots()


def test_only_the_files_of_the_quarantine_are_rewritten_that_lose_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    rules = "{gap: 45m, rules: [{name: steady, events: 2, no_pause_longer_than: 40m}]}"
    world = World(tmp_path, spark, windows=("hopping",), bots=rules)
    world.write("0", [PERSON, *_steady("a", 1)])
    world.run_all()
    world.write("1", [*_steady("b", 2), Event(None, at(2, 9), 1)])
    world.recompute()
    before = _files(world)
    assert len(before) == 2
    world.write("2", [Event("a", at(1, 10, 43), 1)])
    world.recompute()
    world.check()
    # The file of the second run stays: it holds b and the row without a key.
    assert len(before & _files(world)) == 1


def _files(world: World) -> set[str]:
    table = world.job.store.open("quarantine")
    assert table is not None
    return {file.path for file in table.files}


class Stops(MemoryStore):
    """A store that stops working after a number of commits."""

    left: int = 100

    def publish(self, name: str, *args: Any, **options: Any) -> int:
        if not self.left:
            raise TableError("the store has stopped", field=name)
        self.left -= 1
        return super().publish(name, *args, **options)


@pytest.mark.slow
def test_a_recompute_that_stops_anywhere_leaves_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    windows = ("hopping", "latest")
    store = Stops()
    world = World(tmp_path, spark, windows=windows, store=store, bots=RULES)
    world.write("0", [PERSON, *_steady("a", 1), Event("b", at(1, 1), 1)])
    world.run_all()
    run = world.job.history()[0]["run_id"]
    counted, before = world.counted, _tables(world)
    late = [Event("a", at(1, 10, 43), 1), Event("b", at(1, 1, 1), -3), Event("c", at(1), -3)]
    world.write("1", late)

    def stop(commits: int) -> None:
        store.left = commits
        with pytest.raises(TableError, match="has stopped"):
            world.recompute()
        store.left = 100

    stop(0)
    assert _tables(world) == before
    for commits in (1, 2):
        stop(commits)
        world.recompute()
        world.check()
        assert world.recompute() is None
        world.job.restore(run)
        world.counted = counted
        assert _tables(world) == before


@pytest.mark.slow
def test_windows_that_expired_do_not_come_back(spark: SparkSession, tmp_path: Path) -> None:
    windows = ("sessions", "hopping")
    world = World(tmp_path, spark, True, windows, "30h", store=MemoryStore(), bots=RULES)
    world.write("0", [PERSON, *_steady("a", 1), *_steady("b", 3), Event("c", at(1, 5), 1)])
    world.run_all()
    world.write("1", [Event("d", at(3, 12), 1, "9"), Event("b", at(3, 10, 43), 1, "8")])
    world.recompute()
    world.job.expire(spark)
    # `a` is no bot any more, but its windows have expired; `b` becomes one, so its windows go.
    world.write("2", [Event("a", at(1, 10, 43), 1, "8"), Event("b", at(3, 9, 1), -3, "7")])
    world.recompute()
    rows, bots = _tables(world)
    world.run_all()
    assert _tables(world) == (rows, bots)
    assert {row[0] for row in rows["sessions"]} == {"d"}
