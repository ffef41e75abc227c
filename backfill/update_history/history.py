"""Replays the keys of events separately, in Spark's Python workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill.aggregates.base import Aggregate, positive_zero
from backfill.columns import END, REASON, START, TIME, column, key_name, sortable
from backfill.errors import AggregateError, ColumnError, ReplayError, did_you_mean
from backfill.events import EventRules, normalise, time_column
from backfill.frames.api import aggregate
from backfill.operators.grids import floor_to
from backfill.replay.apart import Apart
from backfill.rows.compute import Key
from backfill.runtimes.differences import stacked
from backfill.update_history.arrivals import (
    AFTER,
    BEFORE,
    BY,
    CLOCK,
    CLOCK_INPUT,
    DUE,
    ORDER,
    PARTITION,
    PLACE,
    WALL,
    WALL_INPUT,
    with_clocks,
)
from backfill.update_history.batches import Batches, check_batch
from backfill.update_history.fields import fields_of
from backfill.update_history.worker import (
    BATCH,
    NUMBER,
    OP,
    PASSES,
    TAKES_BACK,
    Dues,
    Replaying,
    value_name,
)
from backfill.windows import SessionWindow, TumblingWindow

ARRIVAL, IN_KEY, KIND, RETRACTION = "arrival", "number", "op", "is_retraction"
#: Columns of the result that are neither the key's nor aggregates.
ADDED = ("session_id", "window_start", "window_end", ARRIVAL, IN_KEY, KIND, RETRACTION)
#: If there are more parts than this, Spark joins them: starting Python in one takes 20 ms or more.
_PARTS = 64
_USABLE = "_usable"
_SPAN = "_span"


@dataclass(frozen=True)
class History:
    """The arguments of `updates`, checked."""

    events: DataFrame
    apart: Apart
    key: tuple[str, ...]
    time: str
    arrival: str
    aggregates: Mapping[str, Aggregate]
    partition: str | None
    batch: str | None
    watermark: str | None
    wall_clock: str | None
    time_format: str | None
    settings: Mapping[str, Any]

    def result(self) -> DataFrame:
        """The rows of `updates`."""
        fields, columns = fields_of(self.aggregates)
        self._check_aggregates(columns)
        rows, batches = self._rows(columns)
        replaying = Replaying(
            apart=self.apart,
            settings=self.settings,
            aggregates=fields,
            keys=self.inner,
            fields=tuple(columns),
            batches=batches,
        )
        types = rows.select(*self.inner).schema.fields
        schema = T.StructType(
            [
                *types,
                *(T.StructField(name, T.LongType()) for name in (START, END, PLACE, NUMBER)),
                T.StructField(OP, T.StringType()),
                T.StructField(TAKES_BACK, T.BooleanType()),
                *(
                    T.StructField(value_name(i), data_type)
                    for i, data_type in enumerate(self.types)
                ),
            ]
        )
        together = self._of_keys(rows).sortWithinPartitions(PARTITION, *self.inner, ORDER, PASSES)
        # Not before, so that columns that only carry a type are not exchanged and sorted.
        typed = together.withColumns(
            {value_name(i): F.lit(None).cast(data_type) for i, data_type in enumerate(self.types)}
        )
        return self._results(typed.mapInArrow(replaying, schema))

    def _of_keys(self, rows: DataFrame) -> DataFrame:
        """The rows, those of a key in one part.

        Spark would join parts until there is about one for each core, and the last one would keep a
        single core busy: not for long if Spark does the work, but here Python does.
        """
        by = (PARTITION, *self.inner)
        parts = rows.sparkSession.conf.get("spark.sql.shuffle.partitions") or ""
        if parts.isdigit() and int(parts) <= _PARTS:
            return rows.repartition(int(parts), *by)
        return rows.repartition(*by)

    @cached_property
    def inner(self) -> tuple[str, ...]:
        """The key columns."""
        return tuple(key_name(i) for i in range(len(self.key)))

    @cached_property
    def types(self) -> list[T.DataType]:
        """The aggregates' types, as `aggregate` gives them."""
        window = TumblingWindow(size="1h")
        made = aggregate(
            self.events,
            window,
            key=self.key,
            time=self.time,
            aggregates=self.aggregates,
            time_format=self.time_format,
            timezone=self.apart.zone,
        )
        column_types = {field.name: field.dataType for field in made.schema.fields}
        return [column_types[name] for name in self.aggregates]

    def _rows(self, columns: Mapping[str, Column]) -> tuple[DataFrame, Batches | None]:
        """Events, and moments at which the clocks moved; or events, and their batches."""
        placed = self._placed(columns)
        names = [PARTITION, *self.inner]
        if self.batch is not None:
            return self._in_batches(placed, columns)
        # With _USABLE, both readers of the clocks below need the same columns, so that Spark
        # exchanges the events once for both.
        ties = [TIME, *(name for name in [*self.inner, *columns] if _sorts(placed, name)), _USABLE]
        arrived = with_clocks(placed, ties, [AFTER, *self._wall])
        used = arrived.frame.where(_USABLE)
        clock, passed = F.col(BEFORE).alias(CLOCK), F.lit(False).alias(PASSES)
        rows = used.select(*names, ORDER, PLACE, TIME, clock, *self._wall, *columns, passed)
        delays = self.apart.delays()
        clocks = [AFTER] if self.apart.ticks else []
        clocks += [WALL] if delays else []
        if not clocks:
            return rows, None
        schema = T.StructType(
            [
                *placed.select(*names).schema.fields,
                T.StructField(DUE, T.LongType()),
                T.StructField(BY, T.StringType()),
            ]
        )
        times = used.select(*names, TIME, *self._wall) if delays else self._times(placed, names)
        asked = times.mapInArrow(Dues(self.apart, self.inner), schema)
        passing = arrived.reached(asked, self.inner, clocks).withColumn(PASSES, F.lit(True))
        passing = passing.withColumnRenamed(AFTER, CLOCK)
        rows = stacked(rows, passing)
        return rows, None

    def _times(self, placed: DataFrame, names: Sequence[str]) -> DataFrame:
        """The event times that decide what keys wait for, if no wall clock counts."""
        used, grain = placed.where(_USABLE), self.apart.grain
        if grain > 1:
            span = floor_to(F.col(TIME), grain, 0).alias(_SPAN)
            used = used.groupBy(*names, span).agg(F.min(TIME).alias(TIME))
        return used.select(*names, TIME)

    @cached_property
    def _wall(self) -> list[str]:
        """The column of the wall clock, if something depends on it."""
        return [WALL] if self.apart.by_wall_clock else []

    def _in_batches(
        self, placed: DataFrame, columns: Mapping[str, Column]
    ) -> tuple[DataFrame, Batches]:
        ties = [TIME, *(name for name in columns if _sorts(placed, name))]
        rows = placed.groupBy(BATCH).agg(F.min(PLACE), F.max(PLACE), F.max(CLOCK_INPUT)).collect()
        if any(number is None for number, *_ in rows):
            raise ReplayError(
                "is NULL for some events",
                field="batch",
                value=self.batch,
                way_out="Leave out events that no micro-batch has read",
            )
        batches = Batches.of(
            [tuple(row) for row in rows], self.apart, marked=self.watermark is not None
        )
        names = [PARTITION, *self.inner, PLACE, TIME, BATCH, *columns]
        # Takes the place of ORDER, by which they are sorted.
        order = F.struct(PLACE, *ties).alias(ORDER)
        return placed.where(_USABLE).select(*names, order, F.lit(False).alias(PASSES)), batches

    def _placed(self, columns: Mapping[str, Column]) -> DataFrame:
        """Events with their place in the order of arrival, and what moves the clocks."""
        apart, streaming = self.apart, self.apart.streaming
        rules = EventRules(
            key=self.key,
            time=self.time,
            time_format=self.time_format,
            timezone=apart.zone,
            arrival=(self.arrival,),
            null_key=True,
        )
        normal = normalise(self.events, rules)
        types = {field.name: field.dataType for field in self.events.schema.fields}
        for name in (self.partition, self.batch, self.watermark, self.wall_clock):
            if name is not None and name not in types:
                raise ColumnError(
                    "no such column", field="events", value=name, way_out=did_you_mean(name, types)
                )
        usable = F.col(REASON).isNull()
        if self.key and streaming.null_key != "group":
            usable &= reduce(or_, (column(key_column).isNotNull() for key_column in self.key))
        if not apart.engine.before_epoch:
            usable &= F.col(TIME) >= 0
        wall = F.col(TIME)
        if self.wall_clock is not None:
            wall = F.coalesce(self._instant(normal, self.wall_clock), wall)
        partition = F.lit("") if self.partition is None else column(self.partition).cast("string")
        number = []
        if self.batch is not None:
            check_batch(self.events, self.batch, field="batch")
            number = [column(self.batch).cast("bigint").alias(BATCH)]
        placed = normal.select(
            *(
                positive_zero(column(name), types[name]).alias(inner)
                for name, inner in zip(self.key, self.inner, strict=True)
            ),
            F.coalesce(partition, F.lit("")).alias(PARTITION),
            _place(self.arrival, types[self.arrival]).alias(PLACE),
            F.col(TIME),
            usable.alias(_USABLE),
            *number,
            *([wall.alias(WALL_INPUT)] if self._wall else []),
            *(expression.alias(name) for name, expression in columns.items()),
            *self._mark(normal),
        )
        return placed.where(F.col(PLACE).isNotNull()).withColumn(CLOCK_INPUT, self._clock())

    def _mark(self, normal: DataFrame) -> list[Column]:
        if self.watermark is None:
            return []
        return [self._instant(normal, self.watermark).alias(CLOCK_INPUT)]

    def _clock(self) -> Column:
        """Where an event moves the clock to."""
        apart, streaming = self.apart, self.apart.streaming
        tick = apart.engine.tick_us
        if self.watermark is not None:
            return _floored(F.col(CLOCK_INPUT), tick)
        time = F.when(F.col(_USABLE), F.col(TIME))
        if streaming.feed == "batches":
            # The batches' clock floors it itself.
            return time
        if streaming.clock == "processing_time":
            return _floored(_floored(time, tick), apart.settings.timer_interval or tick)
        behind = 0
        if streaming.clock == "watermark":
            behind = apart.settings.watermark_delay + streaming.lag_ticks * tick
        return _floored(time, tick) - behind

    def _instant(self, normal: DataFrame, name: str) -> Column:
        type = normal.schema[name].dataType
        instant = isinstance(type, T.TimestampType | T.TimestampNTZType)
        return time_column(normal, name, None if instant else self.time_format, self.apart.zone)

    def _check_aggregates(self, columns: Mapping[str, Column]) -> None:
        for name, aggregated in self.aggregates.items():
            if aggregated.python is None:
                raise AggregateError(
                    "has no form in plain Python, which replays the results",
                    field=f"aggregates.{name}",
                    value=str(aggregated),
                    way_out="Use count, sum, min, max, mean, variance, stddev, an exact "
                    "count_distinct, first, last, funnel, path, duration or bounce",
                )
        taken = {*(key_column.lower() for key_column in self.key), *ADDED}
        for name in self.aggregates:
            if name.lower() in taken:
                raise AggregateError(
                    "the result has another column of this name",
                    field=f"aggregates.{name}",
                    value=name,
                    way_out="Choose another one",
                )
        for name in self.key:
            if name.lower() in ADDED:
                raise ColumnError(
                    "the result has another column of this name",
                    field="key",
                    value=name,
                    way_out="Rename it in the events",
                )

    def _results(self, results: DataFrame) -> DataFrame:
        types = {field.name: field.dataType for field in self.events.schema.fields}
        keys = Key(self.key, tuple(types[name] for name in self.key))
        sessions = isinstance(self.apart.window, SessionWindow)
        at: Column = F.col(PLACE)
        arrived = types[self.arrival]
        arrival = (
            F.timestamp_micros(at) if isinstance(arrived, T.TimestampType) else at.cast(arrived)
        )
        return results.select(
            *keys.named(),
            *([keys.session_id(F.col(START)).alias("session_id")] if sessions else []),
            F.timestamp_micros(START).alias("window_start"),
            F.timestamp_micros(END).alias("window_end"),
            arrival.alias(ARRIVAL),
            F.col(NUMBER).alias(IN_KEY),
            F.col(OP).alias(KIND),
            F.col(TAKES_BACK).alias(RETRACTION),
            *(F.col(value_name(i)).alias(name) for i, name in enumerate(self.aggregates)),
        )


def _place(name: str, type: T.DataType) -> Column:
    if isinstance(type, T.IntegralType):
        return column(name).cast("bigint")
    if isinstance(type, T.TimestampType):
        return F.unix_micros(column(name))
    raise ColumnError(
        "the arrival must be a whole number or a timestamp",
        field=name,
        value=type.simpleString(),
        way_out="Cast it",
    )


def _floored(time: Column, tick: int) -> Column:
    return time if tick == 1 else time - F.pmod(time, F.lit(tick).cast("bigint"))


def _sorts(frame: DataFrame, name: str) -> bool:
    return sortable(frame.schema[name].dataType)
