"""Windows of both sides as plain rows, and when two of them say the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from math import isnan
from typing import Any, NamedTuple

#: Half the distance from 1.0 to the next double: what one addition can be off by, at most.
_UNIT = 2.0**-53


class Row(NamedTuple):
    """One window of one side.

    Attributes:
        start, end: µs; of a session its first and last event, else the window's bounds.
        values: the aggregates by name.
        written: where the stream wrote it; None for the batch.
    """

    start: int
    end: int
    values: Mapping[str, Any]
    written: Any = None

    @property
    def bounds(self) -> tuple[int, int]:
        """Start and end."""
        return self.start, self.end


class Slack(NamedTuple):
    """How far the order of additions can move a sum of doubles.

    Attributes:
        numbers: how many were added.
        magnitude: the sum of their absolute values.
    """

    numbers: int
    magnitude: float

    @property
    def most(self) -> float:
        """N * 2^-53 * sum of absolute values (Higham 2002, section 4.2)."""
        return self.numbers * _UNIT * self.magnitude


def same_value(one: Any, other: Any, slack: Slack | None = None) -> bool:
    """Whether two values are equal; doubles within the slack, and NaN equals NaN."""
    if isinstance(one, float) or isinstance(other, float):
        if not _is_number(one) or not _is_number(other):
            return one is None and other is None
        if isnan(one) or isnan(other):
            return isnan(one) and isnan(other)
        return bool(one == other or (slack is not None and abs(one - other) <= slack.most))
    if isinstance(one, Sequence) and isinstance(other, Sequence) and not isinstance(one, str):
        return list(one) == list(other)
    return bool(one == other)


def same_values(
    one: Mapping[str, Any], other: Mapping[str, Any], slack: Mapping[str, Slack]
) -> bool:
    """Whether all values are the same."""
    return all(same_value(one[name], other[name], slack.get(name)) for name in one)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)
