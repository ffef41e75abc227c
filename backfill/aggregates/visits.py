"""Aggregates of visits: how far along a funnel, the path, the duration, and whether it bounced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import Column, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill.aggregates.base import Aggregate, Input, Running, States, in_order, to_column
from backfill.aggregates.ordered import CollectList

_MICROS = 1_000_000


@dataclass(frozen=True)
class Funnel(CollectList):
    """How many steps events reach, one after the other, in order of time, arrival, then steps.

    The state holds every event for which a step holds: a late event of the first step can make
    events count that came too early for their steps.
    """

    name: ClassVar[str] = "funnel"
    python: ClassVar[str | None] = "funnel"

    #: The predicates, if the expression was made from them.
    steps: tuple[str, ...] = ()

    def input(self) -> Column | None:
        assert self.expression is not None
        holds = to_column(self.expression)
        some = F.exists(holds, lambda step: step)
        if self.where is not None:
            some &= to_column(self.where)
        if self.steps:
            # For Sail: its predicates are never NULL, but a list in a file may hold NULL.
            holds = holds.cast("array<boolean>")
        return F.when(some, holds)

    def check(self, type: T.DataType) -> None:
        if not isinstance(type, T.ArrayType) or not isinstance(type.elementType, T.BooleanType):
            raise self._refuse(type, "predicates, or an array of booleans")

    def finish(self, states: States, events: Column) -> Column:
        def step(reached: Column, event: Column) -> Column:
            holds = F.get(event["value"], reached.cast("int"))
            return F.when(F.coalesce(holds, F.lit(False)), reached + 1).otherwise(reached)

        start = F.lit(0).cast("long")
        return F.coalesce(F.aggregate(F.sort_array(states["events"]), start, step), start)

    def is_empty(self, value: Column) -> Column:
        return value == 0

    def __str__(self) -> str:
        if not self.steps:
            return super().__str__()
        behind = f" where {self.where}" if isinstance(self.where, str) else ""
        return f"{self.name}([{', '.join(self.steps)}]){behind}"


@dataclass(frozen=True)
class Path(CollectList):
    """The first values except NULLs, by event time, then arrival, then value, up to the limit."""

    name: ClassVar[str] = "path"
    grows: ClassVar[bool] = False

    limit: int = 1

    @property
    def python(self) -> str:  # type: ignore[override]
        """The name of the form in plain Python, which has the limit in it."""
        return f"path({self.limit})"

    def partial(self, given: Input) -> dict[str, Column]:
        return {"events": self._first(F.collect_list(in_order(given)))}

    def merge(self, states: States, start: Column) -> dict[str, Column]:
        return {"events": self._first(F.flatten(F.collect_list(states["events"])))}

    def over(self, given: Input, frame: WindowSpec) -> dict[str, Column]:
        return {"events": self._first(F.collect_list(in_order(given)).over(frame))}

    def combine(self, left: States, right: States) -> dict[str, Column]:
        return {"events": self._first(F.concat(left["events"], right["events"]))}

    def _first(self, events: Column) -> Column:
        return F.slice(F.sort_array(events), 1, self.limit)

    def __str__(self) -> str:
        behind = f" where {self.where}" if isinstance(self.where, str) else ""
        return f"{self.name}({self.expression}, {self.limit}){behind}"


class _OfEvents(Aggregate):
    """An aggregate that needs no value of an event, only that it counts."""

    def input(self) -> Column | None:
        one = F.lit(1).cast("long")
        return one if self.where is None else F.when(to_column(self.where), one)


@dataclass(frozen=True)
class Duration(_OfEvents):
    """From the first event to the last one, in seconds; NULL without an event."""

    name: ClassVar[str] = "duration"
    python: ClassVar[str | None] = "duration"
    kept: ClassVar[tuple[str, ...]] = ("first", "last")

    def partial(self, given: Input) -> dict[str, Column]:
        time = F.when(given.value.isNotNull(), given.order[0])
        return {"first": F.min(time), "last": F.max(time)}

    def merge(self, states: States, start: Column) -> dict[str, Column]:
        return {"first": F.min(states["first"]), "last": F.max(states["last"])}

    def combine(self, left: States, right: States) -> dict[str, Column]:
        return {
            "first": F.least(left["first"], right["first"]),
            "last": F.greatest(left["last"], right["last"]),
        }

    def finish(self, states: States, events: Column) -> Column:
        return (states["last"] - states["first"]) / F.lit(float(_MICROS))


@dataclass(frozen=True)
class Bounce(_OfEvents, Running):
    """Whether there is only one event; NULL without an event."""

    name: ClassVar[str] = "bounce"
    python: ClassVar[str | None] = "bounce"
    kept: ClassVar[tuple[str, ...]] = ("events",)
    running: ClassVar[str] = "sum"

    def lift(self, given: Input) -> dict[str, Column]:
        return {"events": given.value}

    def subtracts(self, type: T.DataType) -> bool:
        return True

    def finish(self, states: States, events: Column) -> Column:
        return states["events"] == 1
