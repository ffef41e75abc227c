"""From usable events to sessions whose gap is a number of messages, as `aggregate` computes them.

An event's place is its offset in its partition, so between two events of a key lie as many messages
as their offsets are apart, less one. Sessions of such a gap are sessions in time whose time is the
offset, and the same operators build them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill import slices as slicing
from backfill.aggregates.base import Aggregate
from backfill.columns import START, TIME
from backfill.compute import check_names
from backfill.engines import PLAIN
from backfill.errors import WindowError
from backfill.message_gaps import Messages
from backfill.operators.grids import Grid
from backfill.operators.session import session_id, sessions
from backfill.places import INSTANT, Extent, bind_events
from backfill.time.durations import Fixed
from backfill.windows import SessionWindow


def message_sessions(
    events: DataFrame,
    gap: Messages,
    aggregates: Mapping[str, Aggregate],
    *,
    key: Sequence[str],
    id: str | None,
    arrival: Sequence[str],
) -> DataFrame:
    """Computes sessions of each key and partition.

    Args:
        events: normalised events (with `_time`), without those that can't be used.
        gap: a session ends when so many messages of the partition have followed its last one.
        aggregates: by the names of their columns.
        key: the key's columns; none for one group.
        id: rows with equal key, time and id are one event.
        arrival: the columns of the partition, if there are several, and last that of the offset.

    Returns:
        Key, `session_id` (of the key, the partition and the first offset), `window_start` and
        `window_end` (the least and the largest event time), and the aggregates by name.

    Raises:
        AggregateError: if an aggregate does not fit the events, or its name is taken.
        WindowError: if the events have no offsets.
    """
    _check_offset(events, gap, arrival)
    check_names(aggregates, key)
    found = bind_events(events, aggregates, key=key, id=id, arrival=arrival)
    *partition, offset = found.arrival
    placed = found.frame.withColumns({INSTANT: F.col(TIME), TIME: F.col(offset).cast("long")})
    extent = Extent(len(found.bound), least=[INSTANT], largest=[INSTANT])
    every = [*found.bound.values(), *extent.bounds]
    group = [*found.key.inner, *partition]
    slices = slicing.cut(
        placed,
        keys=group,
        cuttings=[Grid(gap.count, None)],
        aggregates=every,
        deduplicate=False,
    )
    # Five messages have passed where the next offset is more than five away.
    window = SessionWindow(gap=Fixed(gap.count))
    merged = sessions(slices, window, PLAIN.rules, group, every)
    types = {field.name: field.dataType for field in found.frame.schema.fields}
    values = [(F.col(name), types[name]) for name in group]
    return merged.select(
        *found.key.named(),
        session_id(values, F.col(START)).alias("session_id"),
        F.timestamp_micros(extent.least[INSTANT]).alias("window_start"),
        F.timestamp_micros(extent.largest[INSTANT]).alias("window_end"),
        *(found.bound[each].finish(name) for name, each in aggregates.items()),
    )


def _check_offset(events: DataFrame, gap: Messages, arrival: Sequence[str]) -> None:
    if arrival and isinstance(events.schema[arrival[-1]].dataType, T.IntegralType):
        return
    raise WindowError(
        "a gap of messages needs events with offsets",
        field="gap",
        value=str(gap),
        way_out="Give arrival=[partition, offset], or the offset alone if there is one partition",
    )
