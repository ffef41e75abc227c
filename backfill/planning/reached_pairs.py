"""Which rows of a join by number of events can change when some of its events come or go."""

from __future__ import annotations

from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from backfill.columns import END, START, TIME
from backfill.rows.compute import Sliced
from backfill.windows import JoinWindow
from backfill.windows.message_gaps import Messages

_FIRST, _LAST = "_first_touched", "_last_touched"


def reached_pairs(events: Sliced, window: JoinWindow, touched: DataFrame) -> DataFrame:
    """Where the rows stand whose partners, or whose `is_open`, can be different now.

    Before the first event that came or went, these are the rows of the last n events of the row's
    side: an earlier event has n others after it, which stand between it and the change. After the
    last such event, they are the rows up to the n-th event of the other side: from there on, a row
    has n partners that are all later than the change. Nothing further away is moved.

    Args:
        events: all events that these keys have now.
        window: pairs by number of events.
        touched: the inner key columns; START and END, the times of the first and the last event of
            a key that came or went, µs.

    Returns:
        The inner key columns, START and END (µs, both inclusive); one row for each key.
    """
    assert events.events is not None
    assert isinstance(window.within, Messages)
    keys, count = events.key.inner, window.within.count
    theirs = touched.select(
        *(F.col(name).alias(f"_touched{name}") for name in keys),
        F.col(START).alias(_FIRST),
        F.col(END).alias(_LAST),
    )
    same = [F.col(name).eqNullSafe(F.col(f"_touched{name}")) for name in keys]
    near = theirs.join(events.events, reduce(and_, same, F.lit(True)), "left")
    left, right = (F.col(events.sides[side]) for side in (window.left, window.right))
    at, full = F.col(TIME), window.how == "full"
    earlier, later = at < F.col(_FIRST), at > F.col(_LAST)
    before = {
        f"_before{i}": _nth(side & earlier, at.desc(), count, keys)
        for i, side in enumerate((left, right) if full else (left,))
    }
    after = {
        f"_after{i}": _nth(side & later, at.asc(), count, keys)
        for i, side in enumerate((right, left) if full else (right,))
    }
    spans = (
        near.withColumns({**before, **after})
        .groupBy(*(f"_touched{name}" for name in keys), _FIRST, _LAST)
        .agg(
            F.min(TIME).alias(START),
            F.max(TIME).alias(END),
            *(F.min(name).alias(name) for name in (*before, *after)),
        )
    )
    # If there are fewer than n: from the first event of the key, or to its last one.
    return spans.select(
        *(F.col(f"_touched{name}").alias(name) for name in keys),
        F.least(_FIRST, *(F.coalesce(name, START) for name in before)).alias(START),
        F.greatest(_LAST, *(F.coalesce(name, END) for name in after)).alias(END),
    )


def _nth(wanted: Column, order: Column, count: int, keys: list[str]) -> Column:
    """The time of a key's n-th wanted event, in this order; NULL in all other rows."""
    own = Over.partitionBy(*(F.col(f"_touched{name}") for name in keys), wanted).orderBy(order)
    return F.when(wanted & (F.row_number().over(own) == count), F.col(TIME))
