"""Distinct values of sliding windows, counted by when each value was seen last.

An event is the last of its value in a window from its own time on, until an event with the same
value follows, or the window has moved past it. So the number of distinct values of a window is the
number of events for which this has begun, less the number of those for which it has ended: two
running counts, whatever the number of values. No set of values is ever held or merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from backfill.aggregates.base import positive_zero
from backfill.aggregates.bound import Bound
from backfill.aggregates.last_seen import LastSeen
from backfill.columns import TIME

#: Kinds of rows: an event with the same value follows; the window has moved past the event. Each
#: aggregate has a pair of its own. The second comes before all others of its instant.
_FOLLOWED, _PASSED = 4, -1


def _next(seen: Bound) -> str:
    return f"_next{seen.input}"


def last_seen(aggregates: Iterable[Bound]) -> list[Bound]:
    """Those whose distinct values are counted so."""
    return [each for each in aggregates if isinstance(each.aggregate, LastSeen)]


def with_next(
    events: DataFrame, keys: Sequence[str], seen: Sequence[Bound], arrival: Sequence[str]
) -> DataFrame:
    """Adds, for each aggregate, time and arrival of the next event with the same value.

    Not where they are there already: for all sliding windows of a job they are found once.

    Args:
        events: key, time and arrival columns, and the aggregates' inputs.
        keys: the key columns.
        seen: aggregates whose distinct values are counted.
        arrival: the columns that order events with equal times.
    """
    place = F.struct(TIME, *arrival)
    for each in seen:
        if _next(each) in events.columns:
            continue
        assert each.input is not None
        value = F.col(each.input)
        # Events without a value have none to wait for, and are kept from gathering in one task.
        apart = F.when(value.isNull(), F.col(TIME))
        same = Over.partitionBy(*keys, positive_zero(value, each.type), apart)
        events = events.withColumn(_next(each), F.lead(place).over(same.orderBy(TIME, *arrival)))
    return events


def ends(
    seen: Sequence[Bound], arrival: Sequence[str], total: int | None, tick: int
) -> list[tuple[Column, Column, list[Column]]]:
    """For each aggregate when an event ceases to be the last of its value: kind, instant, arrival.

    The instant is NULL where it never does.

    Args:
        seen: as for `with_next`, which has been there.
        arrival: the same.
        total: how long a window is, µs; None: it has no start.
        tick: the resolution of time, µs.
    """
    found = []
    for index, each in enumerate(seen):
        assert each.input is not None
        after = F.col(_next(each))
        followed, passed = after.isNotNull(), F.lit(None).cast("long")
        if total is not None:
            last = F.col(TIME) + total
            followed, passed = followed & (after[TIME] <= last), last + tick
        at = F.when(followed, after[TIME]).otherwise(passed)
        kind = F.when(followed, _FOLLOWED + index).otherwise(_PASSED - index)
        arrived = [F.when(followed, after[name]) for name in arrival]
        found.append((kind, F.when(F.col(each.input).isNotNull(), at), arrived))
    return found


def change(index: int, seen: Bound, kind: Column, counted: Column) -> Column:
    """By how much a row changes the number of distinct values.

    Args:
        index: of the aggregate among those that are counted so.
        seen: it.
        kind: the row's.
        counted: whether the row is one at which its event counts.
    """
    assert seen.input is not None
    begins = counted & F.col(seen.input).isNotNull()
    ceases = kind.isin(_FOLLOWED + index, _PASSED - index)
    return F.when(begins, 1).when(ceases, -1).cast("long")
