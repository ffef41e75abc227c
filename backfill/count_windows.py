"""From usable events to windows by number of events, as `aggregate` computes them.

Events are numbered; windows of so many events are then windows of time whose time is the number,
and the same operators merge them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.window import Window as Over

from backfill import slices as slicing
from backfill.aggregates.base import Aggregate
from backfill.aggregates.bound import Bound, running
from backfill.columns import END, EVENTS, TIME
from backfill.compute import Key, check_names
from backfill.engines import Engine, Rules
from backfill.errors import AggregateError, ColumnError, WindowError
from backfill.operators.aligned import aligned, takes_events
from backfill.operators.counting import NUMBER, numbered
from backfill.operators.fixed import FixedWindows
from backfill.operators.grids import floor_to
from backfill.operators.sliding import sliding
from backfill.places import INSTANT, BoundEvents, Extent, bind_events
from backfill.time.durations import Fixed
from backfill.windows import CountWindow, SlidingWindow

#: The numbers of a window's first and last event, from 1.
FIRST_EVENT, LAST_EVENT = "first_event", "last_event"

# The part of a key's events that one task goes through, and whether a row is a copy for the sake
# of the windows of the part after its own.
_PART, _COPY = "_part", "_copy"
#: Parts are about as long as this, and many times as long as windows reach back.
_PART_EVENTS = 1 << 20
#: Up to this size, Spark's ROWS frame, which goes through all events of each window, is faster.
_FRAME_EVENTS = 64


def count(
    events: DataFrame,
    window: CountWindow,
    aggregates: Mapping[str, Aggregate],
    *,
    key: Sequence[str],
    engine: Engine,
    id: str | None,
    arrival: Sequence[str],
) -> DataFrame:
    """Computes count windows.

    Args:
        events: normalised events (with `_time`), without those that can't be used.
        window: which events make a window.
        aggregates: by the names of their columns.
        key: the key's columns; none for one group.
        engine: whose rules hold.
        id: rows with equal key, time and id are one event.
        arrival: columns that give the order of arrival.

    Returns:
        Key, unless the windows are of the whole stream; `window_start`, `window_end` (the least
        and the largest event time in the window), `first_event`, `last_event` (numbers, from 1),
        and the aggregates by name.

    Raises:
        AggregateError: if an aggregate does not fit the events or the window, or its name is taken.
        ColumnError: if the last arrival column is neither a number nor a time.
        WindowError: if the engine refuses the window, or the events have no arrival to order by.
    """
    rules = engine.rules_for(window)
    _check_names(aggregates, key)
    if window.order == "arrival":
        _check_arrival(events, arrival)
    found = bind_events(events, aggregates, key=key, id=id, arrival=arrival)
    group = found.key if window.per == "key" else Key((), ())
    placed = _numbered(found, group.inner, window)
    extent = Extent([INSTANT, NUMBER], len(found.bound))
    every = [*found.bound.values(), *extent.bounds]
    if isinstance(window.size, Fixed):
        merged = _since(placed, window.size, window, group.inner, every, rules, engine)
    else:
        merged = _last(placed, window.size, window, group.inner, every, rules, engine, extent)
    return merged.select(
        *group.named(),
        F.timestamp_micros(extent.least[INSTANT]).alias("window_start"),
        F.timestamp_micros(extent.largest[INSTANT]).alias("window_end"),
        extent.least[NUMBER].alias(FIRST_EVENT),
        extent.largest[NUMBER].alias(LAST_EVENT),
        *(found.bound[each].finish(name) for name, each in aggregates.items()),
    )


def _numbered(events: BoundEvents, keys: Sequence[str], window: CountWindow) -> DataFrame:
    """The events with their numbers, and their time as INSTANT."""
    *order, place = (TIME,) if window.order == "time" else events.arrival
    ties = [each for each in (*events.arrival, TIME) if each not in (*order, place)]
    placed = {*keys, *order, place, *ties}
    values = [
        field.name
        for field in events.frame.schema.fields
        if field.name not in placed and _can_be_sorted(field.dataType)
    ]
    found = numbered(events.frame, keys, order=order, place=place, ties=[*ties, *values])
    return found.withColumn(INSTANT, F.col(TIME))


def _last(
    found: DataFrame,
    size: int | None,
    window: CountWindow,
    keys: Sequence[str],
    aggregates: Sequence[Bound],
    rules: Rules,
    engine: Engine,
    extent: Extent,
) -> DataFrame:
    """Windows of the last events, at every so many of them, or at the end of every span of time."""
    step = 1 if isinstance(window.advance, Fixed) else window.advance
    axis = found.withColumn(TIME, F.col(NUMBER))
    if size is not None and (step > 1 or size == 1):
        merged = _aligned(axis, size, step, keys, aggregates)
        full = (
            extent.largest[NUMBER] > F.col(END) - step
            if rules.counts_rest
            else extent.largest[NUMBER] == F.col(END)
        )
        merged = merged.where(full)
    elif size is None:
        # An event a second, so that a slice is of 86,400 events.
        seconds = axis.withColumn(TIME, F.col(NUMBER) * 1_000_000)
        merged = _sliding(seconds, None, keys, aggregates, engine)
        if not rules.counts_rest:
            merged = merged.where(F.pmod(extent.largest[NUMBER], F.lit(step)) == 0)
        elif step > 1:
            merged = _latest(merged, keys, floor_to(extent.largest[NUMBER] - 1, step, 0), extent)
    else:
        merged = _each(axis, size, keys, aggregates, engine)
    if isinstance(window.advance, Fixed):
        shift = engine.tick_us if rules.closed == "right" else 0
        span = floor_to(extent.largest[INSTANT] - shift, window.advance.us, 0)
        merged = _latest(merged, keys, span, extent)
    return merged


def _since(
    found: DataFrame,
    size: Fixed,
    window: CountWindow,
    keys: Sequence[str],
    aggregates: Sequence[Bound],
    rules: Rules,
    engine: Engine,
) -> DataFrame:
    """Windows of the events of the last span of time, at every so many events."""
    if rules.closed == "right":
        size = Fixed(size.us - engine.tick_us)
    merged = _sliding(found, size, keys, aggregates, engine, also=[NUMBER])
    assert not isinstance(window.advance, Fixed)
    return merged.where(F.pmod(NUMBER, F.lit(window.advance)) == 0)


def _aligned(
    axis: DataFrame, size: int, advance: int, keys: Sequence[str], aggregates: Sequence[Bound]
) -> DataFrame:
    """Windows (start, start + size] of numbers that end at multiples of the advance."""
    where = FixedWindows(size, advance, -size % advance, shift=1, clips=False)
    if running(aggregates) is not None and takes_events(where, aggregates):
        states = [state for each in aggregates for state in each.lift()]
        slices = slicing.apart(axis, keys=keys, states=states, deduplicate=False)
    else:
        slices = slicing.cut(
            axis,
            keys=keys,
            cuttings=[where.cutting()],
            aggregates=aggregates,
            deduplicate=False,
        )
    return aligned(slices, where, keys, aggregates)


def _each(
    axis: DataFrame, size: int, keys: Sequence[str], aggregates: Sequence[Bound], engine: Engine
) -> DataFrame:
    """A window for each event, of the last `size` ones."""
    length = max(_PART_EVENTS, 16 * size)
    place = F.col(NUMBER) - 1
    own = floor_to(place, length, 0)
    both = F.array(
        F.struct(own.alias(_PART), F.lit(False).alias(_COPY)),
        F.struct((own + length).alias(_PART), F.lit(True).alias(_COPY)),
    )
    reaches = F.pmod(place, F.lit(length)) > length - size
    parts = axis.select("*", F.inline(F.when(reaches, both).otherwise(F.slice(both, 1, 1))))
    group = [*keys, _PART]
    if size > _FRAME_EVENTS:
        merged = _sliding(parts, Fixed(size - 1), group, aggregates, engine, also=[_COPY])
    else:
        frame = Over.partitionBy(*group).orderBy(TIME).rowsBetween(1 - size, 0)
        states = {EVENTS: F.count(F.lit(1)).over(frame)}
        for each in aggregates:
            states |= each.over(F.lit(True), frame)
        merged = parts.withColumns(states)
    return merged.where(~F.col(_COPY))


def _sliding(
    events: DataFrame,
    size: Fixed | None,
    keys: Sequence[str],
    aggregates: Sequence[Bound],
    engine: Engine,
    also: Sequence[str] = (),
) -> DataFrame:
    return sliding(
        events,
        SlidingWindow(size=size),
        keys,
        aggregates,
        arrival=(),
        also=also,
        tick=1,
        clips=False,
        null_key=engine.null_key,
    )


def _latest(windows: DataFrame, keys: Sequence[str], group: Column, extent: Extent) -> DataFrame:
    """Of the windows in each group, the one with the largest last number."""
    grouped = windows.withColumn("_group", group)
    downwards = Over.partitionBy(*keys, "_group").orderBy(extent.largest[NUMBER].desc())
    return grouped.withColumn("_rank", F.row_number().over(downwards)).where("_rank = 1")


def _check_names(aggregates: Mapping[str, Aggregate], key: Sequence[str]) -> None:
    check_names(aggregates, key)
    for name in (FIRST_EVENT, LAST_EVENT):
        if name in aggregates:
            raise AggregateError(
                "the name is reserved for the number of an event",
                field="aggregates",
                value=name,
                way_out="Choose another name",
            )


def _check_arrival(events: DataFrame, arrival: Sequence[str]) -> None:
    if not arrival:
        raise WindowError(
            "the events have no arrival",
            field="order",
            value="arrival",
            way_out='Give the column or columns of the arrival, or use order="time"',
        )
    type = events.schema[arrival[-1]].dataType
    if isinstance(type, T.StringType | T.BinaryType | T.BooleanType):
        raise ColumnError(
            "must be a number or a time to number events by",
            field="arrival",
            value=f"{arrival[-1]} {type.simpleString()}",
            way_out='Cast the column, or use order="time"',
        )


def _can_be_sorted(type: T.DataType) -> bool:
    return "map<" not in type.simpleString() and "variant" not in type.simpleString()
