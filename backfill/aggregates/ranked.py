"""The first and the last event, for a runtime that puts NULL last within structs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column, WindowSpec
from pyspark.sql import functions as F

from backfill.aggregates.base import Input, States, in_order
from backfill.aggregates.ordered import First, Last
from backfill.runtimes.nulls_first import Fields, flagged, plain


@dataclass(frozen=True)
class Ranked(First):
    """As `First` or `Last`, with the same states.

    Attributes:
        last: whether to take the last event.
        places: how many columns put events in order.
    """

    last: bool = False
    places: int = 1

    def partial(self, given: Input) -> dict[str, Column]:
        return {"event": self._extreme(in_order(given))}

    def merge(self, states: States, start: Column) -> dict[str, Column]:
        return {"event": self._extreme(states["event"])}

    def over(self, given: Input, frame: WindowSpec) -> dict[str, Column]:
        return {"event": self._extreme(in_order(given), lambda extreme: extreme.over(frame))}

    def merge_over(self, states: States, frame: WindowSpec) -> dict[str, Column]:
        return {"event": self._extreme(states["event"], lambda extreme: extreme.over(frame))}

    def combine(self, left: States, right: States) -> dict[str, Column]:
        both = [flagged(states["event"], self._fields) for states in (left, right)]
        return {"event": plain(F.greatest(*both) if self.last else F.least(*both), self._fields)}

    def _extreme(
        self, rows: Column, placed: Callable[[Column], Column] = lambda extreme: extreme
    ) -> Column:
        function = F.max if self.last else F.min
        return plain(placed(function(flagged(rows, self._fields))), self._fields)

    @property
    def _fields(self) -> Fields:
        order: Fields = {f"order_{i}": lambda value: value for i in range(self.places)}
        return {**order, "value": lambda value: value["value"]}


def ranked(aggregate: First, places: int) -> Ranked:
    """The aggregate, in a form that gives Spark's result where NULL comes last in structs."""
    last = isinstance(aggregate, Last)
    return Ranked(aggregate.expression, aggregate.where, last=last, places=places)
