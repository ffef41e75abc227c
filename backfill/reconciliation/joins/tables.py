"""Compares a join's published table with what a streaming join wrote: what differs, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from backfill.columns import EVENT_TIME, REASON, TIME, column, key_name
from backfill.errors import ColumnError, JobFileError, ReplayError
from backfill.events import normalise
from backfill.events.failures import spark_errors
from backfill.frames.cutting import dimensions_of, sides_of, slice_events
from backfill.operators.rule_inputs import predicate
from backfill.planning.context import Context
from backfill.reconciliation.checkpoint import Batches, read_checkpoint
from backfill.reconciliation.explaining.case import Explanation
from backfill.reconciliation.explaining.matching import Difference
from backfill.reconciliation.joins.comparison import (
    FIRST,
    LEFT_EVENT,
    RIGHT_EVENT,
    SKIPPED,
    WITHOUT,
    JoinComparison,
)
from backfill.reconciliation.joins.order import JoinOrder
from backfill.reconciliation.joins.result import JoinDifference, JoinReconciled
from backfill.reconciliation.output.decoders.values import converted
from backfill.reconciliation.output.description import StreamDescription
from backfill.reconciliation.output.files import Steps, read_written
from backfill.reconciliation.output.options import FORMS
from backfill.reconciliation.published import published_table, sampled
from backfill.reconciliation.result import Explained, Reconciled
from backfill.reconciliation.rows import Row
from backfill.reconciliation.sources import processed
from backfill.replay import Event, JoinReplayed, replay_join
from backfill.rows.definition import Definition
from backfill.runtimes.differences import kept
from backfill.time.durations import Fixed
from backfill.windows import by_place
from backfill.windows.join_window import LEFT, RIGHT, JoinWindow, SideColumn

#: An event's time, as a timestamp; and when it was processed, µs.
_AT, _WALL_CLOCK = "_join_at", "_join_wall_clock"
#: The settings of a stream that are for its join.
_SETTINGS = (
    "grace",
    "spurious",
    "emit_interval",
    "store",
    "watermark_delay",
    "right_watermark_delay",
)
_BAD = "_join_problem"


def compare_join(
    context: Context,
    name: str,
    given: StreamDescription,
    *,
    checkpoint: str | None,
    sample: float | None,
) -> Reconciled:
    """Reads what a streaming join wrote, and compares a join's table with it.

    Args:
        context: of the job.
        name: the join's.
        given: where the output is, and the operator's settings.
        checkpoint: of a Spark query: which batch read which files, and its watermarks.
        sample: the share of keys that is compared.

    Raises:
        TableError: nothing is published, or the table is stale.
        JobFileError: a setting is of no use here, or the order of arrival is not known.
        ReplayError: the engine has no such join.
    """
    window = context.spec.windows[name].window
    assert isinstance(window, JoinWindow)
    spark = FORMS[given.options.format].engine == "spark"
    if checkpoint is not None and not spark:
        raise JobFileError(
            "belongs to a Spark query, whose output has the format spark-append",
            field="checkpoint",
            value=checkpoint,
            way_out="Leave it out, or set stream.format: spark-append",
        )
    engine = "spark" if spark else context.spec.engine.name
    read = None if checkpoint is None else read_checkpoint(checkpoint)
    if read is not None and read.first:
        raise JobFileError(
            f"has no logs of the batches before {read.first}, which Spark has dropped: it is "
            "unknown which batch read an event and which watermark applied to it",
            field="checkpoint",
            value=checkpoint,
            way_out="Name the columns of the batch's number and of the place in it in "
            "events.arrival; or set spark.sql.streaming.minBatchesToRetain before the next query",
        )
    return _JoinOfJob(context, name, window, given, engine, read).compared(sample)


@dataclass(frozen=True)
class _JoinOfJob:
    """One comparison."""

    context: Context
    name: str
    window: JoinWindow
    given: StreamDescription
    engine: str
    checkpoint: Batches | None

    def compared(self, sample: float | None) -> Reconciled:
        """As `compare_join`."""
        settings = self._checked_settings()
        self._check_condition()
        reach = self.window.in_time

        def replaying(left: Sequence[Event], right: Sequence[Event]) -> JoinReplayed:
            if left or right:
                self.context.progress(f"replaying the join of {len(left) + len(right):,} events")
            return replay_join(
                left,
                right,
                within=(Fixed(-reach.low), Fixed(reach.high)),
                engine=self.engine,
                how=self.window.how,
                **settings,
            )

        # Checks the settings before anything is computed.
        replaying([], [])
        order = self._order
        _ = order.arrival
        context, keys = self.context, self.context.spec.key
        state = context.tables[self.name]
        table = published_table(context, self.name).read(context.spark)
        stream, undecoded = self._stream(table)
        batch = table.select(*map(column, stream.columns))
        if sample is not None:
            batch, stream = (sampled(frame, keys, sample) for frame in (batch, stream))
        received = order.received()
        held, release = kept(received)
        try:
            left, right = (self._side(held, side) for side in (LEFT, RIGHT))
            comparison = JoinComparison(
                left=left,
                right=right,
                on=keys,
                reach=reach,
                arrival=order.columns,
                # The order within a micro-batch makes no difference.
                arrived=None if self.engine == "spark" else len(order.arrival),
                partition=order.partition,
                wall_clock=None if self._wall_clock is None else _WALL_CLOCK,
                number=order.number,
                watermark=order.watermark,
                unread=order.unread,
                batch=batch,
                pairs=self._pairs(held),
                columns=self._columns,
                stream=stream,
                filtered=self.window.where is not None,
                expired=context.limit(None if state.record is None else state.record.horizon),
            )
            reconciled = comparison.result(replaying, bool(settings.get("spurious")))
        finally:
            release()
        return self._result(reconciled, undecoded)

    def _result(self, reconciled: JoinReconciled, undecoded: int) -> Reconciled:
        """The result in the form of other comparisons: a difference for each row."""
        keys = self.context.spec.key
        times = [
            difference.time for difference in reconciled.differences if difference.time is not None
        ]
        # The times of an unexplained row's events are unknown.
        other = min(times, default=0)

        def explained(difference: JoinDifference) -> Explained:
            time = other if difference.time is None else difference.time
            values = {name: value for name, value in difference.row.items() if name not in keys}
            rows = (Row(time, time, values),)
            return Explained(
                tuple(difference.row[name] for name in keys),
                Difference(*((rows, ()) if difference.side == "batch" else ((), rows))),
                Explanation((difference.cause,), difference.proved, {}),
            )

        return Reconciled(
            self.name,
            reconciled.matched,
            [explained(difference) for difference in reconciled.differences],
            reconciled.batch,
            reconciled.stream,
            True,
            undecoded,
        )

    def _checked_settings(self) -> dict[str, Any]:
        """The settings of the replay, checked."""
        if self.given.options.format not in ("table", "spark-append"):
            raise JobFileError(
                "the output of a join is read as a table with the columns of the join's table",
                field="stream.format",
                value=self.given.options.format,
                way_out="Use table, or spark-append for a Spark query; rename columns that have "
                "other names with columns: theirs=ours",
            )
        given = {k: v for k, v in self.given.settings.items() if v is not None}
        given.pop("wall_clock", None)
        if self.engine == "spark" and given.get("emit") == "append":
            del given["emit"]
        for name, value in given.items():
            if name not in _SETTINGS:
                raise JobFileError(
                    "is not a setting of a join",
                    field=f"stream.{name}",
                    value=value,
                    way_out=f"Leave it out; a join takes {', '.join(_SETTINGS)} and wall_clock",
                )
        return given

    def _check_condition(self) -> None:
        """Checks that the stream can have such a join: one in time.

        A stream's join has no condition; what follows it can filter pairs, and only pairs.
        """
        if by_place(self.window):
            raise ReplayError(
                "none of the engines that are replayed is known to join by number of messages",
                field=f"joins.{self.name}.within",
                value=str(self.window.within),
                way_out="Compare a join in time",
            )
        if self.engine == "spark" and self.window.how not in ("inner", "left", "full"):
            raise ReplayError(
                "the replay of Spark has no such join",
                field=f"joins.{self.name}.how",
                value=self.window.how,
                way_out="Compare an inner, left or full join",
            )
        if self.window.where is not None and self.engine == "spark" and self.checkpoint is None:
            raise ReplayError(
                "Spark filters a side before it takes its watermark, so comparing a join with a "
                "condition needs the watermarks in the query's checkpoint",
                field=f"joins.{self.name}.where",
                value=self.window.where,
                way_out="Give --checkpoint, the folder of the query's checkpoint",
            )
        if self.window.where is not None and self.window.how != "inner":
            why = "no streaming join has a condition of its own, so an event whose partners all "
            why += "fail it is not alone in the stream"
            if self.engine == "spark":
                why = "Spark's join can have a condition, but its replay cannot"
            raise ReplayError(
                why,
                field=f"joins.{self.name}.where",
                value=self.window.where,
                way_out="Compare an inner join, or a join without where",
            )

    @property
    def _order(self) -> JoinOrder:
        return JoinOrder(self.context, self.engine, self.checkpoint)

    @property
    def _wall_clock(self) -> str | None:
        wall_clock: str | None = self.given.settings.get("wall_clock")
        return wall_clock

    def _side(self, received: DataFrame, side: str) -> DataFrame:
        """The events of a side."""
        context = self.context
        text = self.window.left if side == LEFT else self.window.right
        frame = received.where(predicate(received, text, text))
        if self._wall_clock is not None:
            frame = frame.withColumn(_WALL_CLOCK, processed(context, frame, self._wall_clock))
        usable = normalise(frame.drop(TIME, REASON), context.rules)
        unusable = usable.withColumns(
            {
                WITHOUT: F.col(REASON).isNotNull(),
                _AT: F.timestamp_micros(TIME),
                SKIPPED: F.lit(False),
            }
        )
        if context.spec.id is None:
            return unusable
        copies = Over.partitionBy(*map(column, (*context.spec.key, TIME, context.spec.id)))
        own = F.struct(*map(column, self._order.columns))
        # Rows without an id are never copies of each other.
        first = F.when(column(context.spec.id).isNull(), own).otherwise(F.min(own).over(copies))
        return unusable.withColumn(FIRST, first)

    def _pairs(self, received: DataFrame) -> DataFrame:
        """The join's rows that a run makes of the same events, as pairs."""
        context, spec = self.context, self.context.spec
        usable = normalise(received.drop(TIME, REASON), context.rules)
        arrived = {
            f"_{side}_{i}": SideColumn(side, name)
            for side in (LEFT, RIGHT)
            for i, name in enumerate(self._order.columns)
        }
        definition = Definition(self.window.showing(arrived), {})
        sliced = slice_events(
            usable.where(F.col(REASON).isNull()),
            [definition],
            key=spec.key,
            engine=spec.engine,
            zone=spec.timezone,
            id=spec.id,
            arrival=spec.arrival or context.source.arrival,
            # Of copies that differ in these, the same one counts as in a run.
            dimensions=dimensions_of(context.definitions.values()),
            sides=sides_of(context.definitions.values()),
        )
        rows = sliced.by_key().build(definition).published()
        events = {LEFT_EVENT: LEFT, RIGHT_EVENT: RIGHT}
        return rows.select(
            *(F.col(key_name(i)).alias(name) for i, name in enumerate(spec.key)),
            *(
                F.struct(*(F.col(f"_{side}_{i}") for i in range(len(self._order.columns)))).alias(
                    name
                )
                for name, side in events.items()
            ),
        )

    @cached_property
    def _columns(self) -> dict[str, tuple[str | None, str | None]]:
        """Where the columns of the table come from."""
        spec = self.context.spec
        sources: dict[str, tuple[str | None, str | None]] = {key: (key, key) for key in spec.key}
        sources[EVENT_TIME] = _AT, _AT
        own = self.window.own_columns(None if spec.id in spec.key else spec.id)
        for name, (side, what) in own.items():
            source = _AT if what == "time" else spec.id
            sources[name] = (source, None) if side == LEFT else (None, source)
        for name, side_column in self.window.columns.items():
            sources[name] = (
                (side_column.name, None) if side_column.side == LEFT else (None, side_column.name)
            )
        return sources

    def _stream(self, table: DataFrame) -> tuple[DataFrame, int]:
        """The stream's rows in the table's types, and how many could not be read as such."""
        context, options = self.context, self.given.options
        written = read_written(context.spark, options, context.spec.timezone, in_order=False)
        values, steps = written.values, Steps(written.frame)
        names = [name for name in self._columns if name in values]
        missing = [name for name in context.spec.key if name not in names]
        if missing or len(names) == len(context.spec.key):
            known = ", ".join(name for name in self._columns if name not in context.spec.key)
            raise ColumnError(
                "the stream has no such key column"
                if missing
                else "the stream has no column of the join's table besides the key",
                field="stream.columns",
                value=missing[0] if missing else list(values),
                way_out=f"Rename columns that have other names with columns: theirs=ours; the key "
                f"is {', '.join(context.spec.key)}, and the other columns are {known}",
            )
        others = [name for name in values if name not in names]
        context.progress(
            f"comparing {', '.join(names)}"
            + (f"; the table has no {', '.join(others)}" if others else "")
        )
        types = {field.name: field.dataType for field in table.schema.fields}
        read = {
            name: converted(values[name], types[name], name, context.spec.timezone, steps)
            for name in names
        }
        rows = steps.frame.select(
            *(reading.value.alias(name) for name, reading in read.items()),
            F.coalesce(*(reading.problem for reading in read.values())).alias(_BAD),
        )
        with spark_errors():
            undecoded = rows.where(F.col(_BAD).isNotNull()).count()
        return rows.where(F.col(_BAD).isNull()).drop(_BAD), undecoded
