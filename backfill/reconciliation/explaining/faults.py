"""Faults of a stream, each with what the output would be under it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from functools import partial
from itertools import pairwise
from typing import Any

from backfill.reconciliation.explaining.case import Case
from backfill.reconciliation.explaining.matching import Difference
from backfill.reconciliation.explaining.operator import Operator
from backfill.reconciliation.explaining.outcome import Hypothesis, Outcome
from backfill.reconciliation.explaining.timeline import Timeline
from backfill.reconciliation.rows import Row, by_bounds, only
from backfill.replay import Event, Window
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
#: No zone is further from UTC, µs.
FURTHEST = 14 * 3600 * 1_000_000
MOST_DIGITS = 6
#: The most gaps that are tried, the most rows that must agree on one, and the most restarts.
_FEW_GAPS, _FEW_ROWS, _FEW_RESTARTS = 5, 100, 30


def of_output(
    case: Case, stream: Sequence[Row], rows: Timeline, besides: Collection[str] = ()
) -> Iterator[Hypothesis]:
    """Faults of the output, whatever the operator made: shifted, with other ends, rounded.

    Args:
        case: the key.
        stream: what the stream has, of one difference or of all.
        rows: what it would have without the fault.
        besides: causes that `rows` already have, which are not tried again.
    """
    if "zone_shift" not in besides and stream:
        for shift in shifts():
            if all(moved(row, -shift).bounds in rows.by_bounds for row in stream):
                yield shifted(rows, shift)
    if "end_convention" not in besides:
        for reach in _ends(case, rows):
            yield _ended(rows, reach)
    if "rounded" not in besides:
        yield from _roundings(case, stream, [*rows])


def of_output_near(case: Case, difference: Difference, rows: Timeline) -> Iterator[Hypothesis]:
    """The same for one difference, with only those rows that a fault can bring there."""
    low, high = difference.hull
    for shift in shifts() if difference.stream else ():
        if all(is_among(case, moved(row, -shift), rows.by_bounds) for row in difference.stream):
            yield shifted(rows.about(low - shift, high - shift), shift)
    ends = _ends(case, rows)
    reach = max(map(abs, ends), default=0)
    near = rows.about(low - reach, high + reach)
    for end in ends:
        yield _ended(near, end)
    yield from _roundings(case, difference.stream, near)


def shifts() -> Iterator[int]:
    """By how much the times of a zone can be off, µs: whole quarters of an hour, as zones are."""
    for away in range(_QUARTER, FURTHEST + 1, _QUARTER):
        yield -away
        yield away


def moved(row: Row, shift: int) -> Row:
    """The row, `shift` µs later."""
    return row._replace(start=row.start + shift, end=row.end + shift)


def is_among(case: Case, row: Row, rows: Mapping[tuple[int, int], Sequence[Row]]) -> bool:
    """Whether a row is among others, which are given by their bounds."""
    return any(case.same(row, other) for other in rows.get(row.bounds, ()))


def shifted(rows: Iterable[Row], shift: int) -> Hypothesis:
    """Rows with the times of another zone, `shift` µs later."""
    return _hypothesis("zone_shift", [moved(row, shift) for row in rows], {"shift_us": shift})


def _ends(case: Case, rows: Timeline) -> list[int]:
    """By how much sessions may end earlier or later, µs, so that none ends before it begins."""
    window = case.operator.window
    if not isinstance(window, SessionWindow):
        return []
    reaches = (window.gap.us, -window.gap.us, -1, 1, -1_000, 1_000)
    return [reach for reach in reaches if rows.shortest + reach >= 0]


def _ended(rows: Iterable[Row], reach: int) -> Hypothesis:
    ended = [row._replace(end=row.end + reach) for row in rows]
    return _hypothesis("end_convention", ended, {"end_shift_us": reach})


def _roundings(case: Case, stream: Sequence[Row], rows: Sequence[Row]) -> Iterator[Hypothesis]:
    """All values rounded alike, or only those that differ."""
    theirs = {row.bounds: row.values for row in stream}
    # What differs between rows of the same bounds: the name, our value and the stream's.
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
                rounded_rows = [
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
                yield _hypothesis("rounded", rounded_rows, shown)


def of_settings(case: Case, difference: Difference) -> Iterator[Hypothesis]:
    """Other windows than the job's, or another gap edge."""
    operator, window = case.operator, case.operator.window
    if isinstance(window, SessionWindow):
        rules = operator.engine.rules
        flipped = replace(rules, gap_inclusive=not rules.gap_inclusive)
        other = replace(operator, engine=replace(operator.engine, rules=flipped))
        evidence = {"gap_inclusive": flipped.gap_inclusive}
        yield case.once("gap_edge", lambda: replayed(other, case.events, "gap_edge", evidence))
        yield from case.once("wrong_gap", lambda: _wrong_gaps(case))
    else:
        for size in sorted({row.end - row.start for row in difference.stream}):
            changed = _sized(window, size)
            if changed is not None:
                yield case.once(("wrong_size", size), partial(_wrong_size, case, changed, size))


def of_restarts(case: Case, difference: Difference, base: Outcome) -> Iterator[Hypothesis]:
    """A restart that is not in the settings, so that events pass that would otherwise be late.

    The operator found its state on disk, or restored it from the changelog, from which the store
    learns the time.
    """
    operator = case.operator
    if "restarts" not in operator.takes or operator.settings.get("restarts"):
        return
    restored = operator.settings.get("restored")
    kinds = (False, True) if restored is None and "restored" in operator.takes else (restored,)
    # Each replays all events, and its outcome is kept, so only a few are tried.
    tried: set[Any] = case.once("restarts", set)
    for arrival in _late(case, difference, base):
        if len(tried | {arrival}) > _FEW_RESTARTS:
            continue
        tried.add(arrival)
        for kind in kinds:
            name = "restart", arrival, kind
            yield case.once(name, partial(_restarted, case, arrival, kind))


def _late(case: Case, difference: Difference, base: Outcome) -> list[Any]:
    """The arrivals of the late events of a difference, in order."""
    near = [event.arrival for event in case.inside(difference.hull)]
    return [n for n in near if any(event.reason == "late" for event in base.dropped.get(n, ()))]


def _restarted(case: Case, arrival: Any, restored: bool | None) -> Hypothesis:
    settings: dict[str, Any] = {"restarts": (arrival,)}
    if restored is not None:
        settings["restored"] = restored
    operator = case.operator
    again = replace(operator, settings={**operator.settings, **settings}, end_clock=None)
    # The clock that the events bring is of an operator that was not restarted.
    bare = [replace(event, clock=None) for event in case.events]
    evidence = {"before_arrival": arrival, "restored": bool(restored)}
    return replace(replayed(again, bare, "restart", evidence), proved=False)


def of_tombstones(case: Case, difference: Difference, base: Outcome) -> Iterator[Hypothesis]:
    """Rows that the operator had sent and taken back, but that are still there."""
    gone = case.once("taken back", lambda: _taken_back(case, base))
    left = {
        row.bounds: sent_row
        for row in difference.stream
        for sent_row in gone.get(row.bounds, ())
        if case.same(row, sent_row)
    }
    if left:
        rows = Timeline([*base.rows.about(*difference.hull), *left.values()])
        evidence = {"left_over": [list(bounds) for bounds in left]}
        yield Hypothesis(("tombstone_missing",), rows, base, evidence)


def _taken_back(case: Case, base: Outcome) -> Mapping[tuple[int, int], list[Row]]:
    """The rows that were sent but are no longer in the output, by bounds."""
    sent = [
        Window(emission.key, emission.start, emission.end, emission.values, None, emission.events)
        for emission in base.made.emissions
        if emission.values is not None
    ]
    final = base.rows.by_bounds
    return by_bounds(row for row in case.operator.rows(sent) if row.bounds not in final)


def replayed(
    operator: Operator, events: Sequence[Event], cause: str, evidence: Mapping[str, Any]
) -> Hypothesis:
    """What the stream would have if an operator had received these events of the key."""
    made = Outcome(operator, events)
    return Hypothesis((cause,), made.rows, made, evidence)


def _hypothesis(cause: str, rows: Iterable[Row], evidence: Mapping[str, Any]) -> Hypothesis:
    return Hypothesis((cause,), Timeline(rows), evidence=evidence)


def _gaps(case: Case) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Gaps that would cut the events as the stream did, and the bounds between which they lie."""
    starts, ends = ({row[side] for row in case.stream} for side in (0, 1))
    inside, between = 0, None
    for before, after in pairwise(sorted(case.times)):
        near = case.written.about(before, after)
        together = any(row.start <= before and after <= row.end for row in near)
        apart = before in ends or after in starts
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
        replayed(
            case.operator.with_window(SessionWindow(gap=Fixed(gap))),
            case.events,
            "wrong_gap",
            bounds,
        )
        for gap, bounds in _gaps(case)
    ]


def _wrong_gaps_at_ends(case: Case) -> list[Hypothesis]:
    """Wrong gaps, if ends include the gap: the job's was taken off the stream's ends."""
    window = case.operator.window
    assert isinstance(window, SessionWindow)
    if not case.stream:
        return []
    of_each = (
        {row.end - time for time in case.times if row.start <= time}
        for row in case.stream[:_FEW_ROWS]
    )
    hypotheses = []
    for more in sorted(set.intersection(*of_each), key=abs)[:_FEW_GAPS]:
        gap = window.gap.us + more
        if more and gap > 0:
            wrong = case.operator.with_window(SessionWindow(gap=Fixed(gap)))
            made = replayed(wrong, case.events, "wrong_gap", {"gap_us": gap})
            rows = Timeline(row._replace(end=row.end + more) for row in made.rows)
            hypotheses.append(replace(made, rows=rows))
    return hypotheses


def _wrong_size(case: Case, window: _Sized, size: int) -> Hypothesis:
    wrong = case.operator.with_window(window)
    return replayed(wrong, case.events, "wrong_size", {"size_us": size})


def _sized(window: AnyWindow, size: int) -> _Sized | None:
    """The same window of another size; None if that is its size, or if it has no fixed size."""
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
    """A double or a decimal with this many digits after the point; other values unchanged."""
    if isinstance(value, bool) or not isinstance(value, float | Decimal):
        return value
    try:
        number = Decimal(repr(value)) if isinstance(value, float) else value
        quantized = number.quantize(Decimal(1).scaleb(-digits), rounding=how)
    except ArithmeticError:
        return value
    return float(quantized) if isinstance(value, float) else quantized
