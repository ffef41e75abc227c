"""Doubles are alike within the stated bound, and not beyond it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill import aggregates as agg
from backfill.reconciliation.explaining.doubles import Doubles, same_rows
from backfill.reconciliation.rows import Row, same_value
from backfill.replay import Event

ALL = {"total": agg.sum("x"), "mean": agg.mean("x")}
FINITE = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.lists(
    st.one_of(
        FINITE,
        st.floats(-1e9, 1e9),
        st.sampled_from([0.0, -0.0, 5e-324, -5e-324, 2.0**-1022, 1.7976931348623157e308]),
    ),
    min_size=1,
    max_size=6,
)


def doubles(values: Sequence[float], name: str, **closed: str) -> Doubles:
    events = [
        Event(key="a", time=i, arrival=i, value={"x": value}) for i, value in enumerate(values)
    ]
    return Doubles(events, {name: ALL[name]}, 1, **closed)  # type: ignore[arg-type]


def bound(values: Sequence[float], name: str) -> Fraction:
    """The stated bound, as a fraction."""
    count, unit = len(values), Fraction(1, 2**53)
    absolute = sum(abs(Fraction(value)) for value in values)
    most = count * unit * absolute
    return most if name == "total" else most / count + unit * most


@settings(max_examples=3_000)
@given(VALUES, st.sampled_from(["total", "mean"]), FINITE, st.integers(-4, 4), st.booleans())
def test_just_inside_and_just_outside(
    values: list[float], name: str, at: float, steps: int, around: bool
) -> None:
    # One value is what the events make, or any; the other is about the bound away from it.
    one = at
    if around:
        try:
            one = math.fsum(values) / (len(values) if name == "mean" else 1)
        except OverflowError:
            one = at
    most = bound(values, name)
    try:
        other = float(Fraction(one) + most)
    except OverflowError:
        other = math.inf
    for _ in range(abs(steps)):
        other = math.nextafter(other, math.copysign(math.inf, steps))
    rows = [Row(0, len(values) - 1, {name: value}) for value in (one, other)]
    within = math.isfinite(other) and abs(Fraction(one) - Fraction(other)) <= most
    assert same_rows(*rows, doubles(values, name)) == (one == other or within)


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (0.0, -0.0, True),
        (math.nan, math.nan, True),
        (math.nan, 0.0, False),
        (math.inf, math.inf, True),
        (math.inf, -math.inf, False),
        (math.inf, 1.7976931348623157e308, False),
        (1_234_567_890.12, 1_234_567_890.13, False),
        (None, 0.0, False),
        (None, None, True),
    ],
)
def test_what_is_no_ordinary_number(one: float | None, other: float | None, alike: bool) -> None:
    events = doubles([1_234_567_890.12, math.inf, math.nan], "total")
    rows = [Row(0, 2, {"total": value}) for value in (one, other)]
    assert same_rows(*rows, events) is alike
    assert same_value(one, other) is alike


def test_an_event_at_a_bound_that_is_not_the_windows_widens_nothing() -> None:
    rows = [Row(1, 2, {"total": value}) for value in (1.0, 1.0 + 2**-52)]
    # Of the events at 0, 1 and 2 only that at 1 is in [1, 2), only that at 2 in (1, 2].
    for closed, alike in (("left", False), ("right", False), ("both", True)):
        assert same_rows(*rows, doubles([1e9, 1.0, 1.0], "total", closed=closed)) is alike
