"""The rows of one key, found by their times.

A key can have as many rows as there are minutes in a year, and each of its differences asks for
those near it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import accumulate

from backfill.reconciliation.rows import Row, by_bounds


class Timeline:
    """Rows in order of time.

    Args:
        rows: in any order; those that begin together keep their order.
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = sorted(rows, key=_first)
        self._firsts = [_first(row) for row in self._rows]
        # For each row, the latest end of this row and of all before it.
        self._furthest = [*accumulate((max(row.bounds) for row in self._rows), max)]

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def about(self, low: int, high: int) -> list[Row]:
        """The rows that share an instant with a span or touch it, µs; others may be among them."""
        first = bisect_left(self._furthest, low)
        return self._rows[first : bisect_right(self._firsts, high)]

    @cached_property
    def shortest(self) -> int:
        """The length of the shortest, µs; negative if it ends before it begins; 0 without rows."""
        return min((row.end - row.start for row in self._rows), default=0)

    @cached_property
    def by_bounds(self) -> Mapping[tuple[int, int], list[Row]]:
        """The rows, by their bounds."""
        return by_bounds(self._rows)


def _first(row: Row) -> int:
    return min(row.bounds)
