"""Sliding windows: an aggregate for each event over the events of its key that surround it.

A window that ends at an instant consists of three parts: the head of the slice that the instant
is in, whole slices before that, and the tail of the slice in which the window starts. Heads and
tails are running aggregates within a slice; whole slices are merged from their states. So an event
costs the same however many events its window holds, and the events of one key are spread over as
many tasks as it has slices.

An event that leaves the window is a second row, at the instant at which it leaves: the tail of a
window is what leaves at its end or later. One sort and one pass compute the states of both: forward
for events that count, backward for events that leave. A second sort, by time alone, gives each
window the tail of the next event that leaves. No state is ever subtracted from another, so sums of
doubles do not drift.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from backfill.aggregates.base import Aggregate
from backfill.aggregates.bound import Bound, Part
from backfill.columns import EVENTS, TIME
from backfill.operators.grids import floor_to
from backfill.operators.last_seen import begins, ends, last_seen, with_distances
from backfill.time.durations import DAY_US
from backfill.windows import SlidingWindow

#: The instant at which a row counts, leaves, or asks for its window; µs.
AT = "_at"
_KIND, _SLICE, _GROUP = "_kind", "_slice", "_group"
#: The order of rows at the same instant: an event is not part of what came before it. A span in
#: which a value is present ends a tick after its last event has left.
_ENDS, _ASKS, _COUNTS, _BOTH, _LEAVES = -1, 0, 1, 2, 3


# Prefixes of the columns of a window's parts.
_HEAD, _WHOLE, _TAIL = "_head", "_whole", "_tail"
#: Prefix of the parts joined so far.
_SO_FAR = "_so_far"
#: Prefix of a state: by how much a row changes a number of distinct values.
_CHANGE = "_change"


def sliding(
    events: DataFrame,
    window: SlidingWindow,
    keys: Sequence[str],
    aggregates: Sequence[Bound],
    *,
    arrival: Sequence[str],
    also: Sequence[str],
    tick: int,
    clips: bool,
    null_key: bool,
    empty: bool = False,
) -> DataFrame:
    """Aggregates, for each event, over the window that belongs to it.

    Args:
        events: key, time and arrival columns, and the aggregates' inputs, as `bind` gives them.
        window: which events belong to an event's window.
        keys: the key columns.
        aggregates: the aggregates whose states to compute.
        arrival: the columns that order events with equal times.
        also: further columns to keep.
        tick: the resolution of time, µs.
        clips: windows that would start before 1970 start there.
        null_key: a key column can be NULL.
        empty: keep distinct windows that hold no event; they show where others have ended.

    Returns:
        A row for each event, or for each distinct window: key, AT (the window's end, µs), TIME,
        the columns of `also`, the number of events, merged states.
    """
    total = window.reach_us
    group = list(keys)
    seen = last_seen(aggregates)
    aggregates = [binding for binding in aggregates if binding not in seen]
    about = max((binding.aggregate.slices for binding in aggregates), default=Aggregate.slices)
    width, count = _slices(total, about)
    apart = with_distances(events, keys, seen, arrival)
    rows = _rows(apart, window, tick, clips, seen, arrival)
    if null_key and keys:
        # Structs are joined by plain equality even if they hold NULL, and sorted once for that.
        group = [_GROUP]
        rows = rows.withColumn(_GROUP, F.struct(*keys))
    rows = rows.withColumn(_SLICE, floor_to(F.col(AT), width, 0))
    placed = rows.repartition(*group, _SLICE)
    within = [*group, _SLICE]
    # At the same instant events leave together.
    order = [
        F.when(F.col(_KIND) != _LEAVES, F.col(name)) for name in (*arrival, _KIND) if window.before
    ]
    part_rows = _with_running(placed, within, order, aggregates, seen)
    parts = [_HEAD]
    if total is not None:
        parts.append(_TAIL)
        part_rows = _with_tails(part_rows, within, aggregates)
    part_rows = part_rows.where(F.col(_KIND).isin(_ASKS, _BOTH))
    if count != 1 or seen:
        slices = Over.partitionBy(*group).orderBy(_SLICE)
        all_before = slices.rowsBetween(Over.unboundedPreceding, -1)
        frame = all_before
        if total is not None:
            frame = slices.rangeBetween(-(count - 1) * width, -width)
        if count != 1:
            # Last: if parts are sketches, the two small ones are merged first, and large ones only
            # once.
            parts.append(_WHOLE)
        inner = aggregates if count != 1 else None
        whole = _whole(rows, group, inner, frame, _changes(seen), all_before)
        part_rows = part_rows.join(whole, [*group, _SLICE])
    distinct = {
        name: F.coalesce(F.col(_WHOLE + name), F.lit(0)) + F.coalesce(F.col(_HEAD + name), F.lit(0))
        for name in _changes(seen)
    }
    kept = [*keys, AT, TIME, *also, *distinct]
    part_rows = part_rows.select("*", *(value.alias(name) for name, value in distinct.items()))
    joined = _joined(part_rows, parts, kept, aggregates)
    if window.distinct:
        joined = joined if empty else joined.where(F.col(EVENTS) > 0)
        joined = joined.dropDuplicates([*keys, AT])
    return joined


def _slices(total: int | None, about: int) -> tuple[int, int]:
    """The width of slices, and how many a window has; that many divide it, or there is one."""
    if total is None:
        return DAY_US, 0
    counts = [number for number in range(about // 2, 2 * about + 1) if total % number == 0]
    count = min(counts, key=lambda number: abs(number - about), default=1)
    return total // count, count


def _rows(
    events: DataFrame,
    window: SlidingWindow,
    tick: int,
    clips: bool,
    seen: Sequence[Bound],
    arrival: Sequence[str],
) -> DataFrame:
    """One row for each instant at which an event counts, leaves, or asks for a window.

    Also one for the instant at which a value of `seen` is no longer present, if the event is the
    last with it.
    """
    time, total = F.col(TIME), window.reach_us
    row = [(_LEAVES, time + total)] if total is not None else []
    if window.distinct:
        assert total is not None
        end = F.greatest(time, F.lit(total)) if clips else time
        row += [(_COUNTS, time), (_ASKS, end), (_ASKS, time + tick + total)]
    elif window.before or window.following is not None:
        ahead = 0 if window.following is None else window.following.us
        row += [(_COUNTS, time), (_ASKS, time + ahead)]
    else:
        row += [(_BOTH, time)]
    begun = {name: begins(binding, total) for binding in seen for name in binding.states()}
    ended = {name: ends(binding, total) for binding in seen for name in binding.states()}
    if seen and total is not None:
        row += [(_ENDS, F.when(reduce(or_, ended.values()), time + total + tick))]
    kinds = [
        F.struct(
            F.lit(kind).alias(_KIND),
            at.alias(AT),
            *(_arrival(events, name, kind).alias(name) for name in arrival),
            *(
                F.when(begun[name] & F.lit(kind in (_COUNTS, _BOTH)), 1)
                .when(ended[name] & F.lit(kind == _ENDS), -1)
                .alias(_CHANGE + name)
                for name in begun
            ),
        )
        for kind, at in row
    ]
    rest = [name for name in events.columns if name not in arrival]
    exploded = events.withColumn("_row", F.explode(F.array(*kinds))).select(*rest, "_row.*")
    return exploded.where(F.col(AT).isNotNull()) if seen else exploded


def _arrival(events: DataFrame, name: str, kind: int) -> Column:
    # No `when` that always or never holds: Sail 0.7.2 gets the type of a struct with one wrong.
    return F.lit(None).cast(events.schema[name].dataType) if kind == _ENDS else F.col(name)


def _changes(seen: Sequence[Bound]) -> dict[str, Column]:
    """By how much a row changes each number of distinct values."""
    return {name: F.col(_CHANGE + name) for binding in seen for name in binding.states()}


def _with_running(
    rows: DataFrame,
    within: Sequence[str],
    ties: Sequence[Column],
    aggregates: Sequence[Bound],
    seen: Sequence[Bound],
) -> DataFrame:
    """The rows with running states within their slices.

    Forward for events that count, backward for events that leave: both by one sort, in one pass.
    `ties` order rows of the same instant.
    """
    at, leaves = F.col(AT), F.col(_KIND) == _LEAVES
    order = [F.when(leaves, -at).otherwise(at), *ties]
    running = Over.partitionBy(*within, leaves).orderBy(*order)
    running = running.rangeBetween(Over.unboundedPreceding, Over.currentRow)
    counted = F.col(_KIND).isin(_COUNTS, _BOTH, _LEAVES)
    states = {EVENTS: F.sum(F.when(counted, F.lit(1).cast("long"))).over(running)}
    for binding in aggregates:
        states |= binding.over(counted, running)
    states |= {name: F.sum(change).over(running) for name, change in _changes(seen).items()}
    return with_states(rows, _HEAD, states)


def with_states(rows: DataFrame, part: str, states: Mapping[str, Column]) -> DataFrame:
    """Adds states, under their names with the prefix of a window's part.

    Aggregates share states, such as the number of values, and Spark would compute each of them.
    States with the same text are the same here: they are made of inputs, which have unique names.
    """
    first: dict[str, str] = {}
    shared = {name: first.setdefault(str(state), name) for name, state in states.items()}
    computed = rows.select("*", *(states[name].alias(part + name) for name in first.values()))
    copies = {name: of for name, of in shared.items() if name != of}
    if not copies:
        return computed
    return computed.select(
        "*", *(F.col(part + of).alias(part + name) for name, of in copies.items())
    )


def _with_tails(rows: DataFrame, within: Sequence[str], aggregates: Sequence[Bound]) -> DataFrame:
    """Adds the states of what leaves at the rows' instants or later, within the same slice."""
    names = [EVENTS, *(name for binding in aggregates for name in binding.states())]
    backward = Over.partitionBy(*within).orderBy(F.col(AT).desc())
    backward = backward.rangeBetween(Over.unboundedPreceding, Over.currentRow)
    states = F.struct(*(F.col(_HEAD + name).alias(name) for name in names))
    last = F.last(F.when(F.col(_KIND) == _LEAVES, states), ignorenulls=True).over(backward)
    tails = rows.where(F.col(_KIND).isin(_ASKS, _BOTH, _LEAVES)).withColumn(_TAIL, last)
    return tails.withColumns({_TAIL + name: F.col(_TAIL)[name] for name in names})


def _whole(
    rows: DataFrame,
    group: Sequence[str],
    aggregates: Sequence[Bound] | None,
    frame: WindowSpec,
    changes: Mapping[str, Column],
    all_before: WindowSpec,
) -> DataFrame:
    """For each slice the merged states of the whole slices before it.

    Args:
        rows: the rows of the events.
        group: the key columns.
        aggregates: those whose states are merged; None merges none, nor the number of events.
        frame: a frame over the slices that the windows of a slice hold.
        changes: by how much a row changes each number of distinct values.
        all_before: a frame over all slices before.
    """
    counted = F.col(_KIND).isin(_COUNTS, _BOTH)
    states = [state for binding in aggregates or () for state in binding.partial(counted)]
    # From the events again: as they are combined before the exchange, that costs less than going
    # through the exchanged rows twice.
    slices = (
        rows.where(F.col(_KIND) != _LEAVES)
        .groupBy(*group, _SLICE)
        .agg(
            F.count_if(counted).alias(EVENTS),
            *states,
            *(F.sum(change).alias(name) for name, change in changes.items()),
        )
    )
    merged = {name: F.sum(name).over(all_before) for name in changes}
    if aggregates is not None:
        merged[EVENTS] = F.sum(EVENTS).over(frame)
        for binding in aggregates:
            merged |= binding.merge_over(frame)
    return slices.select(
        *group, _SLICE, *(state.alias(_WHOLE + name) for name, state in merged.items())
    )


def _joined(
    part_rows: DataFrame, parts: Sequence[str], kept: Sequence[str], aggregates: Sequence[Bound]
) -> DataFrame:
    """The states of windows, merged from those of their parts."""
    columns = [EVENTS, *(name for binding in aggregates for name in binding.states())]
    done, *others = parts
    for part in others:
        # One step after another: in a single expression the steps' terms would multiply. The head
        # last: it has a state, if only an empty list, where there are no events.
        states = _both(_part(part, columns), _part(done, columns), aggregates)
        part_rows = part_rows.withColumns({_SO_FAR + name: state for name, state in states.items()})
        done = _SO_FAR
    return part_rows.select(*kept, *(F.col(done + name).alias(name) for name in columns))


def _part(part: str, columns: Sequence[str]) -> Part:
    """A part of a window; NULL where there are no events."""
    events = F.coalesce(F.col(part + EVENTS), F.lit(0))
    return Part(events, {name: F.col(part + name) for name in columns})


def _both(left: Part, right: Part, aggregates: Sequence[Bound]) -> dict[str, Column]:
    states = {EVENTS: left.events + right.events}
    for binding in aggregates:
        states |= binding.combine(left, right)
    return states
