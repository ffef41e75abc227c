"""The least and the largest values of columns in a window, as aggregates of it."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill import aggregates as agg
from backfill.aggregates.bound import Bound
from backfill.columns import INSTANT


class Extent:
    """The least and the largest values of columns of whole numbers, as aggregates of a window.

    Args:
        index: where their states are numbered from.
        least, largest: columns of the events.

    Attributes:
        bounds: the aggregates.
        least, largest: the values by column, where `bounds` are merged.
    """

    def __init__(self, index: int, *, least: Sequence[str], largest: Sequence[str]) -> None:
        wanted = [*((agg.min, name) for name in least), *((agg.max, name) for name in largest)]
        self.bounds = [
            Bound(kind(name), index + i, name, T.LongType(), (INSTANT,))
            for i, (kind, name) in enumerate(wanted)
        ]
        states = [F.col(state) for bound in self.bounds for state in bound.states()]
        self.least = dict(zip(least, states, strict=False))
        self.largest = dict(zip(largest, states[len(least) :], strict=True))
