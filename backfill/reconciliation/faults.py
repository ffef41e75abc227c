"""Faults of a stream, each as what its output would be if that fault were there."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from functools import partial
from itertools import combinations, islice, pairwise
from typing import Any

from backfill.reconciliation.case import Case, Hypothesis
from backfill.reconciliation.matching import Difference
from backfill.reconciliation.operator import Operator
from backfill.reconciliation.rows import Row, only
from backfill.replay import Event, Replayed, Window
from backfill.time.durations import Fixed
from backfill.windows import (
    AnyWindow,
    HoppingWindow,
    SessionWindow,
    SlidingWindow,
    TumblingWindow,
)

_Sized = SlidingWindow | TumblingWindow | HoppingWindow
_QUARTER = 15 * 60 * 1_000_000
_FURTHEST = 14 * 3600 * 1_000_000
_MOST_LEFT_OUT = 3
MOST_DIGITS = 6
#: So many gaps are tried that so many rows have in common.
_FEW_GAPS, _FEW_ROWS = 5, 100


def of_output(
    case: Case, difference: Difference, rows: Sequence[Row], besides: Collection[str] = ()
) -> Iterator[Hypothesis]:
    """Faults of what was written, whatever the operator made: shifted, other ends, rounded.

    Args:
        case: the key.
        difference: what the stream has.
        rows: what it would have.
        besides: causes that these have already, and that are not tried again.
    """
    if "zone_shift" not in besides:
        yield from of_shifts(difference.stream, rows)
    window = case.operator.window
    if "end_convention" not in besides and isinstance(window, SessionWindow):
        for reach in (window.gap.us, -window.gap.us, -1, 1, -1_000, 1_000):
            ended = [row._replace(end=row.end + reach) for row in rows]
            if all(row.start <= row.end for row in ended):
                yield _hypothesis("end_convention", ended, {"end_shift_us": reach})
    if "rounded" not in besides:
        yield from _roundings(case, difference, rows)


def of_shifts(stream: Sequence[Row], rows: Sequence[Row]) -> Iterator[Hypothesis]:
    """Times of another zone, by which rows of the stream would be some of these."""
    for shift in _shifts(stream, rows):
        moved = [row._replace(start=row.start + shift, end=row.end + shift) for row in rows]
        yield _hypothesis("zone_shift", moved, {"shift_us": shift})


def _roundings(case: Case, difference: Difference, rows: Sequence[Row]) -> Iterator[Hypothesis]:
    """All values rounded alike, or only those that differ."""
    theirs = {row.bounds: row.values for row in difference.stream}
    # What differs between rows of the same bounds: from our value, and to the stream's.
    apart = [
        (name, value, theirs[row.bounds][name])
        for row in rows
        if row.bounds in theirs
        for name, value in row.values.items()
        if value != theirs[row.bounds][name]
        and not case.same(only(row, [name]), Row(*row.bounds, {name: theirs[row.bounds][name]}))
    ]
    differ = {name for name, _, _ in apart}
    for digits in range(MOST_DIGITS + 1) if apart else ():
        for how in (ROUND_HALF_UP, ROUND_HALF_EVEN, ROUND_DOWN):
            if not all(rounded(ours, digits, how) == other for _, ours, other in apart):
                continue
            evidence = {"digits": digits, "how": how.removeprefix("ROUND_").lower()}
            for names in (None, differ):
                found = [
                    row._replace(
                        values={
                            name: rounded(value, digits, how)
                            if names is None or name in names
                            else value
                            for name, value in row.values.items()
                        }
                    )
                    for row in rows
                ]
                shown = evidence if names is None else {**evidence, "of": sorted(names)}
                yield _hypothesis("rounded", found, shown)


def of_settings(case: Case, difference: Difference) -> Iterator[Hypothesis]:
    """Other windows than the job's, another gap edge, a restart that is not in the settings."""
    operator, window = case.operator, case.operator.window
    if isinstance(window, SessionWindow):
        rules = operator.engine.rules
        flipped = replace(rules, gap_inclusive=not rules.gap_inclusive)
        other = replace(operator, engine=replace(operator.engine, rules=flipped))
        evidence = {"gap_inclusive": flipped.gap_inclusive}
        yield case.once("gap_edge", lambda: _replayed(other, case.events, "gap_edge", evidence))
        yield from case.once("wrong_gap", lambda: _wrong_gaps(case))
    else:
        for size in sorted({row.end - row.start for row in difference.stream}):
            changed = _sized(window, size)
            if changed is not None:
                yield case.once(("wrong_size", size), partial(_wrong_size, case, changed, size))


def of_restarts(case: Case, base: Replayed) -> Iterator[Hypothesis]:
    """A restart that is not in the settings: events pass that would be late otherwise.

    Its state was found on disk, or restored from the changelog, from which the store learns the
    time.
    """
    operator = case.operator
    if "restarts" not in operator.takes or operator.settings.get("restarts"):
        return
    restored = operator.settings.get("restored")
    kinds = (False, True) if restored is None and "restored" in operator.takes else (restored,)
    for arrival in sorted({each.arrival for each in base.dropped if each.reason == "late"}):
        for restored in kinds:
            name = "restart", arrival, restored
            yield case.once(name, partial(_restarted, case, arrival, restored))


def _restarted(case: Case, arrival: Any, restored: bool | None) -> Hypothesis:
    settings: dict[str, Any] = {"restarts": (arrival,)}
    if restored is not None:
        settings["restored"] = restored
    operator = case.operator
    again = replace(operator, settings={**operator.settings, **settings}, end_clock=None)
    # The clock that the events bring is of an operator that was not restarted.
    bare = [replace(each, clock=None) for each in case.events]
    evidence = {"before_arrival": arrival, "restored": bool(restored)}
    return replace(_replayed(again, bare, "restart", evidence), proved=False)


def of_tombstones(case: Case, difference: Difference, base: Replayed) -> Iterator[Hypothesis]:
    """Rows that the operator had sent and taken back, but that are still there."""
    rows = case.operator.written(base)
    final = {row.bounds for row in rows}
    sent = [
        Window(each.key, each.start, each.end, each.values, None, each.events)
        for each in base.emissions
        if each.values is not None
    ]
    gone = [row for row in case.operator.rows(sent) if row.bounds not in final]
    left = {
        each.bounds: each for each in gone if any(case.same(row, each) for row in difference.stream)
    }
    if left:
        evidence = {"left_over": [list(each) for each in left]}
        yield Hypothesis(("tombstone_missing",), [*rows, *left.values()], base, evidence)


def of_input(case: Case, difference: Difference, base: Replayed) -> Iterator[Hypothesis]:
    """Events that the stream never saw, or saw twice."""
    most, near = case.tries, _near(case, difference)
    yield from islice(of_one_event(case, difference, base), 2 * most)
    more = (few for many in range(2, _MOST_LEFT_OUT + 1) for few in combinations(near, many))
    for few in islice(more, max(most - len(near), 0)):
        yield without(case, few)


def of_one_event(case: Case, difference: Difference, base: Replayed) -> Iterator[Hypothesis]:
    """One event that the stream never saw, or saw twice; or all of a window, or of the key."""
    near = _near(case, difference)
    # Of a window that the stream has not at all, all events are missing.
    bounds = {row.bounds for row in case.stream}
    groups: list[tuple[list[Event], bool]] = []
    if near:
        groups = [(near, not difference.stream), (list(case.events), not case.stream)]
    rows = [row for row in case.operator.written(base) if case.meets(row, difference.hull)]
    groups += [
        ([each for each in near if case.within(each, row.bounds)], row.bounds not in bounds)
        for row in rows
    ]
    for group, gone in groups:
        found = without(case, group)
        evidence = {**found.evidence, "all_of_a_window": True} if gone else found.evidence
        yield replace(found, evidence=evidence)
    for event in near:
        yield without(case, [event])
    for event in near:
        again = replace(event, arrival=event.arrival + 1)
        events = sorted([*case.events, again], key=lambda each: each.arrival)
        evidence = {"repeated": [event.arrival]}
        yield _replayed(case.operator, events, "redelivered", evidence)


def _near(case: Case, difference: Difference) -> list[Event]:
    return [each for each in case.events if case.within(each, difference.hull)]


def without(case: Case, left_out: Sequence[Event]) -> Hypothesis:
    """Events that the stream never saw."""
    sure = case.operator.ordered or not case.operator.drops
    name = "missing_in_stream" if sure else "late"
    gone = {each.arrival for each in left_out}
    events = [each for each in case.events if each.arrival not in gone]
    found = _replayed(case.operator, events, name, {"left_out": sorted(gone)})
    return replace(found, proved=sure)


def _replayed(
    operator: Operator, events: Sequence[Event], cause: str, evidence: Mapping[str, Any]
) -> Hypothesis:
    made = operator.replay(events)
    return Hypothesis((cause,), operator.written(made), made, evidence)


def _hypothesis(cause: str, rows: Sequence[Row], evidence: Mapping[str, Any]) -> Hypothesis:
    return Hypothesis((cause,), rows, evidence=evidence)


def _shifts(stream: Sequence[Row], rows: Sequence[Row]) -> list[int]:
    """By how much the stream's rows may be shifted: whole quarters of an hour, as zones are."""
    found = {
        theirs.start - ours.start
        for theirs in stream
        for ours in rows
        if theirs.end - theirs.start == ours.end - ours.start
    }
    return sorted(
        (each for each in found if each and not each % _QUARTER and abs(each) <= _FURTHEST),
        key=abs,
    )


def _gaps(case: Case) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Gaps that would cut the events as the stream did, and between which bounds they lie."""
    stream = sorted(case.stream, key=lambda row: row.bounds)
    times = sorted({time for each in case.events if (time := case.floored(each)) is not None})
    inside, between = 0, None
    for before, after in pairwise(times):
        together = any(row.start <= before and after <= row.end for row in stream)
        apart = any(row.end == before for row in stream) or any(
            row.start == after for row in stream
        )
        if together:
            inside = max(inside, after - before)
        elif apart:
            between = after - before if between is None else min(between, after - before)
    window, tick = case.operator.window, case.operator.engine.tick_us
    assert isinstance(window, SessionWindow)
    if not case.operator.engine.rules.gap_inclusive:
        inside += tick
    if inside and (between is None or inside < between) and inside != window.gap.us:
        known = window.gap.us
        within = inside <= known and (between is None or known < between)
        if not within:
            yield inside, {"at_least_us": inside, "less_than_us": between}
    elif not inside and between is not None and between <= window.gap.us:
        yield tick, {"at_least_us": 0, "less_than_us": between}


def _wrong_gaps(case: Case) -> list[Hypothesis]:
    if case.operator.engine.rules.session_end == "last_event_plus_gap":
        return _wrong_gaps_at_ends(case)
    return [
        _replayed(
            case.operator.with_window(SessionWindow(gap=Fixed(gap))),
            case.events,
            "wrong_gap",
            bounds,
        )
        for gap, bounds in _gaps(case)
    ]


def _wrong_gaps_at_ends(case: Case) -> list[Hypothesis]:
    """Gaps that an engine adds to the last event, of which the job's was taken from its ends."""
    window = case.operator.window
    assert isinstance(window, SessionWindow)
    times = {time for each in case.events if (time := case.floored(each)) is not None}
    of_each = (
        {row.end - time for time in times if row.start <= time} for row in case.stream[:_FEW_ROWS]
    )
    found = []
    for more in sorted(set.intersection(*of_each), key=abs)[:_FEW_GAPS]:
        gap = window.gap.us + more
        if more and gap > 0:
            wrong = case.operator.with_window(SessionWindow(gap=Fixed(gap)))
            made = _replayed(wrong, case.events, "wrong_gap", {"gap_us": gap})
            rows = [row._replace(end=row.end + more) for row in made.rows]
            found.append(replace(made, rows=rows))
    return found


def _wrong_size(case: Case, window: _Sized, size: int) -> Hypothesis:
    wrong = case.operator.with_window(window)
    return _replayed(wrong, case.events, "wrong_size", {"size_us": size})


def _sized(window: AnyWindow, size: int) -> _Sized | None:
    """The same window of another size; None where that is its size, or it has no fixed one."""
    if isinstance(window, SlidingWindow) and window.distinct:
        assert window.size is not None
        return (
            SlidingWindow(size=Fixed(size), distinct=True) if 0 < size != window.size.us else None
        )
    if not isinstance(window, TumblingWindow | HoppingWindow):
        return None
    if not isinstance(window.size, Fixed) or window.size.us == size or size <= 0:
        return None
    if isinstance(window, HoppingWindow):
        return HoppingWindow(size=Fixed(size), advance=window.advance, offset=window.offset)
    return TumblingWindow(size=Fixed(size), offset=window.offset)


def rounded(value: Any, digits: int, how: str) -> Any:
    """A double or a decimal with so many digits behind the point; others as they are."""
    if isinstance(value, bool) or not isinstance(value, float | Decimal):
        return value
    try:
        number = Decimal(repr(value)) if isinstance(value, float) else value
        found = number.quantize(Decimal(1).scaleb(-digits), rounding=how)
    except ArithmeticError:
        return value
    return float(found) if isinstance(value, float) else found
