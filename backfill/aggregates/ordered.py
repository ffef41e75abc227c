"""Aggregates that need the order of events, and lists and sets of their values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill.aggregates.base import (
    Aggregate,
    Input,
    States,
    in_order,
    joined,
    positive_zero,
)
from backfill.aggregates.last_seen import LastSeen


@dataclass(frozen=True)
class First(Aggregate):
    """The value of the first event by time, then arrival, then value; it may be NULL."""

    name: ClassVar[str] = "first"
    python: ClassVar[str | None] = "first"
    kept: ClassVar[tuple[str, ...]] = ("event",)
    framed: ClassVar[bool] = True
    sees_nulls: ClassVar[bool] = True

    def check(self, type: T.DataType) -> None:
        self._check_sortable(type)

    def partial(self, given: Input) -> dict[str, Column]:
        return {"event": F.min(in_order(given))}

    def merge(self, states: States, start: Column) -> dict[str, Column]:
        return {"event": F.min(states["event"])}

    def combine(self, left: States, right: States) -> dict[str, Column]:
        return {"event": F.least(left["event"], right["event"])}

    def finish(self, states: States, events: Column) -> Column:
        return states["event"]["value"]["value"]


@dataclass(frozen=True)
class Last(First):
    """The value of the last event by time, then arrival, then value; it may be NULL."""

    name: ClassVar[str] = "last"
    python: ClassVar[str | None] = "last"

    def partial(self, given: Input) -> dict[str, Column]:
        return {"event": F.max(in_order(given))}

    def merge(self, states: States, start: Column) -> dict[str, Column]:
        return {"event": F.max(states["event"])}

    def combine(self, left: States, right: States) -> dict[str, Column]:
        return {"event": F.greatest(left["event"], right["event"])}


@dataclass(frozen=True)
class CollectList(Aggregate):
    """All values except NULLs, by event time, then arrival, then value."""

    name: ClassVar[str] = "collect_list"
    kept: ClassVar[tuple[str, ...]] = ("events",)
    grows: ClassVar[bool] = True

    def check(self, type: T.DataType) -> None:
        self._check_sortable(type)

    def partial(self, given: Input) -> dict[str, Column]:
        return {"events": F.collect_list(in_order(given))}

    def merge(self, states: States, start: Column) -> dict[str, Column]:
        return {"events": joined(states["events"])}

    def combine(self, left: States, right: States) -> dict[str, Column]:
        return {"events": F.concat(left["events"], right["events"])}

    def finish(self, states: States, events: Column) -> Column:
        return F.transform(F.sort_array(states["events"]), lambda event: event["value"])

    def is_empty(self, value: Column) -> Column:
        return F.size(value) == 0


@dataclass(frozen=True)
class CollectSet(Aggregate):
    """The distinct values, sorted, without NULL."""

    name: ClassVar[str] = "collect_set"
    grows: ClassVar[bool] = True

    def check(self, type: T.DataType) -> None:
        self._check_distinct(type)

    def partial(self, given: Input) -> dict[str, Column]:
        return {"values": F.collect_set(positive_zero(given.value, given.type))}

    def merge(self, states: States, start: Column) -> dict[str, Column]:
        return {"values": F.array_distinct(joined(states["values"]))}

    def combine(self, left: States, right: States) -> dict[str, Column]:
        return {"values": F.array_union(left["values"], right["values"])}

    def finish(self, states: States, events: Column) -> Column:
        return F.sort_array(states["values"])

    def is_empty(self, value: Column) -> Column:
        return F.size(value) == 0


@dataclass(frozen=True)
class CountDistinct(CollectSet):
    """The exact number of distinct values except NULL; the state holds every one of them."""

    name: ClassVar[str] = "count_distinct"
    python: ClassVar[str | None] = "count_distinct"
    kept: ClassVar[tuple[str, ...]] = ("values",)

    def sliding(self) -> Aggregate:
        return LastSeen(self.expression, self.where)

    def finish(self, states: States, events: Column) -> Column:
        return F.size(states["values"]).cast("long")

    def is_empty(self, value: Column) -> Column:
        return value == 0


@dataclass(frozen=True)
class ExactQuantile(Aggregate):
    """A quantile by linear interpolation between the two nearest values (SQL PERCENTILE_CONT)."""

    name: ClassVar[str] = "quantile"
    mergeable: ClassVar[bool] = False
    grows: ClassVar[bool] = True

    share: float = 0.5

    def check(self, type: T.DataType) -> None:
        self._check_numeric(type)

    def partial(self, given: Input) -> dict[str, Column]:
        return {"values": F.collect_list(given.value.cast("double"))}

    def merge(self, states: States, start: Column) -> dict[str, Column]:
        return {"values": joined(states["values"])}

    def combine(self, left: States, right: States) -> dict[str, Column]:
        return {"values": F.concat(left["values"], right["values"])}

    def finish(self, states: States, events: Column) -> Column:
        values = F.sort_array(states["values"])
        place = F.lit(self.share) * (F.size(values) - 1)
        below = F.get(values, F.floor(place).cast("int"))
        above = F.get(values, F.ceil(place).cast("int"))
        part = place - F.floor(place)
        # Equal neighbours are taken as they are: infinity times zero would be NaN.
        return F.when(below == above, below).otherwise(below * (1 - part) + above * part)

    def __str__(self) -> str:
        return f"quantile({self.expression}, {self.share}, exact=true)"
