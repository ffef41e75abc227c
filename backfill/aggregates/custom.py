"""Aggregates that users make: from partial, merge and finish, or as a fold over events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import Column
from pyspark.sql import functions as F

from backfill.aggregates.base import Aggregate, Input, States, in_order, joined


def _itself(state: Column) -> Column:
    return state


@dataclass(frozen=True)
class Custom(Aggregate):
    """A user's own mergeable aggregate: KIP-94's initializer, aggregator and merger.

    States are merged in the order of their first events, so `merge` need not be commutative,
    but it has to be associative.
    """

    name: ClassVar[str] = "custom"
    kept: ClassVar[tuple[str, ...]] = ("state",)

    to_state: Callable[[Column], Column] = _itself
    join: Callable[[Column, Column], Column] = lambda left, right: left
    to_value: Callable[[Column], Column] = _itself

    def partial(self, given: Input) -> dict[str, Column]:
        return {"state": self.to_state(given.value)}

    def merge(self, states: States, start: Column) -> dict[str, Column]:
        placed = F.struct(start.alias("start"), states["state"].alias("state"))
        # A NULL state is that of no events: nothing to join.
        present = F.filter(F.collect_list(placed), lambda each: each["state"].isNotNull())
        sorted_parts = F.array_sort(
            present,
            lambda a, b: (
                F.when(a["start"] < b["start"], -1).when(a["start"] > b["start"], 1).otherwise(0)
            ),
        )
        parts = F.transform(sorted_parts, lambda each: each["state"])
        rest = F.slice(parts, 2, F.greatest(F.size(parts) - 1, F.lit(0)))
        return {"state": F.aggregate(rest, F.get(parts, F.lit(0)), self.join)}

    def finish(self, states: States, events: Column) -> Column:
        return self.to_value(states["state"])


@dataclass(frozen=True)
class Fold(Aggregate):
    """A user's own loop over the window's events, by event time, then arrival, then value."""

    name: ClassVar[str] = "fold"
    mergeable: ClassVar[bool] = False
    grows: ClassVar[bool] = True
    sees_nulls: ClassVar[bool] = True

    start: Callable[[], Column] = lambda: F.lit(None)
    step: Callable[[Column, Column], Column] = lambda state, value: state
    to_value: Callable[[Column], Column] = _itself

    def partial(self, given: Input) -> dict[str, Column]:
        return {"events": F.collect_list(in_order(given))}

    def merge(self, states: States, start: Column) -> dict[str, Column]:
        return {"events": joined(states["events"])}

    def finish(self, states: States, events: Column) -> Column:
        return F.aggregate(
            F.sort_array(states["events"]),
            self.start(),
            lambda state, event: self.step(state, event["value"]["value"]),
            self.to_value,
        )
