"""Checks of a reconciliation: how much matches, and whether every difference has a cause."""

from __future__ import annotations

import pandas as pd

from backfill.quality.builtin import RECONCILIATION
from backfill.quality.checks import Outcome
from backfill.quality.judging import as_check, judged
from backfill.quality.store import keep
from backfill.reconciliation.result import Reconciled
from backfill.spec import JobSpec


def check_reconciled(spec: JobSpec, reconciled: Reconciled, run_id: str) -> tuple[Outcome, ...]:
    """Checks what a reconciliation found, and stores the outcome.

    Args:
        spec: the job; its own expectations see a row for each difference, with the columns of the
            key, `status`, `cause` (the first), `proved`, `batch` and `stream` (numbers of windows).
        reconciled: the reconciliation.
        run_id: the run under which the outcome is stored.
    """
    every = reconciled.matched + len(reconciled.differences)
    metrics = {
        "match_rate": reconciled.matched / every if every else 1.0,
        "unexplained": float(reconciled.unexplained),
    }
    builtin = [as_check(check) for check in spec.checks.about([RECONCILIATION]).values()]
    own = spec.checks.own.get(RECONCILIATION, ())
    names = [*spec.key, "status", "cause", "proved", "batch", "stream"]
    # Built only if an expectation reads it: there can be a million rows.
    frame = None
    if own:
        rows = (
            (
                *explained.key,
                explained.difference.status,
                explained.explanation.causes[0],
                explained.explanation.proved,
                len(explained.difference.batch),
                len(explained.difference.stream),
            )
            for explained in reconciled.differences
        )
        frame = pd.DataFrame(rows, columns=names)
    validations = judged(RECONCILIATION, run_id, builtin, metrics, own, frame, spec.key)
    keep(spec.tables, run_id, validations)
    return tuple(one for validation in validations for one in validation.outcomes)
