"""Windows that a stream has at other times than its events', as in another zone."""

from __future__ import annotations

from dataclasses import replace

from backfill.reconciliation.explaining.case import Case
from backfill.reconciliation.explaining.faults import is_among, moved, shifted, shifts
from backfill.reconciliation.explaining.matching import Difference
from backfill.reconciliation.explaining.outcome import Hypothesis
from backfill.reconciliation.explaining.timeline import Timeline


def moved_rows(case: Case, rows: Timeline) -> Hypothesis | None:
    """A shift of most of the stream's rows of the key; some may be missing or have other faults.

    Args:
        case: the key.
        rows: what the operator writes for its events.

    Returns:
        The fault, with those of `rows`, shifted, that the stream has; None: nothing is shifted.
    """
    known, stream = rows.by_bounds, case.written.by_bounds
    strange = [row for row in case.stream if not is_among(case, row, known)]
    for shift in shifts():
        of_it = sum(is_among(case, moved(row, -shift), known) for row in strange)
        if 2 * of_it > len(strange):
            hypothesis = shifted(rows, shift)
            there = [row for row in hypothesis.rows if is_among(case, row, stream)]
            if 2 * len(there) > len(case.stream):
                return replace(hypothesis, rows=Timeline(there))
    return None


def is_moved(case: Case, difference: Difference, rows: Timeline, hypothesis: Hypothesis) -> bool:
    """Whether the stream has a difference's windows at other times, rather than having lost them.

    Args:
        case: the key.
        difference: one of the key's.
        rows: what the operator writes for its events.
        hypothesis: what `moved_rows` has found for `rows`.
    """
    there = hypothesis.rows.by_bounds
    if difference.stream:
        return all(is_among(case, row, there) for row in difference.stream)
    shift = hypothesis.evidence["shift_us"]
    return any(
        (row.start + shift, row.end + shift) in there
        for row in rows.about(*difference.hull)
        if case.concerns(row, difference.hull)
    )


def is_only_alike(case: Case, difference: Difference, hypothesis: Hypothesis) -> bool:
    """Whether the stream also has, where they belong, the windows that seem to be shifted."""
    stream = case.written.by_bounds
    shift = hypothesis.evidence["shift_us"]
    return any(is_among(case, moved(row, -shift), stream) for row in difference.stream)
