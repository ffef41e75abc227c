"""Compares the rows and events of a date with those of the same weekday in the past."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator, Mapping
from statistics import median

from backfill.columns import EVENTS
from backfill.quality.window_rules import Counts
from backfill.store import DataFile, Table

_WEEK = dt.timedelta(days=7)
#: A date is judged if there are at least this many such dates, and by at most this many, the last.
FEWEST, MOST = 4, 8


def weekdays_before(dates: Collection[dt.date]) -> set[dt.date]:
    """The dates that these are compared with."""
    return {day - n * _WEEK for day in dates for n in range(1, MOST + 1)}


def published_counts(
    table: Table, dates: Collection[dt.date], without: Collection[str]
) -> dict[dt.date, Counts]:
    """The rows and events of some dates in a version, from its files' statistics and one column.

    Args:
        table: the version.
        dates: the dates to count.
        without: files that are replaced, and so not counted.
    """
    by_date: dict[dt.date, list[DataFile]] = {}
    for file in table.files:
        day = file.minimum["date"]
        if day in dates and file.path not in without:
            by_date.setdefault(day, []).append(file)
    return {
        day: Counts(
            sum(data_file.rows for data_file in files),
            table.sum_of(EVENTS, [data_file.path for data_file in files]),
        )
        for day, files in by_date.items()
    }


def unusual(
    counts: Mapping[dt.date, Counts], dates: Collection[dt.date], limit: float
) -> Iterator[dict[str, object]]:
    """The dates whose rows or events are further from the median before than the limit.

    Args:
        counts: the counts of these dates and of those before; a missing date has nothing.
        dates: the dates to judge; those with fewer than four such weekdays before are skipped.
        limit: as a share of the median.
    """
    for day in sorted(dates):
        before = [counts[at] for n in range(1, MOST + 1) if (at := day - n * _WEEK) in counts]
        if len(before) < FEWEST:
            continue
        here = counts.get(day, Counts(0, 0))
        for what in ("rows", "events"):
            usual = median(getattr(day_counts, what) for day_counts in before)
            number = getattr(here, what)
            if abs(number - usual) > limit * usual:
                yield {"date": day, what: number, "usual": usual}
                break
