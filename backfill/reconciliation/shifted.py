"""Windows that a stream has at other times than its events', as in another zone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from backfill.reconciliation.case import Case, Hypothesis
from backfill.reconciliation.faults import of_shifts
from backfill.reconciliation.matching import Difference
from backfill.reconciliation.rows import Row, by_bounds


def moved_rows(case: Case, rows: Sequence[Row]) -> Hypothesis | None:
    """A shift of most that the stream has of the key, where windows lack or have other faults.

    Args:
        case: the key.
        rows: what the operator writes of its events.

    Returns:
        With those of these rows, shifted, that the stream has; None: nothing is shifted.
    """
    known, stream = by_bounds(rows), by_bounds(case.stream)
    strange = [row for row in case.stream if not _among(case, row, known)]
    for each in of_shifts(strange, rows):
        of_it = [row for row in strange if _among(case, _back(row, each), known)]
        if 2 * len(of_it) > len(strange):
            there = [row for row in each.rows if _among(case, row, stream)]
            if 2 * len(there) > len(case.stream):
                return replace(each, rows=there)
    return None


def is_moved(case: Case, difference: Difference, rows: Sequence[Row], moved: Hypothesis) -> bool:
    """Whether a difference is of windows that the stream has elsewhere, and not of lost ones.

    Args:
        case: the key.
        difference: one of its.
        rows: what the operator writes of its events.
        moved: of these, what `moved_rows` has found.
    """
    there = case.once("moved", lambda: by_bounds(moved.rows))
    if difference.stream:
        return all(_among(case, row, there) for row in difference.stream)
    shift = moved.evidence["shift_us"]
    return any(
        (row.start + shift, row.end + shift) in there
        for row in rows
        if case.concerns(row, difference.hull)
    )


def is_only_alike(case: Case, difference: Difference, shifted: Hypothesis) -> bool:
    """Whether the stream also has where they belong the windows that seem to be shifted."""
    stream = case.once("stream", lambda: by_bounds(case.stream))
    return any(_among(case, _back(row, shifted), stream) for row in difference.stream)


def _back(row: Row, shifted: Hypothesis) -> Row:
    shift = shifted.evidence["shift_us"]
    return row._replace(start=row.start - shift, end=row.end - shift)


def _among(case: Case, row: Row, rows: Mapping[tuple[int, int], Sequence[Row]]) -> bool:
    """Whether one of these rows is the same."""
    return any(case.same(row, each) for each in rows.get(row.bounds, ()))
