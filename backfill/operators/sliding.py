"""Sliding windows: an aggregate for each event over the events of its key that surround it.

A window that ends at an instant consists of three parts: the head of the slice that the instant
is in, whole slices before that, and the tail of the slice in which the window starts. Heads and
tails are running aggregates within a slice; whole slices are merged from their states. So an event
costs the same however many events its window holds, and the events of one key are spread over as
many tasks as it has slices.

To be found by one sort, an event that leaves the window is a second row, at the instant at which
it leaves: the tail of a window is what leaves at its end or later. No state is ever subtracted
from another, so sums of doubles do not drift.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from backfill.aggregates.bound import Bound, Part
from backfill.aggregates.last_seen import LastSeen
from backfill.columns import EVENTS, TIME
from backfill.operators.grids import floor_to
from backfill.operators.last_seen import change, ends, with_next
from backfill.windows import SlidingWindow

#: The instant at which a row of a window's key counts, leaves, or asks; µs.
AT = "_at"
_KIND, _SLICE, _GROUP = "_kind", "_slice", "_group"
#: In this order at the same instant: an event is not part of what came before it.
_ASKS, _COUNTS, _BOTH, _LEAVES = 0, 1, 2, 3
#: About this many slices to a window.
_SLICES = 8
#: The slices of windows that have no start.
_DAY = 86_400_000_000


# The columns of a window's parts: the prefixes of their names.
_HEAD, _WHOLE, _TAIL = "_head", "_whole", "_tail"
#: What has been joined of them.
_SO_FAR = "_so_far"


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
) -> DataFrame:
    """Aggregates, for each event, over the window that belongs to it.

    Args:
        events: key, time and arrival columns, and the aggregates' inputs, as `bind` gives them.
        window: which events belong to an event's window.
        keys: the key columns.
        aggregates: whose states to compute.
        arrival: the columns that order events with equal times.
        also: further columns to keep.
        tick: the resolution of time, µs.
        clips: windows that would start before 1970 start there.
        null_key: a key column can be NULL.

    Returns:
        A row for each event, or for each distinct window: key, AT (the window's end, µs), TIME,
        the columns of `also`, the number of events, merged states.
    """
    total = window.reach_us
    width, count = _slices(total)
    group = list(keys)
    seen = [each for each in aggregates if isinstance(each.aggregate, LastSeen)]
    aggregates = [each for each in aggregates if not isinstance(each.aggregate, LastSeen)]
    rows = _rows(with_next(events, keys, seen, arrival), window, tick, clips, seen, arrival)
    if null_key and keys:
        # Structs are joined by plain equality also if they hold NULL, and sorted once for it.
        group = [_GROUP]
        rows = rows.withColumn(_GROUP, F.struct(*keys))
    rows = rows.withColumn(_SLICE, floor_to(F.col(AT), width, 0))
    placed = rows.repartition(*group, _SLICE)
    within = Over.partitionBy(*group, _SLICE)
    before = (Over.unboundedPreceding, Over.currentRow)
    order = [AT, *arrival, _KIND] if window.before else [AT]
    heads = within.orderBy(*order).rangeBetween(*before)
    found = _with_running(placed, _HEAD, aggregates, heads, (_COUNTS, _BOTH))
    found = found.withColumns(
        {_HEAD + name: F.sum(each).over(heads) for name, each in _changes(seen).items()}
    )
    parts = [_HEAD]
    if total is not None:
        tails = within.orderBy(F.col(AT).desc()).rangeBetween(*before)
        found = _with_running(found, _TAIL, aggregates, tails, (_LEAVES,))
        parts.insert(0, _TAIL)
    found = found.where(F.col(_KIND).isin(_ASKS, _BOTH))
    if count != 1 or seen:
        slices = Over.partitionBy(*group).orderBy(_SLICE)
        all_before = slices.rowsBetween(Over.unboundedPreceding, -1)
        frame = all_before
        if total is not None:
            frame = slices.rangeBetween(-(count - 1) * width, -width)
        if count != 1:
            parts.insert(1 if total is not None else 0, _WHOLE)
        inner = aggregates if count != 1 else None
        whole = _whole(rows, group, inner, frame, seen, all_before)
        found = found.join(whole, [*group, _SLICE])
    distinct = {
        name: F.coalesce(F.col(_WHOLE + name), F.lit(0)) + F.coalesce(F.col(_HEAD + name), F.lit(0))
        for name in _changes(seen)
    }
    kept = [*keys, AT, TIME, *also, *distinct]
    joined = _joined(found.withColumns(distinct), parts, kept, aggregates)
    if window.distinct:
        joined = joined.where(F.col(EVENTS) > 0).dropDuplicates([*keys, AT])
    return joined


def _slices(total: int | None) -> tuple[int, int]:
    """The width of slices, and how many a window has; they divide it, or there is one."""
    if total is None:
        return _DAY, 0
    counts = [each for each in range(_SLICES // 2, 2 * _SLICES + 1) if total % each == 0]
    count = min(counts, key=lambda each: abs(each - _SLICES), default=1)
    return total // count, count


def _rows(
    events: DataFrame,
    window: SlidingWindow,
    tick: int,
    clips: bool,
    seen: Sequence[Bound],
    arrival: Sequence[str],
) -> DataFrame:
    """The events, once for each instant at which they count, leave, or ask for a window.

    And, for each aggregate of `seen`, once for the instant at which they are no longer the last of
    their value.
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
    own = [F.col(each) for each in arrival]
    kinds = [
        F.struct(
            kind.alias(_KIND),
            at.alias(AT),
            *(each.alias(name) for each, name in zip(arrived, arrival, strict=True)),
        )
        for kind, at, arrived in [
            *((F.lit(kind), at, own) for kind, at in row),
            *ends(seen, arrival, total, tick),
        ]
    ]
    rest = [each for each in events.columns if each not in arrival]
    exploded = events.withColumn("_row", F.explode(F.array(*kinds))).select(*rest, "_row.*")
    return exploded.where(F.col(AT).isNotNull()) if seen else exploded


def _changes(seen: Sequence[Bound]) -> dict[str, Column]:
    """By how much a row changes each number of distinct values."""
    kind = F.col(_KIND)
    counted = kind.isin(_COUNTS, _BOTH)
    return {each.states()[0]: change(index, each, kind, counted) for index, each in enumerate(seen)}


def _with_running(
    rows: DataFrame,
    part: str,
    aggregates: Sequence[Bound],
    frame: WindowSpec,
    kinds: Sequence[int],
) -> DataFrame:
    """The rows with the states of a head or a tail: of the rows of these kinds in a frame."""
    counted = F.col(_KIND).isin(*kinds)
    states = {EVENTS: F.sum(F.when(counted, F.lit(1).cast("long"))).over(frame)}
    for each in aggregates:
        states |= each.over(counted, frame)
    return with_states(rows, part, states)


def with_states(rows: DataFrame, part: str, states: Mapping[str, Column]) -> DataFrame:
    """The rows with states, their names after that of a part of a window.

    Aggregates share states, such as the number of values. Spark would compute each of them. What is
    written alike is alike here: states are made of inputs, which have names of their own.
    """
    first: dict[str, str] = {}
    shared = {name: first.setdefault(str(state), name) for name, state in states.items()}
    found = rows.withColumns({part + name: states[name] for name in first.values()})
    copies = {name: of for name, of in shared.items() if name != of}
    return found.withColumns({part + name: F.col(part + of) for name, of in copies.items()})


def _whole(
    rows: DataFrame,
    group: Sequence[str],
    aggregates: Sequence[Bound] | None,
    frame: WindowSpec,
    seen: Sequence[Bound],
    all_before: WindowSpec,
) -> DataFrame:
    """For each slice the merged states of the whole slices before it.

    Args:
        rows: of the events.
        group: the key columns.
        aggregates: whose states are merged; None for none, nor the number of events.
        frame: over the slices that the windows of a slice hold.
        seen: aggregates whose distinct values are counted.
        all_before: over all slices before.
    """
    counted = F.col(_KIND).isin(_COUNTS, _BOTH)
    states = [state for each in aggregates or () for state in each.partial(counted)]
    changes = _changes(seen)
    # From the events again: combined before the exchange, that costs less than to go through the
    # exchanged rows twice.
    slices = (
        rows.where(F.col(_KIND) != _LEAVES)
        .groupBy(*group, _SLICE)
        .agg(
            F.count_if(counted).alias(EVENTS),
            *states,
            *(F.sum(each).alias(name) for name, each in changes.items()),
        )
    )
    merged = {name: F.sum(name).over(all_before) for name in changes}
    if aggregates is not None:
        merged[EVENTS] = F.sum(EVENTS).over(frame)
        for each in aggregates:
            merged |= each.merge_over(frame)
    return slices.select(
        *group, _SLICE, *(state.alias(_WHOLE + name) for name, state in merged.items())
    )


def _joined(
    found: DataFrame, parts: Sequence[str], kept: Sequence[str], aggregates: Sequence[Bound]
) -> DataFrame:
    """The states of windows, from those of their parts, in order of time."""
    columns = [EVENTS, *(name for each in aggregates for name in each.states())]
    left, *later = parts
    for right in later:
        # One step after the other: in a single expression the steps' terms would multiply.
        states = _both(_part(left, columns), _part(right, columns), aggregates)
        found = found.withColumns({_SO_FAR + name: state for name, state in states.items()})
        left = _SO_FAR
    return found.select(*kept, *(F.col(left + name).alias(name) for name in columns))


def _part(part: str, columns: Sequence[str]) -> Part:
    """A part of a window; NULL where there are no events."""
    events = F.coalesce(F.col(part + EVENTS), F.lit(0))
    return Part(events, {name: F.col(part + name) for name in columns})


def _both(left: Part, right: Part, aggregates: Sequence[Bound]) -> dict[str, Column]:
    states = {EVENTS: left.events + right.events}
    for each in aggregates:
        states |= each.combine(left, right)
    return states
