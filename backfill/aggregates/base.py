"""What every aggregate is: partial states from events, merged, then finished into a value."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import Column, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill.columns import has_floats, is_collated, sortable, with_parts
from backfill.errors import AggregateError
from backfill.repeatable import CHANGES, INSTEAD, changing_function

States = Mapping[str, Column]

#: The largest number of digits in a decimal.
MOST_DIGITS = 38


@dataclass(frozen=True, eq=False)
class Given:
    """A Spark column given from Python, equal to itself only (columns can't be compared)."""

    column: Column


Expression = str | Given | None


def expression(value: str | Column | None) -> Expression:
    """Keeps SQL text as text, so that equal aggregates are recognized as equal.

    Raises:
        AggregateError: if it is neither text nor a column, or gives another value each time.
    """
    if value is not None and not isinstance(value, str | Column):
        raise AggregateError("must be Spark SQL or a column", value=value)
    if isinstance(value, str) and (name := changing_function(value)):
        raise AggregateError(CHANGES.format(name), value=value, way_out=INSTEAD)
    return value if value is None or isinstance(value, str) else Given(value)


def to_column(value: str | Given) -> Column:
    """The Spark column for the SQL text or the given column."""
    return F.expr(value) if isinstance(value, str) else value.column


@dataclass(frozen=True)
class Input:
    """What an aggregate sees of each event.

    Attributes:
        value: the expression's value, NULL where the predicate does not hold.
        type: the value's type.
        order: the event's time, then its arrival: what "first" and "in order" mean.
    """

    value: Column
    type: T.DataType
    order: tuple[Column, ...]


@dataclass(frozen=True)
class Aggregate(ABC):
    """One aggregate over a window's events; KIP-94's initializer, aggregator and merger.

    Attributes:
        expression: what is aggregated, in Spark SQL or as a column.
        where: only events for which this predicate holds are aggregated (NULL counts as false).
        mergeable: late events can be merged into a published window without its events.
        grows: the state grows with the number of events, or of distinct values, in the window.
        kept: states that a table keeps next to the value, since the value can't be turned back
            into them.
        running: the SQL function (sum, min or max) that merges each state, if one is enough; None
            if not.
        slices: about how many slices a sliding window is cut into: more of them make its ends
            shorter, and cost more to merge.
        framed: whether plain aggregate functions merge states over the rows of a window frame.
        python: the name of its form in plain Python (`backfill.replay.forms`), if it has one.
    """

    expression: Expression = None
    where: Expression = None

    name: ClassVar[str]
    mergeable: ClassVar[bool] = True
    grows: ClassVar[bool] = False
    kept: ClassVar[tuple[str, ...]] = ()
    running: ClassVar[str | None] = None
    slices: ClassVar[int] = 8
    framed: ClassVar[bool] = False
    python: ClassVar[str | None] = None
    #: NULL is a value like any other, so left-out events are marked differently.
    sees_nulls: ClassVar[bool] = False

    def input(self) -> Column | None:
        """The column to evaluate once per event, or None where the event alone is enough."""
        if self.expression is None and self.where is None:
            return None
        value = F.lit(1) if self.expression is None else to_column(self.expression)
        if self.sees_nulls:
            value = F.struct(value.alias("value"))
        return value if self.where is None else F.when(to_column(self.where), value)

    def check(self, type: T.DataType) -> None:  # noqa: B027 - most take any type
        """Raises an AggregateError if values of this type can't be aggregated."""

    @abstractmethod
    def partial(self, given: Input) -> dict[str, Column]:
        """Aggregate expressions over events: the states, by name."""

    @abstractmethod
    def merge(self, states: States, start: Column) -> dict[str, Column]:
        """Aggregate expressions over rows of states; `start` orders the rows in time."""

    @abstractmethod
    def finish(self, states: States, events: Column) -> Column:
        """The value, from merged states; `events` is the number of events in the window."""

    def is_empty(self, value: Column) -> Column:
        """Whether a value is that of a window without events."""
        return value.isNull()

    def is_same(self, one: Column, other: Column) -> Column:
        """Whether two values are of the same events, as far as values can tell."""
        return one.eqNullSafe(other)

    def sliding(self) -> Aggregate:
        """The aggregate that computes the same values for sliding windows."""
        return self

    def over(self, given: Input, frame: WindowSpec) -> dict[str, Column]:
        """The states of the events of a window frame, by name; for sliding windows."""
        return {name: state.over(frame) for name, state in self.partial(given).items()}

    def merge_over(self, states: States, frame: WindowSpec) -> dict[str, Column]:
        """Merges the states of the rows of a window frame; only for `framed` aggregates."""
        return {name: state.over(frame) for name, state in self.merge(states, F.lit(None)).items()}

    def combine(self, left: States, right: States) -> dict[str, Column]:
        """Merges two states in one row; either side can have the earlier events.

        Raises:
            AggregateError: if the aggregate has no such form.
        """
        raise AggregateError(
            "is not available for sliding windows",
            field="aggregates",
            value=str(self),
            way_out="Use an aggregate such as sum, mean, max, stddev, last, count_distinct",
        )

    def subtracts(self, type: T.DataType) -> bool:
        """Whether states of values of this type can be subtracted.

        They can if that is exact, and if the total of a key does not overflow before a window does.
        """
        return False

    def subtract(self, whole: States, rest: States) -> dict[str, Column]:
        """The states of what is not in the rest; only called if states can be subtracted.

        A rest without values has no state, or none of its own.
        """
        return {name: state - F.coalesce(rest[name], F.lit(0)) for name, state in whole.items()}

    def revert(self, value: Column, states: Sequence[str]) -> dict[str, Column]:
        """The states of a published value; not called for those that are `kept`."""
        return dict.fromkeys(states, value)

    def __str__(self) -> str:
        inside = f"({self.expression})" if isinstance(self.expression, str) else ""
        behind = f" where {self.where}" if isinstance(self.where, str) else ""
        return f"{self.name}{inside}{behind}"

    def _refuse(self, type: T.DataType, wanted: str) -> AggregateError:
        return AggregateError(
            f"takes {wanted}",
            field=str(self),
            value=type.simpleString(),
            way_out="Cast the column in the expression",
        )

    def _check_numeric(self, type: T.DataType) -> None:
        if not isinstance(type, T.NumericType):
            raise self._refuse(type, "a number")

    def _check_room(self, type: T.DataType | None) -> None:
        if isinstance(type, T.DecimalType) and type.scale == MOST_DIGITS:
            raise self._refuse(
                type, f"a decimal with fewer than {MOST_DIGITS} digits after the point"
            )

    def _check_sortable(self, type: T.DataType) -> None:
        if not sortable(type):
            raise self._refuse(type, "a value that can be ordered")

    def _check_distinct(self, type: T.DataType) -> None:
        self._check_sortable(type)
        if is_collated(type):
            raise AggregateError(
                "takes values that are equal only if they are the same, and this collation treats "
                "different texts as equal",
                field=str(self),
                value=type.simpleString(),
                way_out="Compare their bytes, as collate(…, 'UTF8_BINARY') does, or make them the "
                "same text, as lower(…) does",
            )


@dataclass(frozen=True)
class Running(Aggregate):
    """An aggregate whose states are merged by a plain sum, min or max: `running` says which."""

    running: ClassVar[str] = "sum"
    framed: ClassVar[bool] = True

    @abstractmethod
    def lift(self, given: Input) -> dict[str, Column]:
        """The states of a single event, in the types that merged ones have."""

    def partial(self, given: Input) -> dict[str, Column]:
        return self.merge(self.lift(given), given.order[0])

    def merge(self, states: States, start: Column) -> dict[str, Column]:
        function = getattr(F, self.running)
        return {name: function(state) for name, state in states.items()}

    def over(self, given: Input, frame: WindowSpec) -> dict[str, Column]:
        return self.merge_over(self.lift(given), frame)

    def merge_over(self, states: States, frame: WindowSpec) -> dict[str, Column]:
        function = getattr(F, self.running)
        return {name: function(state).over(frame) for name, state in states.items()}

    def combine(self, left: States, right: States) -> dict[str, Column]:
        return {name: _JOINS[self.running](left[name], right[name]) for name in left}


def _added(left: Column, right: Column) -> Column:
    return F.coalesce(left + right, left, right)


#: Merges two states in one row, as the aggregate functions of these names merge rows; NULL means no
#: state.
_JOINS: Mapping[str, Callable[[Column, Column], Column]] = {
    "sum": _added,
    "min": lambda left, right: F.least(left, right),
    "max": lambda left, right: F.greatest(left, right),
}


def positive_zero(value: Column, type: T.DataType) -> Column:
    """-0.0 as 0.0, also in arrays and structs, so that the two are one; other values unchanged."""
    if isinstance(type, T.FloatType | T.DoubleType):
        return value + F.lit(0.0).cast(type)
    return with_parts(value, type, positive_zero) if has_floats(type) else value


def in_order(given: Input) -> Column:
    """A struct that sorts by event time, then arrival, then value; NULL for events left out."""
    places = [column.alias(f"order_{i}") for i, column in enumerate(given.order)]
    return F.when(given.value.isNotNull(), F.struct(*places, given.value.alias("value")))


def joined(lists: Column) -> Column:
    """Merges list states: an aggregate expression."""
    return F.flatten(F.collect_list(lists))
