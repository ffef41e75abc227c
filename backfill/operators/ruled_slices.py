"""Sessions with rules from slices, where these leave no doubt where a session begins.

A slice here holds events that are alike to the rules, of one grid cell no wider than the gap and of
one day of `split`. In order of their first events, rules cut slices as they cut events. Two things
cannot be seen from slices, and then all that lies between two gaps is doubtful: a cut at a slice
that begins before another one has ended, or in a slice of several events that each start or end a
session; and where the limits cut, if a stretch is beyond them. What is doubtful is computed from
its events, which are read again for it.
"""

from __future__ import annotations

from collections.abc import Sequence
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

_CHAIN, _CHAIN_START, _CHAIN_END, _DOUBT = "_chain", "_chain_start", "_chain_end", "_doubt"
_STRETCH, _ENDED, _GAP, _CUT, _BEFORE = "_stretch", "_ended", "_gap", "_cut", "_before"
_WANTED = "_wanted"


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
        .groupBy(*keys, _CHAIN, _STRETCH)
        .agg(
            F.min(FIRST).alias(START),
            F.max(LAST).alias(END),
            F.sum(EVENTS).alias(EVENTS),
            F.bool_or(_DOUBT).alias(_DOUBT),
            F.max_by(_ENDED, FIRST).alias(_ENDED),
            *states,
        )
    )
    columns = [*keys, START, END, EVENTS, CLOSED, ORDINAL]
    columns += [name for each in aggregates for name in each.states()]
    first = F.lit(0).cast("long")
    if not window.cuts:
        # A stretch is all that lies between two gaps, and nothing is doubtful.
        return stretches.withColumns({CLOSED: F.lit(False), ORDINAL: first}).select(*columns)
    beyond = F.lit(False)
    if window.max_duration is not None:
        beyond |= F.col(END) > limit(window, F.col(START))
    if window.max_events is not None:
        beyond |= F.col(EVENTS) > window.max_events
    chain = Over.partitionBy(*keys, _CHAIN)
    judged = stretches.withColumns(
        {
            _DOUBT: F.max(F.col(_DOUBT) | beyond).over(chain),
            _CHAIN_START: F.min(START).over(chain),
            _CHAIN_END: F.max(END).over(chain),
        }
    ).withColumn(CLOSED, F.col(_ENDED) | (F.col(END) < F.col(_CHAIN_END)))
    # Where nothing is doubtful, sessions of a key start at instants of their own.
    sure = judged.where(~F.col(_DOUBT)).withColumn(ORDINAL, first)
    doubtful = judged.where(F.col(_DOUBT) & _as_computed(judged)).select(
        *(F.col(each).alias(f"{_WANTED}{each}") for each in keys),
        F.col(_CHAIN_START).alias(f"{_WANTED}{START}"),
        F.col(_CHAIN_END).alias(f"{_WANTED}{END}"),
    )
    same = [F.col(each).eqNullSafe(F.col(f"{_WANTED}{each}")) for each in keys]
    inside = F.col(FIRST).between(F.col(f"{_WANTED}{START}"), F.col(f"{_WANTED}{END}"))
    again = singles.join(doubtful, reduce(and_, same, inside), "left_semi")
    exact = ruled_sessions(again, cutter, aggregates)
    return sure.select(*columns).unionByName(exact)


def _cut(slices: DataFrame, cutter: Cutter) -> DataFrame:
    """The slices with the gap chain and the stretch that they belong to, and what is doubtful."""
    window, keys = cutter.window, cutter.keys
    # Slices that begin at one instant and cut are doubtful, whichever of them comes first.
    in_order = Over.partitionBy(*keys).orderBy(FIRST, *rule_columns(window))
    earlier = in_order.rowsBetween(Over.unboundedPreceding, -1)
    so_far = in_order.rowsBetween(Over.unboundedPreceding, Over.currentRow)
    before = F.max(LAST).over(earlier)
    gap = breaks(F.col(FIRST), before, window.gap.us, cutter.rules)
    placed = slices.withColumns({_GAP: gap, _BEFORE: before}).withColumn(
        _CHAIN, F.sum(F.col(_GAP).cast("long")).over(so_far)
    )
    placed = placed.withColumn(_CUT, F.col(_GAP) | cutter.cuts(in_order, _CHAIN))
    ended = F.coalesce(F.col(ENDS), F.lit(False)) if window.end_when else F.lit(False)
    cutting = [F.col(_CUT) & ~F.col(_GAP), ended]
    doubt = reduce(or_, cutting) & F.coalesce(F.col(FIRST) <= F.col(_BEFORE), F.lit(False))
    marks = [F.col(STARTS)] if window.start_when else []
    marks += [ended] if window.end_when else []
    if marks:
        doubt |= reduce(or_, marks) & (F.col(EVENTS) > 1)
    return placed.withColumns({_DOUBT: doubt, _ENDED: ended}).withColumn(
        _STRETCH, F.sum(F.col(_CUT).cast("long")).over(so_far)
    )


def _as_computed(judged: DataFrame) -> Column:
    """True, in a way that needs every column.

    A plan without the states would be another one, and Spark would make the slices twice.
    """
    # Spark hashes no maps.
    fields = [each for each in judged.schema.fields if "map<" not in each.dataType.simpleString()]
    return F.hash(*(each.name for each in fields)) >= F.lit(-(2**31))
