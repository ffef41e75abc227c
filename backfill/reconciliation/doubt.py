"""Whether an explanation is the only one: what else gives the same rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count
from typing import TypeVar

from backfill.reconciliation.case import Case, Explanation, Hypothesis
from backfill.reconciliation.faults import of_one_event
from backfill.reconciliation.matching import Difference
from backfill.reconciliation.rows import Row
from backfill.replay import Replayed

Found = TypeVar("Found", Hypothesis, Explanation)

#: So many replays of a key are made to see whether a fault can be done without.
_FEW_TRIES = 400


def is_needed(case: Case, differences: Sequence[Difference], base: Replayed) -> bool:
    """Whether no event that was lost or came twice explains one of the differences.

    One fault explains all of these; so where one of them needs it, the others have it, too. What is
    not tried to its end is not ruled out. The key is replayed by itself, so that this takes nothing
    from what may be tried of others.
    """
    alone = replace(case, operator=replace(case.operator, among=None))
    tried = case.once("tried without", count)
    counts = (
        name
        for name, each in case.operator.aggregates.items()
        if each.python == "count" and each.expression is None and each.where is None
    )
    whole = len(differences) == len(case.differences)

    def counted(name: str, rows: Iterable[Row]) -> int:
        near = (
            row for row in rows if whole or any(case.concerns(row, d.hull) for d in differences)
        )
        return sum(row.values[name] or 0 for row in near)

    written = case.operator.written(base)
    if any(counted(name, written) == counted(name, case.stream) for name in counts):
        return True

    def without_it(difference: Difference) -> bool:
        return any(
            next(tried) >= _FEW_TRIES or case.gives(each.rows, difference.hull)
            for each in of_one_event(alone, difference, base)
        )

    return not all(map(without_it, differences))


def in_doubt(found: Found) -> Found:
    """What is not the only explanation."""
    return replace(found, proved=False, evidence={**found.evidence, "explanations": 2})


def may_wait(case: Case, difference: Difference) -> bool:
    """Whether windows that the stream lacks may not be complete, for lack of other events."""
    if case.complete is None or difference.stream:
        return False
    return any(row.end > case.complete for row in difference.batch)
