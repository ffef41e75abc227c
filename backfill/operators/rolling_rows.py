"""Values of all windows of a grouping as of each row, in the order of time and arrival.

Rows are exchanged by key once, and never joined: what is computed travels with them. From row to
row each frame below only grows, and Spark then only adds rows to it, even if it ends a fixed span
before the row. So a row costs the same however many events its windows hold.

Where subtracting is exact (counts, sums of integers and decimals), a window is the total up to the
row minus the total of what it has left behind. Distinct values are counted by the spans in which
they are present, as in `operators.rolling_steps`: an event begins one unless another one with the
same value came at most a window's length before, and ends one unless another comes at most that
long after. Other aggregates are merged from two parts (`operators.rolling_parts`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from backfill.aggregates.bound import Bound, Part
from backfill.aggregates.numbers import one
from backfill.columns import EVENTS, TIME, column
from backfill.operators.last_seen import begins, ends, last_seen, with_distances
from backfill.operators.rolling_parts import (
    Order,
    Windows,
    at_start,
    joined,
    of_next,
    with_begun,
    with_lasting,
)
from backfill.operators.sliding import with_states
from backfill.runtimes.differences import runtime_of

#: How many events are at the row's place.
PEERS = "_peers"
#: Keeps rows without a key from gathering in one task.
_APART = "_apart"
# Prefixes: totals up to the row; by a window's length, totals of what a window has left behind.
_TOTAL, _LEFT = "_total", "_left"
# Suffix of an aggregate's states: the number of its values.
_PRESENT = "_present"


def rolling_rows(
    rows: DataFrame,
    values: Mapping[int, Mapping[str, Bound]],
    keys: Sequence[str],
    arrival: Sequence[str],
    *,
    counts: str,
    before: bool,
) -> DataFrame:
    """Adds values as of each row: over the events from a window's length before it up to it.

    Args:
        rows: the key columns, TIME (µs), `arrival`, the aggregates' inputs.
        values: for each window's length, µs, the aggregates by the names of their values.
        keys: the key columns.
        arrival: the columns that order rows of equal times.
        counts: a boolean column: whether the row is an event. Other rows have values, too.
        before: leave out the events at the row's own place in the order.

    Returns:
        The rows with PEERS and the values.
    """
    kept = rows.columns
    windows = {span: _distinct(named) for span, named in values.items()}
    subtracted = {
        span: [binding for binding in own if binding.subtracts] for span, own in windows.items()
    }
    seen = {span: last_seen(own) for span, own in windows.items()}
    merged = {
        span: rest
        for span, own in windows.items()
        if (rest := [binding for binding in own if binding not in (*subtracted[span], *seen[span])])
    }
    counted = F.col(counts)
    rows = _exchanged(rows, keys)
    order = Order((*keys, _APART), (TIME, *arrival), before)
    every = [binding for own in seen.values() for binding in own]
    rows = with_distances(rows, order.group, every, arrival)
    rows = with_lasting(rows, merged, order, counted)
    rows = _with_totals(rows, subtracted, seen, merged, order, counted)
    rows = with_begun(rows, merged, order, counted)
    finished = []
    for span, named in values.items():
        events = _since(span, EVENTS, EVENTS)
        parts = joined(span, merged[span], events, order) if span in merged else None
        for name, binding in named.items():
            if span in merged and binding in merged[span]:
                finished.append(binding.finish(name, parts))
            else:
                finished.append(binding.finish(name, Part(events, _less(span, binding))))
    return rows.select(*map(column, kept), PEERS, *finished)


def _distinct(named: Mapping[str, Bound]) -> list[Bound]:
    return list({binding.index: binding for binding in named.values()}.values())


def _exchanged(rows: DataFrame, keys: Sequence[str]) -> DataFrame:
    """By key; rows without a key are spread by time, and a key's rows without a time are apart."""
    without = F.lit(bool(keys))
    for key in keys:
        without &= F.col(key).isNull()
    timeless = F.when(F.col(TIME).isNull(), F.lit(0).cast("long"))
    apart = rows.withColumn(_APART, F.when(without, F.col(TIME)).otherwise(timeless))
    return apart.repartition(*keys, _APART) if keys else apart.coalesce(1)


def _with_totals(
    rows: DataFrame,
    subtracted: Windows,
    seen: Windows,
    merged: Windows,
    order: Order,
    counted: Column,
) -> DataFrame:
    """Adds the totals up to each row, and those at the start of its windows; and PEERS."""
    up_to = {EVENTS: F.count(F.when(counted, F.lit(1))).over(order.so_far())}
    for own in subtracted.values():
        for binding in own:
            up_to |= _totals(binding, counted, order.so_far())
    for span, own in seen.items():
        for binding in own:
            [name] = binding.states()
            begun = counted & begins(binding, span)
            up_to[f"{name}_{span}"] = F.count(F.when(begun, F.lit(1))).over(order.so_far())
    up_to = {f"{_TOTAL}{name}": state for name, state in up_to.items()}
    keeps_order = runtime_of(rows.sparkSession).is_spark
    rows = with_states(rows, "", up_to | of_next(merged, order, keeps_order=keeps_order))
    by_time = Over.partitionBy(*order.group).orderBy(TIME)
    left = {
        span: by_time.rangeBetween(Over.unboundedPreceding, -span - 1)
        for span in {**subtracted, **seen, **merged}
    }
    behind = at_start(merged, order, left)
    for span, frame in left.items():
        states = {EVENTS: F.count(F.when(counted, F.lit(1))).over(frame)}
        for binding in subtracted[span]:
            states |= _totals(binding, counted, frame)
        for binding in seen[span]:
            [name] = binding.states()
            ended = counted & ends(binding, span)
            states[name] = F.count(F.when(ended, F.lit(1))).over(frame)
        behind |= {f"{_LEFT}{span}{name}": state for name, state in states.items()}
    rows = with_states(rows, "", behind)
    peers = Over.partitionBy(*order.group, *order.place)
    rows = order.spread(rows, up_to)
    return rows.withColumn(PEERS, F.count(F.when(counted, F.lit(1))).over(peers))


def _totals(binding: Bound, counted: Column, frame: WindowSpec) -> dict[str, Column]:
    """The states over a frame, and how many values there are."""
    if binding.input is None:
        return {}
    value = F.when(counted, F.col(binding.input))
    present = F.sum(one(value)).over(frame)
    return {**binding.over(counted, frame), f"_{binding.index}{_PRESENT}": present}


def _since(span: int, up_to: str, behind: str) -> Column:
    """A number up to the row, minus what its window has left behind."""
    numbers = (F.col(_TOTAL + up_to), F.col(f"{_LEFT}{span}{behind}"))
    total, left = (F.coalesce(number, F.lit(0)) for number in numbers)
    return total - left


def _less(span: int, binding: Bound) -> dict[str, Column]:
    """The states of a window, computed from the totals."""
    states = binding.states()
    if not binding.subtracts:
        return {name: _since(span, f"{name}_{span}", name) for name in states}
    if not states:
        return {}
    whole = {name: F.col(_TOTAL + name) for name in states}
    rest = {name: F.col(f"{_LEFT}{span}{name}") for name in states}
    present = _since(span, *[f"_{binding.index}{_PRESENT}"] * 2) > 0
    return {name: F.when(present, state) for name, state in binding.subtract(whole, rest).items()}
