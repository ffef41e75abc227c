"""Which aligned windows hold an instant, against a walk over all dates and starts."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill import CumulatingWindow, HoppingWindow, TumblingWindow
from backfill.alignment import assigner
from backfill.engines import ENGINES
from tests.reference import (
    add_months,
    calendar,
    cumulating,
    growing_hours,
    hopping,
    local,
    local_hours,
)

HOUR = 3_600_000_000
DAY = 24 * HOUR
Windows = Callable[[int], list[tuple[int, int]]]
near = st.builds(
    lambda n, fine: n * HOUR // 2 + fine, st.integers(-99, 99), st.sampled_from([-1000, -1, 0, 1])
)


@given(
    near,
    st.integers(1, 12),
    st.integers(1, 12),
    st.integers(-7, 7),
    st.booleans(),
)
def test_fixed_windows(t: int, size: int, advance: int, offset: int, right: bool) -> None:
    window = HoppingWindow(size=f"{size}h", advance=f"{advance}h", offset=f"{offset * 10}m")
    tick = 1_000 if right else 1
    # Storm's windows end, rather than start, at multiples of the slide.
    begin = offset * HOUR // 6 - (size * HOUR if right else 0)
    t -= t % tick
    rules = ENGINES["storm" if right else "plain"].rules
    expected = hopping(size * HOUR, advance * HOUR, begin, right=tick if right else 0)(t)
    assert assigner(window, rules, tick=tick)(t) == expected


def test_storms_windows_end_at_multiples_of_the_slide() -> None:
    window = HoppingWindow(size="10ms", advance="20ms")
    windows = assigner(window, ENGINES["storm"].rules, tick=1_000)
    by_time = {t: windows(t * 1_000) for t in (10, 11, 15, 20, 21, 45, -5, 0)}
    assert {t: bounds for t, bounds in by_time.items() if bounds} == {
        11: [(10_000, 20_000)],
        15: [(10_000, 20_000)],
        20: [(10_000, 20_000)],
        -5: [(-10_000, 0)],
        0: [(-10_000, 0)],
    }


@given(near.filter(lambda t: t >= 0), st.integers(1, 12), st.integers(1, 12))
def test_clipped_at_the_epoch(t: int, size: int, advance: int) -> None:
    window = HoppingWindow(size=f"{size}h", advance=f"{advance}h")
    expected = hopping(size * HOUR, advance * HOUR, clipped=True)(t)
    assert assigner(window, ENGINES["kafka-streams"].rules)(t) == expected


@given(near, st.integers(-40, 40))
def test_cumulating_windows(t: int, offset: int) -> None:
    window = CumulatingWindow(size="6h", step="2h", offset=f"{offset * 10}m")
    assert assigner(window)(t) == cumulating(6 * HOUR, 2 * HOUR, offset * HOUR // 6)(t)


ZONES = {
    "America/St_Johns": [dt.date(2006, 10, 29), dt.date(2007, 4, 1)],
    "Australia/Lord_Howe": [dt.date(2024, 4, 7), dt.date(2024, 10, 6)],
    "America/Sao_Paulo": [dt.date(2018, 11, 4), dt.date(2018, 2, 18)],
    "Europe/Berlin": [dt.date(2024, 3, 31), dt.date(2024, 10, 27), dt.date(1969, 12, 31)],
    # Changes of three and of 23 hours back and of two, and a date that was left out.
    "Antarctica/Casey": [dt.date(2010, 3, 5)],
    "Pacific/Kwajalein": [dt.date(1969, 10, 1)],
    "Antarctica/Troll": [dt.date(2023, 3, 26), dt.date(2023, 10, 29)],
    "Pacific/Apia": [dt.date(2011, 12, 29), dt.date(2011, 12, 31)],
    "UTC": [dt.date(1970, 1, 1)],
}
CALENDARS: dict[str, tuple[Any, Callable[[str], Windows]]] = {
    "days": (TumblingWindow(size="1 day"), lambda z: calendar(z, (1, "day"))),
    "days from six": (
        TumblingWindow(size="1 day", offset="6h"),
        lambda z: calendar(z, (1, "day"), offset=6 * HOUR),
    ),
    "three days": (TumblingWindow(size="3 days"), lambda z: calendar(z, (3, "day"))),
    "weeks": (TumblingWindow(size="1 week"), lambda z: calendar(z, (1, "week"))),
    "quarters": (TumblingWindow(size="3 months"), lambda z: calendar(z, (3, "month"))),
    "quarters from february": (
        TumblingWindow(size="3 months", phase="1 month"),
        lambda z: calendar(z, (3, "month"), phase=1),
    ),
    "years from the sixth of april": (
        TumblingWindow(size="1 year", phase="3 months", offset="5d"),
        lambda z: calendar(z, (12, "month"), offset=5 * DAY, phase=3),
    ),
    "years by quarters": (
        HoppingWindow(size="1 year", advance="3 months", phase="2 months"),
        lambda z: calendar(z, (12, "month"), (3, "month"), phase=2),
    ),
    "weeks by days": (
        HoppingWindow(size="1 week", advance="1 day"),
        lambda z: calendar(z, (1, "week"), (1, "day")),
    ),
    "local hours": (TumblingWindow(size="6 local hours"), lambda z: local_hours(z, 6)),
    "every local hour": (TumblingWindow(size="1 local hour"), lambda z: local_hours(z, 1)),
    "shifts from six": (
        TumblingWindow(size="8 local hours", offset="6h"),
        lambda z: local_hours(z, 8, offset=6 * HOUR),
    ),
    "local hours by hours": (
        HoppingWindow(size="9 local hours", advance="6 local hours"),
        lambda z: local_hours(z, 9, 6),
    ),
    "days that grow by local hours": (
        CumulatingWindow(size="1 day", step="1 local hour"),
        growing_hours,
    ),
    "days by local hours": (
        HoppingWindow(size="1 day", advance="4 local hours"),
        lambda z: local_hours(z, 24, 4),
    ),
    "months by weeks": (
        HoppingWindow(size="1 month", advance="1 week"),
        lambda z: calendar(z, (1, "month"), (1, "week")),
    ),
}


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("name", CALENDARS)
@given(data=st.data())
def test_calendars(name: str, zone: str, data: st.DataObject) -> None:
    window, expected = CALENDARS[name]
    date = data.draw(st.sampled_from(ZONES[zone])) + dt.timedelta(data.draw(st.integers(-1, 2)))
    t = local(zone, date) + data.draw(st.integers(-150, 150)) * 60_000_000
    t -= data.draw(st.integers(0, 1))
    assert assigner(window, zone=zone)(t) == expected(zone)(t)


@pytest.mark.parametrize("offset", [0, -3, 6])
@pytest.mark.parametrize("zone", ZONES)
@given(data=st.data())
def test_steps_of_a_day_count_from_its_start_and_the_last_is_cut(
    zone: str, offset: int, data: st.DataObject
) -> None:
    date = data.draw(st.sampled_from(ZONES[zone]))
    t = local(zone, date) + data.draw(st.integers(-1_500, 1_500)) * 60_000_000
    [(start, last)] = calendar(zone, (1, "day"), offset=offset * HOUR)(t)
    ends = sorted({min(start + n * 7 * HOUR, last) for n in range(1, 8)})
    expected = [(start, end) for end in ends if t < end]
    window = CumulatingWindow(size="1 day", step="7h", offset=f"{offset}h")
    assert assigner(window, zone=zone)(t) == expected


def test_a_month_grows_by_weeks_from_its_first_day() -> None:
    zone = "Europe/Berlin"
    window = CumulatingWindow(size="1 month", step="1 week")
    for day in (1, 7, 8, 29, 31):
        t = local(zone, dt.date(2024, 3, day))
        ends = [local(zone, dt.date(2024, 3, end_day)) for end_day in (8, 15, 22, 29)]
        ends.append(local(zone, dt.date(2024, 4, 1)))
        start = local(zone, dt.date(2024, 3, 1))
        assert assigner(window, zone=zone)(t) == [(start, end) for end in ends if t < end]


def test_months_of_months() -> None:
    # Two-month windows that advance by a month, over the end of a year and of February.
    zone = "UTC"
    window = HoppingWindow(size="2 months", advance="1 month")
    t = local(zone, dt.date(2023, 12, 31))
    firsts = [dt.date(2023, 11, 1), dt.date(2023, 12, 1)]
    expected = [(local(zone, d), local(zone, add_months(d, 2))) for d in firsts]
    assert assigner(window, zone=zone)(t) == expected
