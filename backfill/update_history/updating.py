"""Every result that a streaming operator would have sent, from its events.

In the examples, `spark` is a session such as `backfill.spark.session()`.
"""

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
from backfill.api import aggregate
from backfill.columns import END, REASON, START, TIME, column, key_name, names_of
from backfill.compute import Key
from backfill.engines import engine as engine_named
from backfill.errors import AggregateError, ColumnError, ReplayError, WindowError, did_you_mean
from backfill.events import EventRules, normalise, time_column
from backfill.operators.rule_inputs import sortable
from backfill.replay.apart import Apart
from backfill.replay.replaying import SETTINGS
from backfill.update_history.arrivals import (
    AFTER,
    BEFORE,
    BY,
    CLOCK_INPUT,
    DUE,
    ORDER,
    PARTITION,
    PLACE,
    WALL,
    WALL_INPUT,
    with_clocks,
)
from backfill.update_history.batches import Batches
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
from backfill.windows import EventWindow, SessionWindow, TumblingWindow, Window

ARRIVAL, IN_KEY, KIND, RETRACTION = "arrival", "number", "op", "is_retraction"
#: Columns of the result that are neither the key's nor aggregates.
ADDED = ("session_id", "window_start", "window_end", ARRIVAL, IN_KEY, KIND, RETRACTION)
#: Settings of `replay` that mean nothing here, and what does instead.
_INSTEAD = {
    "batch_size": "Give the column of each event's `batch`",
    "watermark_every": "Give the column of the `watermark` after each event",
}
_USABLE = "_usable"


def updates(
    events: DataFrame,
    window: Window,
    *,
    key: str | Sequence[str],
    time: str,
    arrival: str,
    aggregates: Mapping[str, Aggregate],
    engine: str,
    partition: str | None = None,
    batch: str | None = None,
    watermark: str | None = None,
    wall_clock: str | None = None,
    time_format: str | None = None,
    timezone: str = "UTC",
    **settings: Any,
) -> DataFrame:
    """Returns every result that a streaming operator would have sent, and what caused it.

    These are the emissions of `backfill.replay.replay` over all the events, but computed by Spark's
    Python workers, the keys apart. The operator's clock is that of all keys: where other keys'
    events move it, so that a window is complete, the result has the arrival of that event.

    The result is lazy, as any DataFrame; only with `batch` the batches are listed at once. Rows
    with an unusable key or time are left out, as are those without an arrival. backfill has to be
    installed where Spark's workers run.

    Args:
        events: any DataFrame.
        window: such as `SessionWindow(gap="30m")`; none around single events or by their number.
        key: one or more columns; an empty list for one group of all events.
        time: the event time, as for `aggregate`.
        arrival: the column that orders the events as they arrived, of each partition where there
            are partitions: a whole number or a timestamp. Those of equal arrival are put in order
            by their time, key and what is aggregated.
        aggregates: the result's columns by name, from `backfill.aggregates`, those that have a form
            in plain Python.
        engine: kafka-streams, spark, flink, beam or samza, whose rules decide; also plain, to which
            nothing is late, and which sends all at the end.
        partition: the column of the partition, for Kafka Streams, where each has a clock.
        batch: the column of the micro-batch that read an event (Spark needs it), or of the bundle
            (Beam): whole numbers; one that no event has is a batch without data.
        watermark: the column of the watermark as it stands after an event, read as the event time
            is; by default it is derived from the events, as of one input, and `watermark_delay`.
        wall_clock: the column of the time at which an event was processed, read as the event time
            is, for triggers that wait; by default the event time.
        time_format: as for `aggregate`.
        timezone: for times without a zone and for calendar windows.
        **settings: those of `replay` that say how the operator runs: `early` and `late` (a number
            of events, or a trigger such as `Repeatedly(AfterProcessingTime("10s"))`),
            `accumulation` (accumulating, discarding, retracting), `emit`, `allowed_lateness`,
            `watermark_delay`, `grace`, `api` and so on.

    Returns:
        A row for each result: the key columns; for sessions `session_id`; `window_start` and
        `window_end`, timestamps as the engine reports them; `arrival`, of the event that caused it,
        NULL where the end of the input did; `number`, the result's place among those of its key,
        from 1; `op`: update, final, tombstone; early, on_time, late, retraction (panes); or +I, -U,
        +U (a changelog); `is_retraction`, whether it takes back what was sent, a tombstone among
        them; and the aggregates by name, of a retraction those that it takes back. Results of
        different keys with one arrival have no order.

    Raises:
        ReplayError: if other keys' events decide what becomes of a key's windows, as with
            `caching=True` under Kafka Streams or under Storm, or if the engine has no such setting.
        ColumnError: if a column is missing, or has an unsuitable type or name.
        AggregateError: if an aggregate does not fit the events, or has no form in Python.
        WindowError: if the engine does not have the window.
        JobFileError: if the time zone or the engine does not exist.

    Example:
        >>> from backfill import AfterCount, Repeatedly, TumblingWindow, aggregates as agg
        >>> from backfill import updates
        >>> clicks = spark.sql(
        ...     "SELECT user, timestamp_seconds(s) AS at, n FROM VALUES"
        ...     "('a', 0, 1), ('a', 5, 2), ('a', 6, 3), ('b', 70, 4), ('a', 7, 5) t(user, s, n)"
        ... )
        >>> sent = updates(
        ...     clicks,
        ...     TumblingWindow(size="1m"),
        ...     key="user",
        ...     time="at",
        ...     arrival="n",
        ...     aggregates={"events": agg.count()},
        ...     engine="beam",
        ...     early=Repeatedly(AfterCount(2)),
        ...     allowed_lateness="1h",
        ...     accumulation="accumulating",
        ... )
        >>> for row in sent.where("user = 'a'").orderBy("number").collect():
        ...     print(row.arrival, row.op, row.events)
        2 early 2
        4 on_time 3
        5 late 4
    """
    for name, value in settings.items():
        if name in _INSTEAD or (name not in SETTINGS and name != "api"):
            raise ReplayError(
                "there is no such setting here",
                field=name,
                value=value,
                way_out=_INSTEAD.get(name) or did_you_mean(name, SETTINGS - set(_INSTEAD)),
            )
    if isinstance(window, EventWindow):
        raise WindowError(
            "each row of such windows is sent once, so they have no history",
            field="window",
            value=str(window),
            way_out="`aggregate` computes the rows",
        )
    system = engine_named(engine)
    apart = Apart.of(window, system, timezone, settings)
    _check_columns(apart, partition=partition, batch=batch, watermark=watermark)
    history = _History(
        events, apart, names_of(key), time, arrival, aggregates, partition, batch, watermark,
        wall_clock, time_format, settings,
    )  # fmt: skip
    return history.result()


@dataclass(frozen=True)
class _History:
    """What `updates` is given, checked."""

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
                *(T.StructField(value_name(i), each) for i, each in enumerate(self.types)),
            ]
        )
        typed = rows.withColumns(
            {value_name(i): F.lit(None).cast(each) for i, each in enumerate(self.types)}
        )
        together = typed.repartition(PARTITION, *self.inner).sortWithinPartitions(
            PARTITION, *self.inner, ORDER, PASSES
        )
        return self._told(together.mapInArrow(replaying, schema))

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
        found = {field.name: field.dataType for field in made.schema.fields}
        return [found[each] for each in self.aggregates]

    def _rows(self, columns: Mapping[str, Column]) -> tuple[DataFrame, Batches | None]:
        """Events, and moments at which the clocks moved; or events, and their batches."""
        placed = self._placed(columns)
        names = [PARTITION, *self.inner]
        if self.batch is not None:
            return self._in_batches(placed, columns)
        ties = [TIME, *(each for each in [*self.inner, *columns] if _sorts(placed, each))]
        arrived = with_clocks(placed, ties)
        used = arrived.frame.where(_USABLE)
        kept = [*names, ORDER, PLACE, TIME, BEFORE, AFTER, WALL]
        rows = used.select(*kept, *columns, F.lit(False).alias(PASSES))
        clocks = [AFTER] if self.apart.ticks else []
        clocks += [WALL] if self.apart.delays() else []
        if not clocks:
            return rows, None
        schema = T.StructType(
            [
                *placed.select(*names).schema.fields,
                T.StructField(DUE, T.LongType()),
                T.StructField(BY, T.StringType()),
            ]
        )
        asked = used.select(*names, TIME, WALL).mapInArrow(Dues(self.apart, self.inner), schema)
        passing = arrived.reached(asked, self.inner, clocks).withColumn(PASSES, F.lit(True))
        rows = rows.unionByName(passing, allowMissingColumns=True)
        return rows, None

    def _in_batches(
        self, placed: DataFrame, columns: Mapping[str, Column]
    ) -> tuple[DataFrame, Batches]:
        ties = [TIME, *(each for each in columns if _sorts(placed, each))]
        found = placed.groupBy(BATCH).agg(F.min(PLACE), F.max(PLACE), F.max(CLOCK_INPUT)).collect()
        batches = Batches.of(
            [tuple(row) for row in found], self.apart, marked=self.watermark is not None
        )
        names = [PARTITION, *self.inner, PLACE, TIME, BATCH, *columns]
        # In place of ORDER, by which they are sorted.
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
            usable &= reduce(or_, (column(each).isNotNull() for each in self.key))
        if not apart.engine.before_epoch:
            usable &= F.col(TIME) >= 0
        wall = F.col(TIME)
        if self.wall_clock is not None:
            wall = F.coalesce(self._instant(normal, self.wall_clock), wall)
        partition = F.lit("") if self.partition is None else column(self.partition).cast("string")
        number = [] if self.batch is None else [column(self.batch).cast("bigint").alias(BATCH)]
        found = normal.select(
            *(
                positive_zero(column(name), types[name]).alias(inner)
                for name, inner in zip(self.key, self.inner, strict=True)
            ),
            F.coalesce(partition, F.lit("")).alias(PARTITION),
            _place(self.arrival, types[self.arrival]).alias(PLACE),
            F.col(TIME),
            usable.alias(_USABLE),
            *number,
            wall.alias(WALL_INPUT),
            *(each.alias(name) for name, each in columns.items()),
            *self._mark(normal),
        )
        return found.where(F.col(PLACE).isNotNull()).withColumn(CLOCK_INPUT, self._clock())

    def _mark(self, normal: DataFrame) -> list[Column]:
        if self.watermark is None:
            return []
        return [self._instant(normal, self.watermark).alias(CLOCK_INPUT)]

    def _clock(self) -> Column:
        """What an event makes of the clock."""
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
        for name, each in self.aggregates.items():
            if each.python is None:
                raise AggregateError(
                    "has no form in plain Python, in which results are replayed",
                    field=f"aggregates.{name}",
                    value=str(each),
                    way_out="Use count, sum, min, max, mean, variance, stddev, an exact "
                    "count_distinct, first, last, funnel, path, duration or bounce",
                )
        taken = {*(each.lower() for each in self.key), *ADDED}
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

    def _told(self, results: DataFrame) -> DataFrame:
        types = {field.name: field.dataType for field in self.events.schema.fields}
        keys = Key(self.key, tuple(types[each] for each in self.key))
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


def _check_columns(
    apart: Apart, *, partition: str | None, batch: str | None, watermark: str | None
) -> None:
    """What an engine needs to be told, or does not know."""
    streaming, name = apart.streaming, apart.engine.name
    if partition is not None and streaming.feed != "partitions":
        raise ReplayError(
            f"under {name}, partitions have no clocks of their own",
            field="partition",
            value=partition,
            way_out="Leave it out; where there are several inputs, give the `watermark`",
        )
    if watermark is not None and streaming.clock not in ("watermark", "batches"):
        raise ReplayError(
            f"{name} has no watermark", field="watermark", value=watermark, way_out="Leave it out"
        )
    if batch is not None and streaming.feed not in ("batches", "bundles"):
        raise ReplayError(
            f"{name} has no batches", field="batch", value=batch, way_out="Leave it out"
        )
    if batch is None and streaming.feed == "batches":
        raise ReplayError(
            "is missing: the clock moves from batch to batch",
            field="batch",
            way_out="Give the column that says which micro-batch read an event",
        )
    if batch is not None and apart.delays():
        raise ReplayError(
            "triggers that wait for the wall clock are not replayed by bundles",
            field="batch",
            value=batch,
            way_out="Leave it out, so that each event is a bundle",
        )
    if apart.settings.emit == "complete":
        raise ReplayError(
            "every batch would repeat the whole table",
            field="emit",
            value="complete",
            way_out="Use update or append, and table_as_of for the table",
        )


def _place(name: str, type: T.DataType) -> Column:
    if isinstance(type, T.IntegralType):
        return column(name).cast("bigint")
    if isinstance(type, T.TimestampType):
        return F.unix_micros(column(name))
    raise ColumnError(
        "the arrival has to be a whole number or a timestamp",
        field=name,
        value=type.simpleString(),
        way_out="Cast it",
    )


def _floored(time: Column, tick: int) -> Column:
    return time if tick == 1 else time - F.pmod(time, F.lit(tick).cast("bigint"))


def _sorts(frame: DataFrame, name: str) -> bool:
    return sortable(frame.schema[name].dataType)
