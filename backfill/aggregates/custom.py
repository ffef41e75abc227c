"""Aggregates that users make: from partial, merge and finish, or as a fold over events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import Column
from pyspark.sql import functions as F

from backfill.aggregates.base import Aggregate, Input, States, in_order, joined
from backfill.aggregates.base import expression as _expr


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
        # A NULL state stands for no events: nothing to join.
        present = F.filter(F.collect_list(placed), lambda part: part["state"].isNotNull())
        sorted_parts = F.array_sort(
            present,
            lambda a, b: (
                F.when(a["start"] < b["start"], -1).when(a["start"] > b["start"], 1).otherwise(0)
            ),
        )
        parts = F.transform(sorted_parts, lambda part: part["state"])
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


def custom(
    expression: str | Column,
    *,
    partial: Callable[[Column], Column],
    merge: Callable[[Column, Column], Column],
    finish: Callable[[Column], Column] = lambda state: state,
    where: str | Column | None = None,
) -> Aggregate:
    """An aggregate of your own (KIP-94's initializer, aggregator and merger).

    Args:
        expression: the value to aggregate; a struct for several columns.
        partial: returns the state of a group of events, as an aggregate expression over the given
            column, which is NULL for events that `where` leaves out.
        merge: combines two states, the earlier one first; must be associative.
        finish: returns the value of a state; the value is NULL if there is no state.
        where: a predicate; events for which it is false or NULL are left out.

    Example:
        >>> from pyspark.sql import functions as F
        >>> longest = custom("length(page)", partial=F.max, merge=F.greatest)
        >>> longest.mergeable
        True
    """
    return Custom(_expr(expression), _expr(where), partial, merge, finish)


def fold(
    expression: str | Column,
    *,
    start: Callable[[], Column],
    step: Callable[[Column, Column], Column],
    finish: Callable[[Column], Column] = lambda state: state,
    where: str | Column | None = None,
) -> Aggregate:
    """A loop over the window's events, ordered by time, arrival, then value; not mergeable.

    Args:
        expression: the value that the loop sees of each event; a struct for several columns.
        start: returns the state before the first event, of the type that `step` returns.
        step: returns the next state from a state and an event's value.
        finish: returns the value of the last state.
        where: a predicate; events for which it is false or NULL are left out.

    Example:
        >>> from pyspark.sql import functions as F
        >>> highest = fold("amount", start=lambda: F.lit(0.0), step=F.greatest)
        >>> highest.mergeable
        False
    """
    return Fold(_expr(expression), _expr(where), start, step, finish)
