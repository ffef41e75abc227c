"""The causes of one key's differences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from backfill.causes import CAUSES, UNEXPLAINED
from backfill.engines import PLAIN
from backfill.reconciliation.explaining.case import Case, Explanation
from backfill.reconciliation.explaining.doubt import (
    beside_lost,
    in_doubt,
    is_needed,
    is_of_gap,
    may_wait,
    strange_rows,
)
from backfill.reconciliation.explaining.facts import facts
from backfill.reconciliation.explaining.faults import (
    FURTHEST,
    of_output,
    of_output_near,
    of_restarts,
    of_settings,
    of_tombstones,
)
from backfill.reconciliation.explaining.input_faults import of_input
from backfill.reconciliation.explaining.matching import Difference
from backfill.reconciliation.explaining.nearby import nearby
from backfill.reconciliation.explaining.outcome import Hypothesis, Outcome
from backfill.reconciliation.explaining.shifted import is_moved, is_only_alike, moved_rows
from backfill.reconciliation.explaining.timeline import Timeline
from backfill.replay import Event

#: The causes that a replay shows by itself, in the order in which they count.
_SHOWN = tuple(name for name, cause in CAUSES.items() if cause.shown)
_OF_ORDER = {name for name, cause in CAUSES.items() if cause.of_order}


def explain(case: Case) -> list[Explanation]:
    """Why each difference is there, in the order of `case.differences`."""
    case = _renumbered(case)
    base = Outcome(case.operator, case.events)
    plain = Hypothesis((), base.rows, base)
    settled = not case.stream or not case.tries or case.gives_all(plain)
    everywhere = None if settled else _one_for_all(case, plain)
    if everywhere is not None:
        needed = is_needed(case, case.differences, base) and not is_of_gap(case, everywhere)
        everywhere = everywhere if needed else in_doubt(everywhere)
    moved = None if settled or everywhere is not None else moved_rows(case, base.rows)
    # Both are places of differences.
    of_it, doubted = set[int](), set[int]()
    if moved is not None:
        moved = _both(plain, moved)
        of_it = {n for n, d in enumerate(case.differences) if is_moved(case, d, base.rows, moved)}
        if not is_needed(case, [case.differences[n] for n in sorted(of_it)], base):
            # The shift explains these, but so does what is found for them one by one.
            moved, doubted = None, of_it
    explanations: list[Explanation] = []
    # Places of those that the operator as it is described does not give, shifted or not.
    others = set()
    for place, difference in enumerate(case.differences):
        if case.gives(plain, difference.hull):
            explanations.append(_shown(case, difference, plain))
        elif moved is not None and place in of_it:
            explanations.append(_shown(case, difference, moved))
        else:
            others.add(place)
            if everywhere is not None:
                one = _shown(case, difference, everywhere)
            elif not case.tries:
                one = Explanation((UNEXPLAINED,), False, {"looked_further": False})
            else:
                one = _searched(case, difference, plain, base)
            explanations.append(in_doubt(one) if one.proved and place in doubted else one)
    explanations = beside_lost(case, explanations, others)
    strange = strange_rows(case, explanations, others, base.rows)

    def may_be_elsewhere(difference: Difference) -> bool:
        low, high = difference.hull
        return bool(strange.about(low - FURTHEST, high + FURTHEST))

    return [
        in_doubt(one)
        if one.proved and "left_out" in one.evidence and may_be_elsewhere(difference)
        else one
        for one, difference in zip(explanations, case.differences, strict=True)
    ]


def _one_for_all(case: Case, plain: Hypothesis) -> Hypothesis | None:
    """One fault of settings or output that gives all the rows that the stream has of the key."""
    widest = Difference(
        tuple(row for difference in case.differences for row in difference.batch),
        tuple(row for difference in case.differences for row in difference.stream),
    )
    for first in (plain, *of_settings(case, widest)):
        if first.causes and case.gives_all(first):
            return first
        if len(first.rows) != len(case.stream):
            # No fault of the output changes the number of rows.
            continue
        for second in of_output(case, widest.stream, first.rows):
            if case.gives_all(second):
                return _both(first, second)
            for third in of_output(case, widest.stream, second.rows, besides=second.causes):
                if case.gives_all(third):
                    return _both(_both(first, second), third)
    return None


def _searched(case: Case, difference: Difference, plain: Hypothesis, base: Outcome) -> Explanation:
    """Finds a fault that gives the stream's rows of a difference, or one with an output fault."""
    kinds: list[Iterator[Hypothesis]] = [of_restarts(case, difference, base)]
    if difference.stream:
        kinds = [
            of_tombstones(case, difference, base),
            of_settings(case, difference),
            _of_its_output(case, difference, plain.rows),
            *kinds,
        ]
    for kind in kinds:
        for hypothesis in kind:
            if case.gives(hypothesis, difference.hull):
                needed = not hypothesis.proved or is_needed(case, [difference], base)
                both = _both(plain, hypothesis)
                return _shown(case, difference, both if needed else in_doubt(both))
    own, made = nearby(case, difference.hull, base)
    holding = [
        hypothesis
        for hypothesis in of_input(own, difference, made)
        if case.gives(hypothesis, difference.hull)
    ]
    if holding:
        return _shown(case, difference, _only_one(case, difference, holding))
    for first in (*of_tombstones(case, difference, base), *of_settings(case, difference)):
        for second in _of_its_output(case, difference, first.rows):
            if case.gives(second, difference.hull):
                return _shown(case, difference, _both(first, second))
    return _not_replayed(case, difference)


def _of_its_output(case: Case, difference: Difference, rows: Timeline) -> Iterator[Hypothesis]:
    """Output faults of one difference, while other windows are as they should be.

    If the stream also has a window where it belongs, the one here is not shifted but only alike.
    """
    for hypothesis in of_output_near(case, difference, rows):
        if "shift_us" not in hypothesis.evidence or not is_only_alike(case, difference, hypothesis):
            yield hypothesis


def _only_one(case: Case, difference: Difference, holding: Sequence[Hypothesis]) -> Hypothesis:
    """The explanation with the fewest events, of those that hold; proved if it is the only one.

    Sets of events that differ only in their arrivals are one explanation.
    """

    def rows_of(hypothesis: Hypothesis) -> tuple[Any, ...]:
        events = [
            case.by_arrival[n]
            for n in (hypothesis.evidence.get("left_out") or hypothesis.evidence["repeated"])
        ]
        return hypothesis.causes[0], sorted(
            (e.time or 0, repr(sorted((e.value or {}).items()))) for e in events
        )

    def events_of(hypothesis: Hypothesis) -> int:
        return len(hypothesis.evidence.get("left_out") or hypothesis.evidence["repeated"])

    fewest = min(holding, key=events_of)
    whole = [hypothesis for hypothesis in holding if hypothesis.evidence.get("all_of_a_window")]
    if whole and min(map(events_of, whole)) <= events_of(fewest):
        return min(whole, key=events_of)
    different = {
        repr(rows_of(hypothesis)) for hypothesis in holding if not _says_more(hypothesis, fewest)
    }
    assert fewest.replayed is not None
    near = {event.arrival for event in case.inside(difference.hull)}
    # An event that the operator drops under it was late, or is missing as well.
    dropped = "left_out" in fewest.evidence and not near.isdisjoint(fewest.replayed.dropped)
    count = len(different) + dropped
    evidence = {**fewest.evidence, "explanations": count}
    return replace(fewest, proved=fewest.proved and count == 1, evidence=evidence)


def _says_more(one: Hypothesis, other: Hypothesis) -> bool:
    """Whether one has the same events as another, and further ones, which change nothing."""
    return any(
        {*other.evidence.get(name, ())} < {*one.evidence.get(name, ())} and name in other.evidence
        for name in ("left_out", "repeated")
    )


def _not_replayed(case: Case, difference: Difference) -> Explanation:
    """Nothing gives the rows: only the stream can have seen an event, or the cause is unknown."""
    strange = [r for r in difference.stream if case.sessions and not {*r.bounds} <= case.times]
    if strange:
        bounds = [list(row.bounds) for row in strange]
        return Explanation(("missing_in_batch",), False, {"no_event_at": bounds})
    return Explanation((UNEXPLAINED,), False)


def _shown(case: Case, difference: Difference, hypothesis: Hypothesis) -> Explanation:
    """What the replay shows about a difference, besides the fault that it assumes."""
    hull = difference.hull
    evidence: dict[str, Any] = dict(hypothesis.evidence)
    shown: set[str] = set()
    if hypothesis.replayed is not None:
        shown = facts(case, difference, hypothesis.replayed, evidence)
    if case.expired is not None and not difference.batch and hull[1] < case.expired:
        shown.add("retention")
    causes = (
        *hypothesis.causes,
        *(name for name in _SHOWN if name in shown - set(hypothesis.causes)),
    )
    rows = [row for row in hypothesis.rows.about(*hull) if case.concerns(row, hull)]
    if causes:
        # What an unknown order of arrival decides, another order may decide otherwise.
        sure = case.operator.ordered or not case.operator.drops or not _OF_ORDER & {*causes}
        shown_by = Explanation(causes, hypothesis.proved and sure, evidence, rows)
        waits = "missing_in_stream" in causes and may_wait(case, difference)
        return in_doubt(shown_by) if waits else shown_by
    # The operator, fed with the source's events, gives what the stream has. So the batch has other
    # conventions, adds in another order, or has other events.
    whole = case.once("batch", lambda: _in_batch(case)).about(*hull)
    made = sorted((row for row in whole if case.concerns(row, hull)), key=lambda row: row.bounds)
    batch = sorted(difference.batch, key=lambda row: row.bounds)
    pairs = list(zip(batch, made, strict=False))
    if len(batch) != len(made) or any(ours.bounds != row.bounds for ours, row in pairs):
        return Explanation(("missing_in_batch",), True, evidence, rows)
    if not all(case.same(ours, row) for ours, row in pairs):
        ordered = all(
            case.doubles.some_order(row, ours.values, [case.by_arrival[n] for n in row.written])
            for ours, row in pairs
        )
        cause = "float_order" if ordered else "missing_in_batch"
        return Explanation((cause,), True, evidence, rows)
    theirs = {row.bounds: row for row in rows}
    alike = all(row.bounds in theirs and case.same(row, theirs[row.bounds]) for row in made)
    if difference.status == "value_differs" and alike:
        # The values that differ are not among those that are replayed.
        return Explanation(("missing_in_batch",), True, evidence, rows)
    return Explanation((_convention(case),), True, evidence, rows)


def _convention(case: Case) -> str:
    """The cause if an engine has other rules: of the gap's edge, or of where windows are."""
    ours = case.batch.engine.rules if case.batch is not None else PLAIN.rules
    theirs = case.operator.engine.rules
    edge = case.sessions and ours.gap_inclusive != theirs.gap_inclusive
    return "gap_edge" if edge else "end_convention"


def _in_batch(case: Case) -> Timeline:
    """What a batch makes of the source's events, each counted once."""
    operator = case.operator
    batch = case.batch or replace(operator, engine=PLAIN, settings={}, end_clock=None)
    events = [
        replace(event, clock=None, watermark=None, batch=None)
        for event in case.events
        if event.arrival not in case.copies
    ]
    return Timeline(batch.rows(batch.replay(events).final))


def _both(first: Hypothesis, second: Hypothesis) -> Hypothesis:
    return Hypothesis(
        causes=(*first.causes, *second.causes),
        rows=second.rows,
        replayed=second.replayed if second.replayed is not None else first.replayed,
        evidence={**first.evidence, **second.evidence},
        proved=first.proved and second.proved,
    )


def _renumbered(case: Case) -> Case:
    """Makes arrivals even numbers, which leaves room for a copy right after each event.

    Those of a key that is replayed with others are even already, by their places among all.
    """
    if case.operator.among is not None:
        return case
    ordered: list[Event] = sorted(case.events, key=lambda event: event.arrival)
    places = {event.arrival: 2 * place for place, event in enumerate(ordered)}
    events = [replace(event, arrival=places[event.arrival]) for event in ordered]
    settings = dict(case.operator.settings)
    for name in ("restarts", "commits"):
        given = settings.get(name)
        if given is not None and not isinstance(given, int):
            settings[name] = tuple(_next(ordered, arrival) for arrival in given)
    return replace(
        case,
        events=events,
        copies={places[copy]: places.get(first) for copy, first in case.copies.items()},
        operator=replace(case.operator, settings=settings),
    )


def _next(events: Sequence[Event], arrival: Any) -> int:
    """The place of the first of these events that arrived then or later."""
    return next(
        (2 * i for i, event in enumerate(events) if event.arrival >= arrival), 2 * len(events)
    )
