"""Windows of both sides as plain rows, and when two of them are equal."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from math import isfinite, isnan
from typing import Any, NamedTuple


class Row(NamedTuple):
    """One window of one side.

    Attributes:
        start, end: µs; a session's first and last event, else the window's bounds.
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
    """How far the order of additions can move a value.

    Attributes:
        most: the largest distance, exactly.
        squared: whether `most` is the largest distance of the value's square.
    """

    most: Fraction
    squared: bool = False


def same_value(one: Any, other: Any, slack: Slack | None = None) -> bool:
    """Whether two values are equal; doubles within the slack, and NaN equals NaN."""
    if isinstance(one, float) or isinstance(other, float):
        if not _is_number(one) or not _is_number(other):
            return one is None and other is None
        if isnan(one) or isnan(other):
            return isnan(one) and isnan(other)
        if one == other or slack is None:
            return bool(one == other)
        if not isfinite(one) or not isfinite(other):
            return False
        # Computed exactly: a difference of doubles is rounded, perhaps to what is allowed.
        power = 2 if slack.squared else 1
        return abs(Fraction(one) ** power - Fraction(other) ** power) <= slack.most
    if isinstance(one, Sequence) and isinstance(other, Sequence) and not isinstance(one, str):
        return len(one) == len(other) and all(map(same_value, one, other))
    return bool(one == other)


def same_values(
    one: Mapping[str, Any], other: Mapping[str, Any], slack: Mapping[str, Slack]
) -> bool:
    """Whether all values are the same."""
    return all(same_value(one[name], other[name], slack.get(name)) for name in one)


def only(row: Row, names: Collection[str]) -> Row:
    """The row with some of its values."""
    return row._replace(values={name: row.values[name] for name in row.values if name in names})


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def by_bounds(rows: Iterable[Row]) -> dict[tuple[int, int], list[Row]]:
    """The rows, by their bounds."""
    groups: dict[tuple[int, int], list[Row]] = {}
    for row in rows:
        groups.setdefault(row.bounds, []).append(row)
    return groups
