"""Where the operator's clock stood when each event arrived, as a column.

With this column, keys do not depend on each other and can be replayed separately. The clock is a
running maximum over all events in order of arrival. It is computed in blocks (the maximum of each
block, of the blocks before it, and within it), never by one task over everything.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from backfill.columns import TIME
from backfill.engines import Engine
from backfill.streaming import Streaming

CLOCK, END_CLOCK = "_clock", "_end_clock"
#: The clock if the event came after all others that arrived at the same place.
LATEST_CLOCK = "_latest_clock"
#: Where an event is in the order of arrival: its partition, and its place within it.
PARTITION, PLACE = "_partition", "_place"
#: When an event was processed, µs.
WALL_CLOCK = "_wall_clock"
_BLOCKS = 200
_BLOCK, _MOST, _BEFORE = "_block", "_most", "_before"
#: The time of a clock before all events: the smallest value of a column of longs.
BEGINNING = -(1 << 63)


def with_clock(
    events: DataFrame,
    places: tuple[int | None, int | None],
    engine: Engine,
    streaming: Streaming,
    delay: int,
    keys: Sequence[str],
) -> DataFrame:
    """The events with the clock before each, its latest possible value, and the clock at the end.

    Events with the same PLACE are taken in order of time, so that as few as possible are late.

    Args:
        events: with TIME, PARTITION and PLACE.
        places: the smallest PLACE and the largest.
        engine: the engine whose clock it is.
        streaming: its interface.
        delay: how far a watermark stays behind, µs.
        keys: columns that are all NULL where an event has no key.
    """
    # Events without a key, or before the epoch, do not reach an operator that drops them.
    keyed: Column = F.lit(True)
    if keys and streaming.null_key == "drop":
        keyed = F.coalesce(*(F.col(name).cast("string") for name in keys)).isNotNull()
    if not engine.before_epoch:
        keyed &= F.col(TIME) >= 0
    marked = streaming.clock == "watermark"
    behind = delay + streaming.lag_ticks * engine.tick_us if marked else 0
    group = [PARTITION] if streaming.feed == "partitions" else []
    low, high = places
    width = max(1, ((high or 0) - (low or 0) + 1) // _BLOCKS)
    blocked = events.withColumns(
        {
            _BLOCK: F.floor((F.col(PLACE) - F.lit(low)) / width),
            _MOST: F.when(keyed, F.col(TIME)),
        }
    )
    # At most a few hundred rows for each partition, however many events there are.
    most = blocked.groupBy(*group, _BLOCK).agg(F.max(_MOST).alias(_MOST))
    all_of = Over.partitionBy(*group)
    earlier = all_of.orderBy(_BLOCK).rowsBetween(Over.unboundedPreceding, -1)
    known = most.select(
        *group,
        _BLOCK,
        F.max(_MOST).over(earlier).alias(_BEFORE),
        F.max(_MOST).over(all_of).alias(END_CLOCK),
    )
    within = Over.partitionBy(*group, _BLOCK).orderBy(PLACE, TIME)
    running = within.rowsBetween(Over.unboundedPreceding, -1)
    before = F.greatest(F.max(_MOST).over(running), F.col(_BEFORE))
    at_once = Over.partitionBy(*group, _BLOCK, PLACE)
    together = F.when(F.count(F.lit(1)).over(at_once) > 1, F.max(_MOST).over(at_once))
    joined = blocked.join(F.broadcast(known), [*group, _BLOCK])
    return joined.withColumns(
        {
            CLOCK: F.coalesce(before - behind, F.lit(BEGINNING)),
            LATEST_CLOCK: F.coalesce(F.greatest(before, together) - behind, F.lit(BEGINNING)),
            END_CLOCK: F.col(END_CLOCK) - behind,
        }
    ).drop(_BLOCK, _MOST, _BEFORE)
