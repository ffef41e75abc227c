"""Tables of metrics: which rows a run changes, also on dates without events."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test
from pyspark.sql import SparkSession

from tests.execution.test_invariant import SEQUENCES, TIMES, machine, steps
from tests.execution.world import World, at
from tests.memory_store import MemoryStore
from tests.reference import Event

pytestmark = pytest.mark.usefixtures("interpreted")


def test_values_fall_on_quiet_days(spark: SparkSession, tmp_path: Path) -> None:
    tables = ("busy_by_user", "best")
    world = World(tmp_path, spark, windows=tables, store=MemoryStore(), gate=True)
    midnight = [Event("a", at(1), 1, "1"), Event("a", at(2, 23, 59), 2, "2")]
    world.write("all", [*midnight, Event("b", at(0, 12), 3), Event("b", at(5, 12), None, "1")])
    # Of the first day alone: later dates are not covered.
    assert world.run(0, 1) == {0}
    world.check()
    # No event is on the fourth day; values of the third fall on it.
    assert world.run(3, 4) == {3}
    world.check()
    assert world.rows("busy_by_user")
    # The seventh is after the last event.
    assert world.run(1, 7) == {1, 2, 3, 4, 5}
    world.check()
    world.write("late", [Event("a", at(2, 1), 7, "3"), Event("c", at(4, 23), 7, "3")])
    world.recompute()
    world.check()
    before = {name: set(world.rows(name)) for name in world.windows}
    world.run_all()
    world.check()
    assert before == {name: set(world.rows(name)) for name in world.windows}


@pytest.mark.slow
def test_any_sequence_of_runs_with_quiet_days(spark: SparkSession, tmp_path: Path) -> None:
    numbers = itertools.count()
    tables = ("busy_by_value", "best", "kinds")
    few = st.lists(
        st.builds(Event, st.sampled_from("ab"), TIMES, st.none() | st.integers(0, 1), st.none()),
        min_size=1,
        max_size=3,
    )

    def make() -> World:
        folder = tmp_path / str(next(numbers))
        return World(folder, spark, windows=tables, store=MemoryStore())

    run_state_machine_as_test(machine(make, few), settings=steps(SEQUENCES))
