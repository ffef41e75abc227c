"""Events that the stream never saw, or saw twice: one, a few, or all that came in a row."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, islice
from math import comb

from backfill.reconciliation.case import Case
from backfill.reconciliation.faults import replayed
from backfill.reconciliation.matching import Difference
from backfill.reconciliation.outcome import Hypothesis, Outcome
from backfill.reconciliation.tally import Tally
from backfill.replay import Event

#: Where it is not known how many events it is, so many are taken wherever they are; more only
#: where they came one after the other.
_FEW = 3
#: So many sets of events are looked at, at most; few of them are replayed.
_LOOKED_AT = 50_000
_Sets = Iterable[Sequence[Event]]


def of_input(case: Case, difference: Difference, base: Outcome) -> Iterator[Hypothesis]:
    """What the stream may have lost or counted twice of a difference's events.

    Args:
        case: the key, or the part of it that is near.
        difference: what is to be explained.
        base: what the operator makes of the case's events.
    """
    most, near = case.tries, case.inside(difference.hull)
    tally = Tally(case, difference, base)
    # Where not each event is tried by itself, none of them is sure to be the only one.
    each_one = tally.counts or len(near) < most
    for found in islice(of_one_event(case, difference, base), 2 * most):
        yield found if each_one else replace(found, proved=False)
    for times, under, share in ((0, without, max(most - len(near), 0)), (2, twice, most // 2)):
        few, runs = _sets(tally.counted(near), tally.many(times))
        for events in islice(_fitting(few, tally, times), share):
            yield under(case, events)
        for events in islice(_fitting(runs, tally, times), most // 2):
            # Others, which did not come one after the other, may be it as well.
            yield replace(under(case, events), proved=False)


def _sets(near: Sequence[Event], many: int | None) -> tuple[_Sets, _Sets]:
    """The sets of more than one event that are tried: all of a size, and those that came in a row.

    Args:
        near: the events.
        many: so many are wanted; None: it is not known how many.
    """
    if many is None:
        few = (each for size in range(2, _FEW + 1) for each in combinations(near, size))
        return few, _runs(near, range(_FEW + 1, len(near)))
    if many < 2:
        return (), ()
    if comb(len(near), many) <= _LOOKED_AT:
        return combinations(near, many), ()
    return (), _runs(near, [many])


def _runs(near: Sequence[Event], sizes: Iterable[int]) -> _Sets:
    """Events that came one after the other, as when a consumer has started again."""
    return (near[at : at + size] for size in sizes for at in range(len(near) - size + 1))


def _fitting(sets: _Sets, tally: Tally, times: int) -> _Sets:
    return (each for each in islice(sets, _LOOKED_AT) if tally.fits(each, times))


def of_one_event(case: Case, difference: Difference, base: Outcome) -> Iterator[Hypothesis]:
    """One event that the stream never saw, or saw twice; or all that are near."""
    near = case.inside(difference.hull)
    tally = Tally(case, difference, base)
    # Of a window that the stream has not at all, all events are missing.
    bounds = case.written.by_bounds
    groups: list[tuple[list[Event], bool]] = []
    if near:
        groups.append((near, not difference.stream))
        if not case.stream:
            groups.append((list(case.events), True))
    for row in base.rows.about(*difference.hull):
        if case.meets(row, difference.hull):
            its_own = {each.arrival for each in case.inside(row.bounds)}
            inside = [each for each in near if each.arrival in its_own]
            groups.append((inside, row.bounds not in bounds))
    for group, gone in groups:
        if tally.fits(group, 0):
            found = without(case, group)
            evidence = {**found.evidence, "all_of_a_window": True} if gone else found.evidence
            yield replace(found, evidence=evidence)
    if len(near) > _FEW and tally.fits(near, 2):
        yield twice(case, near)
    for event in near:
        if tally.fits([event], 0):
            yield without(case, [event])
    for event in near:
        if tally.fits([event], 2):
            yield twice(case, [event])


def without(case: Case, left_out: Collection[Event]) -> Hypothesis:
    """Events that the stream never saw."""
    sure = case.operator.ordered or not case.operator.drops
    name = "missing_in_stream" if sure else "late"
    gone = {each.arrival for each in left_out}
    events = [each for each in case.events if each.arrival not in gone]
    found = replayed(case.operator, events, name, {"left_out": sorted(gone)})
    return replace(found, proved=sure)


def twice(case: Case, repeated: Collection[Event]) -> Hypothesis:
    """Events that the stream saw again, each right after it came."""
    again = [replace(each, arrival=each.arrival + 1) for each in repeated]
    events = sorted([*case.events, *again], key=lambda each: each.arrival)
    evidence = {"repeated": sorted(each.arrival for each in repeated)}
    return replayed(case.operator, events, "redelivered", evidence)
