"""An aggregate bound to its input column and to the columns that hold its states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill.aggregates.base import Aggregate, Input, Running, positive_zero, to_column
from backfill.aggregates.decimal_mean import decimal_mean
from backfill.aggregates.last_seen import LastSeen
from backfill.aggregates.numbers import Mean
from backfill.aggregates.ordered import First
from backfill.aggregates.ranked import ranked
from backfill.columns import EVENTS, FIRST, TIME, quoted
from backfill.errors import AggregateError
from backfill.printable import spark_reason
from backfill.runtimes.differences import runtime_of


@dataclass(frozen=True)
class Part:
    """A part of a window in one row: the number of its events, and its state columns by name."""

    events: Column
    states: Mapping[str, Column]


@dataclass(frozen=True)
class Bound:
    """One aggregate of a job.

    Attributes:
        input: the column of the events that it aggregates; None for bare counts.
        order: the columns that put events in order.
    """

    aggregate: Aggregate
    index: int
    input: str | None
    type: T.DataType
    order: tuple[str, ...]

    def sliding(self) -> Bound:
        """The same aggregate, as sliding windows compute it."""
        return replace(self, aggregate=self.aggregate.sliding())

    def partial(self, counted: Column | None = None) -> list[Column]:
        """Aggregate expressions over events, or over those that count, for the state columns."""
        return self._states(self._partial(counted))

    def partials(self) -> dict[str, Column]:
        """Aggregate expressions over events, by the names of the state columns."""
        return self._named(self._partial())

    def lift(self) -> list[Column]:
        """The state columns of each event alone, for an aggregate that is `Running`."""
        if self.input is None:
            return []
        assert isinstance(self.aggregate, Running)
        return self._states(self.aggregate.lift(self._given(self.input)))

    def merge(self) -> list[Column]:
        """Aggregate expressions over rows of state columns that make one row of them."""
        return self._states(self.aggregate.merge(self._current(), F.col(FIRST)))

    def over(self, counted: Column, frame: WindowSpec) -> dict[str, Column]:
        """The state columns of the events of a window frame that count."""
        if self.input is None:
            return {}
        return self._named(self.aggregate.over(self._given(self.input, counted), frame))

    def merge_over(self, frame: WindowSpec) -> dict[str, Column]:
        """The state columns merged over a window frame, in its order; NULL where it is empty."""
        states = self._current()
        if not states:
            return {}
        if isinstance(self.aggregate, Running):
            return self._named(self.aggregate.merge_over(states, frame))
        # Fields have the columns' own names: Sail 0.7.2 mixes up lists of structs whose fields have
        # the same names and types.
        listed = F.collect_list(F.struct(*states.values())).over(frame)
        rest = F.slice(listed, 2, F.greatest(F.size(listed) - 1, F.lit(0)))
        merged = F.aggregate(rest, F.get(listed, F.lit(0)), self._merge_two)
        return {self._name(name): merged[self._name(name)] for name in states}

    def merge_frame(self, counted: Column, frame: WindowSpec) -> dict[str, Column]:
        """The state columns merged over the rows of a window frame that count, if `framed`."""
        states = {name: F.when(counted, state) for name, state in self._current().items()}
        return self._named(self.aggregate.merge_over(states, frame)) if states else {}

    def combine(self, left: Part, right: Part) -> dict[str, Column]:
        """The state columns of two parts of a window; a part without events is ignored.

        Args:
            left: the number of events of a part, and their state columns.
            right: the same of the other part, earlier or later.
        """
        own = self._partial()
        given = [{name: part.states[self._name(name)] for name in own} for part in (left, right)]
        both = self.aggregate.combine(*given)
        return self._named(
            {
                name: F.when(left.events == 0, given[1][name])
                .when(right.events == 0, given[0][name])
                .otherwise(state)
                for name, state in both.items()
            }
        )

    @property
    def subtracts(self) -> bool:
        """Whether states can be subtracted, exactly."""
        return self.aggregate.subtracts(self.type)

    def subtract(
        self, whole: Mapping[str, Column], rest: Mapping[str, Column]
    ) -> dict[str, Column]:
        """The state columns of a part that has values, from those of the whole and of the rest."""
        own = self._partial()
        given = [{name: part[self._name(name)] for name in own} for part in (whole, rest)]
        return self._named(self.aggregate.subtract(*given))

    def finish(self, name: str, part: Part | None = None) -> Column:
        """The value, under its name: from the part, or else from the state columns of the row."""
        if part is None:
            return self.aggregate.finish(self._current(), F.col(EVENTS)).alias(name)
        states = {state: part.states[self._name(state)] for state in self._partial()}
        return self.aggregate.finish(states, part.events).alias(name)

    def empty(self, name: str, rows: DataFrame) -> Column:
        """The value of a window without events; `rows` has the state columns."""
        types = rows.select(*self.states()).schema.fields
        none = {field.name: F.lit(None).cast(field.dataType) for field in types}
        return self.finish(name, Part(F.lit(0).cast("long"), none))

    def kept(self, name: str) -> list[Column]:
        """The states that a table keeps next to the value of this name."""
        return [F.col(self._name(state)).alias(f"_{name}_{state}") for state in self.aggregate.kept]

    def published(self, name: str) -> list[Column]:
        """The state columns, from a table that holds the value under this name."""
        states = list(self._partial())
        reverted = self.aggregate.revert(F.col(quoted(name)), states)
        kept = {state: F.col(quoted(f"_{name}_{state}")) for state in self.aggregate.kept}
        return self._states({state: {**reverted, **kept}[state] for state in states})

    def packed(self) -> Column:
        """An aggregate expression over events: a struct of their number and the states.

        For distinct values, which have no other mergeable state, it holds the values themselves.
        """
        events = F.count(F.lit(1)).alias("events")
        if isinstance(self.aggregate, LastSeen):
            assert self.input is not None
            values = F.collect_set(positive_zero(F.col(self.input), self.type))
            return F.struct(events, F.sort_array(values).alias("values"))
        own = {} if self._counts_all else self._partial()
        return F.struct(events, *(state.alias(name) for name, state in own.items()))

    def unpacked(self, states: Column) -> list[Column]:
        """The state columns, from what `packed` returns; not for distinct values."""
        names = self._partial()
        return self._states(
            {name: states["events" if self._counts_all else name] for name in names}
        )

    def running(self) -> dict[str, str] | None:
        """The function (sum, min or max) that merges each state column; None if one has none."""
        function = self.aggregate.running
        if function is None:
            return None
        return {self._name(name): function for name in self._partial()}

    def states(self) -> list[str]:
        """The names of the state columns."""
        return [self._name(name) for name in self._partial()]

    @property
    def _counts_all(self) -> bool:
        """Whether it counts all events; beside others without a column, it has an input as well."""
        return self.aggregate.input() is None

    def _partial(self, counted: Column | None = None) -> dict[str, Column]:
        if self.input is None:
            return {}
        return self.aggregate.partial(self._given(self.input, counted))

    def _given(self, input: str, counted: Column | None = None) -> Input:
        value = F.col(input) if counted is None else F.when(counted, F.col(input))
        return Input(value, self.type, tuple(F.col(name) for name in self.order))

    def _merge_two(self, left: Column, right: Column) -> Column:
        merged = self.aggregate.combine(
            *({name: row[self._name(name)] for name in self._partial()} for row in (left, right))
        )
        return F.struct(*self._states(merged))

    def _named(self, states: dict[str, Column]) -> dict[str, Column]:
        return {self._name(name): state for name, state in states.items()}

    def _current(self) -> dict[str, Column]:
        return {name: F.col(self._name(name)) for name in self._partial()}

    def _name(self, state: str) -> str:
        return f"_{self.index}_{state}"

    def _states(self, columns: dict[str, Column]) -> list[Column]:
        return [column.alias(self._name(name)) for name, column in columns.items()]


def running(aggregates: Iterable[Bound]) -> dict[str, str] | None:
    """The function (sum, min or max) that merges each state, and the number of events.

    None if an aggregate has a state that is merged in another way.
    """
    functions = {EVENTS: "sum"}
    for binding in aggregates:
        own = binding.running()
        if own is None:
            return None
        functions |= own
    return functions


def bind(
    events: DataFrame, columns: Sequence[Column], aggregates: Iterable[Aggregate], arrival: int
) -> tuple[DataFrame, dict[Aggregate, Bound]]:
    """Evaluates the aggregates' inputs for each event.

    Args:
        events: the events with their own columns.
        columns: what to keep besides the inputs: key, time, id and arrival columns.
        aggregates: equal ones share their states.
        arrival: how many arrival columns there are.

    Returns:
        The events with `columns` and the inputs of the aggregates, equal ones once, and the
        aggregates bound to them.

    Raises:
        AggregateError: if an expression or a predicate does not fit the events' columns.
    """
    order = (TIME, *(f"_arrival{i}" for i in range(arrival)))
    distinct = list(dict.fromkeys(aggregates))
    names: dict[object, str] = {}
    inputs = []
    values = {aggregate: aggregate.input() for aggregate in distinct}
    for aggregate, value in values.items():
        seen = (aggregate.expression, aggregate.where, aggregate.sees_nulls)
        if value is not None and seen not in names:
            names[seen] = f"_in{len(names)}"
            inputs.append(value.alias(names[seen]))
    predicates = [
        to_column(aggregate.where) for aggregate in distinct if aggregate.where is not None
    ]
    written = [
        value for aggregate, value in values.items() if value is not None and not _plain(aggregate)
    ]
    try:
        if written:
            # An expression that needs more than one event can't be in a condition.
            _ = events.where(F.struct(*written).isNotNull()).schema
        frame = events.select(*columns, *inputs)
        types = {field.name: field.dataType for field in frame.schema.fields}
        held = {field.dataType for field in events.select(*predicates).schema} if predicates else ()
    except AnalysisException:
        _check_each(events, values)
        raise
    if any(not isinstance(data_type, T.BooleanType) for data_type in held):
        _check_each(events, values)
    orders_nulls = runtime_of(events.sparkSession).orders_nulls
    bound = {}
    for i, aggregate in enumerate(distinct):
        name = names.get((aggregate.expression, aggregate.where, aggregate.sees_nulls))
        type = T.IntegerType() if name is None else types[name]
        inner = (
            type["value"].dataType
            if aggregate.sees_nulls and isinstance(type, T.StructType)
            else type
        )
        aggregate.check(inner)
        own = _form(aggregate, inner, orders_nulls, len(order))
        bound[aggregate] = Bound(own, i, name, type, order)
    return frame, bound


def _form(aggregate: Aggregate, type: T.DataType, orders_nulls: bool, places: int) -> Aggregate:
    """The form of an aggregate for values of this type, on this runtime."""
    if isinstance(aggregate, Mean) and isinstance(type, T.DecimalType):
        return decimal_mean(aggregate, type)
    if isinstance(aggregate, First) and not orders_nulls:
        return ranked(aggregate, places)
    return aggregate


def _check_each(events: DataFrame, values: Mapping[Aggregate, Column | None]) -> None:
    """Says which aggregate does not fit; checking each one takes longer than checking all."""
    for aggregate, value in values.items():
        _check_resolves(events, aggregate, value)


def _plain(aggregate: Aggregate) -> bool:
    """Whether it aggregates a plain column, or events alone."""
    expression = aggregate.expression
    named = expression is None or (isinstance(expression, str) and expression.isidentifier())
    return named and aggregate.where is None


def _check_resolves(events: DataFrame, aggregate: Aggregate, value: Column | None) -> None:
    if value is None:
        return
    try:
        if aggregate.where is not None:
            held = events.select(to_column(aggregate.where)).schema[0].dataType
            if not isinstance(held, T.BooleanType):
                raise AggregateError(
                    "the predicate after `where` is not boolean",
                    field=str(aggregate),
                    value=held.simpleString(),
                    way_out="Write a comparison, such as status = 'paid'",
                )
        _ = events.select(value).schema
    except AnalysisException as error:
        names = ", ".join(name for name in events.columns if not name.startswith("_"))
        raise AggregateError(
            f"does not fit the events: {spark_reason(error)}",
            field=str(aggregate),
            way_out=f"The events' columns are {names}",
        ) from error
    try:
        _ = events.where(value.isNotNull()).schema
    except AnalysisException as error:
        raise AggregateError(
            "must be computed from a single event",
            field=str(aggregate),
            way_out="Leave out window functions, other aggregates and functions that make several "
            "rows, such as explode",
        ) from error
