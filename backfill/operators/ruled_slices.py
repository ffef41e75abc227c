"""Sessions with rules from slices, where these leave no doubt where a session begins.

A slice here holds events that are alike to the rules, of one grid cell no wider than the gap and of
one day of `split`. In order of their first events, rules cut slices as they cut events. Two things
cannot be seen from slices, and then all that lies between two gaps is doubtful: a cut at a slice
that begins before another one has ended, or in a slice of several events that each start or end a
session; and where the limits cut, if a stretch is beyond them. What is doubtful is computed from
its events, which are read again for it.
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
from backfill.windows import SessionWindow

_CHAIN, _DOUBT, _GAP, _CUT, _BEFORE = "_chain", "_doubt", "_gap", "_cut", "_before"
_WANTED, _NEEDED, _BUCKET = "_wanted", "_needed", "_bucket"
# The hashes of keys that are broadcast at most: one megabyte.
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
        singles: the events by themselves, with what the rules look at.
        window: with rules.
        keys: the key columns.
        aggregates: whose states to make.
        zone: of `split`.

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
            *(state for each in aggregates for state in each.partial()),
        )
    )


def sessions_of(
    slices: DataFrame, singles: DataFrame, cutter: Cutter, aggregates: Sequence[Bound]
) -> DataFrame:
    """Aggregates over sessions with rules.

    Args:
        slices: as `ruled_slices` makes them.
        singles: the same events by themselves; only those of doubtful chains are used.
        cutter: where sessions begin.
        aggregates: whose states to merge.

    Returns:
        As `ruled_sessions`.
    """
    keys, window = list(cutter.keys), cutter.window
    states = [state for each in aggregates for state in each.merge()]
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
        # Where nothing is doubtful, sessions of a key start at instants of their own.
        .withColumn(ORDINAL, F.lit(0).cast("long"))
    )
    columns = [*keys, START, END, EVENTS, CLOSED, ORDINAL]
    columns += [name for each in aggregates for name in each.states()]
    if not window.cuts:
        # A stretch is all that lies between two gaps, and nothing is doubtful.
        return stretches.select(*columns)
    judged = stretches.withColumn(_DOUBT, F.col(_DOUBT) | _beyond(window))
    # Used more than once and computed once, for Spark runs equal exchanges once. So nothing that is
    # asked of it may differ below the exchange: no column that only one of them needs, and no
    # filter but by results of windows or aggregates. By the keys alone Spark leaves out the
    # exchange: there the rows are by these already.
    judged = judged.repartition(*keys, _CHAIN)
    chain = Over.partitionBy(*keys, _CHAIN)
    marked = judged.withColumns(
        {_DOUBT: F.max(_DOUBT).over(chain), _NEEDED: F.min(_every_column(judged)).over(chain)}
    )
    sure = marked.where(~F.col(_DOUBT) & (F.col(_NEEDED) >= _LEAST))
    again = _events_of(singles, _doubtful(judged, keys), keys)
    return sure.select(*columns).unionByName(ruled_sessions(again, cutter, aggregates))


def _every_column(rows: DataFrame) -> Column:
    """A number from `_LEAST` on, in a way that needs every column."""
    # Spark hashes no maps.
    fields = [each for each in rows.schema.fields if "map<" not in each.dataType.simpleString()]
    return F.hash(*(each.name for each in fields))


def _beyond(window: SessionWindow) -> Column:
    """Whether the limits cut a stretch."""
    beyond = F.lit(False)
    if window.max_duration is not None:
        beyond |= F.col(END) > limit(window, F.col(START))
    if window.max_events is not None:
        beyond |= F.col(EVENTS) > window.max_events
    return beyond


def _doubtful(judged: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The chains that are computed from their events: key, first and last event."""
    chains = judged.groupBy(*keys, _CHAIN).agg(
        F.bool_or(_DOUBT).alias(_DOUBT),
        F.max(END).alias(END),
        F.min(_every_column(judged)).alias(_NEEDED),
    )
    # Where Spark knows that there is no NULL, it adds no filter.
    never = F.lit(0).cast("long")
    found = chains.where(F.col(_DOUBT) & (F.col(_NEEDED) >= _LEAST)).select(
        *(F.col(each).alias(f"{_WANTED}{each}") for each in keys),
        F.coalesce(_CHAIN, never).alias(f"{_WANTED}{START}"),
        F.coalesce(END, never).alias(f"{_WANTED}{END}"),
    )
    # These few are used more than once, too.
    return found.repartition(f"{_WANTED}{START}")


def _events_of(singles: DataFrame, doubtful: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The events of the doubtful chains.

    Events of most other keys are left out before events are exchanged, by a hash of the key that
    has few values; so where nothing is doubtful, Spark does not read the events again.
    """
    # Values that are equal by a collation have other hashes.
    hashed = [
        each for each in keys if "collate" not in singles.schema[each].dataType.simpleString()
    ]
    bucket = _bucket(f"{_WANTED}{each}" for each in hashed).alias(_BUCKET)
    buckets = doubtful.groupBy(bucket).agg(F.min(_every_column(doubtful)).alias(_NEEDED))
    few = F.broadcast(buckets.where(F.col(_NEEDED) >= _LEAST))
    near = singles.join(few, F.col(_BUCKET) == _bucket(hashed), "left_semi")
    same = [F.col(each).eqNullSafe(F.col(f"{_WANTED}{each}")) for each in keys]
    inside = F.col(FIRST).between(F.col(f"{_WANTED}{START}"), F.col(f"{_WANTED}{END}"))
    return near.join(doubtful, reduce(and_, same, inside), "left_semi")


def _bucket(keys: Iterable[str]) -> Column:
    return F.xxhash64(F.lit(0), *keys).bitwiseAND(_BUCKETS - 1)


def _cut(slices: DataFrame, cutter: Cutter) -> DataFrame:
    """The slices with the gap chain and the stretch that they belong to, and what is doubtful.

    Of both the first event is known: _CHAIN and START.
    """
    window, keys = cutter.window, cutter.keys
    # Slices that begin at one instant and cut are doubtful, whichever of them comes first.
    in_order = Over.partitionBy(*keys).orderBy(FIRST, *rule_columns(window))
    earlier = in_order.rowsBetween(Over.unboundedPreceding, -1)
    so_far = in_order.rowsBetween(Over.unboundedPreceding, Over.currentRow)
    first = F.col(FIRST)
    placed = slices.withColumn(_BEFORE, F.max(LAST).over(earlier)).withColumn(
        _GAP, breaks(first, F.col(_BEFORE), window.gap.us, cutter.rules)
    )
    cut = F.col(_GAP) | cutter.cuts(in_order, _GAP)
    placed = placed.withColumns({_CHAIN: F.max(F.when(F.col(_GAP), first)).over(so_far), _CUT: cut})
    ended = F.coalesce(F.col(ENDS), F.lit(False)) if window.end_when else F.lit(False)
    cutting = [F.col(_CUT) & ~F.col(_GAP), ended]
    doubt = reduce(or_, cutting) & F.coalesce(first <= F.col(_BEFORE), F.lit(False))
    marks = [F.col(STARTS)] if window.start_when else []
    marks += [ended] if window.end_when else []
    if marks:
        doubt |= reduce(or_, marks) & (F.col(EVENTS) > 1)
    goes_on = F.lead(_CUT).over(in_order) & ~F.lead(_GAP).over(in_order)
    return placed.withColumns(
        {
            _DOUBT: doubt,
            CLOSED: ended | F.coalesce(goes_on, F.lit(False)),
            START: F.max(F.when(F.col(_CUT), first)).over(so_far),
        }
    )
