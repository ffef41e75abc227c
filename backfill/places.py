"""Events whose place is a number or an offset instead of their time.

The operators find an event by the column TIME; here it holds the place, and INSTANT the time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill import aggregates as agg
from backfill import slices as slicing
from backfill.aggregates.base import Aggregate
from backfill.aggregates.bound import Bound, bind
from backfill.columns import TIME, column, key_name
from backfill.compute import Key
from backfill.operators.grids import floor_to

#: The event's time, µs, where TIME is its place.
INSTANT = "_instant"
_HOUR_US = 3_600_000_000


@dataclass(frozen=True)
class BoundEvents:
    """Events with the aggregates' inputs, each event once.

    Attributes:
        frame: key, TIME, id, arrival columns under inner names, and inputs.
        bound: the aggregates; the order of their events is that of INSTANT, then arrival.
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
        # So that a key's events are exchanged to many tasks.
        hours = frame.withColumn("_hour", floor_to(F.col(TIME), _HOUR_US, 0))
        frame = slicing.distinct(hours, [*keys, "_hour"]).select(*frame.columns)
    order = (INSTANT, *arrived)
    return BoundEvents(
        frame,
        Key(tuple(key), tuple(types[each] for each in keys)),
        {aggregate: replace(each, order=order) for aggregate, each in bound.items()},
        arrived,
    )


class Extent:
    """The least and the largest values of columns of whole numbers, as aggregates of a window.

    Args:
        index: where their states are numbered from.
        least, largest: columns of the events.

    Attributes:
        bounds: the aggregates.
        least, largest: the values by column, where `bounds` are merged.
    """

    def __init__(self, index: int, *, least: Sequence[str], largest: Sequence[str]) -> None:
        wanted = [*((agg.min, name) for name in least), *((agg.max, name) for name in largest)]
        self.bounds = [
            Bound(kind(name), index + i, name, T.LongType(), (INSTANT,))
            for i, (kind, name) in enumerate(wanted)
        ]
        states = [F.col(state) for each in self.bounds for state in each.states()]
        self.least = dict(zip(least, states, strict=False))
        self.largest = dict(zip(largest, states[len(least) :], strict=True))
