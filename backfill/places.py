"""Events whose place is a number or an offset instead of their time.

The operators find an event by the column TIME; here it holds the place, and INSTANT the time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill import aggregates as agg
from backfill import slices as slicing
from backfill.aggregates.base import Aggregate
from backfill.aggregates.bound import Bound
from backfill.columns import TIME
from backfill.event_inputs import BoundEvents, with_inputs
from backfill.operators.grids import floor_to

__all__ = ["INSTANT", "BoundEvents", "Extent", "bind_events"]

#: The event's time, µs, where TIME is its place.
INSTANT = "_instant"
_HOUR_US = 3_600_000_000


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

    Returns:
        Each event once. The order of the aggregates' events is that of INSTANT, then arrival.

    Raises:
        AggregateError: if an aggregate does not fit the events.
    """
    found = with_inputs(events, aggregates.values(), key=key, id=id, arrival=arrival)
    frame = found.frame
    if id is not None:
        # So that a key's events are exchanged to many tasks.
        hours = frame.withColumn("_hour", floor_to(F.col(TIME), _HOUR_US, 0))
        frame = slicing.distinct(hours, [*found.key.inner, "_hour"]).select(*frame.columns)
    order = (INSTANT, *found.arrival)
    bound = {aggregate: replace(each, order=order) for aggregate, each in found.bound.items()}
    return replace(found, frame=frame, bound=bound)


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
