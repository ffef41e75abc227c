"""The events of the keys that differ, as the streaming operator received them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.window import Window as Over

from backfill.aggregates.base import Aggregate
from backfill.aggregates.bound import Bound, bind
from backfill.columns import TIME, column, key_name
from backfill.engines import Engine
from backfill.errors import ColumnError, did_you_mean
from backfill.events.model import SOURCE
from backfill.events.times import instant, time_column
from backfill.planning.context import Context
from backfill.reconciliation.checkpoint import Batches
from backfill.reconciliation.clocks import (
    BEGINNING,
    CLOCK,
    END_CLOCK,
    PARTITION,
    PLACE,
    WALL_CLOCK,
    with_clock,
)
from backfill.streaming import Streaming
from backfill.update_history.batches import check_batch

_BATCH, _ID = "_batch", "_id"
_VALUE, _RANK = "_arrival_value", "_arrival_rank"
#: The most digits with which a decimal always fits a bigint.
_MOST_DIGITS = 18


@dataclass(frozen=True)
class Received:
    """Events as an operator received them.

    Attributes:
        frame: key columns, TIME (µs, not floored), the fields, PARTITION, PLACE, the batch and the
            id if there are any; CLOCK and END_CLOCK if the clock is known, and LATEST_CLOCK if
            events may have arrived at once; also the inputs of aggregates without a form in Python.
        ordered: the order in which they arrived is known.
        bound: aggregates without a form in Python, bound to their columns.
    """

    frame: DataFrame
    ordered: bool
    bound: Mapping[Aggregate, Bound]


@dataclass(frozen=True)
class Arrivals:
    """How the order in which events arrived is known.

    Attributes:
        known: whether it is known; if not, events are taken in order of time.
        partition, place, batch: columns of the source; None where there is none.
        ranked: the column whose values are ranked to give places; None if it holds numbers or
            times.
    """

    known: bool
    partition: Column | None
    place: Column
    batch: Column | None
    ranked: str | None = None


def arrivals_of(
    context: Context,
    streaming: Streaming,
    types: Mapping[str, T.DataType],
    checkpoint: Batches | None,
) -> Arrivals:
    """The order from a checkpoint, from the job's `events.arrival`, or from its source."""
    spec = context.spec
    names = spec.arrival or context.source.arrival
    if checkpoint is not None:
        batch = batch_of(checkpoint)
        return Arrivals(True, None, F.coalesce(batch, F.lit(0)).cast("bigint"), batch)
    if not names or (streaming.feed == "batches" and len(names) < 2):
        return Arrivals(False, None, F.col(TIME), None)
    *first, last = names
    place, ranked = _number(last, types[last]), None
    if place is None:
        place, ranked = F.col(_RANK), last
    if not first:
        return Arrivals(True, None, place, None, ranked)
    if streaming.feed == "batches":
        check_batch(context.source.frame, first[0], field="events.arrival")
        return Arrivals(True, None, place, column(first[0]), ranked)
    # Each partition (or file) has an order of its own, but there is none across them.
    alone = streaming.feed == "partitions" or (len(context.inputs) == 1 and not spec.arrival)
    if not alone:
        return Arrivals(False, None, F.col(TIME), None)
    return Arrivals(True, column(first[0]), place, None, ranked)


def batch_of(checkpoint: Batches) -> Column:
    """The batch that read an event's file; NULL where none did."""
    batch = F.lit(None).cast("bigint")
    for number in sorted(set(checkpoint.of_file.values())):
        paths = [path for path, own in checkpoint.of_file.items() if own == number]
        batch = F.when(F.col(SOURCE).isin(paths), F.lit(number)).otherwise(batch)
    return batch


def received(
    context: Context,
    engine: Engine,
    streaming: Streaming,
    columns: Mapping[str, Column],
    delay: int,
    checkpoint: Batches | None,
    others: Sequence[Aggregate],
    wall_clock: str | None,
) -> Received:
    """All events of the source, as the operator received them.

    Args:
        context: of the job.
        engine: the operator's.
        streaming: its interface.
        columns: the fields, by name.
        delay: how far a watermark stays behind, µs.
        checkpoint: what is known from the checkpoint of a Spark query.
        others: aggregates without a form in Python.
        wall_clock: the column that says when an event was processed; None if there is none.
    """
    spec = context.spec
    # What the engine does not take is dropped by the replay, which reports it.
    rules = replace(context.rules, tick_us=1, null_key=True, before_epoch=True)
    usable = replace(context.reader, rules=rules).events(context.all_dates)
    types = {field.name: field.dataType for field in usable.schema.fields}
    arrivals = arrivals_of(context, streaming, types, checkpoint)
    if arrivals.ranked is not None:
        usable = _with_ranks(usable, arrivals.ranked)
    keys = keys_of(context)
    partition = F.lit(0) if arrivals.partition is None else arrivals.partition
    id = F.lit(None).cast("string") if spec.id is None else column(spec.id).cast("string")
    batch = F.lit(None) if arrivals.batch is None else arrivals.batch
    names = spec.arrival or context.source.arrival
    wanted = [
        *(column(name).alias(inner) for name, inner in zip(spec.key, keys, strict=True)),
        F.col(TIME),
        partition.cast("string").alias(PARTITION),
        arrivals.place.cast("bigint").alias(PLACE),
        batch.cast("bigint").alias(_BATCH),
        *([processed(context, usable, wall_clock).alias(WALL_CLOCK)] if wall_clock else []),
        id.alias(_ID),
        *(value.alias(name) for name, value in columns.items()),
        *(column(name).alias(f"_arrival{i}") for i, name in enumerate(names) if others),
    ]
    events, bound = bind(usable, wanted, others, len(names))
    ordered = arrivals.known
    places: tuple[int | None, int | None] = (None, None)
    if ordered and checkpoint is None:
        places, unknown = _places(events, batched=arrivals.batch is not None)
        if unknown:
            context.progress(
                f"events without {' or '.join(names)}: {unknown:,}, so causes that depend on the "
                "order of arrival are possible, not proved"
            )
            at_its_time = {
                PARTITION: F.lit("0"),
                PLACE: F.col(TIME),
                _BATCH: F.lit(None).cast("bigint"),
            }
            ordered, events = False, events.withColumns(at_its_time)
    if not ordered:
        return Received(_in_time(events, engine, streaming, delay), False, bound)
    if not streaming.shares_its_clock:
        # Each event has the time at which it was processed, or nothing is late.
        return Received(events, True, bound)
    if checkpoint is not None:
        clock = F.lit(0).cast("bigint")
        for number in sorted(checkpoint.watermarks):
            judged = F.lit(checkpoint.clock(number)).cast("bigint")
            clock = F.when(F.col(_BATCH) == number, judged).otherwise(clock)
        end = F.lit(checkpoint.last).cast("bigint")
        return Received(events.withColumns({CLOCK: clock, END_CLOCK: end}), True, bound)
    if streaming.feed == "batches":
        return Received(_by_batch(events, delay, streaming.clock_grain), True, bound)
    return Received(with_clock(events, places, engine, streaming, delay, keys), True, bound)


def _places(events: DataFrame, *, batched: bool) -> tuple[tuple[int | None, int | None], int]:
    """The smallest PLACE and the largest, and how many events have no known place."""
    needed = [PLACE, PARTITION, *([_BATCH] if batched else [])]
    unknown = reduce(or_, (F.col(name).isNull() for name in needed))
    low, high, count = events.agg(F.min(PLACE), F.max(PLACE), F.count_if(unknown)).collect()[0]
    return (low, high), count


def _with_ranks(events: DataFrame, name: str) -> DataFrame:
    """The events, each with the rank of its value among all values of a sortable column."""
    # Sail can't sort bytes.
    own = (
        F.hex(column(name))
        if isinstance(events.schema[name].dataType, T.BinaryType)
        else column(name)
    )
    values = events.select(own.alias(_VALUE)).distinct().where(F.col(_VALUE).isNotNull())
    # One task sorts these, but they are only one column.
    order = Over.partitionBy(F.lit(0)).orderBy(_VALUE)
    ranks = values.select(_VALUE, F.row_number().over(order).cast("bigint").alias(_RANK))
    return events.join(ranks, own == F.col(_VALUE), "left").drop(_VALUE)


def _in_time(events: DataFrame, engine: Engine, streaming: Streaming, delay: int) -> DataFrame:
    """Events in order of time: none is late; at the end the clock has seen those of all keys."""
    if streaming.clock not in ("watermark", "batches"):
        return events
    (most,) = events.agg(F.max(TIME)).collect()[0]
    behind = delay + streaming.lag_ticks * engine.tick_us
    end = None if most is None else (most - behind) // streaming.clock_grain * streaming.clock_grain
    begin = BEGINNING if streaming.clock_start is None else streaming.clock_start
    return events.withColumns(
        {CLOCK: F.lit(begin).cast("bigint"), END_CLOCK: F.lit(end).cast("bigint")}
    )


def _by_batch(events: DataFrame, delay: int, grain: int) -> DataFrame:
    """The clock by which each batch judges lateness: what was seen two batches ago."""
    most = events.groupBy(_BATCH).agg(F.max(TIME).alias("most")).orderBy(_BATCH).collect()
    clock = end = F.lit(0).cast("bigint")
    seen: list[int] = []
    known: dict[int, int] = {}
    for row in most:
        number = int(row[_BATCH])
        known[number] = _floored(seen[-2] if len(seen) > 1 else None, delay, grain)
        seen.append(max([row["most"], *seen[-1:]]))
    for number, at in known.items():
        clock = F.when(F.col(_BATCH) == number, F.lit(at)).otherwise(clock)
    if seen:
        end = F.lit(_floored(seen[-1], delay, grain)).cast("bigint")
    return events.withColumns({CLOCK: clock.cast("bigint"), END_CLOCK: end})


def _floored(most: int | None, delay: int, grain: int) -> int:
    return 0 if most is None else max(0, (most - delay) // grain * grain)


def processed(context: Context, events: DataFrame, name: str) -> Column:
    """When an event was processed, µs; in the format of event times if it is no timestamp."""
    if name not in events.columns:
        raise ColumnError(
            "no such column",
            field="stream.wall_clock",
            value=name,
            way_out=did_you_mean(name, context.source.frame.columns),
        )
    timed = isinstance(events.schema[name].dataType, T.TimestampType | T.TimestampNTZType)
    format = None if timed else context.spec.time_format
    return time_column(events, name, format, context.spec.timezone)


def _number(name: str, type: T.DataType) -> Column | None:
    """A column of whole numbers or instants as bigint, in the same order; None for others."""
    own = column(name)
    if isinstance(type, T.TimestampType | T.TimestampNTZType | T.DateType):
        return instant(own, type, name, "UTC")
    wide = isinstance(type, T.DecimalType) and type.precision > _MOST_DIGITS
    return own.cast("bigint") if is_whole(type) and not wide else None


def is_whole(type: T.DataType) -> bool:
    """Whether a column holds whole numbers."""
    return isinstance(type, T.IntegralType) or (isinstance(type, T.DecimalType) and not type.scale)


def keys_of(context: Context) -> Sequence[str]:
    """The key columns, as both sides name them."""
    return [key_name(i) for i in range(len(context.spec.key))]
