"""The aggregates in plain Python: values, NULLs, NaN, and merging in any way."""

from __future__ import annotations

import math
import statistics
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill.replay.forms import FORMS, form

NAN = math.nan
numbers = st.lists(st.one_of(st.none(), st.integers(-1000, 1000)), max_size=12)


def folded(name: str, values: list[Any]) -> Any:
    how = form(name)
    state = how.start()
    for place, value in enumerate(values):
        if value is not None or how.sees_nulls:
            state = how.add(state, value, (place, place))
    return state


def value(name: str, values: list[Any]) -> Any:
    return form(name).finish(folded(name, values))


EMPTY = {"count": 0, "count_distinct": 0, "funnel": 0, "path(2)": []}
#: The aggregates of plain values.
NAMES = [*(name for name in FORMS if name != "funnel"), "path(2)"]


@pytest.mark.parametrize("name", [*NAMES, "funnel"])
def test_of_nothing(name: str) -> None:
    assert value(name, []) == EMPTY.get(name)
    assert value(name, [None]) == EMPTY.get(name)


@given(numbers)
def test_values(values: list[int | None]) -> None:
    some = [number for number in values if number is not None]
    assert value("count", values) == len(some)
    assert value("sum", values) == (sum(some) if some else None)
    assert value("min", values) == min(some, default=None)
    assert value("max", values) == max(some, default=None)
    assert value("count_distinct", values) == len(set(some))
    assert value("mean", values) == (sum(some) / len(some) if some else None)
    assert value("first", values) == (values[0] if values else None)
    assert value("last", values) == (values[-1] if values else None)
    if len(some) > 1:
        assert value("variance", values) == pytest.approx(statistics.variance(some), abs=1e-9)
        assert value("stddev", values) == pytest.approx(statistics.stdev(some), abs=1e-6)
    else:
        assert value("variance", values) is None
        assert value("stddev", values) is None


@pytest.mark.parametrize("name", NAMES)
@given(values=numbers, cut=st.integers(0, 12))
def test_merging_two_parts_is_the_whole(name: str, values: list[Any], cut: int) -> None:
    how = form(name)
    left, right = folded(name, values[:cut]), how.start()
    for place, number in enumerate(values[cut:], len(values[:cut])):
        if number is not None or how.sees_nulls:
            right = how.add(right, number, (place, place))
    kept = how.finish(how.copy(left))
    copied = how.copy(left)
    assert how.finish(how.merge(copied, right)) == pytest.approx(value(name, values))
    assert how.finish(left) == kept  # the copy was merged, not the original


def test_types_are_kept() -> None:
    assert value("sum", [2**70, 1]) == 2**70 + 1
    assert value("sum", [Decimal("0.1"), Decimal("0.2")]) == Decimal("0.3")
    assert value("sum", [0.1, 0.2]) == 0.1 + 0.2
    assert value("mean", [Decimal(1), Decimal(2)]) == Decimal("1.5")
    assert str(value("mean", [Decimal(1), Decimal(0), Decimal(0)])) == "0." + "3" * 38
    assert value("max", ["b", "a"]) == "b"
    assert value("count_distinct", [[1], [1], {"a": 1}, {"a": 1}, 0.0, -0.0, (2,)]) == 4


@given(st.permutations(["1E28", "-1E28", "0.01", "12345678901234567890123456.1234567890"]))
def test_decimals_are_added_to_the_last_digit(order: list[str]) -> None:
    values = [Decimal(text) for text in order]
    total = "12345678901234567890123456.133456789"
    assert value("sum", values) == Decimal(total)
    left, right = (folded("sum", part) for part in (values[:2], values[2:]))
    assert FORMS["sum"].merge(left, right) == Decimal(total)
    assert value("mean", values) == Decimal("3086419725308641972530864.03336419725")


def test_values_that_hold_others_are_put_in_order() -> None:
    arrays = [[1, 2], [1, None], [1], [2], [1, NAN]]
    assert value("min", arrays) == [1]
    assert value("max", arrays) == [2]
    assert value("max", arrays[:3]) == [1, 2]
    assert value("min", arrays[:2]) == [1, None]
    assert str(value("max", [arrays[0], arrays[4]])) == "[1, nan]"
    structs = [{"a": 1, "b": None}, {"a": 1, "b": "x"}, {"a": None, "b": "z"}]
    assert value("min", structs) == structs[2]
    assert value("max", structs) == structs[1]
    assert value("count_distinct", [bytearray(b"a"), b"a", b"b"]) == 2


def test_nan_is_the_largest_and_one_value() -> None:
    for order in ([NAN, 1.0], [1.0, NAN]):
        assert value("min", order) == 1.0
        assert math.isnan(value("max", order))
        assert math.isnan(value("sum", order))
        assert math.isnan(value("mean", order))
    assert value("count_distinct", [NAN, float("nan"), 1.0]) == 2
    assert math.isnan(value("min", [NAN]))


def test_first_and_last_are_by_time_then_arrival() -> None:
    form = FORMS["first"]
    state = form.start()
    for place, letter in [((5, 0), "b"), ((3, 2), None), ((3, 1), "a"), ((9, 3), "z")]:
        state = form.add(state, letter, place)
    assert form.finish(state) == "a"
    state = FORMS["last"].start()
    for place, letter in [((5, 1), "b"), ((5, 2), None), ((3, 3), "a")]:
        state = FORMS["last"].add(state, letter, place)
    assert FORMS["last"].finish(state) is None


@given(st.lists(st.one_of(st.none(), st.just(NAN), st.floats(-3, 3)), min_size=1, max_size=5))
def test_first_and_last_in_one_place_are_by_value(values: list[float | None]) -> None:
    def rank(value: float | None) -> tuple[int, float]:
        return (0, 0.0) if value is None else (2, 0.0) if value != value else (1, value)

    for name, pick in (("first", min), ("last", max)):
        state = FORMS[name].start()
        for number in values:
            state = FORMS[name].add(state, number, (7, 7))
        assert rank(FORMS[name].finish(state)) == rank(pick(values, key=rank))


def reached(steps: int, events: list[list[bool]]) -> int:
    """How many of the steps, from the first one, are found among the events in their order."""
    count = 0
    rest = iter(events)
    while count < steps and any(event[count] for event in rest):
        count += 1
    return count


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), max_size=8), st.integers(0, 8))
def test_a_funnel_is_reached_step_by_step(events: list[list[bool]], cut: int) -> None:
    assert value("funnel", events) == reached(3, events)
    how, right = form("funnel"), form("funnel").start()
    for place, event in enumerate(events[cut:], len(events[:cut])):
        right = how.add(right, event, (place, place))
    # Merging works in either order: a place says where an event belongs.
    assert how.finish(how.merge(right, folded("funnel", events[:cut]))) == reached(3, events)


def test_of_visits() -> None:
    assert value("path(2)", ["a", None, "b", "a"]) == ["a", "b"]
    assert value("duration", [1, 1, 1]) == 0.000002
    assert value("bounce", [1]) is True
    assert value("bounce", [1, 1]) is False
