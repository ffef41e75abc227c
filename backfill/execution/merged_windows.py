"""Late events merged into published windows: KIP-94's find, merge, remove and put, for a batch."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.columns import END, EVENTS, FIRST, LAST, START
from backfill.operators.session import sessions
from backfill.planning.published_windows import as_slices
from backfill.rows.compute import Sliced
from backfill.rows.definition import Definition
from backfill.store import FileBitmap
from backfill.windows import SessionWindow

#: How many events of a window are late.
LATE = "_late"


def merged(
    late: Sliced, definition: Definition, published: DataFrame | None, bitmap: FileBitmap
) -> DataFrame:
    """The windows that late events fall in, with what is published of them.

    Args:
        late: the slices of the late events.
        definition: the window, and aggregates that are all mergeable.
        published: the windows that the late ones can touch, as `with_bounds` gives them, with
            the bits of their files; None if nothing is published.
        bitmap: these files.

    Returns:
        One row per window that holds a late event: key, start, end (µs), the number of events,
        merged states, the number of late events, the bits of the published parts' files.
    """
    own = [late.bound[aggregate] for aggregate in dict.fromkeys(definition.aggregates.values())]
    also = [F.sum(LATE).alias(LATE), *bitmap.joined()]
    window, keys = definition.window, late.key.inner
    if isinstance(window, SessionWindow):
        parts = _beside(
            late.frame.withColumns({START: F.col(FIRST), END: F.col(LAST)}),
            late,
            definition,
            published,
            bitmap,
        )
        rules = late.engine.rules_for(window)
        whole = sessions(parts, window, rules, keys, own, overlapping=True, also=also)
    else:
        placed = late.build(definition).frame.withColumns({FIRST: F.col(START), LAST: F.col(END)})
        parts = _beside(placed, late, definition, published, bitmap)
        states = [state for aggregate in own for state in aggregate.merge()]
        whole = parts.groupBy(*keys, START, END).agg(F.sum(EVENTS).alias(EVENTS), *states, *also)
    return whole.where(F.col(LATE) > 0)


def _beside(
    new: DataFrame,
    late: Sliced,
    definition: Definition,
    published: DataFrame | None,
    bitmap: FileBitmap,
) -> DataFrame:
    """Late and published parts in one frame."""
    columns = [*late.key.inner, FIRST, LAST, START, END, EVENTS]
    states = [
        state
        for aggregate in dict.fromkeys(definition.aggregates.values())
        for state in late.bound[aggregate].states()
    ]
    parts = new.select(*columns, *states, F.col(EVENTS).alias(LATE), *bitmap.none())
    if published is None:
        return parts
    none = F.lit(0).cast("bigint").alias(LATE)
    old = as_slices(published, definition, late, none, *map(F.col, bitmap.columns))
    return parts.unionByName(old)
