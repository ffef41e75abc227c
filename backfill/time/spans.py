"""Spans of time."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

#: [low, high), µs; None means no bound.
Span = tuple[int | None, int | None]
EVERYTHING: Span = (None, None)


def within(span: Span, other: Span) -> bool:
    """Whether a span lies within another one."""
    (low, high), (first, last) = span, other
    return (first is None or (low is not None and first <= low)) and (
        last is None or (high is not None and high <= last)
    )


def inside_span(at: Column, span: Span) -> Column:
    """Whether an instant (µs) lies in a span."""
    low, high = span
    after = F.lit(True) if low is None else at >= low
    return after if high is None else after & (at < high)
