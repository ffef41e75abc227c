"""How sliding windows count distinct values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import Column
from pyspark.sql import functions as F

from backfill.aggregates.base import Aggregate, Input, Running, States
from backfill.aggregates.numbers import one


@dataclass(frozen=True)
class LastSeen(Running):
    """The exact number of distinct values except NULL; the state is the number itself.

    It can't be merged from parts of a window: `backfill.operators.last_seen` counts it.
    """

    name: ClassVar[str] = "count_distinct"

    def lift(self, given: Input) -> dict[str, Column]:
        return {"n": one(given.value)}

    def finish(self, states: States, events: Column) -> Column:
        return F.coalesce(states["n"], F.lit(0))

    def is_empty(self, value: Column) -> Column:
        return value == 0


def in_frames(aggregate: Aggregate) -> bool:
    """Whether metrics compute it, in its form for sliding windows, for all windows at once."""
    return aggregate.framed or isinstance(aggregate, LastSeen)
