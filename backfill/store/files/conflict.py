"""When two runs conflict: they replace the same dates or files."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from datetime import date, timedelta

from backfill.errors import TableError
from backfill.store.files.log import CLOSURE, FileChanges, writer
from backfill.store.protocol import Commit, Dates, Replace

_NAMED = 3
_DATE = re.compile(r"(?:^|/)date=(\d{4}-\d\d-\d\d)/")


def closure_text(dates: Dates) -> str:
    """Dates in the form of a commit's metadata: JSON."""
    return json.dumps(None if dates is None else [[str(start), str(end)] for start, end in dates])


def check_conflict(
    name: str, theirs: Commit, changes: FileChanges, dates: Dates, replace: Replace
) -> None:
    """Refuses to go on top of a conflicting commit that this run cannot have known about.

    Args:
        name: the table.
        theirs: the other run's commit.
        changes: what that commit did to the files.
        dates: the dates that this run replaces.
        replace: the files that this run removes.

    Raises:
        TableError: one of them replaced everything and the other something; or their dates
            overlap; or both remove the same file.
    """
    their_dates = _dates(theirs, changes)
    # A commit that changed neither rows nor what is counted (a compaction) conflicts with a run
    # only through the files.
    if changes.data or their_dates is None or their_dates:
        if their_dates is None:
            raise _conflict(name, theirs, "it replaced everything")
        if dates is None:
            raise _conflict(name, theirs, "this run replaces everything")
        met = list(_meeting(their_dates, dates))
        if met:
            raise _conflict(name, theirs, f"both replace {_text(met)}")
    if replace != "all":
        files = changes.removed.intersection(replace)
        if files:
            raise _conflict(name, theirs, f"both replace the file {min(files)}")


def _dates(commit: Commit, changes: FileChanges) -> Dates:
    """The dates that a commit says it replaced; for another writer's, the dates of its files."""
    if not commit.metadata:
        return _touched(changes.added | changes.removed) if changes.data else ()
    ranges = json.loads(commit.metadata.get(CLOSURE, "null"))
    if ranges is None:
        return None
    return [(date.fromisoformat(start), date.fromisoformat(end)) for start, end in ranges]


def _touched(paths: Collection[str]) -> Dates:
    """The dates in the names of the files' folders; all dates if a file's folder has none.

    Neither format promises such names of folders, but writers of both use them.
    """
    matches = [_DATE.search(path) for path in paths]
    try:
        days = {date.fromisoformat(match[1]) for match in matches if match is not None}
    except ValueError:
        return None
    return None if None in matches else [(day, day + timedelta(days=1)) for day in days]


def _meeting(
    theirs: Collection[tuple[date, date]], ours: Collection[tuple[date, date]]
) -> Iterator[tuple[date, date]]:
    for their_start, their_end in theirs:
        for start, end in ours:
            met = max(their_start, start), min(their_end, end)
            if met[0] < met[1]:
                yield met


def _text(dates: Collection[tuple[date, date]]) -> str:
    texts = [
        str(start) if end - start == timedelta(days=1) else f"[{start}, {end})"
        for start, end in sorted(dates)
    ]
    more = len(texts) - _NAMED
    return ", ".join(texts[:_NAMED]) + (f" and {more} more ranges" if more > 0 else "")


def _conflict(name: str, theirs: Commit, why: str) -> TableError:
    return TableError(
        f"{writer(theirs)} published version {theirs.version} meanwhile, and {why}",
        field=name,
        way_out="Run again to start from the current version.",
    )
