"""Whether events, and the names of aggregates, fit a window."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from backfill.aggregates.base import Aggregate
from backfill.aggregates.bound import Bound
from backfill.aggregates.custom import Custom
from backfill.aggregates.last_seen import LastSeen
from backfill.aggregates.numbers import Count, Max, Mean, Min, Sum
from backfill.aggregates.ordered import First
from backfill.aggregates.sketches import ApproximateCountDistinct, ApproximateQuantile
from backfill.columns import FIRST_EVENT, LAST_EVENT, RESERVED, named_twice, sortable
from backfill.errors import AggregateError, ColumnError, WindowError, did_you_mean
from backfill.events import check_column
from backfill.rows.join_rows import TAKEN
from backfill.runtimes.differences import floats_need_spark, needs_spark, runtime_of
from backfill.runtimes.nulls_first import sorts_alike
from backfill.windows import (
    AnyWindow,
    CountWindow,
    RollingWindow,
    SessionWindow,
    key_of,
)
from backfill.windows.join_window import JoinWindow
from backfill.windows.message_gaps import Messages

#: This many digits leave room for ten more in a sum: those of ten billion values.
_SUMMED_DIGITS = 28


def check_values(events: DataFrame, bound: Mapping[Aggregate, Bound]) -> None:
    """Checks that the events' runtime aggregates values of these types exactly.

    Raises:
        SetupError: if it may not, and would not report that.
    """
    runtime = runtime_of(events.sparkSession)
    if runtime.is_spark:
        return
    for aggregate, binding in bound.items():
        if isinstance(aggregate, ApproximateQuantile) and not runtime.sketches:
            needs_spark(events, "sketches of quantiles are computed", field=str(aggregate))
        long = isinstance(binding.type, T.DecimalType) and binding.type.precision > _SUMMED_DIGITS
        if long and not runtime.reports_overflow:
            what = f"decimals of more than {_SUMMED_DIGITS} digits are aggregated"
            needs_spark(events, what, field=str(aggregate))
        if isinstance(aggregate, Custom):
            # Sail 0.7.2 mixes up lists of structs whose fields have the same names and types.
            needs_spark(events, "custom aggregates are computed", field=str(aggregate))
        if isinstance(aggregate, First) and not (runtime.orders_nulls and runtime.orders_nan):
            assert isinstance(binding.type, T.StructType)
            value = binding.type["value"].dataType
            if not sorts_alike(value):
                what = f"the first and the last {value.simpleString()} are computed"
                needs_spark(events, what, field=str(aggregate))
        if isinstance(aggregate, Min | Max):
            if isinstance(binding.type, T.FloatType | T.DoubleType) and not runtime.orders_nan:
                needs_spark(events, "extremes of doubles are computed", field=str(aggregate))
            if isinstance(binding.type, T.StructType | T.ArrayType):
                needs_spark(events, "extremes of structs are computed", field=str(aggregate))
        if isinstance(aggregate, ApproximateCountDistinct):
            needs_spark(events, "approximate counts are computed", field=str(aggregate))


def check_framed(events: DataFrame, aggregates: Iterable[Bound]) -> None:
    """Checks that the events' runtime computes aggregates over window frames exactly.

    Raises:
        SetupError: if it may not, and would not report that.
    """
    if runtime_of(events.sparkSession).is_spark:
        return
    for binding in aggregates:
        if not isinstance(binding.aggregate, Count | Sum | Mean | Min | Max | First | LastSeen):
            # Sail 0.7.2 keeps NULL in lists there.
            what = "this aggregate of sliding and count windows and of metrics is computed"
            needs_spark(events, what, field=str(binding.aggregate))


def check_subtracted(events: DataFrame, aggregates: Iterable[Bound]) -> None:
    """Checks that what leaves a window frame leaves no trace in sums over it.

    Raises:
        SetupError: if the runtime may subtract it: 1e300, infinity or NaN leave a residue.
    """
    if runtime_of(events.sparkSession).is_spark:
        return
    for binding in aggregates:
        # A mean of BIGINT uses a sum of doubles, too.
        doubles = T.FloatType | T.DoubleType
        inexact = doubles if isinstance(binding.aggregate, Sum) else doubles | T.LongType
        if isinstance(binding.aggregate, Sum | Mean) and isinstance(binding.type, inexact):
            what = f"this aggregate of {binding.type.simpleString()} in sliding and count windows"
            needs_spark(events, f"{what} is computed", field=str(binding.aggregate))


def check_dimensions(events: DataFrame, window: AnyWindow) -> None:
    """Raises a ColumnError if events lack a metric's dimension, or its type is unsuitable."""
    if isinstance(window, RollingWindow):
        for name in window.by:
            check_column(events, "by", name)
            floats_need_spark(events, name, "a dimension")


def check_looked_at(events: DataFrame, window: AnyWindow) -> None:
    """Checks that the events have the columns that a join looks at.

    Raises:
        ColumnError: if there is no such column, Spark can't order its values, or it has a name
            that the join uses itself.
    """
    if not isinstance(window, JoinWindow):
        return
    shown = {column.name for column in window.columns.values()}
    types = {field.name: field.dataType for field in events.schema.fields}
    for name in window.looked_at:
        field = "columns" if name in shown else "where"
        if name not in types:
            raise ColumnError(
                "there is no such column",
                field=field,
                value=name,
                way_out=did_you_mean(name, [other for other in types if not other.startswith("_")]),
            )
        if not sortable(types[name]):
            raise ColumnError(
                f"is {types[name].simpleString()}, which can't order copies of events",
                field=field,
                value=name,
                way_out="Make it an array of entries, such as map_entries, in the source",
            )
        if name.lower() in TAKEN or name.lower().startswith("_key"):
            raise ColumnError(
                "is a name that the join itself uses",
                field=field,
                value=name,
                way_out="Rename the column in the source",
            )


def check_names(aggregates: Iterable[str], key: Sequence[str], window: AnyWindow) -> None:
    """Raises an AggregateError if an aggregate's name is empty, or reserved for the result."""
    taken = {*RESERVED, *key_of(window, tuple(key))}
    if isinstance(window, CountWindow):
        taken |= {FIRST_EVENT, LAST_EVENT}
    for name in aggregates:
        if not name:
            raise AggregateError(
                "an aggregate has an empty name",
                field="aggregates",
                value=name,
                way_out="Name its column, as in {'events': count()}",
            )
        if name in taken or name.startswith("_"):
            raise AggregateError(
                "the name is reserved for the result's own columns",
                field="aggregates",
                value=name,
                way_out="Choose another name, not beginning with an underscore",
            )


def check_distinct_columns(result: DataFrame, key: Sequence[str], id: str | None) -> None:
    """Raises a ColumnError if two columns have the same name but for case: Spark finds neither."""
    name = named_twice(result.columns)
    if name is not None:
        of_key = name.lower() in {column.lower() for column in key}
        of_id = id is not None and name.lower() == id.lower()
        raise ColumnError(
            "two columns of the result would have this name",
            field="key" if of_key else "id" if of_id else "aggregates",
            value=name,
            way_out="Rename one of them, or leave out the one that is named twice",
        )


def check_arrival(events: DataFrame, window: AnyWindow, arrival: Sequence[str]) -> None:
    """Checks that the events have the order of arrival that numbers or offsets need.

    Args:
        events: any rows.
        window: a window of any kind.
        arrival: columns that give the order of arrival.

    Raises:
        ColumnError: if the last arrival column is neither a number nor a time.
        WindowError: if there is no arrival where the window needs one, or no offset.
    """
    type = events.schema[arrival[-1]].dataType if arrival else None
    if isinstance(window, SessionWindow) and isinstance(window.gap, Messages):
        if not isinstance(type, T.IntegralType):
            raise WindowError(
                "a gap of messages needs events with offsets",
                field="gap",
                value=str(window.gap),
                way_out="Give arrival=[partition, offset], or the offset alone if there is one "
                "partition",
            )
    elif isinstance(window, CountWindow) and window.order == "arrival":
        if type is None:
            raise WindowError(
                "the events have no arrival",
                field="order",
                value="arrival",
                way_out='Give the column or columns of the arrival, or use order="time"',
            )
        if isinstance(type, T.StringType | T.BinaryType | T.BooleanType):
            raise ColumnError(
                "must be a number or a time, to number events by it",
                field="arrival",
                value=f"{arrival[-1]} {type.simpleString()}",
                way_out='Cast the column, or use order="time"',
            )
