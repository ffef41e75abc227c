"""Every result that a streaming operator would have sent, from its events.

In the examples, `spark` is a session such as `backfill.spark.session()`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame

from backfill.aggregates.base import Aggregate
from backfill.columns import names_of
from backfill.engines import engine as engine_named
from backfill.errors import ReplayError, WindowError, did_you_mean
from backfill.frames.arguments import check_frame, check_window, given_aggregates
from backfill.replay.apart import Apart
from backfill.replay.replaying import SETTINGS
from backfill.runtimes.differences import needs_spark
from backfill.update_history.history import History
from backfill.windows import EventWindow, Window

#: Settings of `replay` that mean nothing here, and what to give instead.
_INSTEAD = {
    "batch_size": "Give the column of each event's `batch`",
    "watermark_every": "Give the column of the `watermark` after each event",
}


def updates(
    events: DataFrame,
    window: Window,
    *,
    key: str | Sequence[str],
    time: str,
    arrival: str,
    aggregates: Mapping[str, Aggregate | str],
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
    Python workers, each key separately. All keys share the operator's clock: if another key's event
    moves it, so that a window is complete, the result has the arrival of that event.

    The result is lazy, like any DataFrame; only the batches, if `batch` is given, are listed at
    once. Rows with an unusable key or time are left out, as are those without an arrival. backfill
    must be installed where Spark's workers run.

    Args:
        events: any DataFrame.
        window: such as `SessionWindow(gap="30m")`; not one around single events or by their number.
        key: one or more columns; an empty list for one group of all events.
        time: the event time, as for `aggregate`.
        arrival: the column that orders the events as they arrived, within each partition if there
            are partitions: a whole number or a timestamp. Events of equal arrival are ordered by
            their time, their key and the values that are aggregated.
        aggregates: the result's columns by name, from `backfill.aggregates` or as a job file has
            them ("sum(amount)"); only those that have a form in plain Python.
        engine: kafka-streams, spark, flink, beam or samza, whose rules decide; also plain, for
            which nothing is late, and which sends everything at the end.
        partition: the column of the partition, for Kafka Streams, where each partition has a clock.
            If a key's events are in several, each has windows of its own: name it in `key`, too.
        batch: the column of the micro-batch that read an event (Spark needs it), or of the bundle
            (Beam): whole numbers; a number that no event has is a batch without data.
        watermark: the column of the watermark as it stands after an event, read as the event time
            is; by default it is derived from the events, as those of one input, and
            `watermark_delay`.
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
        NULL if the end of the input did; `number`, the result's place among those of its key, from
        1; `op`: update, final, tombstone; early, on_time, late, retraction (panes); or +I, -U, +U
        (a changelog); `is_retraction`, whether it takes back what was sent, as a tombstone does
        too; and the aggregates by name, for a retraction those that it takes back. Results of
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
    check_frame(events)
    check_window(window, example="SessionWindow(gap='30m')")
    aggregates = given_aggregates(aggregates)
    needs_spark(events, "the history of updates is computed")
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
    if watermark is not None and settings.get("watermark_delay") is not None:
        raise ReplayError(
            "means nothing where events have the watermark: it is behind already",
            field="watermark_delay",
            value=settings["watermark_delay"],
            way_out="Give the delay or the column of the watermark, not both",
        )
    _check_columns(apart, partition=partition, batch=batch, watermark=watermark)
    keys = names_of(key, field="key")
    history = History(
        events, apart, keys, time, arrival, aggregates, partition, batch, watermark,
        wall_clock, time_format, settings,
    )  # fmt: skip
    return history.result()


def _check_columns(
    apart: Apart, *, partition: str | None, batch: str | None, watermark: str | None
) -> None:
    """Refuses columns that an engine does not know, or the lack of one that it needs."""
    streaming, name = apart.streaming, apart.engine.name
    if partition is not None and streaming.feed != "partitions":
        raise ReplayError(
            f"under {name}, partitions do not have their own clocks",
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
