"""From usable events to windows around each event, as `aggregate` computes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill import slices as slicing
from backfill.aggregates.base import Aggregate
from backfill.aggregates.bound import bind
from backfill.columns import END, EVENT_TIME, START, TIME, column, key_name
from backfill.compute import Key
from backfill.engines import Engine
from backfill.errors import AggregateError
from backfill.event_rows import event_rows
from backfill.fitting import check_names
from backfill.windows import SlidingWindow


def slide(
    events: DataFrame,
    window: SlidingWindow,
    aggregates: Mapping[str, Aggregate],
    *,
    key: Sequence[str],
    engine: Engine,
    id: str | None,
    arrival: Sequence[str],
) -> DataFrame:
    """Computes sliding windows.

    Args:
        events: normalised events (with `_time`), without those that can't be used.
        window: which events surround an event.
        aggregates: by the names of their columns.
        key: the key's columns; none for one group.
        engine: whose resolution of time applies.
        id: rows with equal key, time and id are one event.
        arrival: columns that give the order of arrival.

    Returns:
        Key, `event_time`, the id, and the aggregates by name; of distinct windows key,
        `window_start`, `window_end`, and the aggregates.

    Raises:
        AggregateError: if an aggregate does not fit the events or the window, or its name is taken.
        WindowError: if a duration is not a whole number of the engine's ticks.
    """
    engine.check(window)
    check_names(aggregates, key, window)
    if id in aggregates:
        raise AggregateError(
            "the name is that of the id", field="aggregates", value=id, way_out="Choose another"
        )
    keys = [key_name(i) for i in range(len(key))]
    arrived = [f"_arrival{i}" for i in range(len(arrival))]
    columns = [
        *(column(name).alias(inner) for name, inner in zip(key, keys, strict=True)),
        F.col(TIME),
        *([column(id).alias(slicing.ID)] if id else []),
        *(column(name).alias(inner) for name, inner in zip(arrival, arrived, strict=True)),
    ]
    frame, found = bind(events, columns, aggregates.values(), len(arrival))
    bound = {aggregate: each.sliding() for aggregate, each in found.items()}
    types = {field.name: field.dataType for field in frame.schema.fields}
    named = Key(tuple(key), tuple(types[each] for each in keys))
    if id is not None:
        frame = slicing.distinct(frame, keys)
    rows = event_rows(
        frame,
        window,
        keys,
        list(bound.values()),
        arrival=arrived,
        also=[slicing.ID] if id and not window.distinct else [],
        engine=engine,
    )
    if window.distinct:
        places = [
            F.timestamp_micros(START).alias("window_start"),
            F.timestamp_micros(END).alias("window_end"),
        ]
    else:
        places = [F.timestamp_micros(END).alias(EVENT_TIME)]
        places += [F.col(slicing.ID).alias(id)] if id else []
    values = [bound[each].finish(name) for name, each in aggregates.items()]
    return rows.select(*named.named(), *places, *values)
