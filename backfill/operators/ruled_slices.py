"""Sessions with rules from slices, where these leave no doubt about where a session begins.

A slice here holds events that are alike to the rules, of one grid cell no wider than the gap and of
one day of `split`. In order of their first events, rules cut slices as they cut events. Slices do
not show two things. One is the order of events, where a cut is at a slice that begins before
another one has ended, or in a slice of several events that each start or end a session. The other
is where the limits cut, once the events since the last gap exceed them. From there on, the sessions
up to the next gap are doubtful. They are computed from events, which are read again for this.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from backfill.aggregates.bound import Bound
from backfill.columns import CLOSED, END, EVENTS, FIRST, LAST, ORDINAL, START
from backfill.operators.grids import Grid
from backfill.operators.session import breaks
from backfill.operators.session_rules import (
    ENDS,
    STARTS,
    Cutter,
    day_number,
    limit,
    rule_columns,
    ruled_sessions,
)
from backfill.runtimes.differences import runtime_of
from backfill.windows import SessionWindow

_CHAIN, _DOUBT, _GAP, _CUT, _BEFORE = "_chain", "_doubt", "_gap", "_cut", "_before"
_MIXED, _NEXT, _COUNT, _FULL = "_mixed", "_next", "_count", "_full"
_WANTED, _SINCE, _NEEDED, _BUCKET = "_wanted", "_since", "_needed", "_bucket"
# The largest number of key hashes that are broadcast: one megabyte.
_BUCKETS = 1 << 16
_LEAST = -(2**31)


def ruled_slices(
    singles: DataFrame,
    window: SessionWindow,
    keys: Sequence[str],
    aggregates: Sequence[Bound],
    zone: str,
) -> DataFrame:
    """Slices of events that are alike to the rules of a window.

    Args:
        singles: the single events, with the columns that the rules look at.
        window: a window with rules.
        keys: the key columns.
        aggregates: the aggregates whose states to make.
        zone: the time zone of `split`.

    Returns:
        Key, the columns of the rules, FIRST, LAST, EVENTS, states.
    """
    grid = {"_grid": Grid(window.gap.us, None).cut(F.col(FIRST))}
    if window.split is not None:
        grid["_day"] = day_number(window, zone)(F.col(FIRST))
    return (
        singles.withColumns(grid)
        .groupBy(*keys, *grid, *rule_columns(window))
        .agg(
            F.min(FIRST).alias(FIRST),
            F.max(FIRST).alias(LAST),
            F.count(F.lit(1)).alias(EVENTS),
            *(state for binding in aggregates for state in binding.partial()),
        )
    )


def sessions_of(
    slices: DataFrame, singles: DataFrame, cutter: Cutter, aggregates: Sequence[Bound]
) -> DataFrame:
    """Aggregates over sessions with rules.

    Args:
        slices: as `ruled_slices` makes them.
        singles: the same events, one row each; only those of chains with a doubt are used.
        cutter: where sessions begin.
        aggregates: the aggregates whose states to merge.

    Returns:
        As `ruled_sessions`.
    """
    keys, window = list(cutter.keys), cutter.window
    states = [state for binding in aggregates for state in binding.merge()]
    stretches = (
        _cut(slices, cutter)
        .groupBy(*keys, START)
        .agg(
            F.max(LAST).alias(END),
            F.sum(EVENTS).alias(EVENTS),
            F.min(_CHAIN).alias(_CHAIN),
            F.bool_or(_DOUBT).alias(_DOUBT),
            F.bool_or(CLOSED).alias(CLOSED),
            *states,
        )
    )
    columns = [*keys, START, END, EVENTS, CLOSED, ORDINAL]
    columns += [name for binding in aggregates for name in binding.states()]
    # The sessions of a key that are sure all start at different instants.
    alone = F.lit(0).cast("long")
    if not window.cuts:
        # A stretch is everything between two gaps, and nothing is doubtful.
        return stretches.withColumn(ORDINAL, alone).select(*columns)
    # Used more than once but computed once, as Spark runs equal exchanges once. So uses must not
    # differ below the exchange: no column that only one of them needs, and no filter. With the keys
    # alone Spark leaves out the exchange, since the rows are partitioned by them already.
    judged = stretches.repartition(*keys, _CHAIN)
    kept = [alone.alias(ORDINAL) if name == ORDINAL else F.col(name) for name in columns]
    sure = judged.where(_above(judged, ~F.col(_DOUBT))).select(*kept)
    again = _events_of(singles, _doubtful(judged, keys), keys)
    return sure.unionByName(
        ruled_sessions(again, cutter, aggregates, since=_SINCE).select(*columns)
    )


def _above(rows: DataFrame, condition: Column) -> Column:
    """A condition that needs every exchanged column, and that Spark leaves above the exchange."""
    if not runtime_of(rows.sparkSession).is_spark:
        return condition
    whole = condition & (_every_column(rows) >= _LEAST)
    return F.when(F.spark_partition_id() >= 0, whole)


def _every_column(rows: DataFrame) -> Column:
    """A number of at least `_LEAST` that is computed from every column."""
    # Spark hashes no maps.
    fields = [field for field in rows.schema.fields if "map<" not in field.dataType.simpleString()]
    return F.hash(*(field.name for field in fields))


def _doubtful(judged: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The chains that have to be computed from their events.

    Key, first event, last event, and where the sessions begin that are in doubt.
    """
    chains = (
        judged.where(_above(judged, F.col(_DOUBT)))
        .groupBy(*keys, _CHAIN)
        .agg(F.min(START).alias(START), F.max(END).alias(END))
    )
    # Where Spark knows that there are no NULLs, it adds no filter.
    never = F.lit(0).cast("long")
    extents = chains.select(
        *(F.col(key).alias(f"{_WANTED}{key}") for key in keys),
        F.coalesce(_CHAIN, never).alias(f"{_WANTED}{FIRST}"),
        F.coalesce(END, never).alias(f"{_WANTED}{LAST}"),
        F.coalesce(START, never).alias(_SINCE),
    )
    # These few are used more than once, too.
    return extents.repartition(f"{_WANTED}{FIRST}")


def _events_of(singles: DataFrame, doubtful: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The events of the doubtful chains.

    Events of most other keys are left out before the exchange, by a hash of the key that has few
    values. So if nothing is doubtful, Spark does not read the events again.
    """
    bucket = _bucket(f"{_WANTED}{key}" for key in keys).alias(_BUCKET)
    buckets = doubtful.groupBy(bucket).agg(F.min(_every_column(doubtful)).alias(_NEEDED))
    few = F.broadcast(buckets.where(F.col(_NEEDED) >= _LEAST))
    near = singles.join(few, F.col(_BUCKET) == _bucket(keys), "left_semi")
    same = [F.col(key).eqNullSafe(F.col(f"{_WANTED}{key}")) for key in keys]
    first, last = F.col(f"{_WANTED}{FIRST}"), F.col(f"{_WANTED}{LAST}")
    # No chain ends before its doubt begins, so _SINCE excludes nothing. It is here so that all uses
    # of these events need it: else the chains are exchanged both with it and without it.
    inside = (F.col(FIRST) >= first) & (F.greatest(FIRST, _SINCE) <= last)
    # An event is in one chain at most.
    return near.join(doubtful, reduce(and_, same, inside)).select(*singles.columns, _SINCE)


def _bucket(keys: Iterable[str]) -> Column:
    return F.xxhash64(F.lit(0), *keys).bitwiseAND(_BUCKETS - 1)


def _cut(slices: DataFrame, cutter: Cutter) -> DataFrame:
    """The slices with their gap chain and their stretch, and whether they are doubtful.

    _CHAIN and START are the first events of the chain and of the stretch.
    """
    window, keys = cutter.window, cutter.keys
    in_order = Over.partitionBy(*keys).orderBy(FIRST, *rule_columns(window))
    earlier = in_order.rowsBetween(Over.unboundedPreceding, -1)
    so_far = in_order.rowsBetween(Over.unboundedPreceding, Over.currentRow)
    first, last, gap = F.col(FIRST), F.col(LAST), F.col(_GAP)
    running = {
        _BEFORE: F.max(LAST).over(earlier),
        _NEXT: F.lead(FIRST).over(in_order),
        **cutter.earlier(in_order),
    }
    if window.max_events is not None:
        running[_COUNT] = F.sum(EVENTS).over(so_far)
    placed = slices.withColumns(running).withColumn(
        _GAP, breaks(first, F.col(_BEFORE), window.gap.us, cutter.rules)
    )
    ended = F.coalesce(F.col(ENDS), F.lit(False)) if window.end_when else F.lit(False)
    chains = {
        _CHAIN: F.max(F.when(gap, first)).over(so_far),
        **cutter.at_gaps(in_order, _GAP),
    }
    if window.max_events is not None:
        chains[_FULL] = F.max(F.when(gap, F.col(_COUNT) - F.col(EVENTS))).over(so_far)
    placed = placed.withColumns(chains).withColumn(_CUT, gap | cutter.cuts())
    # If slices begin at the same instant, any of them can hold the first event.
    overlaps = F.coalesce((first <= F.col(_BEFORE)) | (first == F.col(_NEXT)), F.lit(False))
    cut_within = F.col(_CUT) & ~gap
    placed = placed.withColumn(_MIXED, (cut_within | ended) & overlaps)
    doubts = [F.col(_MIXED)]
    marks = [F.col(STARTS)] if window.start_when else []
    marks += [ended] if window.end_when else []
    if marks:
        doubts.append(reduce(or_, marks) & (F.col(EVENTS) > 1))
    # A chain within the limits has no stretch beyond them. To know where the stretches begin would
    # take one more pass, and few chains are that long.
    if window.max_duration is not None:
        doubts.append(last > limit(window, F.col(_CHAIN)))
    if window.max_events is not None:
        doubts.append(F.col(_COUNT) - F.col(_FULL) > window.max_events)
    # The slices that a slice may be mixed up with are in its stretch or in the one of the slice
    # before it. From the first doubt on, the rest of the chain is doubtful.
    latest = F.max(F.when(reduce(or_, doubts), first)).over(so_far)
    doubtful = (latest >= F.col(_CHAIN)) | F.lead(_MIXED).over(in_order)
    return placed.withColumns(
        {
            START: F.max(F.when(F.col(_CUT), first)).over(so_far),
            CLOSED: ended | F.coalesce(F.lead(cut_within).over(in_order), F.lit(False)),
            _DOUBT: F.coalesce(doubtful, F.lit(False)),
        }
    )
