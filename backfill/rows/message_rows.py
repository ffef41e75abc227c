"""From events to sessions whose gap is a number of messages: for `aggregate` and a job's table.

An event's place is its offset in its partition, so the number of messages between two events of a
key is the distance of their offsets minus one. Sessions with such a gap are sessions in time with
the offset as the time, and the same operators build them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from backfill.aggregates.bound import Bound
from backfill.columns import CLOSED, END, EVENTS, INSTANT, START, TIME
from backfill.engines import PLAIN
from backfill.operators.extent import Extent
from backfill.operators.grids import Grid
from backfill.operators.session import session_id, sessions
from backfill.rows import slices as slicing
from backfill.time.durations import Fixed
from backfill.windows import SessionWindow
from backfill.windows.message_gaps import Messages


def message_rows(
    events: DataFrame,
    gap: Messages,
    keys: Sequence[str],
    aggregates: Sequence[Bound],
    *,
    arrival: Sequence[str],
) -> DataFrame:
    """Computes sessions for each key and partition.

    Args:
        events: usable events as `aggregates.bound.bind` gives them, each once.
        gap: a session ends when this many messages of the partition have followed its last one.
        keys: the columns of the key.
        aggregates: the aggregates whose states to compute.
        arrival: the partition's column or columns, if any, and then the offset's.

    Returns:
        Key; `session_id`, of the key, the partition and the first offset; START and END, the least
        and the largest event time (µs); the number of events; CLOSED: its key has a later session
        in the partition; merged states.
    """
    *partition, offset = arrival
    own = [replace(binding, order=(INSTANT, *binding.order[1:])) for binding in aggregates]
    placed = events.withColumns({INSTANT: F.col(TIME), TIME: F.col(offset).cast("long")})
    index = 1 + max((binding.index for binding in own), default=0)
    extent = Extent(index, least=[INSTANT], largest=[INSTANT])
    every = [*own, *extent.bounds]
    group = [*keys, *partition]
    slices = slicing.cut(
        placed,
        keys=group,
        cuttings=[Grid(gap.count, None)],
        aggregates=every,
        deduplicate=False,
    )
    # Five messages have passed if the next offset is more than five away.
    merged = sessions(slices, SessionWindow(gap=Fixed(gap.count)), PLAIN.rules, group, every)
    following = F.lead(START).over(Over.partitionBy(*group).orderBy(START))
    merged = merged.withColumn(CLOSED, following.isNotNull())
    types = {field.name: field.dataType for field in events.schema.fields}
    values = [(F.col(name), types[name]) for name in group]
    return merged.select(
        *keys,
        session_id(values, F.col(START)).alias("session_id"),
        extent.least[INSTANT].alias(START),
        extent.largest[INSTANT].alias(END),
        EVENTS,
        CLOSED,
        *(state for binding in own for state in binding.states()),
    )
