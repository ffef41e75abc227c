"""Merges steps that no wanted row tells apart: a day's rows do not need every step of ninety days.

An event counts from a step on, and ceases to count a window's length later. If only the rows of
some span are wanted, each of the two steps has to be exact if it is in the span. For other events
it only matters that they count, or have ceased to, before the span or after it. So a long window is
merged from the slices at its edges, and from one slice for all that lies between.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column
from pyspark.sql import functions as F

from backfill.time.spans import Span


def steps_near(step: int, offset: int, rows: Span) -> tuple[int, int] | None:
    """The last step before the rows of a span, and the last step of the span; µs.

    None where the span has no start or no end.
    """
    low, high = rows
    if low is None or high is None:
        return None
    return low - 1 - (low - 1 - offset) % step, high - 1 - (high - 1 - offset) % step


def coarse_steps(at: Column, spans: Iterable[int], step: int, near: tuple[int, int]) -> Column:
    """For each event, a step that leaves the rows of a span unchanged.

    Args:
        at: the step from which on an event counts, µs.
        spans: the windows' lengths, µs; whole numbers of steps.
        step: the distance between steps, µs.
        near: as `steps_near` returns them.

    Returns:
        A step. With it the windows hold the same events at all steps from the first to the last
        of `near`.
    """
    before, last = near
    exact = _joined((before + step - span, last + step - span) for span in (0, *spans))
    cases = []
    between = exact[0][0] - step
    for low, high in exact:
        # BIGINT, like `at`: Sail 0.7.2 takes the first case's type for all cases.
        cases += [(at < low, F.lit(between).cast("long")), (at < high, at)]
        between = high
    coarse = F.when(*cases[0])
    for case in cases[1:]:
        coarse = coarse.when(*case)
    return coarse.otherwise(F.lit(between).cast("long"))


def _joined(stretches: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The stretches in order, with those that overlap or touch merged."""
    joined: list[tuple[int, int]] = []
    for low, high in sorted(stretches):
        if joined and low <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(high, joined[-1][1])
        else:
            joined.append((low, high))
    return joined
