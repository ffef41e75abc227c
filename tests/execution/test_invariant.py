"""Invariant 1: after any sequence of runs the tables are what a full rebuild would give.

That is a rebuild from the counted events, restricted to windows that start on covered dates.
Where an input was replaced, this holds once its dates have been run; until then, a run writes
again what it removes.
"""

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

from backfill.errors import SourceError
from tests.execution.joined import JOINS
from tests.execution.mixed import check_run, tables
from tests.execution.world import COUNTS, GAP, METRICS, SLIDING, WINDOWS, World, at
from tests.lake import lake
from tests.memory_store import MemoryStore
from tests.on_sail import ON_SAIL
from tests.reference import Event

pytestmark = pytest.mark.usefixtures("interpreted")

DAYS = 4
#: How many sequences to run; those in memory have three hundred keys each. For more:
#: BACKFILL_SEQUENCES=10. Sail takes a fifth of the time that Spark takes.
SEQUENCES = int(os.environ.get("BACKFILL_SEQUENCES") or (2 if ON_SAIL else 1))
#: An event that keeps a source from being empty.
SOME = Event("a", at(1, 12), 1, "9")
#: Times around midnights and multiples of the gap, where something can go wrong.
TIMES = st.builds(
    lambda day, gaps, off: at(day) + gaps * GAP + off,
    st.integers(0, DAYS - 1),
    st.sampled_from([0, 1, 2, 24, 46, 47]),
    st.sampled_from([-1, 0, 1, GAP // 2]),
)
EVENTS = st.lists(
    st.builds(
        Event,
        st.sampled_from([*"abcdefgh", None]),
        TIMES,
        st.one_of(st.none(), st.integers(-3, 3)),
        st.sampled_from(["1", "2", None]),
    ),
    min_size=1,
    max_size=40,
)


SEEDS = st.integers(0, 2**32)


def many(seed: int) -> list[Event]:
    """Events of three hundred keys, each of which is a sequence of runs of its own."""
    random = Random(seed)
    return [
        Event(
            f"{random.choice('abcdefghij')}{random.randrange(30)}",
            at(random.randrange(DAYS))
            + random.choice([0, 1, 2, 24, 46, 47]) * GAP
            + random.choice([-1, 0, 1, GAP // 2]),
            random.choice([None, -3, 0, 1, 3]),
            random.choice(["1", "2", None]),
        )
        for _ in range(random.randrange(300, 1200))
    ]


def machine(
    make: Callable[[bool], World], events: st.SearchStrategy[list[Event]]
) -> type[RuleBasedStateMachine]:
    """Sequences of runs, and of files that come, change and go; copies of an event are alike."""

    class Runs(RuleBasedStateMachine):
        # If times are text, only runs that have read a file know which times it has.
        @initialize(events=events, texts=st.booleans())
        def begin(self, events: list[Event], texts: bool) -> None:
            self.world = make(texts)
            self.world.write_alike("0", [*events, SOME])

        @rule(events=events)
        def arrive(self, events: list[Event]) -> None:
            self.world.write_alike(str(len(self.world.files)), events)

        @rule(which=st.integers(0, 9), kept=st.sets(st.integers(0, 39)), events=events)
        def replace(self, which: int, kept: set[int], events: list[Event]) -> None:
            """One file loses some events and gains others, some moved, some on other dates."""
            name = sorted(self.world.files)[which % len(self.world.files)]
            left = [e for i, e in enumerate(self.world.files[name]) if i % 40 in kept]
            self.world.write_alike(name, [*left, *events[: len(events) * which // 10], SOME])

        @precondition(lambda self: len(self.world.files) > 1)
        @rule(which=st.integers(0, 9))
        def rename(self, which: int) -> None:
            """A file goes, and another comes that holds most of it."""
            name = sorted(self.world.files)[which % len(self.world.files)]
            events = self.world.files[name]
            self.world.remove(name)
            self.world.write_alike(f"{name}x", [*events[1:], SOME])

        @rule(
            low=st.integers(-1, DAYS),
            length=st.integers(1, 3),
            chunk=st.sampled_from([None, None, 1]),
        )
        def run(self, low: int, length: int, chunk: int | None) -> None:
            before = tables(self.world) if self.world.published else None
            old = set(self.world.old)
            days = self.world.run(low, low + length, chunk)
            if before is not None:
                check_run(self.world, before, days, old)
                # Nor do events that no run has read close any window.
                assert days or tables(self.world) == before
            if days and not self.world.old:
                self.world.check()

        @precondition(lambda self: self.world.published)
        @rule()
        def recompute(self) -> None:
            if self.world.old:
                with pytest.raises(SourceError, match="cannot be removed by merging"):
                    self.world.recompute()
                return
            self.world.recompute()
            self.world.check()

        @rule()
        def run_all(self) -> None:
            self.world.run_all()
            self.world.check()

    return Runs


def steps(sequences: int) -> settings:
    return settings(max_examples=sequences, stateful_step_count=6, deadline=None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("with_id", "iceberg"),
    [(False, False), (True, False), (True, True)],
    ids=str,
)
def test_any_sequence_of_runs(
    spark: SparkSession, tmp_path: Path, with_id: bool, iceberg: bool
) -> None:
    numbers = itertools.count()

    def make(texts: bool) -> World:
        windows = (*WINDOWS, "moving", "shared")
        folder = tmp_path / str(next(numbers))
        store = lake(folder / "lake") if iceberg else None
        return World(folder, spark, with_id, windows, gate=True, texts=texts, store=store)

    run_state_machine_as_test(machine(make, EVENTS), settings=steps(SEQUENCES))


@pytest.mark.slow
@pytest.mark.parametrize(
    "windows",
    [
        WINDOWS,
        SLIDING,
        COUNTS,
        tuple(METRICS),
        tuple(JOINS),
    ],
)
@pytest.mark.parametrize("with_id", [False, True])
def test_any_sequence_of_runs_in_memory(
    spark: SparkSession, tmp_path: Path, with_id: bool, windows: tuple[str, ...]
) -> None:
    numbers = itertools.count()

    def make(texts: bool) -> World:
        folder = tmp_path / str(next(numbers))
        return World(folder, spark, with_id, windows, texts=texts, store=MemoryStore())

    run_state_machine_as_test(machine(make, SEEDS.map(many)), settings=steps(SEQUENCES))
