"""Whether what there is of a date is near what there was of the same weekday before."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from statistics import median

from backfill.columns import EVENTS
from backfill.quality.windows import Counts
from backfill.store import DeltaStore
from backfill.store.delta.stats import added_up

_WEEK = dt.timedelta(days=7)
#: A date is judged from so many such dates on, and by the last so many.
FEWEST, MOST = 4, 8


def weekdays_before(dates: Collection[dt.date]) -> set[dt.date]:
    """The dates that these are compared with."""
    return {day - n * _WEEK for day in dates for n in range(1, MOST + 1)}


def published_counts(
    store: DeltaStore, name: str, version: int, dates: Collection[dt.date], without: Collection[str]
) -> dict[dt.date, Counts]:
    """What a version has of some dates: its files' statistics, and one column of them.

    Args:
        store: the job's tables.
        name: the table.
        version: of it.
        dates: these.
        without: files that are replaced.
    """
    by_date: dict[dt.date, list[Path]] = {}
    rows: dict[dt.date, int] = {}
    for file in store.live(name, version=version):
        day = file.minimum["date"]
        if day in dates and file.path not in without:
            by_date.setdefault(day, []).append(store.folder(name) / file.path)
            rows[day] = rows.get(day, 0) + file.rows
    return {day: Counts(rows[day], added_up(paths, EVENTS)) for day, paths in by_date.items()}


def unusual(
    counts: Mapping[dt.date, Counts], dates: Collection[dt.date], limit: float
) -> Iterator[dict[str, object]]:
    """The dates whose rows or events are further from the median before than the limit.

    Args:
        counts: of these dates and of those before; a date that is not there has nothing.
        dates: what is judged; those with fewer than four such weekdays before are not.
        limit: as a share of the median.
    """
    for day in sorted(dates):
        before = [counts[at] for n in range(1, MOST + 1) if (at := day - n * _WEEK) in counts]
        if len(before) < FEWEST:
            continue
        here = counts.get(day, Counts(0, 0))
        for what in ("rows", "events"):
            usual = median(getattr(each, what) for each in before)
            found = getattr(here, what)
            if abs(found - usual) > limit * usual:
                yield {"date": day, what: found, "usual": usual}
                break
