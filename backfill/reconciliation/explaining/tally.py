"""Which events can be lost or repeated, judged by counts and sums of a window that differs.

Adding up is far faster than replaying, so sets of events that can't give the stream's values are
not replayed.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import combinations, combinations_with_replacement, islice
from math import comb, isfinite
from typing import Any, NamedTuple

from backfill.reconciliation.explaining.case import Case
from backfill.reconciliation.explaining.matching import Difference
from backfill.reconciliation.explaining.nearby import is_apart
from backfill.reconciliation.explaining.outcome import Outcome
from backfill.reconciliation.rows import Row
from backfill.replay import Aggregated, Event
from backfill.windows import CumulatingWindow, HoppingWindow, TumblingWindow

#: Settings under which a window's last pane may lack its last events.
_HOLDS_BACK = ("early", "early_after", "emit_interval")
#: How far apart two sums of doubles in different orders can be, as a share of absolute values.
_SLACK = 1e-9
#: There are too many sets if they hold more events than this and also leave out more.
_FEW = 16


class _Sum(NamedTuple):
    """A count or a sum of a window.

    Attributes:
        wanted: the stream's value, minus the value if all events are counted once.
        slack: how far that may be off.
        of_each: what each event adds, by arrival.
    """

    wanted: float
    slack: float
    of_each: Mapping[Any, float]


class Tally:
    """How a window's counts and sums can become those of the stream.

    This is known only for windows whose events are counted independently of each other, in one row
    on each side, or in none of the stream's. For other windows, anything is possible.

    Args:
        case: the key, or the part of it that is near.
        difference: one of the key's.
        base: what the operator makes of the case's events.
    """

    def __init__(self, case: Case, difference: Difference, base: Outcome) -> None:
        row = _counted(case, difference, base)
        self._inside = None if row is None else {*row.written}
        self._sums: list[_Sum] = []
        self._gone = row is not None and not difference.stream
        # How many more events the stream has; negative if it has fewer.
        self._more: int | None = None
        if row is None or self._gone:
            return
        (theirs,) = difference.stream
        for name, aggregate in case.operator.aggregates.items():
            ours, other = row.values[name], theirs.values[name]
            total = _sum_of(case, aggregate, ours, other, row.written)
            if total is not None:
                self._sums.append(total)
                if is_plain_count(aggregate) and isinstance(other, int):
                    self._more = other - ours

    def many(self, times: int) -> int | None:
        """How many events the stream must have that often, 0 or 2 times; None if any number."""
        return None if self._more is None else max(0, (times - 1) * self._more)

    def counted(self, events: Iterable[Event]) -> list[Event]:
        """The events that are in the window; all if that is unknown."""
        return [e for e in events if self._inside is None or e.arrival in self._inside]

    def fits(self, events: Iterable[Event], times: int) -> bool:
        """Whether the stream can have these events that often, 0 or 2 times, and others once."""
        if self._inside is None:
            return True
        own = [event.arrival for event in self.counted(events)]
        if self._gone:
            return not times and len(own) == len(self._inside)
        if self.many(times) not in (None, len(own)):
            return False
        return all(
            abs(total.wanted - (times - 1) * sum(total.of_each[n] for n in own)) <= total.slack
            for total in self._sums
        )

    def sets(
        self, near: Sequence[Event], size: int, times: int, steps: int
    ) -> tuple[Iterator[Sequence[Event]], bool]:
        """Sets of a size that may fit, and whether there are no others.

        Sets of repeated events may hold an event more than once, as if it had come that often.

        Args:
            near: the events, none twice.
            size: more than one.
            times: 0 or 2.
            steps: the most sets that are examined.
        """
        choose = combinations_with_replacement if times else combinations
        by_value = self._most_distinct(near)
        if by_value is None:
            return islice(choose(near, size), steps), _count(len(near), size, times) <= steps
        firsts = islice(choose(range(len(near)), size - 1), steps)
        candidates = _with_a_last_one(near, times, by_value, firsts)
        return islice(candidates, steps), _count(len(near), size - 1, times) <= steps

    def _most_distinct(self, near: Iterable[Event]) -> _Sum | None:
        """The sum to which events add the most different values; None if all add the same."""
        arrivals = [event.arrival for event in near]
        most, best = 1, None
        for total in self._sums:
            values = {total.of_each.get(n) for n in arrivals}
            if len(values) > most and None not in values:
                most, best = len(values), total
        return best


def _with_a_last_one(
    near: Sequence[Event], times: int, known: _Sum, firsts: Iterable[tuple[int, ...]]
) -> Iterator[Sequence[Event]]:
    """Completes sets, in order of what events add, with a last event that the sum determines."""
    ordered = sorted(near, key=lambda event: known.of_each[event.arrival])
    adds = [known.of_each[event.arrival] for event in ordered]
    total = (times - 1) * known.wanted
    for places in firsts:
        rest = total - sum(adds[at] for at in places)
        low = max(bisect_left(adds, rest - known.slack), places[-1] + (0 if times else 1))
        for last in range(low, bisect_right(adds, rest + known.slack)):
            yield [ordered[at] for at in (*places, last)]


def _count(events: int, size: int, times: int) -> int:
    """How many sets of a size there are; `sys.maxsize` if they are too many to count."""
    if times:
        events += size - 1
    return comb(events, size) if min(size, events - size) <= _FEW else sys.maxsize


def is_plain_count(aggregate: Aggregated) -> bool:
    """Whether it counts all events of a window."""
    return aggregate.python == "count" and aggregate.expression is None and aggregate.where is None


def _counted(case: Case, difference: Difference, base: Outcome) -> Row | None:
    """The row of a difference, if each of its events has added to it independently."""
    operator, hull = case.operator, difference.hull
    aligned = isinstance(operator.window, TumblingWindow | HoppingWindow | CumulatingWindow)
    if not aligned or len(difference.stream) > 1:
        return None
    if not difference.stream and operator.engine.rules.closed == "right":
        # The event at its end moves the clock that completes it.
        return None
    settings = operator.settings
    if any(settings.get(name) for name in _HOLDS_BACK) or settings.get("late", 1) != 1:
        return None
    rows = [row for row in base.rows.about(*hull) if row.bounds == hull]
    near = {event.arrival: event for event in case.inside(hull)}
    if len(rows) != 1 or any(event.value is None for event in near.values()):
        return None
    away = {window.arrival for window in base.dropped_windows.get(hull, ())}
    taken = {n for n in near if n not in base.dropped and n not in away}
    if len(taken) < len(near) and not is_apart(case, base):
        # Without an event that moved the clock, others may not have been late.
        return None
    (row,) = rows
    return row if {*row.written} == taken else None


def _sum_of(
    case: Case, aggregate: Aggregated, ours: Any, theirs: Any, inside: Iterable[Any]
) -> _Sum | None:
    """A count or a sum; None for any other aggregate, or if a value is NULL."""
    if aggregate.python not in ("count", "sum"):
        return None
    of_each = {n: _adds(aggregate, case.by_arrival[n].value or {}) for n in inside}
    numbers = [ours, theirs, *of_each.values()]
    if not all(isinstance(number, int | float | Decimal) for number in numbers):
        return None
    if all(isinstance(number, int) for number in numbers):
        return _Sum(theirs - ours, 0, of_each)
    if not all(map(isfinite, numbers)):
        return None
    slack = _SLACK * sum(abs(float(number)) for number in numbers)
    return _Sum(float(theirs) - float(ours), slack, {n: float(of_each[n]) for n in of_each})


def _adds(aggregate: Aggregated, value: Mapping[str, Any]) -> Any:
    if aggregate.where is not None and value[str(aggregate.where)] is not True:
        return 0
    argument = None if aggregate.expression is None else value[str(aggregate.expression)]
    if aggregate.python == "count":
        return int(aggregate.expression is None or argument is not None)
    return 0 if argument is None else argument
