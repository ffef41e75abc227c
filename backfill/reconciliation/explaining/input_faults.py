"""Events that the stream never saw, or saw twice: one, a few, or all that came in a row."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import NamedTuple

from backfill.reconciliation.explaining.case import Case
from backfill.reconciliation.explaining.faults import replayed
from backfill.reconciliation.explaining.matching import Difference
from backfill.reconciliation.explaining.outcome import Hypothesis, Outcome
from backfill.reconciliation.explaining.tally import Tally
from backfill.replay import Event

#: If the number of events is unknown, up to this many are taken wherever they are; more only if
#: they came one after the other.
_FEW = 3
#: The most sets of events that are examined for a difference, and for a key; few are replayed.
_LOOKED_AT, _LOOKED_AT_IN_ALL = 50_000, 5_000_000


class _Change(NamedTuple):
    """Events that the stream does not have exactly once.

    Attributes:
        events: these.
        times: how often it has each, 0 or 2 times.
        whole: whether they are all events of a window that it does not have at all.
    """

    events: Sequence[Event]
    times: int
    whole: bool = False


def of_input(case: Case, difference: Difference, base: Outcome) -> Iterator[Hypothesis]:
    """The events of a difference that the stream may have lost or counted twice.

    If not all sets of the same kind were tried, none is sure to be the only one.

    Args:
        case: the key, or the part of it that is near.
        difference: what is to be explained.
        base: what the operator makes of the case's events.
    """
    most, near = case.tries, case.inside(difference.hull)
    tally = Tally(case, difference, base)
    single = _single(case, difference, base, tally)
    yield from _tried(case, single[: 2 * most], sure=len(single) <= 2 * most)
    steps = min(_LOOKED_AT, _LOOKED_AT_IN_ALL // max(1, len(case.differences)))
    for times, share in ((0, max(most - len(near), 0)), (2, most // 4)):
        many, counted = tally.many(times), tally.counted(near)
        sizes = range(2, _FEW + 1) if many is None else (many,) if many > 1 else ()
        kinds = [tally.sets(counted, size, times, steps) for size in sizes]
        few = chain.from_iterable(sets for sets, _ in kinds)
        candidates = [events for events in few if tally.fits(events, times)]
        # A set that holds an event more than once can't be replayed, but may be right as well.
        once = [events for events in candidates if len({e.arrival for e in events}) == len(events)]
        # Without a count, there is always another way in which repeated events add up.
        known = not times or many is not None
        sure = (
            known
            and all(complete for _, complete in kinds)
            and len(once) == len(candidates) <= share
        )
        yield from _tried(case, [_Change(events, times) for events in once[:share]], sure=sure)
        runs = (run for run in _runs(counted, many, steps) if tally.fits(run, times))
        changes = [_Change(run, times) for run in islice(runs, most // 4)]
        # Other events, which did not come one after the other, may be right as well.
        yield from _tried(case, changes, sure=False)


def of_one_event(case: Case, difference: Difference, base: Outcome) -> Iterator[Hypothesis]:
    """One event that the stream never saw, or saw twice; or all that are near."""
    tally = Tally(case, difference, base)
    return _tried(case, _single(case, difference, base, tally), sure=True)


def _tried(case: Case, changes: Iterable[_Change], *, sure: bool) -> Iterator[Hypothesis]:
    for change in changes:
        hypothesis = (twice if change.times else without)(case, change.events)
        evidence = (
            {**hypothesis.evidence, "all_of_a_window": True}
            if change.whole
            else hypothesis.evidence
        )
        yield replace(hypothesis, evidence=evidence, proved=hypothesis.proved and sure)


def _single(case: Case, difference: Difference, base: Outcome, tally: Tally) -> list[_Change]:
    near = case.inside(difference.hull)
    # If the stream does not have a window at all, all of its events are missing.
    bounds = case.written.by_bounds
    groups: list[_Change] = []
    if near:
        groups.append(_Change(near, 0, not difference.stream))
        if not case.stream:
            groups.append(_Change(case.events, 0, whole=True))
    for row in base.rows.about(*difference.hull):
        if case.meets(row, difference.hull):
            its_own = {event.arrival for event in case.inside(row.bounds)}
            inside = [event for event in near if event.arrival in its_own]
            groups.append(_Change(inside, 0, row.bounds not in bounds))
    if len(near) > _FEW:
        groups.append(_Change(near, 2))
    each_one = [_Change([event], times) for times in (0, 2) for event in near]
    return [change for change in (*groups, *each_one) if tally.fits(change.events, change.times)]


def _runs(near: Sequence[Event], many: int | None, steps: int) -> Iterator[Sequence[Event]]:
    """Larger sets of events that came one after the other, as after a restart of a consumer."""
    sizes = range(_FEW + 1, len(near)) if many is None else (many,) if many > _FEW else ()
    for size in sizes:
        for at in range(len(near) - size + 1):
            steps -= size
            if steps < 0:
                return
            yield near[at : at + size]


def without(case: Case, left_out: Collection[Event]) -> Hypothesis:
    """Events that the stream never saw."""
    sure = case.operator.ordered or not case.operator.drops
    name = "missing_in_stream" if sure else "late"
    gone = {event.arrival for event in left_out}
    events = [event for event in case.events if event.arrival not in gone]
    hypothesis = replayed(case.operator, events, name, {"left_out": sorted(gone)})
    return replace(hypothesis, proved=sure)


def twice(case: Case, repeated: Collection[Event]) -> Hypothesis:
    """Events that the stream saw again, each right after it came."""
    again = [replace(event, arrival=event.arrival + 1) for event in repeated]
    events = sorted([*case.events, *again], key=lambda event: event.arrival)
    evidence = {"repeated": sorted(event.arrival for event in repeated)}
    return replayed(case.operator, events, "redelivered", evidence)
