"""What the tests with many drawn cases in one frame rely on."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from tests import drawn
from tests.reference import Event

NUMBERS = st.integers(0, 10**12)


def test_as_many_cases_as_wanted_and_the_same_at_each_call() -> None:
    cases = drawn.cases(NUMBERS, 100)
    assert len(cases) == 100
    assert drawn.cases(NUMBERS, 100) is cases
    # Half of them are from a seed that never changes.
    assert drawn.cases(st.integers(0, 10**12), 100)[:50] == cases[:50]


def test_keys_say_which_case_they_are_of() -> None:
    events = drawn.apart([[Event("a", 1)], [], [Event("a:b", 2), Event(None, 3)]])
    assert [e.key for e in events] == ["0:a", "2:a:b", None]
    assert [drawn.number(e.key) for e in events if e.key is not None] == [0, 2]


@pytest.mark.parametrize(
    "found", [{"0:a": 1, "1:a": 3}, {"0:a": 1}, {"0:a": 1, "1:a": 2, "2:a": 0}]
)
def test_what_differs_is_told_with_its_case(found: dict[str, int]) -> None:
    cases = ["one", "two", "three"]
    with pytest.raises(AssertionError, match=r"in the case (two|three)\n.*BACKFILL_SEED=\d+"):
        drawn.check(found, {"0:a": 1, "1:a": 2}, case=lambda key: cases[drawn.number(key)])


def test_what_is_alike_passes() -> None:
    drawn.check({"0:a": 1.0}, {"0:a": 1}, case=str)
