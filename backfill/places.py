"""Events that windows by number or by offset are computed from, as `aggregate` is given them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill import slices as slicing
from backfill.aggregates.base import Aggregate
from backfill.aggregates.bound import Bound, bind
from backfill.columns import TIME, column, key_name
from backfill.compute import Key


@dataclass(frozen=True)
class BoundEvents:
    """Events with the aggregates' inputs, each event once.

    Attributes:
        frame: key, TIME, id, arrival columns under inner names, and inputs.
        bound: the aggregates.
        arrival: the inner names of the arrival columns.
    """

    frame: DataFrame
    key: Key
    bound: Mapping[Aggregate, Bound]
    arrival: tuple[str, ...]


def bind_events(
    events: DataFrame,
    aggregates: Mapping[str, Aggregate],
    *,
    key: Sequence[str],
    id: str | None,
    arrival: Sequence[str],
) -> BoundEvents:
    """Evaluates what the aggregates need of each event, and leaves copies out.

    Args:
        events: normalised events (with `_time`), without those that can't be used.
        aggregates: by the names of their columns.
        key: the key's columns; none for one group.
        id: rows with equal key, time and id are one event.
        arrival: columns that give the order of arrival.

    Raises:
        AggregateError: if an aggregate does not fit the events.
    """
    keys = [key_name(i) for i in range(len(key))]
    arrived = tuple(f"_arrival{i}" for i in range(len(arrival)))
    columns = [
        *(column(name).alias(mine) for name, mine in zip(key, keys, strict=True)),
        F.col(TIME),
        *([column(id).alias(slicing.ID)] if id else []),
        *(column(name).alias(mine) for name, mine in zip(arrival, arrived, strict=True)),
    ]
    frame, bound = bind(events, columns, aggregates.values(), len(arrival))
    types = {field.name: field.dataType for field in frame.schema.fields}
    if id is not None:
        frame = slicing.distinct_by_hour(frame, keys).select(*frame.columns)
    return BoundEvents(frame, Key(tuple(key), tuple(types[each] for each in keys)), bound, arrived)
