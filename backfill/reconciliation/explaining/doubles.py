"""How far the order of additions moves results of doubles, and which results it can give.

In any order, a sum of doubles is at most n * 2^-53 * sum of absolute values away from the true sum
(Higham 2002, section 4.2). Two sums within that distance of each other count as equal. Beyond it
they differ; if some order gives each of the two values, the cause is `float_order`. That is so if
the sum overflows in one order and not in another, or if the two values lie on two sides of the true
sum.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from operator import itemgetter
from typing import Any, Literal

from backfill.reconciliation.rows import Row, Slack, same_values
from backfill.replay import Aggregated, Event

#: Half the distance from 1.0 to the next double: what one addition can be off by, at most.
_UNIT = Fraction(1, 2**53)
_ADDED = ("sum", "mean", "variance", "stddev")


class Doubles:
    """The doubles of one key that are added up.

    Args:
        events: of the key, each once; or with copies, if rows can hold them.
        aggregates: those of doubles, by name.
        tick: the resolution of the windows' bounds, µs.
        closed: which of a window's bounds can be the time of an event in it.
        back: how far rows look back before their start, µs; None without a bound.
    """

    def __init__(
        self,
        events: Iterable[Event],
        aggregates: Mapping[str, Aggregated],
        tick: int,
        closed: Literal["left", "right", "both"] = "both",
        back: int | None = 0,
    ) -> None:
        self._back = back
        self._closed = closed
        self._aggregates = {
            name: aggregate for name, aggregate in aggregates.items() if aggregate.python in _ADDED
        }
        timed = [
            (event.time - event.time % tick, event)
            for event in (events if self._aggregates else ())
            if event.time is not None
        ]
        timed.sort(key=itemgetter(0))
        self._times = [time for time, _ in timed]
        self._events = [event for _, event in timed]

    def slack(self, row: Row) -> dict[str, Slack]:
        """How far apart values of a window of these bounds can be, by aggregate."""
        first = bisect_right if self._closed == "right" else bisect_left
        last = bisect_left if self._closed == "left" else bisect_right
        low = 0 if self._back is None else first(self._times, row.start - self._back)
        high = last(self._times, row.end)
        inside = self._events[low:high]
        return {
            name: _slack(aggregate.python, _values(aggregate, inside))
            for name, aggregate in self._aggregates.items()
        }

    def some_order(self, made: Row, other: Mapping[str, Any], events: Sequence[Event]) -> bool:
        """Whether the other values differ from a row's by the order of additions alone.

        Args:
            made: the row.
            other: values of a window of the same events.
            events: these.
        """
        for name, value in other.items():
            if value == made.values[name] or (value is None and made.values[name] is None):
                continue
            aggregate = self._aggregates.get(name)
            if aggregate is None or not isinstance(value, float):
                return False
            values = _values(aggregate, events)
            if not _some_order(str(aggregate.python), values, value):
                return False
        return True


def same_rows(one: Row, other: Row, doubles: Doubles) -> bool:
    """Whether rows of the same bounds have the same values."""
    alike = same_values(one.values, other.values, {})
    return alike or same_values(one.values, other.values, doubles.slack(one))


def _values(aggregate: Aggregated, events: Iterable[Event]) -> list[float]:
    where, name = aggregate.where, str(aggregate.expression)
    values = [event.value for event in events if event.value is not None]
    numbers = [value[name] for value in values if where is None or value[str(where)] is True]
    return [float(number) for number in numbers if number is not None]


def _slack(python: str | None, values: Sequence[float]) -> Slack:
    if not values or not all(map(math.isfinite, values)):
        return Slack(Fraction(0))
    count = len(values)
    if python in ("variance", "stddev"):
        # Twice, since two ways to compute it are compared, and not two orders of one.
        squares = sum(Fraction(value) ** 2 for value in values)
        most = 2 * count * _UNIT * squares / max(1, count - 1)
        return Slack(most, squared=python == "stddev")
    bound = count * _UNIT * _absolute(values)
    return Slack(bound if python == "sum" else bound / count + _UNIT * bound)


def _absolute(values: Iterable[float]) -> Fraction:
    """The sum of absolute values."""
    return sum((abs(Fraction(value)) for value in values), Fraction(0))


def _some_order(python: str, values: Sequence[float], value: float) -> bool:
    if python not in ("sum", "mean") or not all(map(math.isfinite, values)):
        return False
    if not math.isfinite(value):
        return _absolute(values) > Fraction(sys.float_info.max)
    true = sum((Fraction(number) for number in values), Fraction(0))
    if python == "mean":
        true /= len(values)
    return abs(Fraction(value) - true) <= _slack(python, values).most
