"""Tumbling, hopping and cumulating windows against plain Python, calendars and engines included."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from backfill import CumulatingWindow, HoppingWindow, TumblingWindow, aggregate
from backfill import aggregates as agg
from backfill.alignment import assigner
from backfill.windows import Window
from tests import drawn, reference
from tests.event_frames import frame, rows
from tests.reference import (
    Event,
    add_months,
    calendar,
    cumulating,
    growing_hours,
    hopping,
    local,
    local_hours,
)

COMMON = {"key": "key", "time": "time", "time_format": "epoch_us"}
HOUR = 3_600_000_000
Windows = Callable[[int], list[tuple[int, int]]]

near_boundaries = drawn.few_or_many(
    st.builds(
        lambda n, fine: n * HOUR // 2 + fine,
        st.integers(-60, 60),
        st.sampled_from([-1000, -1, 0, 1]),
    )
)
#: How many cases are given, besides one time that is NULL.
GIVEN = pytest.mark.parametrize("count", [0, 80])


def near(count: int) -> list[list[int]]:
    return drawn.cases(near_boundaries, count) if count else [[]]


def check(
    spark: SparkSession,
    window: Window,
    windows: Windows,
    cases: list[list[int]],
    *,
    keep: Callable[[int], bool] = lambda t: True,
    tick: int = 1,
    **options: Any,
) -> None:
    """Compare all cases in one frame, each under two keys of its own."""
    events = drawn.apart([Event("ab"[i % 2], t, i) for i, t in enumerate(times)] for times in cases)
    result = aggregate(
        frame(spark, [*events, Event("0:a", None, 1)]),
        window,
        aggregates={"n": agg.count(), "total": agg.sum("value")},
        **COMMON,
        **options,
    )
    used = [e for e in reference.usable(events, tick=tick) if keep(e.time)]
    expected = Counter(
        (*place, len(held), sum(e.value for e in held))
        for place, held in reference.grouped(used, windows).items()
    )
    counts = Counter(rows(result))
    drawn.check(counts, expected, case=lambda row: cases[drawn.number(row[0])])


FIXED: dict[str, tuple[Window, Windows]] = {
    "tumbling": (TumblingWindow(size="1h"), hopping(HOUR, HOUR)),
    "offset": (TumblingWindow(size="1h", offset="-20m"), hopping(HOUR, HOUR, -HOUR // 3)),
    # From here on windows overlap: those of a block stand side by side.
    "hopping": (HoppingWindow(size="4h", advance="1h"), hopping(4 * HOUR, HOUR)),
    "uneven": (HoppingWindow(size="100m", advance="1h"), hopping(100 * HOUR // 60, HOUR)),
    "hopping offset": (
        HoppingWindow(size="2h", advance="30m", offset="5m"),
        hopping(2 * HOUR, HOUR // 2, HOUR // 12),
    ),
    "many": (HoppingWindow(size="12h", advance="1h"), hopping(12 * HOUR, HOUR)),
    "many uneven": (HoppingWindow(size="9h", advance="50m"), hopping(9 * HOUR, HOUR * 5 // 6)),
    "many offset": (
        HoppingWindow(size="5h", advance="30m", offset="-7m"),
        hopping(5 * HOUR, HOUR // 2, -7 * 60_000_000),
    ),
    # Too many of these overlap for that: running aggregates over blocks.
    "most": (HoppingWindow(size="24h", advance="1h"), hopping(24 * HOUR, HOUR)),
    "most uneven": (HoppingWindow(size="23h", advance="50m"), hopping(23 * HOUR, HOUR * 5 // 6)),
    "most offset": (
        HoppingWindow(size="15h", advance="30m", offset="-7m"),
        hopping(15 * HOUR, HOUR // 2, -7 * 60_000_000),
    ),
    "cumulating": (CumulatingWindow(size="6h", step="1h"), cumulating(6 * HOUR, HOUR)),
    "cumulating offset": (
        CumulatingWindow(size="6h", step="2h", offset="-25m"),
        cumulating(6 * HOUR, 2 * HOUR, -25 * HOUR // 60),
    ),
    "days of UTC": (TumblingWindow(size="1 day"), calendar("UTC", (1, "day"))),
    "weeks of UTC": (TumblingWindow(size="1 week"), calendar("UTC", (1, "week"))),
}


@GIVEN
@pytest.mark.parametrize("name", FIXED)
def test_windows_of_fixed_length(spark: SparkSession, name: str, count: int) -> None:
    check(spark, *FIXED[name], near(count))


@GIVEN
@pytest.mark.parametrize("hours", [4, 11, 23])
def test_kafka_streams_clips_at_the_epoch(spark: SparkSession, hours: int, count: int) -> None:
    check(
        spark,
        HoppingWindow(size=f"{hours}h", advance="1h"),
        hopping(hours * HOUR, HOUR, clipped=True),
        near(count),
        keep=lambda t: t >= 0,
        tick=1_000,
        engine="kafka-streams",
    )


#: Size and slide in minutes: the slide divides the size, or does not, or is larger.
@GIVEN
@pytest.mark.parametrize(("size", "slide"), [(240, 60), (660, 60), (100, 60), (20, 60), (555, 50)])
def test_storms_windows_are_closed_and_aligned_on_the_right(
    spark: SparkSession, size: int, slide: int, count: int
) -> None:
    minute = HOUR // 60
    check(
        spark,
        HoppingWindow(size=f"{size}m", advance=f"{slide}m"),
        hopping(size * minute, slide * minute, -size * minute, right=1_000),
        near(count),
        tick=1_000,
        engine="storm",
    )


@GIVEN
def test_flink_leaves_gaps_where_the_advance_is_larger(spark: SparkSession, count: int) -> None:
    check(
        spark,
        HoppingWindow(size="1h", advance="3h"),
        hopping(HOUR, 3 * HOUR),
        near(count),
        tick=1_000,
        engine="flink",
    )


ZONES = {
    # Midnight twice (clocks go back at 00:01), a half-hour change, midnight missing, plain DST.
    "America/St_Johns": [dt.date(2006, 10, 29), dt.date(2007, 4, 1)],
    "Australia/Lord_Howe": [dt.date(2024, 4, 7), dt.date(2024, 10, 6)],
    "America/Sao_Paulo": [dt.date(2018, 11, 4), dt.date(2018, 2, 18)],
    "Europe/Berlin": [dt.date(2024, 3, 31), dt.date(2024, 10, 27), dt.date(1969, 12, 31)],
    # Three hours back, two hours at once, and a date that was left out.
    "Antarctica/Casey": [dt.date(2010, 3, 5)],
    "Antarctica/Troll": [dt.date(2023, 3, 26), dt.date(2023, 10, 29)],
    "Pacific/Apia": [dt.date(2011, 12, 29), dt.date(2011, 12, 31)],
}

CALENDAR: dict[str, tuple[Window, Callable[[str], Windows]]] = {
    "days": (TumblingWindow(size="1 day"), lambda zone: calendar(zone, (1, "day"))),
    "days from six": (
        TumblingWindow(size="1 day", offset="6h"),
        lambda zone: calendar(zone, (1, "day"), offset=6 * HOUR),
    ),
    "three days": (TumblingWindow(size="3 days"), lambda zone: calendar(zone, (3, "day"))),
    "weeks": (TumblingWindow(size="P1W"), lambda zone: calendar(zone, (1, "week"))),
    "quarters": (TumblingWindow(size="3 months"), lambda zone: calendar(zone, (3, "month"))),
    "weeks by days": (
        HoppingWindow(size="1 week", advance="1 day"),
        lambda zone: calendar(zone, (1, "week"), (1, "day")),
    ),
    "every local hour": (TumblingWindow(size="1 local hour"), lambda zone: local_hours(zone, 1)),
    "local hours by hours": (
        HoppingWindow(size="9 local hours", advance="6 local hours", offset="-1h"),
        lambda zone: local_hours(zone, 9, 6, offset=-HOUR),
    ),
    "days that grow by local hours": (
        CumulatingWindow(size="1 day", step="1 local hour"),
        growing_hours,
    ),
    "days by local hours": (
        HoppingWindow(size="1 day", advance="4 local hours"),
        lambda zone: local_hours(zone, 24, 4),
    ),
    "months by weeks": (
        HoppingWindow(size="1 month", advance="1 week"),
        lambda zone: calendar(zone, (1, "month"), (1, "week")),
    ),
}


def near_changes(zone: str) -> st.SearchStrategy[list[int]]:
    """Instants around the midnights of days on which the zone's clocks change."""
    days = st.builds(
        lambda date, days: date + dt.timedelta(days=days),
        st.sampled_from(ZONES[zone]),
        st.integers(-1, 2),
    )
    instants = st.builds(
        lambda date, minutes, fine: local(zone, date) + minutes * 60_000_000 + fine,
        days,
        st.integers(-150, 150),
        st.sampled_from([-1, 0]),
    )
    return drawn.few_or_many(instants)


NEAR_CHANGES = {zone: near_changes(zone) for zone in ZONES}


def near_changes_of(zone: str) -> list[list[int]]:
    return drawn.cases(NEAR_CHANGES[zone], 80)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("name", CALENDAR)
def test_windows_of_a_calendar(spark: SparkSession, name: str, zone: str) -> None:
    window, windows = CALENDAR[name]
    check(spark, window, windows(zone), near_changes_of(zone), timezone=zone)


@pytest.mark.parametrize("name", CALENDAR)
def test_no_events_make_no_windows_of_a_calendar(spark: SparkSession, name: str) -> None:
    window, windows = CALENDAR[name]
    zone = "Europe/Berlin"
    check(spark, window, windows(zone), [[]], timezone=zone)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize(("step", "offset"), [("1h", 0), ("7h", 6)])
def test_steps_of_a_day_count_from_its_start_and_the_last_is_cut(
    spark: SparkSession, zone: str, step: str, offset: int
) -> None:
    days = calendar(zone, (1, "day"), offset=offset * HOUR)
    width = int(step[:-1]) * HOUR

    def windows(t: int) -> list[tuple[int, int]]:
        [(start, last)] = days(t)
        ends = {min(start + n * width, last) for n in range(1, 29)}
        return [(start, end) for end in ends if t < end]

    window = CumulatingWindow(size="1 day", step=step, offset=f"{offset}h")
    check(spark, window, windows, near_changes_of(zone), timezone=zone)


@pytest.mark.parametrize("zone", ["America/Sao_Paulo", "Europe/Berlin"])
def test_a_day_grows_by_local_hours(spark: SparkSession, zone: str) -> None:
    windows = growing_hours(zone, 5)
    times = [
        local(zone, date + dt.timedelta(days=day)) + half * HOUR // 2 + fine
        for date in ZONES[zone]
        for day in (-1, 0)
        for half in range(50)
        for fine in (-1, 0)
    ]
    window = CumulatingWindow(size="1 day", step="5 local hours")
    check(spark, window, windows, [times], timezone=zone)
    assign = assigner(window, zone=zone)
    assert all(assign(t) == sorted(windows(t)) for t in times)


def test_the_last_step_of_a_day_of_utc_is_cut_too(spark: SparkSession) -> None:
    def windows(t: int) -> list[tuple[int, int]]:
        start = t // (24 * HOUR) * 24 * HOUR
        return [(start, start + h * HOUR) for h in (7, 14, 21, 24) if t < start + h * HOUR]

    window = CumulatingWindow(size="1 day", step="7h")
    check(spark, window, windows, [[h * HOUR for h in (0, 7, 20, 21, 23, -1)]])


def test_a_month_grows_by_weeks_from_its_first_day(spark: SparkSession) -> None:
    zone = "Europe/Berlin"
    times = [local(zone, dt.date(2024, 3, day)) for day in (1, 7, 8, 29, 31)]

    def windows(t: int) -> list[tuple[int, int]]:
        ends = [local(zone, dt.date(2024, 3, day)) for day in (8, 15, 22, 29)]
        ends.append(local(zone, dt.date(2024, 4, 1)))
        return [(local(zone, dt.date(2024, 3, 1)), end) for end in ends if t < end]

    check(spark, CumulatingWindow(size="1 month", step="1 week"), windows, [times], timezone=zone)


def test_days_of_23_and_25_hours(spark: SparkSession) -> None:
    zone = "Europe/Berlin"
    times = [local(zone, date) for date in ZONES[zone]]
    result = aggregate(
        frame(spark, [Event("a", t) for t in times]),
        TumblingWindow(size="1 day"),
        aggregates={"n": agg.count()},
        timezone=zone,
        **COMMON,
    )
    lengths = {start: (end - start) // HOUR for _, start, end, _ in rows(result)}
    assert [lengths[t] for t in times] == [23, 25, 24]


PHASED: dict[str, tuple[Window, Callable[[str], Windows]]] = {
    "quarters from february": (
        TumblingWindow(size="3 months", phase="1 month"),
        lambda zone: calendar(zone, (3, "month"), phase=1),
    ),
    "years from the sixth of april": (
        TumblingWindow(size="1 year", phase="3 months", offset="5d"),
        lambda zone: calendar(zone, (12, "month"), offset=5 * 24 * HOUR, phase=3),
    ),
    "years by quarters": (
        HoppingWindow(size="1 year", advance="3 months", phase="2 months"),
        lambda zone: calendar(zone, (12, "month"), (3, "month"), phase=2),
    ),
}


@pytest.mark.parametrize("name", PHASED)
def test_months_and_years_that_do_not_begin_in_january(spark: SparkSession, name: str) -> None:
    window, windows = PHASED[name]
    for zone in ("Europe/Berlin", "America/Sao_Paulo"):
        dates = [
            dt.date(year, month, day)
            for year in (1969, 2018)
            for month in range(1, 13)
            for day in (1, 6)
        ]
        times = [local(zone, date) + fine for date in dates for fine in (-1, 0, 90 * 60_000_000)]
        check(spark, window, windows(zone), [times], timezone=zone)


def test_years_that_grow_by_months_from_april(spark: SparkSession) -> None:
    zone = "Europe/Berlin"
    years = calendar(zone, (12, "month"), phase=3)

    def windows(t: int) -> list[tuple[int, int]]:
        [(start, last)] = years(t)
        first = next(y for y in (2017, 2018) if local(zone, dt.date(y, 4, 1)) == start)
        months = [dt.date(first, 4, 1)]
        months = [add_months(months[0], n) for n in range(1, 13)]
        ends = [local(zone, month) for month in months]
        assert ends[-1] == last
        return [(start, end) for end in ends if t < end]

    times = [local(zone, dt.date(2018, m, 1)) + fine for m in range(1, 13) for fine in (-1, 0)]
    window = CumulatingWindow(size="1 year", step="1 month", phase="3 months")
    check(spark, window, windows, [times], timezone=zone)
