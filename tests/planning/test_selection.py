"""Which dates a selection stands for, and what is no selection."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from backfill.errors import JobFileError
from backfill.planning.selection import selected

pytestmark = pytest.mark.one_lane

FIRST, NEXT = dt.date(2026, 1, 31), dt.date(2026, 2, 1)


@pytest.mark.parametrize(
    ("arguments", "dates"),
    [
        ({}, None),
        ({"start": "2026-01-31", "end": "2026-02-01"}, (FIRST, NEXT)),
        ({"start": FIRST, "end": "2026-02-01"}, (FIRST, NEXT)),
        ({"date": "2026-01-31"}, (FIRST, NEXT)),
        ({"date": dt.date(2024, 2, 29)}, (dt.date(2024, 2, 29), dt.date(2024, 3, 1))),
    ],
)
def test_dates(arguments: dict[str, Any], dates: tuple[dt.date, dt.date] | None) -> None:
    selection = selected("UTC", **{"start": None, "end": None, **arguments})
    assert selection.dates == dates
    assert selection.everything == (dates is None)


# These zones are 26 hours apart, so their dates differ at any moment.
@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Etc/GMT+12"])
def test_days_back_are_those_of_the_jobs_zone(zone: str) -> None:
    offset = dt.timedelta(hours=14 if zone == "Pacific/Kiritimati" else -12)
    before = (dt.datetime.now(dt.timezone.utc) + offset).date()
    dates = selected(zone, None, None, date="yesterday").dates
    after = (dt.datetime.now(dt.timezone.utc) + offset).date()
    assert dates is not None
    assert dates[1] in (before, after)
    assert dates[1] - dates[0] == dt.timedelta(days=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"start": "2026-13-01", "end": "x"},
            "start (--from): is not a valid date (got '2026-13-01')",
        ),
        ({"start": "2026-01-01"}, "end (--to): is missing. Give it together with start (--from)"),
        ({"end": "2026-01-01"}, "start (--from): is missing. Give it together with end (--to)"),
        ({"start": FIRST, "end": FIRST}, "end (--to): is not after 2026-01-31"),
        (
            {"start": FIRST, "end": NEXT, "date": FIRST},
            "date (--date): can't be combined with a range",
        ),
        ({"chunk": 7}, "chunk (--chunk): needs a range to split"),
        ({"missing": True, "chunk": "1d"}, "chunk (--chunk): must be a number of days"),
        ({"date": dt.datetime(2026, 1, 31)}, "date (--date): is not a valid date"),
        ({"date": 20260131}, "date (--date): is not a valid date (got '20260131')"),
        ({"date": "9999-12-31"}, "date (--date): is the last possible date"),
        ({"missing": True, "chunk": 0}, "chunk (--chunk): must be a number of days, at least one"),
    ],
)
def test_what_is_no_selection(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(JobFileError) as error:
        selected("UTC", **{"start": None, "end": None, **arguments})
    assert message in str(error.value)
