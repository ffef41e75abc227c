"""From usable events to the rows of windows around single events."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill.aggregates.bound import Bound
from backfill.columns import END, OWN, START, TIME
from backfill.engines import Engine
from backfill.operators.sliding import AT, sliding
from backfill.rows.step_rows import begins
from backfill.windows import RollingWindow, SlidingWindow, TableWindow

_OTHER = "_other"


def event_rows(
    events: DataFrame,
    window: SlidingWindow,
    keys: Sequence[str],
    aggregates: Sequence[Bound],
    *,
    arrival: Sequence[str],
    also: Sequence[str],
    engine: Engine,
) -> DataFrame:
    """Computes the row of each event, or of each distinct window.

    Args:
        events: usable events as `aggregates.bound.bind` gives them, each once.
        window: which events belong to an event's row.
        keys: the key columns.
        aggregates: the aggregates whose states to compute.
        arrival: the columns that order events with equal times.
        also: further columns of the event to keep; none for distinct windows.
        engine: the engine whose time resolution and rules apply.

    Returns:
        Key, START and END (µs), the columns of `also`, the number of events, merged states.
    """
    rows = sliding(
        events,
        window,
        keys,
        aggregates,
        arrival=arrival,
        also=also,
        tick=engine.tick_us,
        clips=engine.rules.clips_at_epoch,
        # If there are several key columns, one of them can be NULL, whatever the engine.
        null_key=engine.null_key or len(keys) > 1,
    )
    if window.distinct:
        assert window.size is not None
        return rows.withColumns({START: F.col(AT) - window.size.us, END: F.col(AT)})
    return rows.withColumns({START: F.col(TIME), END: F.col(TIME)})


def own_end(window: SlidingWindow | TableWindow, engine: Engine) -> Column:
    """END of an event's own row, computed from its TIME."""
    if isinstance(window, RollingWindow):
        return begins(window.step.us, window.offset.us)
    if isinstance(window, SlidingWindow) and window.distinct and engine.rules.clips_at_epoch:
        assert window.size is not None
        return F.greatest(F.col(TIME), F.lit(window.size.us))
    return F.col(TIME)


def with_own(
    rows: DataFrame, events: DataFrame, window: SlidingWindow, keys: Sequence[str], engine: Engine
) -> DataFrame:
    """Adds the number of events whose own row it is; each event has one.

    Of distinct windows, an event's own is the one that ends with it.

    Args:
        rows: what `event_rows` returns for the events.
        events: the events.
        window: the window.
        keys: the key columns.
        engine: the engine whose rules apply.
    """
    if not window.distinct:
        return rows.withColumn(OWN, F.lit(1).cast("bigint"))
    own = events.groupBy(
        *(F.col(name).alias(f"{_OTHER}{name}") for name in keys),
        own_end(window, engine).alias(f"{_OTHER}{END}"),
    ).agg(F.count(F.lit(1)).alias(OWN))
    same = [F.col(name).eqNullSafe(F.col(f"{_OTHER}{name}")) for name in (*keys, END)]
    joined = rows.join(own, reduce(and_, same), "left")
    return joined.select(*rows.columns, F.coalesce(OWN, F.lit(0)).alias(OWN))
