"""How far an event reaches, against plain Python: no row further away changes, or needs it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill import CountWindow, SlidingWindow
from backfill.kinds.reach import Reach, reach_of
from tests import reference
from tests.reference import Event
from tests.reference_counts import held, in_order

WINDOWS = [
    SlidingWindow(size="3us"),
    SlidingWindow(size="3us", before=True),
    SlidingWindow(size="2us", following="4us"),
    SlidingWindow(size=None),
    SlidingWindow(size=None, following="2us"),
    SlidingWindow(size="3us", distinct=True),
]
EVENTS = st.lists(st.integers(-20, 20), max_size=12)


def rows(times: list[int], window: SlidingWindow) -> Counter[Any]:
    """Where each row stands, and how many events it holds."""
    events = [Event("a", time) for time in times]
    if window.distinct:
        assert window.size is not None
        windows = reference.distinct_windows(events, window.size.us)
        return Counter((end, len(own)) for (_, end), own in windows.items())
    back = None if window.size is None else window.size.us
    ahead = 0 if window.following is None else window.following.us
    pairs = reference.surrounding(events, back, ahead, before=window.before)
    return Counter((e.time, len(own)) for e, own in pairs)


COUNTS = [
    CountWindow(size=3, order="time"),
    CountWindow(size=3, advance=3, order="time"),
    CountWindow(size=5, advance=2, order="time"),
    CountWindow(size=None, advance=2, order="time"),
    CountWindow(size=3, advance="4us", order="time"),
    CountWindow(size="6us", advance=2, order="time"),
]


@pytest.mark.parametrize("rest", [True, False])
@pytest.mark.parametrize("window", COUNTS, ids=str)
@given(times=EVENTS, changed=st.integers(-20, 20))
def test_only_count_windows_within_reach_change(
    window: CountWindow, rest: bool, times: list[int], changed: int
) -> None:
    reach = reach_of(window, 1, rest=rest)
    before, after = (counted(instants, window, rest) for instants in (times, [*times, changed]))
    for row in (before - after) + (after - before):
        assert inside(row[0], reach.rows((changed, changed + 1)))


def counted(times: list[int], window: CountWindow, rest: bool) -> Counter[Any]:
    """Where each row stands, and the numbers and times of its events."""
    own = in_order([Event("a", time) for time in times], "time")
    windows = [places for places in held(own, window, rest=rest) if places]
    return Counter(
        (own[places[-1]].time, *((i, own[i].time) for i in places)) for places in windows
    )


def inside(at: int, span: tuple[int | None, int | None]) -> bool:
    low, high = span
    return (low is None or at >= low) and (high is None or at < high)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@given(times=EVENTS, changed=st.integers(-20, 20))
def test_only_rows_within_reach_change(
    window: SlidingWindow, times: list[int], changed: int
) -> None:
    reach = reach_of(window, 1)
    before, after = rows(times, window), rows([*times, changed], window)
    for at, _ in (before - after) + (after - before):
        assert inside(at, reach.rows((changed, changed + 1)))


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@given(times=EVENTS, low=st.integers(-20, 20), length=st.integers(1, 9))
def test_rows_need_only_events_within_reach(
    window: SlidingWindow, times: list[int], low: int, length: int
) -> None:
    span = (low, low + length)
    needed = [time for time in times if inside(time, reach_of(window, 1).events(span))]
    every, own = rows(times, window), rows(needed, window)
    assert {row: n for row, n in every.items() if inside(row[0], span)} == {
        row: n for row, n in own.items() if inside(row[0], span)
    }


def test_reach() -> None:
    assert reach_of(SlidingWindow(size="1h"), 1_000) == Reach(0, 3_600_000_000)
    assert reach_of(SlidingWindow(size="1ms", distinct=True), 1_000) == Reach(0, 2_000)
    assert reach_of(CountWindow(size=5, order="time"), 1_000) == Reach(0, None)
    # By arrival, a late event can have any number.
    assert reach_of(CountWindow(size=5), 1_000) == Reach(None, None)
    tumbling = CountWindow(size=5, advance=5, order="time")
    assert reach_of(tumbling, 1_000) == Reach(None, None)
    assert reach_of(tumbling, 1_000, rest=False) == Reach(0, None)
    assert Reach(None, None).rows((10, 20)) == (None, None)
    assert Reach(1, None).rows((10, 20)) == (9, None)
    assert Reach(1, None).events((10, 20)) == (None, 21)
    assert Reach(1, 2).rows((None, 20)) == (None, 22)
