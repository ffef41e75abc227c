"""Runs of parts of the events of a job with rules for bots, against all of them judged at once."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from random import Random

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

from tests.execution.world import COUNTS, SLIDING, WINDOWS, World, at
from tests.memory_store import MemoryStore
from tests.reference import Event

pytestmark = pytest.mark.usefixtures("interpreted")

DAYS = 4
#: In memory, each of a hundred keys.
SEQUENCES = int(os.environ.get("BACKFILL_SEQUENCES", "2"))
GAP = 45 * 60_000_000
#: By session and by hour, of the session and of the day, and with a pause that unmakes a bot.
RULES = (
    "{gap: 45m, rules: [{name: marked, where: value = -3, remove: day},"
    " {name: many, events: 4}, {name: fast, events: 2, per: hour, remove: day},"
    " {name: steady, events: 2, no_pause_longer_than: 40m}]}"
)
#: So that there is always a person.
PERSON = Event("someone", at(1, 12), 1, "9")


def many(draw: st.DrawFn) -> list[Event]:
    """Events of a hundred keys, as many sequences of runs in one; around midnights and gaps."""
    random = Random(draw(st.integers(0, 2**32)))
    return [
        Event(
            f"{random.choice('abcdefghij')}{random.randrange(10)}",
            at(random.randrange(DAYS))
            + random.choice([0, 1, 2, 3, 30, 31, 32]) * GAP
            + random.choice([-1, 0, 1, GAP // 2, GAP // 3]),
            random.choice([None, 0, 1, 3, *([-3] if random.random() < 0.2 else [])]),
            random.choice(["1", "2", None]),
        )
        for _ in range(random.choice([20, 100, 300]))
    ]


def _last(world: World) -> str:
    found: str = world.job.history()[0]["run_id"]
    return found


def machine(make: Callable[[], World]) -> type[RuleBasedStateMachine]:
    """Sequences of runs, of late files, and of going back."""
    events = st.composite(many)()

    class Runs(RuleBasedStateMachine):
        @initialize(events=events)
        def begin(self, events: list[Event]) -> None:
            self.world = make()
            self.world.write("0", [*events, PERSON])
            self.done: list[tuple[str, dict[str, set[int]]]] = []

        def _check(self) -> None:
            self.world.check()
            counted = {name: set(days) for name, days in (self.world.counted or {}).items()}
            self.done.append((_last(self.world), counted))

        @rule(events=events)
        def arrive(self, events: list[Event]) -> None:
            self.world.write(str(len(self.world.files)), events)

        @rule(
            low=st.integers(-1, DAYS),
            length=st.integers(1, 3),
            chunk=st.sampled_from([None, None, 1]),
        )
        def run(self, low: int, length: int, chunk: int | None) -> None:
            self.world.run(low, low + length, chunk)
            if self.world.published:
                self._check()

        @precondition(lambda self: self.world.published)
        @rule(events=events)
        def recompute(self, events: list[Event]) -> None:
            self.world.write(str(len(self.world.files)), events)
            self.world.recompute()
            self._check()

        @rule()
        def run_all(self) -> None:
            self.world.run_all()
            self._check()

        @precondition(lambda self: len(self.done) > 1)
        @rule(which=st.integers(0, 9))
        def restore(self, which: int) -> None:
            run, counted = self.done[which % len(self.done)]
            self.world.job.restore(run)
            self.world.counted = {name: set(days) for name, days in counted.items()}
            self.world.check()

    return Runs


@pytest.mark.slow
@pytest.mark.parametrize("windows", [WINDOWS, SLIDING, COUNTS])
@pytest.mark.parametrize("with_id", [False, True])
def test_any_sequence_of_runs_in_memory(
    spark: SparkSession, tmp_path: Path, with_id: bool, windows: tuple[str, ...]
) -> None:
    numbers = itertools.count()

    def make() -> World:
        folder = tmp_path / str(next(numbers))
        return World(folder, spark, with_id, windows=windows, store=MemoryStore(), bots=RULES)

    steps = settings(max_examples=SEQUENCES, stateful_step_count=6, deadline=None)
    run_state_machine_as_test(machine(make), settings=steps)
