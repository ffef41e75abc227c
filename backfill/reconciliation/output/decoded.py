"""What a streaming operator wrote, decoded into one final state per window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill.columns import END, REASON, ROWS, START, quoted
from backfill.engines import Engine
from backfill.errors import AggregateError, JobFileError, SourceError, WindowError
from backfill.events.failures import spark_errors
from backfill.events.model import SOURCE
from backfill.printable import shown
from backfill.reconciliation.output import final
from backfill.reconciliation.output.decoders.base import GONE, ORDER, RAW, Wanted
from backfill.reconciliation.output.decoders.columns import decode_columns, ordering
from backfill.reconciliation.output.decoders.kafka import decode_records
from backfill.reconciliation.output.files import read_written
from backfill.reconciliation.output.options import FORMS, StreamOptions
from backfill.reconciliation.same_time import interchangeable
from backfill.replay.interface import choose
from backfill.rows.compute import Key
from backfill.runtimes.differences import needs_spark
from backfill.windows import EventWindow, SessionWindow, Window

__all__ = ["FORMS", "Counts", "Decoded", "StreamOptions", "decode"]


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What became of the rows of a stream: rows = used + superseded + tombstones + undecoded.

    Attributes:
        rows: all that were read.
        used: rows that the final states are made of.
        superseded: rows that a later row, a merged session or a later batch replaces.
        tombstones: rows that take a window back (Kafka's records without a value, Flink's -U and
            -D).
        undecoded: rows that could not be decoded.
        windows: final states.
    """

    rows: int
    used: int
    superseded: int
    tombstones: int
    undecoded: int
    windows: int


@dataclass(frozen=True)
class Decoded:
    """The final state of every window that a stream wrote.

    Attributes:
        frame: one row per window: the inner key columns (`key_name`), `_start`, `_end` (bigint,
            µs), the aggregates by name, and `_written`, text that says where the deciding row is.
            For sessions, start and end are the first and last event; for other windows, they are as
            reported.
        undecoded: `reason`, `raw` (the row as JSON, or the line), `source` (the file).
        engine: the engine whose bounds the rows follow.
        order: what the rows of one window were sorted by.
    """

    frame: DataFrame
    undecoded: DataFrame
    engine: Engine
    order: str
    _states: DataFrame

    def counts(self) -> Counts:
        """Adds up what became of the rows, in one Spark job over all of them."""
        states = self._states.agg(
            F.sum(ROWS).alias("rows"),
            F.sum(final.USED).alias("used"),
            F.sum(final.TOMBSTONES).alias("tombstones"),
            F.count_if(~F.col(GONE)).alias("windows"),
        )
        failed = self.undecoded.agg(F.count(F.lit(1)).alias("undecoded"))
        with spark_errors():
            totals = states.crossJoin(failed).collect()[0].asDict()
        rows, used, tombstones = (totals[name] or 0 for name in ("rows", "used", "tombstones"))
        return Counts(
            rows=rows + totals["undecoded"],
            used=used,
            superseded=rows - used - tombstones,
            tombstones=tombstones,
            undecoded=totals["undecoded"],
            windows=totals["windows"],
        )


def decode(
    spark: SparkSession,
    options: StreamOptions,
    window: Window | EventWindow,
    *,
    key: Key,
    aggregates: Mapping[str, T.DataType],
    engine: Engine,
    zone: str,
    merged_by: Mapping[str, str | None] = MappingProxyType({}),
) -> Decoded:
    """Reads what a streaming operator wrote.

    It lists the files and looks for one row now; everything else is computed when the frames are.

    Args:
        spark: classic or Spark Connect.
        options: where the output is, and in which form.
        window: the window of the output.
        key: the job's key columns and their types.
        aggregates: the types of the results in the job, by name.
        engine: the job's; it counts only for the format `table`, as others have their own.
        zone: of times without one.
        merged_by: for rows that are deltas, by name of an aggregate: sum, min or max, whichever
            combines two results into one (`Aggregate.running`, unless it keeps states besides the
            result).

    Raises:
        SourceError: nothing is there, it can't be read, or no row of it can be decoded.
        ColumnError: a column is missing or has a type that cannot serve.
        JobFileError: the key or the aggregates can't be in this form.
        AggregateError: rows are deltas, and an aggregate can't be merged.
        WindowError: the engine has no such windows, or does not write them in this form.
        SetupError: the runtime does not read this as Spark does.
    """
    wanted = Wanted(window, key, aggregates, options.engine(engine), zone)
    _check_window(options, wanted)
    mergers = _mergers(spark, aggregates, merged_by) if options.deltas else {}
    written = read_written(spark, options, zone, in_order=not options.form.keyed_bytes)
    if options.form.keyed_bytes:
        decoding, by = decode_records(written, options, wanted), list(options.form.order)
    else:
        decoding, by = decode_columns(written, options, wanted), ordering(written, options, wanted)
    rows = decoding.rows(written, wanted)
    undecoded = rows.where(F.col(REASON).isNotNull()).select(
        F.col(REASON).alias("reason"), F.col(RAW).alias("raw"), F.col(SOURCE).alias("source")
    )
    good = rows.where(F.col(REASON).isNull())
    _check_some(good, undecoded, options)
    states = _final(good, options, wanted, mergers, by)
    frame = states.where(~F.col(GONE)).select(
        *key.inner,
        START,
        END,
        *map(quoted, aggregates),
        decoding.evidence(F.col(ORDER)).alias("_written"),
    )
    order = ", ".join([*by, "file and row"] if not options.form.keyed_bytes else by)
    return Decoded(frame, undecoded, wanted.engine, order, states)


def _final(
    rows: DataFrame,
    options: StreamOptions,
    wanted: Wanted,
    mergers: Mapping[str, str],
    by: Sequence[str],
) -> DataFrame:
    keys, names = wanted.key.inner, list(wanted.aggregates)
    if interchangeable(wanted.window):
        return final.every(rows)
    sessions = isinstance(wanted.window, SessionWindow)
    if options.deltas:
        states = final.merged(rows, keys, names, mergers)
        return final.into_merged(states, keys, names, mergers) if sessions else states
    if options.form.complete and "batch_id" in by:
        return final.last_batch(rows, keys, names)
    states = final.last_of_each(rows, keys, names)
    return final.without_merged(states, keys) if options.repeats and sessions else states


def _check_window(options: StreamOptions, wanted: Wanted) -> None:
    name, window = wanted.engine.name, wanted.window
    if isinstance(window, EventWindow):
        wanted.engine.check(window)
        choose(wanted.engine, window, None, rolling=False)
        if interchangeable(window) and (options.deltas or options.repeats):
            raise JobFileError(
                "has no meaning for windows around single events or by number of events, whose "
                "rows do not repeat",
                field="stream.firing (or stream.panes)",
                way_out="Leave it out",
            )
        return
    wanted.engine.rules_for(window)
    if isinstance(window, SessionWindow) and window.has_rules:
        raise WindowError(
            "has rules that cut or drop sessions, which no streaming engine has",
            field="window",
            value=str(window),
            way_out="Reconcile a window of the same gap without rules: add one to the job",
        )
    if not wanted.engine.has(window):
        problem = (
            f"the engine {name} has no such windows, so none of its streams can have written them"
        )
    elif isinstance(window, SessionWindow) and not options.form.sessions:
        problem = f"{name} does not write session windows in the format {options.format}"
    else:
        return
    raise WindowError(
        problem, field="window", value=str(window), way_out="Check stream.format and the engine"
    )


def _mergers(
    spark: SparkSession, aggregates: Mapping[str, T.DataType], merged_by: Mapping[str, str | None]
) -> dict[str, str]:
    mergers = {name: how for name in aggregates if (how := merged_by.get(name)) is not None}
    for name, how in mergers.items():
        floating = isinstance(aggregates[name], T.FloatType | T.DoubleType)
        if isinstance(aggregates[name], T.DecimalType) or (floating and how != "sum"):
            kind = aggregates[name].simpleString()
            needs_spark(spark, f"deltas of {kind} are combined by {how}", field=name)
    for name in aggregates:
        if name not in mergers:
            raise AggregateError(
                "rows are deltas, but deltas of this aggregate can't be combined",
                field=name,
                way_out="Use count, sum, min or max, or let the stream write the whole "
                "window each time (firing or panes: accumulating)",
            )
    return mergers


def _check_some(good: DataFrame, undecoded: DataFrame, options: StreamOptions) -> None:
    """Stops if every row fails, because then the options are wrong."""
    with spark_errors():
        if good.select(F.lit(1)).limit(1).collect():
            return
        reasons = undecoded.groupBy("reason").agg(F.count(F.lit(1)).alias("rows"))
        most = reasons.orderBy(F.col("rows").desc(), "reason").limit(1).collect()
    if most:
        settings = ["columns", *sorted(options.form.takes)]
        raise SourceError(
            f"none of {most[0].rows:,} rows can be decoded, mostly because {most[0].reason}",
            field="stream.path",
            value=shown(options.path),
            way_out=f"Check {', '.join(settings)}",
        )
