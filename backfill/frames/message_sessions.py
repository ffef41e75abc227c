"""Sessions whose gap is a number of messages, as `aggregate` computes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.aggregates.base import Aggregate
from backfill.columns import END, START
from backfill.frames.places import bind_events
from backfill.rows.fitting import check_arrival, check_names
from backfill.rows.message_rows import message_rows
from backfill.windows import SessionWindow
from backfill.windows.message_gaps import Messages


def message_sessions(
    events: DataFrame,
    window: SessionWindow,
    aggregates: Mapping[str, Aggregate],
    *,
    key: Sequence[str],
    id: str | None,
    arrival: Sequence[str],
) -> DataFrame:
    """Computes sessions for each key and partition.

    Args:
        events: normalised events (with `TIME`), without those that can't be used.
        window: its gap is a number of messages.
        aggregates: by the names of their columns.
        key: the key's columns; empty for a single group.
        id: rows with equal key, time and id are one event.
        arrival: the partition's column or columns, if any, and then the offset's.

    Returns:
        Key, `session_id` (of the key, the partition and the first offset), `window_start` and
        `window_end` (the least and the largest event time), and the aggregates by name.

    Raises:
        AggregateError: if an aggregate does not fit the events, or its name is taken.
        WindowError: if the events have no offsets.
    """
    assert isinstance(window.gap, Messages)
    check_arrival(events, window, arrival)
    check_names(aggregates, key, window)
    bound_events = bind_events(events, aggregates, key=key, id=id, arrival=arrival)
    bound = list(bound_events.bound.values())
    rows = message_rows(
        bound_events.frame, window.gap, bound_events.key.inner, bound, arrival=bound_events.arrival
    )
    return rows.select(
        *bound_events.key.named(),
        "session_id",
        F.timestamp_micros(START).alias("window_start"),
        F.timestamp_micros(END).alias("window_end"),
        *(bound_events.bound[aggregate].finish(name) for name, aggregate in aggregates.items()),
    )
