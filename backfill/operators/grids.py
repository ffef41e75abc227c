"""Grids: how time is cut into slices, and how few of them serve all windows of a job.

Two events in one slice always share their windows. Events are grouped by key and by their slice
in every grid at once, so that one pass serves windows whose boundaries do not agree.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import Column
from pyspark.sql import functions as F


def floor_to(at: Column, width: int, phase: int) -> Column:
    """The largest `phase` + n * `width` that is not after the instant; exact before 1970."""
    return at - F.pmod(at - phase, F.lit(width))


class Cutting(Protocol):
    """Names the slice of an instant."""

    def cut(self, at: Column) -> Column:
        """A value that is the same for two instants exactly if they share a slice."""


@dataclass(frozen=True)
class Grid:
    """Slices of equal width; `phase` is None where any will do."""

    width: int
    phase: int | None

    @staticmethod
    def of(size: int, advance: int, *, phase: int) -> Grid:
        """The widest slices with a boundary wherever a window starts or ends."""
        width = math.gcd(size, advance)
        return Grid(width, phase % width)

    def cut(self, at: Column) -> Column:
        """The slice's start."""
        return floor_to(at, self.width, self.phase or 0)


def fewest(aligned: Iterable[Grid], gaps: Sequence[int]) -> list[Grid]:
    """The grids of fixed width that serve these windows.

    Grids are joined where that leaves slices at least half as wide as the narrower one had;
    others stay separate.

    Args:
        aligned: one grid per aligned window.
        gaps: the sessions' gaps; some slices must be no wider than the smallest.
    """
    joined: list[Grid] = []
    for grid in sorted(set(aligned), key=lambda candidate: candidate.width):
        for i, other in enumerate(joined):
            both = _join(grid, other)
            if 2 * both.width >= min(grid.width, other.width):
                joined[i] = both
                break
        else:
            joined.append(grid)
    if not gaps or any(grid.width <= min(gaps) for grid in joined):
        return joined
    gap = min(gaps)
    for i, grid in enumerate(joined):
        parts = _parts(grid.width, gap)
        if parts:
            width = grid.width // parts
            return [*joined[:i], Grid(width, (grid.phase or 0) % width), *joined[i + 1 :]]
    return [*joined, Grid(gap, None)]


def _join(one: Grid, other: Grid) -> Grid:
    apart = (one.phase or 0) - (other.phase or 0)
    width = math.gcd(one.width, other.width, apart)
    return Grid(width, (one.phase or 0) % width)


def _parts(width: int, gap: int) -> int | None:
    """Into how many equal parts to cut slices so that they fit the gap without waste."""
    least = -(-width // gap)
    return next((n for n in range(least, 2 * least + 1) if width % n == 0), None)
