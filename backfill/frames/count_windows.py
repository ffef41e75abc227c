"""Windows by number of events, as `aggregate` computes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.aggregates.base import Aggregate
from backfill.columns import BEGIN, END, FIRST_EVENT, LAST_EVENT
from backfill.engines import Engine
from backfill.frames.places import bind_events
from backfill.rows.compute import Key, ties
from backfill.rows.count_rows import count_rows
from backfill.rows.fitting import check_arrival, check_framed, check_names, check_subtracted
from backfill.windows import CountWindow


def count(
    events: DataFrame,
    window: CountWindow,
    aggregates: Mapping[str, Aggregate],
    *,
    key: Sequence[str],
    engine: Engine,
    id: str | None,
    arrival: Sequence[str],
) -> DataFrame:
    """Computes count windows.

    Args:
        events: normalised events (with `TIME`), without those that can't be used.
        window: which events make a window.
        aggregates: by the names of their columns.
        key: the key's columns; empty for a single group.
        engine: the engine whose rules apply.
        id: rows with equal key, time and id are one event.
        arrival: columns that give the order of arrival.

    Returns:
        Key, unless the windows are over the whole stream; `window_start`, `window_end` (the least
        and the largest event time in the window), `first_event`, `last_event` (numbers, from 1),
        and the aggregates by name.

    Raises:
        AggregateError: if an aggregate does not fit the events or the window, or its name is taken.
        ColumnError: if the last arrival column is neither a number nor a time.
        WindowError: if the engine refuses the window, or the events have no arrival to order by.
    """
    engine.check(window)
    check_names(aggregates, key, window)
    check_arrival(events, window, arrival)
    bound_events = bind_events(events, aggregates, key=key, id=id, arrival=arrival)
    check_framed(events, bound_events.bound.values())
    check_subtracted(events, bound_events.bound.values())
    group = bound_events.key if window.per == "key" else Key((), ())
    rows = count_rows(
        bound_events.frame,
        window,
        group.inner,
        list(bound_events.bound.values()),
        arrival=bound_events.arrival,
        ties=ties(bound_events.key, id),
        engine=engine,
    )
    return rows.select(
        *group.named(),
        F.timestamp_micros(BEGIN).alias("window_start"),
        F.timestamp_micros(END).alias("window_end"),
        FIRST_EVENT,
        LAST_EVENT,
        *(bound_events.bound[aggregate].finish(name) for name, aggregate in aggregates.items()),
    )
