"""Which events can be lost or repeated, by the counts and sums of a window that differs.

To add up is faster than to replay, by far; so what can't come to the stream's values is not
replayed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from decimal import Decimal
from math import isfinite
from typing import Any

from backfill.reconciliation.case import Case
from backfill.reconciliation.matching import Difference
from backfill.reconciliation.nearby import is_apart
from backfill.reconciliation.outcome import Outcome
from backfill.reconciliation.rows import Row
from backfill.replay import Aggregated, Event
from backfill.windows import CumulatingWindow, HoppingWindow, TumblingWindow

#: Settings with which a window's last pane may be without its last events.
_HOLDS_BACK = ("early", "early_after", "emit_interval")
#: Doubles are added up in some order: so far apart, as a share of them all, are two sums at most.
_SLACK = 1e-9
#: What events must add to come to the stream's value, how far that may be off, and what each adds.
_Sum = tuple[float, float, Mapping[Any, float]]


class Tally:
    """How a window's counts and sums can be those of the stream.

    Only of windows whose events are counted independently of each other, in one row on each side,
    or in none of the stream's; of others, whatever is asked can be.

    Args:
        case: the key, or the part of it that is near.
        difference: one of its.
        base: what the operator makes of the case's events.
    """

    def __init__(self, case: Case, difference: Difference, base: Outcome) -> None:
        row = _counted(case, difference, base)
        self._inside = None if row is None else {*row.written}
        self._sums: list[_Sum] = []
        self._gone = False
        # By how many events more or fewer the stream has.
        self._more: int | None = None
        if row is None:
            return
        self._gone = not difference.stream
        if self._gone:
            return
        (theirs,) = difference.stream
        for name, aggregate in case.operator.aggregates.items():
            ours, other = row.values[name], theirs.values[name]
            self._sums += _sums(case, aggregate, ours, other, row.written)
            if is_plain_count(aggregate):
                self._more = other - ours

    @property
    def counts(self) -> bool:
        """Whether anything is known."""
        return self._inside is not None

    def many(self, times: int) -> int | None:
        """How many events the stream must have that often, 0 or 2 times; None if any number."""
        return None if self._more is None else max(0, (times - 1) * self._more)

    def counted(self, events: Iterable[Event]) -> list[Event]:
        """Those that are in the window; all where that is not known."""
        return [e for e in events if self._inside is None or e.arrival in self._inside]

    def fits(self, events: Iterable[Event], times: int) -> bool:
        """Whether the stream can have these events that often, 0 or 2 times, and others once."""
        if self._inside is None:
            return True
        own = [each.arrival for each in self.counted(events)]
        if self._gone:
            return not times and len(own) == len(self._inside)
        if self.many(times) not in (None, len(own)):
            return False
        return all(
            abs(wanted - (times - 1) * sum(of_each[n] for n in own)) <= slack
            for wanted, slack, of_each in self._sums
        )


def is_plain_count(aggregate: Aggregated) -> bool:
    """Whether it counts all events of a window."""
    return aggregate.python == "count" and aggregate.expression is None and aggregate.where is None


def _counted(case: Case, difference: Difference, base: Outcome) -> Row | None:
    """The row of a difference, if it is what each of the events in it has added by itself."""
    operator, hull = case.operator, difference.hull
    aligned = isinstance(operator.window, TumblingWindow | HoppingWindow | CumulatingWindow)
    if not aligned or len(difference.stream) > 1:
        return None
    settings = operator.settings
    if any(settings.get(name) for name in _HOLDS_BACK) or settings.get("late", 1) != 1:
        return None
    rows = [row for row in base.rows.about(*hull) if row.bounds == hull]
    near = {each.arrival: each for each in case.inside(hull)}
    if len(rows) != 1 or any(each.value is None for each in near.values()):
        return None
    away = {each.arrival for each in base.dropped_windows.get(hull, ())}
    taken = {n for n in near if n not in base.dropped and n not in away}
    if len(taken) < len(near) and not is_apart(case, base):
        # Without an event that moved the clock others may not be late.
        return None
    (row,) = rows
    return row if {*row.written} == taken else None


def _sums(
    case: Case, aggregate: Aggregated, ours: Any, theirs: Any, inside: Collection[Any]
) -> Iterator[_Sum]:
    """Of a count or a sum what tells events apart."""
    if aggregate.python not in ("count", "sum"):
        return
    of_each = {n: _adds(aggregate, case.by_arrival[n].value or {}) for n in inside}
    numbers = [ours, theirs, *of_each.values()]
    if not all(isinstance(each, int | float | Decimal) for each in numbers):
        return
    if all(isinstance(each, int) for each in numbers):
        yield theirs - ours, 0, of_each
    elif all(map(isfinite, numbers)):
        slack = _SLACK * sum(abs(float(each)) for each in numbers)
        yield float(theirs) - float(ours), slack, {n: float(each) for n, each in of_each.items()}


def _adds(aggregate: Aggregated, value: Mapping[str, Any]) -> Any:
    if aggregate.where is not None and value[str(aggregate.where)] is not True:
        return 0
    found = None if aggregate.expression is None else value[str(aggregate.expression)]
    if aggregate.python == "count":
        return int(aggregate.expression is None or found is not None)
    return 0 if found is None else found
