"""Events under inner column names, with the inputs of the aggregates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill.aggregates.base import Aggregate
from backfill.aggregates.bound import Bound, bind
from backfill.columns import TIME, column, key_name
from backfill.rows import slices as slicing
from backfill.rows.compute import Key
from backfill.rows.fitting import check_values


@dataclass(frozen=True)
class BoundEvents:
    """Events with the aggregates' inputs.

    Attributes:
        frame: key, TIME, id, arrival columns under inner names, and inputs.
        key: the key's columns.
        bound: the aggregates, bound to their inputs.
        arrival: the inner names of the arrival columns.
    """

    frame: DataFrame
    key: Key
    bound: Mapping[Aggregate, Bound]
    arrival: tuple[str, ...]


def with_inputs(
    events: DataFrame,
    aggregates: Iterable[Aggregate],
    *,
    key: Sequence[str],
    id: str | None,
    arrival: Sequence[str],
    also: Sequence[Column] = (),
) -> BoundEvents:
    """Evaluates the aggregates' inputs for each event.

    Args:
        events: normalised events (with `TIME`), without those that can't be used.
        aggregates: equal ones share their states.
        key: the key's columns; empty for a single group.
        id: the column of the events' id, if there is one.
        arrival: columns that give the order of arrival.
        also: further columns to keep.

    Raises:
        AggregateError: if an aggregate does not fit the events.
        SetupError: if the events' runtime may not compute an aggregate exactly.
    """
    keys = [key_name(i) for i in range(len(key))]
    arrived = tuple(f"_arrival{i}" for i in range(len(arrival)))
    columns = [
        *(column(name).alias(inner) for name, inner in zip(key, keys, strict=True)),
        F.col(TIME),
        *([column(id).alias(slicing.ID)] if id is not None else []),
        *(column(name).alias(inner) for name, inner in zip(arrival, arrived, strict=True)),
        *also,
    ]
    frame, bound = bind(events, columns, aggregates, len(arrival))
    types = {field.name: field.dataType for field in frame.schema.fields}
    named = Key(tuple(key), tuple(types[name] for name in keys))
    check_values(events, bound)
    return BoundEvents(frame, named, bound, arrived)
