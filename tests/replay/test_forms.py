"""The aggregates in plain Python: values, NULLs, NaN, and merging in any way."""

from __future__ import annotations

import math
import statistics
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill.replay.forms import FORMS

NAN = math.nan
numbers = st.lists(st.one_of(st.none(), st.integers(-1000, 1000)), max_size=12)


def folded(name: str, values: list[Any]) -> Any:
    form = FORMS[name]
    state = form.start()
    for place, value in enumerate(values):
        if value is not None or form.sees_nulls:
            state = form.add(state, value, (place, place))
    return state


def value(name: str, values: list[Any]) -> Any:
    return FORMS[name].finish(folded(name, values))


@pytest.mark.parametrize("name", FORMS)
def test_of_nothing(name: str) -> None:
    assert value(name, []) == (0 if name.startswith("count") else None)
    assert value(name, [None]) == (0 if name.startswith("count") else None)


@given(numbers)
def test_values(values: list[int | None]) -> None:
    some = [each for each in values if each is not None]
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


@pytest.mark.parametrize("name", FORMS)
@given(values=numbers, cut=st.integers(0, 12))
def test_merging_two_parts_is_the_whole(name: str, values: list[Any], cut: int) -> None:
    form = FORMS[name]
    left, right = folded(name, values[:cut]), form.start()
    for place, each in enumerate(values[cut:], len(values[:cut])):
        if each is not None or form.sees_nulls:
            right = form.add(right, each, (place, place))
    kept = form.finish(form.copy(left))
    copied = form.copy(left)
    assert form.finish(form.merge(copied, right)) == pytest.approx(value(name, values))
    assert form.finish(left) == kept  # the copy was merged, not the original


def test_types_are_kept() -> None:
    assert value("sum", [2**70, 1]) == 2**70 + 1
    assert value("sum", [Decimal("0.1"), Decimal("0.2")]) == Decimal("0.3")
    assert value("sum", [0.1, 0.2]) == 0.1 + 0.2
    assert value("mean", [Decimal(1), Decimal(2)]) == Decimal("1.5")
    assert str(value("mean", [Decimal(1), Decimal(0), Decimal(0)])) == "0." + "3" * 38
    assert value("max", ["b", "a"]) == "b"
    assert value("count_distinct", [[1], [1], {"a": 1}, {"a": 1}, 0.0, -0.0, (2,)]) == 4


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
    for place, each in [((5, 0), "b"), ((3, 2), None), ((3, 1), "a"), ((9, 3), "z")]:
        state = form.add(state, each, place)
    assert form.finish(state) == "a"
    state = FORMS["last"].start()
    for place, each in [((5, 1), "b"), ((5, 2), None), ((3, 3), "a")]:
        state = FORMS["last"].add(state, each, place)
    assert FORMS["last"].finish(state) is None
