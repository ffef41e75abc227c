"""Compares a join in batch with what a streaming join wrote: what differs, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.columns import column, names_of
from backfill.engines import ENGINES
from backfill.errors import ReplayError, WindowError
from backfill.frames.arguments import check_frame
from backfill.joins.merging import usable
from backfill.joins.relations import related
from backfill.joins.sides import both_sides, check_has, naming
from backfill.operators.pairing import in_time
from backfill.operators.rule_inputs import predicate
from backfill.reconciliation.joins.comparison import (
    LEFT_EVENT,
    RIGHT_EVENT,
    SKIPPED,
    JoinComparison,
)
from backfill.reconciliation.joins.result import JoinReconciled
from backfill.replay import Event, JoinReplayed, replay_join
from backfill.update_history.batches import check_batch
from backfill.windows.arguments import predicate_text
from backfill.windows.join_window import LEFT, RIGHT
from backfill.windows.within import Reach, read_within


def reconcile_join(
    left: DataFrame,
    right: DataFrame,
    stream: DataFrame,
    *,
    on: str | Sequence[str],
    within: object,
    time: str | Sequence[str],
    arrival: str | Sequence[str],
    how: str = "inner",
    engine: str = "kafka-streams",
    partition: str | None = None,
    wall_clock: str | None = None,
    skipped: str | None = None,
    time_format: str | None = None,
    timezone: str = "UTC",
    grace: object = None,
    spurious: bool | None = None,
    emit_interval: object = None,
    store: str | None = None,
    watermark_delay: object = None,
    right_watermark_delay: object = None,
    watermark_policy: str | None = None,
    batch: str | None = None,
) -> JoinReconciled:
    """Compares the join of two streams in batch with what a streaming join wrote.

    Both are compared in Spark. If they differ, the streaming join is replayed over all events, as
    `backfill.replay.replay_join` does it: whether a partner is still there also depends on events
    of other keys. A cause is proved if a replay gives the stream's rows of the key, either of all
    events, or of those that the stream has rows of, whether or not the others moved its clock.

    Args:
        left: the left stream's events.
        right: the right stream's.
        stream: the rows that went downstream, all of them: the columns of `on` and some of those
            that `join` gives, in the same types.
        on: the columns of the key, as for `join`.
        within: (before, after), as for `join`; whole milliseconds, or whole microseconds for Spark.
        time: the column of the event time, or a pair of columns, as for `join`.
        arrival: columns that both sides have; the operator received the events of both in their
            order. If they are equal, left events come first; no two events of one side are equal in
            them.
        how: inner, left or full, as the stream's join.
        engine: kafka-streams, flink (inner joins only), or spark.
        partition: a column of both sides: the partition through which an event came. By default
            there is one.
        wall_clock: a column of both sides: when the operator processed the event, in µs. By default
            that is the event's own time.
        skipped: a predicate in Spark SQL over a side's columns that holds for records without a
            value. The batch leaves them out, and Kafka Streams takes only their time.
        time_format: as for `join`.
        timezone: as for `join`.
        grace: of the operator, as for `replay_join`.
        spurious: the same.
        emit_interval: the same.
        store: the same.
        watermark_delay: the same.
        right_watermark_delay: the same.
        watermark_policy: the same.
        batch: Spark: a column of both sides, the number of the micro-batch that read an event.

    Returns:
        What differs, and why.

    Raises:
        ColumnError: a column is missing or has an unsuitable type.
        WindowError: `within`, `how` or `skipped` can't be used.
        ReplayError: the engine has no such join or setting; arrivals are not unique; or something
            differs, and there are more than 2,000,000 events.

    Example:
        >>> from backfill import reconcile_join
        >>> clicks = spark.sql(
        ...     "SELECT user, timestamp_seconds(s) AS at, n, ad FROM VALUES"
        ...     "('a', 0, 0, 'x'), ('b', 60, 2, 'y') AS t(user, s, n, ad)"
        ... )
        >>> buys = spark.sql(
        ...     "SELECT user, timestamp_seconds(s) AS at, n, price FROM VALUES"
        ...     "('a', 5, 1, 9), ('a', 9, 3, 8) AS t(user, s, n, price)"
        ... )
        >>> wrote = spark.sql("SELECT 'a' AS user, 'x' AS ad, 9 AS price")
        >>> found = reconcile_join(
        ...     clicks, buys, wrote, on="user", time="at", arrival="n", within=("0s", "10s")
        ... )
        >>> found.matched, found.causes
        (1, {'late': 1})
        >>> found.differences[0].row
        {'user': 'a', 'ad': 'x', 'price': 8}
    """
    reach = read_within(within)
    if not isinstance(reach, Reach):
        raise WindowError(
            "a stream's join can be compared only if it pairs events by time",
            field="within",
            value=str(within),
            way_out='Write it like ("5m", "30m")',
        )

    def replaying(left: Sequence[Event], right: Sequence[Event]) -> JoinReplayed:
        return replay_join(
            left,
            right,
            within=within,
            engine=engine,
            how=how,
            grace=grace,
            spurious=spurious,
            emit_interval=emit_interval,
            store=store,
            watermark_delay=watermark_delay,
            right_watermark_delay=right_watermark_delay,
            watermark_policy=watermark_policy,
        )

    # Checks the settings before anything is computed.
    replaying([], [])
    sides = both_sides(
        left,
        right,
        on=on,
        time=time,
        time_format=time_format,
        timezone=timezone,
        tick_us=ENGINES[engine].tick_us,
    )
    check_frame(stream, field="stream")
    arrived = names_of(arrival, field="arrival")
    sides.check_order(arrived, LEFT, RIGHT)
    for side, columns in zip((LEFT, RIGHT), sides.columns, strict=True):
        given = {"partition": partition, "wall_clock": wall_clock, "batch": batch}
        for field, name in given.items():
            if name is not None:
                check_has(f"the {side} side", columns, name, field=field)
    if batch is not None:
        check_batch(left, batch, field="arrival")
        check_batch(right, batch, field="arrival")
    if (batch is not None) != (engine == "spark"):
        raise ReplayError(
            "is needed for Spark's micro-batches, and only for them",
            field="batch",
            value=batch,
            way_out="Give it with engine='spark', and with no other engine",
        )
    if engine == "flink":
        if skipped is not None:
            raise ReplayError(
                "the engine flink joins records without a value like any others",
                field="skipped",
                value=skipped,
                way_out="Leave it out",
            )
        # Flink fails at an event without a key, so the stream had none.
        left, right = (frame.where(usable(sides.on)) for frame in (sides.left, sides.right))
        sides = replace(sides, left=left, right=right)
    read = predicate_text(skipped, field="skipped", example="payload IS NULL")
    left, right = _marked(sides.left, LEFT, read), _marked(sides.right, RIGHT, read)
    kept = replace(sides, left=left.where(~F.col(SKIPPED)), right=right.where(~F.col(SKIPPED)))
    joined = related(kept, in_time(reach), how, None)
    renamed = dict(sides.added())
    comparison = JoinComparison(
        left=left,
        right=right,
        on=sides.on,
        reach=reach,
        arrival=arrived,
        partition=partition,
        wall_clock=wall_clock,
        number=batch,
        batch=joined,
        pairs=joined.select(
            *map(column, sides.on),
            F.struct(*map(column, arrived)).alias(LEFT_EVENT),
            F.struct(*(column(renamed.get(old, old)) for old in arrived)).alias(RIGHT_EVENT),
        ),
        columns={
            **{name: (name, name if name in sides.on else None) for name in sides.columns[0]},
            **{new: (None, old) for old, new in sides.added()},
        },
        stream=stream,
    )
    return comparison.result(replaying, bool(spurious))


def _marked(frame: DataFrame, side: str, skipped: str | None) -> DataFrame:
    """The side with SKIPPED."""
    if skipped is None:
        return frame.withColumn(SKIPPED, F.lit(False))
    with naming(side):
        return frame.withColumn(SKIPPED, predicate(frame, "skipped", skipped))
