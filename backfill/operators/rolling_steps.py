"""Step functions of all windows of a grouping at once, from slices as long as a step.

A slice counts in a window from one step on, and ceases to a window's length later: two rows. Time
is cut into blocks as long as the window, so that it holds exactly one boundary of blocks at every
step: what it holds is what began to count since the boundary, and what has not ceased to yet. Both
are running aggregates, forward and backward, however long the window is, and no state is ever
subtracted from another (as in `operators.hopping`). Rows are there only where slices begin or
cease, so spans without events cost nothing.

Distinct values are counted by the spans in which they are present: a slice with a value begins one
unless another one of the same value is still counted, and ends one unless another follows in time.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from backfill.aggregates.base import positive_zero
from backfill.aggregates.bound import Bound, Part
from backfill.aggregates.last_seen import LastSeen
from backfill.columns import EVENTS, TIME
from backfill.operators.last_seen import last_seen
from backfill.operators.sliding import AT, with_states

#: The length of a row's window, µs.
SPAN = "_span"
_CEASES, _BLOCK = "_ceases", "_block"
#: Of a row that is about one value: which aggregate's, and the slices with it before and after.
_OF, _VALUE, _BEFORE, _AFTER = "_of", "_value", "_before", "_after"
_BEGUN, _LASTING = "_begun", "_lasting"


def in_frames(aggregate: Bound) -> bool:
    """Whether it can be computed so."""
    return aggregate.aggregate.framed or isinstance(aggregate.aggregate, LastSeen)


def rolling_steps(
    events: DataFrame, spans: Sequence[int], keys: Sequence[str], aggregates: Sequence[Bound]
) -> DataFrame:
    """Merges events into the windows of each step at which one of them begins or ceases to count.

    Args:
        events: key and TIME, the step from which on an event counts, and the aggregates' inputs.
        spans: the windows' lengths, µs; whole numbers of steps.
        keys: the key columns.
        aggregates: whose states to compute, such as `in_frames` holds for.

    Returns:
        At least one row for each key, window and step at which something changes: key, SPAN, AT,
        the number of events, merged states.
    """
    seen = last_seen(aggregates)
    merged = [each for each in aggregates if each not in seen]
    slices = _slices(events, keys, merged, seen)
    together = slices.repartition(*keys) if keys else slices.coalesce(1)
    rows = together.withColumn("_row", F.explode(_rows(spans, seen))).select("*", "_row.*")
    rows = rows.where(F.col(AT).isNotNull())
    rows = rows.withColumn(_BLOCK, F.col(AT) - F.pmod(F.col(AT), F.col(SPAN)))
    return _joined(_running(rows, keys, merged, seen), keys, merged, seen)


def _slices(
    events: DataFrame, keys: Sequence[str], merged: Sequence[Bound], seen: Sequence[Bound]
) -> DataFrame:
    """A row for each key and step with states; for each distinct value one with its neighbors."""
    states = [state for each in merged for state in each.partial()]
    found = events.groupBy(*keys, TIME).agg(F.count(F.lit(1)).alias(EVENTS), *states)
    for index, each in enumerate(seen):
        assert each.input is not None
        value = positive_zero(F.col(each.input), each.type).alias(_VALUE)
        values = events.where(F.col(each.input).isNotNull()).select(*keys, TIME, value).distinct()
        same = Over.partitionBy(*keys, _VALUE).orderBy(TIME)
        values = values.select(
            *keys,
            TIME,
            F.lit(index).alias(_OF),
            F.lag(TIME).over(same).alias(_BEFORE),
            F.lead(TIME).over(same).alias(_AFTER),
        )
        found = found.unionByName(values, allowMissingColumns=True)
    return found


def _rows(spans: Sequence[int], seen: Sequence[Bound]) -> Column:
    """When a slice begins to count in each window, and when it ceases to; NULL: not of itself."""
    time, found = F.col(TIME), []
    for span in spans:
        begins, ceases = time, time + span
        if seen:
            begins = F.when(F.col(_BEFORE).isNull() | (F.col(_BEFORE) + span < time), begins)
            ceases = F.when(F.col(_AFTER).isNull() | (F.col(_AFTER) > ceases), ceases)
        for at, ends in ((begins, False), (ceases, True)):
            found.append(
                F.struct(
                    F.lit(span).cast("long").alias(SPAN),
                    at.alias(AT),
                    F.lit(ends).alias(_CEASES),
                )
            )
    return F.array(*found)


def _running(
    rows: DataFrame, keys: Sequence[str], merged: Sequence[Bound], seen: Sequence[Bound]
) -> DataFrame:
    """Adds what began to count in the row's block so far, and what ceases to later in it."""
    block = Over.partitionBy(*keys, SPAN, _BLOCK)
    back = block.orderBy(F.col(AT).desc()).rangeBetween(Over.unboundedPreceding, -1)
    states = _merged(merged, F.col(_CEASES), back)
    rows = with_states(rows, _LASTING, states)
    forward = block.orderBy(AT).rangeBetween(Over.unboundedPreceding, Over.currentRow)
    rows = with_states(rows, _BEGUN, _merged(merged, ~F.col(_CEASES), forward))
    if not seen:
        return rows
    # Blocks follow each other in time, so that the sort of the line above serves this, too.
    so_far = Over.partitionBy(*keys, SPAN).orderBy(_BLOCK, AT)
    so_far = so_far.rangeBetween(Over.unboundedPreceding, Over.currentRow)
    change = F.when(F.col(_CEASES), F.lit(-1)).otherwise(F.lit(1)).cast("long")
    return rows.withColumns(
        {
            name: F.coalesce(F.sum(F.when(F.col(_OF) == index, change)).over(so_far), F.lit(0))
            for index, each in enumerate(seen)
            for name in each.states()
        }
    )


def _merged(merged: Sequence[Bound], counted: Column, frame: WindowSpec) -> dict[str, Column]:
    """The number of events, and the states, of the slices of a frame that count."""
    states = {EVENTS: F.coalesce(F.sum(F.when(counted, F.col(EVENTS))).over(frame), F.lit(0))}
    for each in merged:
        states |= each.merge_frame(counted, frame)
    return states


def _joined(
    rows: DataFrame, keys: Sequence[str], merged: Sequence[Bound], seen: Sequence[Bound]
) -> DataFrame:
    lasting, begun = _part(_LASTING, merged), _part(_BEGUN, merged)
    states = {EVENTS: lasting.events + begun.events}
    for each in merged:
        states |= each.combine(lasting, begun)
    distinct = [F.col(name) for each in seen for name in each.states()]
    named = [state.alias(name) for name, state in states.items()]
    return rows.select(*keys, SPAN, AT, _BLOCK, *named, *distinct)


def _part(prefix: str, merged: Sequence[Bound]) -> Part:
    names = [name for each in merged for name in each.states()]
    return Part(F.col(prefix + EVENTS), {name: F.col(prefix + name) for name in names})
