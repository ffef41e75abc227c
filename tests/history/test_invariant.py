"""Invariant 1: after any sequence of runs the tables are what a full rebuild would give.

Of the events that are counted, restricted to the windows that start on covered dates.
"""

from __future__ import annotations

import itertools
from pathlib import Path

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

from tests.history.world import GAP, WINDOWS, World, at
from tests.reference import Event

DAYS = 4
#: Around midnights, and around multiples of the gap: where something can go wrong.
TIMES = st.builds(
    lambda day, gaps, off: at(day) + gaps * GAP + off,
    st.integers(0, DAYS - 1),
    st.sampled_from([0, 1, 2, 24, 46, 47]),
    st.sampled_from([-1, 0, 1, GAP // 2]),
)
EVENTS = st.lists(
    st.builds(
        Event,
        st.sampled_from(["a", "b", "c", None]),
        TIMES,
        st.one_of(st.none(), st.integers(-3, 3)),
        st.sampled_from(["1", "2", None]),
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.slow
@pytest.mark.parametrize("with_id", [False, True])
def test_any_sequence_of_runs(spark: SparkSession, tmp_path: Path, with_id: bool) -> None:
    worlds = (tmp_path / str(number) for number in itertools.count())

    class Runs(RuleBasedStateMachine):
        @initialize(events=EVENTS)
        def begin(self, events: list[Event]) -> None:
            self.world = World(next(worlds), spark, with_id, windows=WINDOWS, gate=True)
            self.world.write("0", [*events, Event("a", at(1, 12), 1, "9")])

        @rule(events=EVENTS)
        def arrive(self, events: list[Event]) -> None:
            self.world.write(str(len(self.world.files)), events)

        @rule(low=st.integers(-1, DAYS), length=st.integers(1, 3))
        def run(self, low: int, length: int) -> None:
            self.world.run(low, low + length)
            if self.world.published:
                self.world.check()

        @precondition(lambda self: self.world.published)
        @rule()
        def recompute(self) -> None:
            self.world.recompute()
            self.world.check()

        @rule()
        def run_all(self) -> None:
            self.world.run_all()
            self.world.check()

    machine = settings(max_examples=2, stateful_step_count=6, deadline=None)
    run_state_machine_as_test(Runs, settings=machine)
