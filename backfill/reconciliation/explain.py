"""The causes of one key's differences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from backfill.causes import CAUSES, UNEXPLAINED
from backfill.engines import PLAIN
from backfill.reconciliation.case import Case, Explanation, Hypothesis
from backfill.reconciliation.doubt import (
    beside_lost,
    has_strange,
    in_doubt,
    is_needed,
    is_of_gap,
    may_wait,
)
from backfill.reconciliation.faults import (
    of_input,
    of_output,
    of_restarts,
    of_settings,
    of_tombstones,
)
from backfill.reconciliation.matching import Difference
from backfill.reconciliation.rows import Row
from backfill.reconciliation.shifted import is_moved, is_only_alike, moved_rows
from backfill.replay import Event, Replayed
from backfill.windows import SlidingWindow, is_distinct

#: The causes that a replay shows by itself, in the order in which they count.
_SHOWN = tuple(name for name, each in CAUSES.items() if each.shown)
_OF_ORDER = {name for name, each in CAUSES.items() if each.of_order}

#: What it is called that the replay dropped an event. Where an engine's time begins at the epoch
#: is a convention of its own.
_DROPPED = {
    "late": "late",
    "past_retention": "retention",
    "no_key": "missing_in_stream",
    "before_epoch": "end_convention",
}


def explain(case: Case) -> list[Explanation]:
    """Why each difference is there, in the order of `case.differences`."""
    case = _renumbered(case)
    base = case.operator.replay(case.events)
    rows = case.operator.written(base)
    settled = not case.stream or not case.tries or case.gives_all(rows)
    plain = Hypothesis((), rows, base)
    everywhere = None if settled else _one_for_all(case, plain)
    if everywhere is not None:
        needed = is_needed(case, case.differences, base) and not is_of_gap(case, everywhere)
        everywhere = everywhere if needed else in_doubt(everywhere)
    moved = None if settled or everywhere is not None else moved_rows(case, plain.rows)
    doubted: list[Difference] = []
    if moved is not None:
        moved = _both(plain, moved)
        of_it = [each for each in case.differences if is_moved(case, each, rows, moved)]
        if not is_needed(case, of_it, base):
            # It explains these, too, and so does what is found for them one by one.
            moved, doubted = None, of_it
    found: list[Explanation] = []
    # The places of those that the operator as it is described does not give, shifted or not.
    others = set()
    for place, difference in enumerate(case.differences):
        if case.gives(rows, difference.hull):
            found.append(_shown(case, difference, plain))
        elif moved is not None and is_moved(case, difference, rows, moved):
            found.append(_shown(case, difference, moved))
        else:
            others.add(place)
            if everywhere is not None:
                one = _shown(case, difference, everywhere)
            elif not case.tries:
                one = Explanation((UNEXPLAINED,), False, {"looked_further": False})
            else:
                one = _searched(case, difference, plain, base)
            found.append(in_doubt(one) if one.proved and difference in doubted else one)
    found = beside_lost(case, found, others)
    if has_strange(case, found, others, rows):
        found = [in_doubt(e) if e.proved and "left_out" in e.evidence else e for e in found]
    return found


def _one_for_all(case: Case, plain: Hypothesis) -> Hypothesis | None:
    """One fault of settings or output that gives all the rows that the stream has of the key."""
    widest = Difference(
        tuple(row for each in case.differences for row in each.batch),
        tuple(row for each in case.differences for row in each.stream),
    )
    for first in (plain, *of_settings(case, widest)):
        if first.causes and case.gives_all(first.rows):
            return first
        if len(first.rows) != len(case.stream):
            # No fault of the output makes more rows of them, or fewer.
            continue
        for second in of_output(case, widest, first.rows):
            if case.gives_all(second.rows):
                return _both(first, second)
            for third in of_output(case, widest, second.rows, besides=second.causes):
                if case.gives_all(third.rows):
                    return _both(_both(first, second), third)
    return None


def _searched(case: Case, difference: Difference, plain: Hypothesis, base: Replayed) -> Explanation:
    """One fault that gives the stream's rows about a difference; then one of the output besides."""
    kinds: list[Iterator[Hypothesis]] = [of_restarts(case, base)]
    if difference.stream:
        kinds = [
            of_tombstones(case, difference, base),
            of_settings(case, difference),
            _of_its_output(case, difference, plain.rows),
            *kinds,
        ]
    for kind in kinds:
        for each in kind:
            if case.gives(each.rows, difference.hull):
                needed = not each.proved or is_needed(case, [difference], base)
                found = _both(plain, each)
                return _shown(case, difference, found if needed else in_doubt(found))
    holding = [
        each for each in of_input(case, difference, base) if case.gives(each.rows, difference.hull)
    ]
    if holding:
        return _shown(case, difference, _only_one(case, holding))
    for first in (*of_tombstones(case, difference, base), *of_settings(case, difference)):
        for second in _of_its_output(case, difference, first.rows):
            if case.gives(second.rows, difference.hull):
                return _shown(case, difference, _both(first, second))
    return _not_replayed(case, difference)


def _of_its_output(case: Case, difference: Difference, rows: Sequence[Row]) -> Iterator[Hypothesis]:
    """Faults of what was written about one difference, while other windows are as they should be.

    A window that the stream has where it belongs has not been shifted to here: it is only alike.
    """
    for each in of_output(case, difference, rows):
        if "shift_us" not in each.evidence or not is_only_alike(case, difference, each):
            yield each


def _only_one(case: Case, holding: Sequence[Hypothesis]) -> Hypothesis:
    """Of explanations that hold, the one with the fewest events; proved where it is the only one.

    Sets of events that are equal but for their arrival are one explanation.
    """
    by_arrival = {each.arrival: each for each in case.events}

    def rows_of(each: Hypothesis) -> tuple[Any, ...]:
        events = [
            by_arrival[n] for n in (each.evidence.get("left_out") or each.evidence["repeated"])
        ]
        return each.causes[0], sorted(
            (e.time or 0, repr(sorted((e.value or {}).items()))) for e in events
        )

    def events_of(each: Hypothesis) -> int:
        return len(each.evidence.get("left_out", (0,)))

    fewest = min(holding, key=events_of)
    whole = [each for each in holding if each.evidence.get("all_of_a_window")]
    if whole and min(map(events_of, whole)) <= events_of(fewest):
        return min(whole, key=events_of)
    different = {repr(rows_of(each)) for each in holding if not _says_more(each, fewest)}
    evidence = {**fewest.evidence, "explanations": len(different)}
    return replace(fewest, proved=fewest.proved and len(different) == 1, evidence=evidence)


def _says_more(one: Hypothesis, other: Hypothesis) -> bool:
    """Whether one leaves out what another does, and further events, which may be missing as well.

    But not those that the operator drops under the other: they were late, or are missing.
    """
    left_out, fewer = ({*each.evidence.get("left_out", ())} for each in (one, other))
    assert other.replayed is not None
    dropped = {each.arrival for each in other.replayed.dropped}
    return bool(fewer) and fewer < left_out and not (left_out - fewer) & dropped


def _not_replayed(case: Case, difference: Difference) -> Explanation:
    """Nothing gives the rows: an event that only the stream can have seen, or an unknown cause."""
    known = {case.floored(each) for each in case.events}
    strange = [r for r in difference.stream if case.sessions and not {*r.bounds} <= known]
    if strange:
        bounds = [list(row.bounds) for row in strange]
        return Explanation(("missing_in_batch",), False, {"no_event_at": bounds})
    return Explanation((UNEXPLAINED,), False)


def _shown(case: Case, difference: Difference, found: Hypothesis) -> Explanation:
    """What the replay shows about a difference, besides the fault that it assumes."""
    hull = difference.hull
    evidence: dict[str, Any] = dict(found.evidence)
    shown: set[str] = set()
    if found.replayed is not None:
        shown = _facts(case, difference, found.replayed, evidence)
    if case.expired is not None and not difference.batch and hull[1] < case.expired:
        shown.add("retention")
    causes = (*found.causes, *(each for each in _SHOWN if each in shown - set(found.causes)))
    rows = [row for row in found.rows if case.concerns(row, hull)]
    if causes:
        # What an unknown order of arrival decides, another order may decide otherwise.
        sure = case.operator.ordered or not case.operator.drops or not _OF_ORDER & {*causes}
        shown_by = Explanation(causes, found.proved and sure, evidence, rows)
        waits = "missing_in_stream" in causes and may_wait(case, difference)
        return in_doubt(shown_by) if waits else shown_by
    # The operator, fed with the source's events, gives what the stream has: so it is the batch's
    # conventions that are others, or the order in which it adds, or its events.
    made = [row for row in case.once("batch", lambda: _in_batch(case)) if case.concerns(row, hull)]
    made.sort(key=lambda row: row.bounds)
    batch = sorted(difference.batch, key=lambda row: row.bounds)
    pairs = list(zip(batch, made, strict=False))
    if len(batch) != len(made) or any(ours.bounds != each.bounds for ours, each in pairs):
        return Explanation(("missing_in_batch",), True, evidence, rows)
    if not all(case.same(ours, each) for ours, each in pairs):
        by_arrival = {each.arrival: each for each in case.events}
        ordered = all(
            case.doubles.some_order(each, ours.values, [by_arrival[n] for n in each.written])
            for ours, each in pairs
        )
        cause = "float_order" if ordered else "missing_in_batch"
        return Explanation((cause,), True, evidence, rows)
    theirs = {row.bounds: row for row in rows}
    alike = all(each.bounds in theirs and case.same(each, theirs[each.bounds]) for each in made)
    if difference.status == "value_differs" and alike:
        # The values that differ are not among those that are replayed.
        return Explanation(("missing_in_batch",), True, evidence, rows)
    return Explanation((_convention(case),), True, evidence, rows)


def _convention(case: Case) -> str:
    """What an engine's other rules are called: of the gap's edge, or of where windows are."""
    ours = case.batch.engine.rules if case.batch is not None else PLAIN.rules
    theirs = case.operator.engine.rules
    edge = case.sessions and ours.gap_inclusive != theirs.gap_inclusive
    return "gap_edge" if edge else "end_convention"


def _facts(
    case: Case, difference: Difference, made: Replayed, evidence: dict[str, Any]
) -> set[str]:
    hull = difference.hull
    shown = set()
    near = {each.arrival for each in case.events if case.within(each, hull)}
    lost = [
        (each.arrival, each.late_by, _DROPPED[each.reason])
        for each in made.dropped
        if each.reason in _DROPPED and each.arrival in near
    ]
    lost += [
        (each.arrival, each.late_by, "late")
        for each in made.dropped_windows
        if any((each.start, each.end) == row.bounds for row in difference.batch)
    ]
    for arrival, late_by, cause in sorted(set(lost), key=repr):
        shown.add(cause)
        evidence.setdefault("dropped", []).append({"arrival": arrival, "late_by_us": late_by})
    for windows, cause in (
        (made.pending, "pending"),
        (made.lost, "engine_loss"),
        (made.begun_anew, "engine_loss" if case.operator.stores else "overlap"),
        # Of panes, what was merged into a session is that session's, which may be pending.
        (made.superseded if case.operator.stores else (), "engine_loss"),
    ):
        rows = [row for row in case.operator.rows(windows) if case.concerns(row, hull)]
        if rows:
            shown.add(cause)
            evidence.setdefault(cause, []).extend(list(row.bounds) for row in rows)
    gone = {each.arrival for each in made.dropped}
    misplaced = _misplaced(case, hull, made, gone, missing=not lost)
    if misplaced:
        shown.add("engine_loss")
        evidence["misplaced"] = misplaced
    copies = sorted(near & case.copies.keys() - gone)
    if copies:
        shown.add("redelivered")
        evidence["copies"] = copies
    return shown


def _misplaced(
    case: Case, hull: tuple[int, int], made: Replayed, gone: set[Any], *, missing: bool
) -> list[Any]:
    """Events that the operator took, and that are not in the row where they belong, or in another.

    Of windows around single events. Flink clears a key's state when nothing came for long, and
    then takes earlier rows again. With late events that it does not drop, Kafka Streams lacks
    windows, and takes states of windows for others.

    Args:
        case: of the key.
        hull: the bounds of the row.
        made: what was replayed.
        gone: the events that were dropped.
        missing: that there is no such row is not for the sake of dropped events.
    """
    window = case.operator.window
    if not isinstance(window, SlidingWindow):
        return []
    distinct = is_distinct(window)
    inside = {
        each.arrival
        for each in case.events
        if case.within(each, hull) and not (distinct and (case.floored(each) or 0) < hull[0])
    }
    rows = [row for row in case.operator.rows(made.final) if case.concerns(row, hull)]
    if not rows:
        return sorted(inside - gone) if distinct and missing else []
    return sorted({n for row in rows for n in (inside - gone) ^ {*row.written}})


def _in_batch(case: Case) -> list[Row]:
    """What a batch makes of the source's events, each counted once."""
    operator = case.operator
    batch = case.batch or replace(operator, engine=PLAIN, settings={}, end_clock=None)
    events = [
        replace(each, clock=None, watermark=None, batch=None)
        for each in case.events
        if each.arrival not in case.copies
    ]
    return batch.rows(batch.replay(events).final)


def _both(first: Hypothesis, second: Hypothesis) -> Hypothesis:
    return Hypothesis(
        causes=(*first.causes, *second.causes),
        rows=second.rows,
        replayed=second.replayed if second.replayed is not None else first.replayed,
        evidence={**first.evidence, **second.evidence},
        proved=first.proved and second.proved,
    )


def _renumbered(case: Case) -> Case:
    """Arrivals as even numbers: there is room for a copy right behind each event.

    Those of a key among others are so already, by their places among all.
    """
    if case.operator.among is not None:
        return case
    ordered: list[Event] = sorted(case.events, key=lambda each: each.arrival)
    places = {each.arrival: 2 * place for place, each in enumerate(ordered)}
    events = [replace(each, arrival=places[each.arrival]) for each in ordered]
    settings = dict(case.operator.settings)
    for name in ("restarts", "commits"):
        given = settings.get(name)
        if given is not None and not isinstance(given, int):
            settings[name] = tuple(_next(ordered, each) for each in given)
    return replace(
        case,
        events=events,
        copies={places[copy]: places.get(first) for copy, first in case.copies.items()},
        operator=replace(case.operator, settings=settings),
    )


def _next(events: Sequence[Event], arrival: Any) -> int:
    """The place of the first of these events that arrived then or later."""
    return next(
        (2 * i for i, each in enumerate(events) if each.arrival >= arrival), 2 * len(events)
    )
