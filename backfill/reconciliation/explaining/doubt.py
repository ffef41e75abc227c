"""Whether an explanation is the only one: what else gives the same rows."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from backfill.causes import CAUSES
from backfill.reconciliation.explaining.case import Case, Explanation
from backfill.reconciliation.explaining.faults import of_settings
from backfill.reconciliation.explaining.input_faults import of_one_event, without
from backfill.reconciliation.explaining.matching import Difference
from backfill.reconciliation.explaining.nearby import nearby
from backfill.reconciliation.explaining.outcome import Hypothesis, Outcome
from backfill.reconciliation.explaining.tally import is_plain_count
from backfill.reconciliation.explaining.timeline import Timeline
from backfill.reconciliation.rows import Row
from backfill.replay import Event

Found = TypeVar("Found", Hypothesis, Explanation)

#: The most times that a key's events are replayed to see whether a fault is needed.
_FEW_TIMES = 400


def is_needed(case: Case, differences: Sequence[Difference], base: Outcome) -> bool:
    """Whether one of the differences can't be explained by an event that was lost or came twice.

    One fault explains all of these; so if one of them needs it, the others have it too. What is not
    tried to the end is not ruled out. The key is replayed by itself, which takes nothing from the
    tries that are left for other keys.
    """
    alone = replace(case, operator=replace(case.operator, among=None))
    left = case.once("left to try without", lambda: [_FEW_TIMES * len(case.events)])
    counts = (
        name for name, aggregate in case.operator.aggregates.items() if is_plain_count(aggregate)
    )
    whole = len(differences) == len(case.differences)

    def counted(name: str, rows: Timeline) -> int:
        near = rows if whole else _of_these(case, differences, rows)
        return sum(row.values[name] or 0 for row in near)

    if any(counted(name, base.rows) == counted(name, case.written) for name in counts):
        return True

    def without_it(difference: Difference) -> bool:
        own, made = nearby(alone, difference.hull, base)
        for hypothesis in of_one_event(own, difference, made):
            left[0] -= len(own.events)
            if left[0] < 0 or case.gives(hypothesis, difference.hull):
                return True
        return False

    return not all(map(without_it, differences))


def _of_these(case: Case, differences: Sequence[Difference], rows: Timeline) -> Iterable[Row]:
    """The rows that belong to one of the differences, each once."""
    by_id = {
        id(row): row
        for difference in differences
        for row in rows.about(*difference.hull)
        if case.concerns(row, difference.hull)
    }
    return by_id.values()


def in_doubt(explained: Found) -> Found:
    """The same, marked as not the only explanation."""
    return replace(explained, proved=False, evidence={**explained.evidence, "explanations": 2})


def may_wait(case: Case, difference: Difference) -> bool:
    """Whether windows that the stream lacks may be incomplete because other events are missing."""
    if case.complete is None or difference.stream:
        return False
    return any(row.end > case.complete for row in difference.batch)


def beside_lost(
    case: Case, explanations: list[Explanation], others: Collection[int]
) -> list[Explanation]:
    """The explanations, in doubt if they assume that events that are proved lost moved the clock.

    Args:
        case: the key.
        explanations: for each of its differences.
        others: the places of those that the operator as it is described does not give.
    """
    of_lost = [e for e in explanations if e.proved and "left_out" in e.evidence]
    gone = {arrival for explanation in of_lost for arrival in explanation.evidence["left_out"]}
    if not gone or len(of_lost) == sum(explanation.proved for explanation in explanations):
        return explanations
    if case.operator.among is None:
        moved = _moves_clock(case.events, gone)
        doubted = [
            moved and (place in others or any(CAUSES[cause].of_order for cause in one.causes))
            for place, one in enumerate(explanations)
        ]
    else:
        # All keys are replayed without them, so the clock is that of the others.
        rest = without(case, [event for event in case.events if event.arrival in gone])
        doubted = [
            case.gives(rest, difference.hull) is (place in others)
            for place, difference in enumerate(case.differences)
        ]
    return [
        in_doubt(one) if one.proved and doubt and "left_out" not in one.evidence else one
        for one, doubt in zip(explanations, doubted, strict=True)
    ]


def is_of_gap(case: Case, everywhere: Hypothesis) -> bool:
    """Whether another gap explains the other ends of sessions as well."""
    if everywhere.causes != ("end_convention",):
        return False
    return any(case.gives_all(hypothesis) for hypothesis in of_settings(case, case.differences[0]))


def strange_rows(
    case: Case, found: Sequence[Explanation], others: Collection[int], rows: Timeline
) -> Timeline:
    """The stream's windows that no lost or repeated events explain.

    Windows that it seems to lack about that time may be among them: with another size, in another
    zone, or with an unknown fault.

    Args:
        case: the key.
        found: for each of its differences.
        others: the places of those that the operator as it is described does not give.
        rows: what that operator writes.
    """
    return Timeline(
        row
        for place in sorted(others)
        if not {"left_out", "repeated"} & found[place].evidence.keys()
        for row in case.differences[place].stream
        if row.bounds not in rows.by_bounds
    )


def _moves_clock(events: Iterable[Event], gone: Collection[Any]) -> bool:
    """Whether the clock that events met may have come from lost events, given by their arrivals."""
    met = [
        (event.clock, event.time, event.arrival in gone)
        for event in events
        if event.clock is not None and event.time is not None
    ]
    clocks = sorted({clock for clock, _, _ in met})
    for clock, time, lost in met:
        # Clocks never go back: of all later ones, the first decides.
        after = bisect_right(clocks, clock)
        if lost and after < len(clocks) and clocks[after] <= time:
            return True
    return False
