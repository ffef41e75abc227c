"""Step functions of all windows of a grouping at once, from slices as long as a step.

A slice counts in a window from one step on, and ceases to a window's length later: two rows. Time
is cut into blocks as long as the window, so at every step the window holds exactly one boundary of
blocks. It holds what began to count since the boundary, and what began before and has not ceased
yet. Both are running aggregates, forward and backward, however long the window is, and no state is
ever subtracted from another (as in `operators.hopping`). There are rows only where slices begin or
cease, so spans without events cost nothing.

Distinct values are counted by the spans in which they are present: a slice with a value begins one
unless an earlier one with the same value still counts, and ends one unless a later one already
does. Both are counted for each slice before rows are multiplied by the number of windows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from backfill.aggregates.base import positive_zero
from backfill.aggregates.bound import Bound, Part
from backfill.columns import EVENTS, FIRST, OWN, TIME
from backfill.operators.last_seen import last_seen
from backfill.operators.sliding import AT, with_states
from backfill.runtimes.differences import stacked

#: The length of a row's window, µs.
SPAN = "_span"
#: Where the row's block begins, µs.
BLOCK = "_block"
#: A kept slice's states, as the aggregate packed them.
STATES = "_states"
_CEASES = "_ceases"
#: For a value in a slice: how long before, and how long after, it was in another slice, µs.
_VALUE, _SINCE, _UNTIL = "_value", "_since", "_until"
_BEGUN, _LASTING = "_begun", "_lasting"


def rolling_steps(
    events: DataFrame,
    spans: Sequence[int],
    keys: Sequence[str],
    aggregates: Sequence[Bound],
    kept: DataFrame | None = None,
    near: tuple[int, int] | None = None,
) -> DataFrame:
    """Merges events into the windows of each step at which one of them begins or ceases to count.

    Args:
        events: key, TIME (the step from which on an event counts), and the aggregates' inputs.
        spans: the windows' lengths, µs; whole numbers of steps.
        keys: the key columns.
        aggregates: the aggregates whose states to compute; `in_frames` holds for them.
        kept: slices of further events: key, TIME as above, and STATES, which the only aggregate
            has packed.
        near: the last step before the wanted rows, and the last step of the wanted rows, µs; None:
            all rows are wanted. Other rows may be left out, and may lack slices that do not reach
            these steps. The longest window still has a row for each slice.

    Returns:
        At least one row for each key, window and step at which something changes: key, SPAN, BLOCK,
        AT, the number of events, merged states; and OWN, the number of events that begin to count
        at this step, in only one of several rows of a key, SPAN and AT.
    """
    seen = last_seen(aggregates)
    merged = [binding for binding in aggregates if binding not in seen]
    slices = _slices(events, spans, keys, merged, seen, kept, near)
    shared = _shared(merged)
    states = list(dict.fromkeys(shared.values()))
    changes = [name for binding in seen for name in binding.states()]
    rows = slices.select(
        *keys, EVENTS, *states, F.explode(_rows(spans, changes, near)).alias("_row")
    )
    rows = rows.select(*keys, EVENTS, *states, "_row.*")
    rows = rows.withColumn(BLOCK, F.col(AT) - F.pmod(F.col(AT), F.col(SPAN)))
    return _joined(_running(rows, keys, merged, changes), keys, merged, shared, changes)


def _shared(merged: Sequence[Bound]) -> dict[str, str]:
    """Maps each state to the first one that is the same, such as the sum that is part of a mean.

    States with the same text are the same: they are made of inputs, which have unique names.
    """
    first: dict[str, str] = {}
    return {
        name: first.setdefault(str(state), name)
        for binding in merged
        for name, state in binding.partials().items()
    }


def _slices(
    events: DataFrame,
    spans: Sequence[int],
    keys: Sequence[str],
    merged: Sequence[Bound],
    seen: Sequence[Bound],
    kept: DataFrame | None,
    near: tuple[int, int] | None,
) -> DataFrame:
    """A row for each key and step: states, and how many values begin and cease to be present."""
    states = [state for binding in merged for state in binding.partial()]
    slices = events.groupBy(*keys, TIME).agg(F.count(F.lit(1)).alias(EVENTS), *states)
    if kept is not None:
        slices = _with_kept(slices, kept, keys, merged)
    for binding in seen:
        assert binding.input is not None
        [name] = binding.states()
        value = positive_zero(F.col(binding.input), binding.type).alias(_VALUE)
        values = events.where(F.col(binding.input).isNotNull()).select(*keys, TIME, value)
        # Fewer rows to exchange and to sort. Copies among the kept ones change nothing, since they
        # are no time apart.
        values = values.distinct()
        if kept is not None:
            held = F.explode(F.col(STATES)["values"]).alias(_VALUE)
            values = values.unionByName(kept.select(*keys, TIME, held))
        same = Over.partitionBy(*keys, _VALUE).orderBy(TIME)
        since, until = F.col(TIME) - F.lag(TIME).over(same), F.lead(TIME).over(same) - F.col(TIME)
        values = values.select(*keys, TIME, since.alias(_SINCE), until.alias(_UNTIL))
        alone = []
        for span in spans:
            for apart in (_SINCE, _UNTIL):
                far = F.col(apart).isNull() | (F.col(apart) > span)
                if near is not None and apart == _SINCE and span != max(spans):
                    # The slice before has no rows then: see `_rows`.
                    far |= F.col(TIME) - F.col(apart) + span <= near[0]
                alone.append(F.count_if(far).alias(f"{name}{apart}{span}"))
        counts = values.groupBy(*keys, TIME).agg(*alone)
        slices = stacked(slices, counts)
    together = slices.repartition(*keys) if keys else slices.coalesce(1)
    if not seen:
        return together
    # One row for each key and step again; in each column at most one value is not NULL.
    rest = [column for column in slices.columns if column not in (*keys, TIME)]
    return together.groupBy(*keys, TIME).agg(
        *(F.first(column, ignorenulls=True).alias(column) for column in rest)
    )


def _with_kept(
    slices: DataFrame, kept: DataFrame, keys: Sequence[str], merged: Sequence[Bound]
) -> DataFrame:
    """The slices together with the kept ones, merged by key and step."""
    types = {field.name: field.dataType for field in slices.schema.fields}
    states = [state for binding in merged for state in binding.unpacked(F.col(STATES))]
    held = kept.select(*keys, TIME, F.col(STATES)["events"].alias(EVENTS), *states)
    both = slices.unionByName(held).withColumn(FIRST, F.col(TIME))
    grouped = both.groupBy(*keys, TIME).agg(
        F.sum(EVENTS).alias(EVENTS), *(state for binding in merged for state in binding.merge())
    )
    # Sums of decimals have become longer.
    return grouped.select(*(F.col(name).cast(type).alias(name) for name, type in types.items()))


def _rows(spans: Sequence[int], changes: Sequence[str], near: tuple[int, int] | None) -> Column:
    """When a slice begins to count in each window, and when it ceases to.

    With `near`, only the rows that the rows near these steps are merged from: a slice that has
    ceased at the first step or before is in none, one that begins after the last is in none, and
    one that ceases in a later block than the last step's looks like one that does not cease. The
    longest window, whose rows say how many events begin to count, leaves out only the last kind.
    """
    structs = []
    for span in spans:
        for at, ceases in ((F.col(TIME), False), (F.col(TIME) + span, True)):
            apart, sign = (_UNTIL, -1) if ceases else (_SINCE, 1)
            by = [(F.col(f"{name}{apart}{span}") * sign).alias(name) for name in changes]
            span_of = F.lit(span).cast("long").alias(SPAN)
            row = F.struct(span_of, at.alias(AT), F.lit(ceases).alias(_CEASES), *by)
            if near is not None:
                first, last = near
                reaches = F.lit(True) if span == max(spans) else F.col(TIME) + span > first
                if ceases:
                    reaches &= at < last - last % span + span
                elif span != max(spans):
                    reaches &= at <= last
                row = F.when(reaches, row)
            structs.append(row)
    rows = F.array(*structs)
    return rows if near is None else F.array_compact(rows)


def _running(
    rows: DataFrame, keys: Sequence[str], merged: Sequence[Bound], changes: Sequence[str]
) -> DataFrame:
    """Adds what has begun to count in the row's block so far, and what ceases later in it."""
    place = [*keys, SPAN, BLOCK]
    block = Over.partitionBy(*place)
    # Sorted before Spark adds the merged columns, so that the sort does not carry them along.
    rows = rows.sortWithinPartitions(*place, F.col(AT).desc())
    back = block.orderBy(F.col(AT).desc()).rangeBetween(Over.unboundedPreceding, -1)
    rows = with_states(rows, _LASTING, _merged(merged, F.col(_CEASES), back))
    rows = rows.sortWithinPartitions(*place, AT)
    forward = block.orderBy(AT).rangeBetween(Over.unboundedPreceding, Over.currentRow)
    rows = with_states(rows, _BEGUN, _merged(merged, ~F.col(_CEASES), forward))
    # Blocks follow each other in time, so the sort above serves this, too.
    so_far = Over.partitionBy(*keys, SPAN).orderBy(BLOCK, AT)
    so_far = so_far.rangeBetween(Over.unboundedPreceding, Over.currentRow)
    # Always true, but computed in this order: otherwise Spark would take the sums first, before
    # there is any order, and sort for them.
    after = F.col(_BEGUN + EVENTS) >= 0
    counts = {
        name: F.coalesce(F.sum(F.when(after, F.col(name))).over(so_far), F.lit(0))
        for name in changes
    }
    return rows.withColumns(counts) if counts else rows


def _merged(merged: Sequence[Bound], counted: Column, frame: WindowSpec) -> dict[str, Column]:
    """The number of events, and the states, of the slices of a frame that count."""
    states = {EVENTS: F.coalesce(F.sum(F.when(counted, F.col(EVENTS))).over(frame), F.lit(0))}
    columns = {
        name: state
        for binding in merged
        for name, state in binding.merge_frame(counted, frame).items()
    }
    return states | {name: columns[name] for name in _shared(merged).values()}


def _joined(
    rows: DataFrame,
    keys: Sequence[str],
    merged: Sequence[Bound],
    shared: Mapping[str, str],
    changes: Sequence[str],
) -> DataFrame:
    lasting, begun = _part(_LASTING, shared), _part(_BEGUN, shared)
    states = {EVENTS: lasting.events + begun.events}
    for binding in merged:
        states |= binding.combine(lasting, begun)
    named = [state.alias(name) for name, state in states.items()]
    own = F.when(F.col(_CEASES), F.lit(0).cast("long")).otherwise(F.col(EVENTS)).alias(OWN)
    return rows.select(*keys, SPAN, AT, BLOCK, own, *named, *changes)


def _part(prefix: str, shared: Mapping[str, str]) -> Part:
    states = {name: F.col(prefix + held) for name, held in shared.items()}
    return Part(F.col(prefix + EVENTS), states)
