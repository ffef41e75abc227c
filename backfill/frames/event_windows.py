"""From usable events to windows around each event, as `aggregate` computes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.aggregates.base import Aggregate
from backfill.columns import END, EVENT_TIME, START
from backfill.engines import Engine
from backfill.errors import AggregateError
from backfill.frames.event_inputs import with_inputs
from backfill.rows import slices as slicing
from backfill.rows.event_rows import event_rows
from backfill.rows.fitting import check_framed, check_names, check_subtracted
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
        events: normalised events (with `TIME`), without those that can't be used.
        window: which events belong to an event's window.
        aggregates: by the names of their columns.
        key: the key's columns; empty for a single group.
        engine: the engine whose time resolution applies.
        id: rows with equal key, time and id are one event.
        arrival: columns that give the order of arrival.

    Returns:
        Key, `event_time`, the id, and the aggregates by name; for distinct windows: key,
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
    bound_events = with_inputs(events, aggregates.values(), key=key, id=id, arrival=arrival)
    keys = bound_events.key.inner
    bound = {aggregate: binding.sliding() for aggregate, binding in bound_events.bound.items()}
    check_framed(events, bound.values())
    check_subtracted(events, bound.values())
    rows = event_rows(
        bound_events.frame if id is None else slicing.distinct(bound_events.frame, keys),
        window,
        keys,
        list(bound.values()),
        arrival=bound_events.arrival,
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
        places += [F.col(slicing.ID).alias(id)] if id and id not in key else []
    values = [bound[aggregate].finish(name) for name, aggregate in aggregates.items()]
    return rows.select(*bound_events.key.named(), *places, *values)
