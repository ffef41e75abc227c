"""Compares a published table with what a streaming operator wrote: what differs, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill.columns import END, START, column
from backfill.engines import Engine
from backfill.errors import JobFileError, ReplayError
from backfill.kinds import kind_of
from backfill.planning.context import Context
from backfill.planning.replaced_windows import of_keys
from backfill.reconciliation import few_windows
from backfill.reconciliation.arrow_rows import floored
from backfill.reconciliation.checkpoint import Batches, read_checkpoint
from backfill.reconciliation.clocks import BEGINNING, CLOCK, END_CLOCK, LATEST_CLOCK
from backfill.reconciliation.compare import Found, Sides
from backfill.reconciliation.explaining.operator import ENDLESS, Operator, without_loss
from backfill.reconciliation.key_explainer import KeyExplainer
from backfill.reconciliation.marks import PLACES, names_places
from backfill.reconciliation.output.decoded import decode
from backfill.reconciliation.output.description import StreamDescription
from backfill.reconciliation.parts import in_parts
from backfill.reconciliation.published import compared, published_table, sampled
from backfill.reconciliation.recount import recounted
from backfill.reconciliation.result import Explained, Part, Reconciled
from backfill.reconciliation.same_time import interchangeable, numbered
from backfill.reconciliation.sources import Received, is_whole, keys_of, received
from backfill.replay.interface import choose
from backfill.replay.operators import OPERATORS
from backfill.replay.settings import resolve
from backfill.replay.triggering import delays, early_trigger
from backfill.rows.compute import Key as KeyColumns
from backfill.rows.definition import Definition
from backfill.runtimes.differences import kept
from backfill.time.durations import fixed
from backfill.update_history import fields_of
from backfill.windows import SessionWindow, is_distinct

#: The driver replays up to this many events, and windows, of keys that differ, on one core. More
#: are replayed in parts by Spark's workers, which take some seconds to start.
FEW_EVENTS = 100_000
#: The most that the driver replays if the workers can't.
MOST_EVENTS = 500_000
#: The most in a part, on average (workers have less memory), and the fewest parts.
_IN_PART, _FEWEST_PARTS = 25_000, 16
#: The emission policies that write a window when it is complete.
_WHEN_COMPLETE = ("on_close", "suppressed", "append")


def compare_with(
    context: Context,
    name: str,
    given: StreamDescription,
    *,
    checkpoint: str | None,
    sample: float | None,
) -> Reconciled:
    """Decodes what a stream wrote, and compares a table with it.

    Args:
        context: of the job.
        name: the window's.
        given: where the output is, and the operator's settings.
        checkpoint: as for `compare`.
        sample: as for `compare`.

    Raises:
        TableError: nothing is published, or the table is stale.
    """
    spec = context.spec
    window = compared(name, spec.windows[name].window)
    schema = published_table(context, name).read(context.spark).schema
    types = {field.name: field.dataType for field in schema.fields}
    definition = spec.windows[name]
    context.progress(f"decoding {given.options.path}")
    decoded = decode(
        context.spark,
        given.options,
        window,
        key=KeyColumns(spec.key, tuple(types[key] for key in spec.key)),
        aggregates={
            aggregate_name: types[aggregate_name] for aggregate_name in definition.aggregates
        },
        engine=spec.engine,
        zone=spec.timezone,
        merged_by={
            aggregate_name: None if aggregate.kept else aggregate.running
            for aggregate_name, aggregate in definition.aggregates.items()
        },
    )
    counts = decoded.counts()
    context.progress(f"{counts.rows:,} rows, {counts.windows:,} windows")
    reconciled = compare(
        context,
        name,
        decoded.frame,
        decoded.engine,
        settings=given.settings,
        checkpoint=checkpoint,
        sample=sample,
        few=counts.windows <= few_windows.FEW_WINDOWS,
    )
    return replace(reconciled, undecoded=counts.undecoded)


def compare(
    context: Context,
    name: str,
    stream: DataFrame,
    engine: Engine,
    *,
    settings: Mapping[str, Any],
    checkpoint: str | None = None,
    sample: float | None = None,
    few: bool = False,
) -> Reconciled:
    """Compares a table with the final state of a stream.

    Args:
        context: of the job.
        name: the window's.
        stream: inner key columns, START and END (µs; sessions from first to last event), the
            aggregates by name, one row per window.
        engine: the engine whose output it is.
        settings: the operator's, as `replay` takes them.
        checkpoint: of a Spark query; its logs describe the query's batches.
        sample: the share of keys that is compared.
        few: whether the stream has few windows.
    """
    return _Reconciling(context, name, engine, settings, checkpoint).of(stream, sample, few)


class _Reconciling:
    """One comparison."""

    def __init__(
        self,
        context: Context,
        name: str,
        engine: Engine,
        settings: Mapping[str, Any],
        checkpoint: str | None,
    ) -> None:
        self.context, self.name, self.system = context, name, engine
        self.definition: Definition = context.definitions[name]
        self.window = compared(name, self.definition.window)
        self.spec, self.progress = context.spec, context.progress
        self.stack = ExitStack()
        self.fields, self.columns = fields_of(self.definition.aggregates)
        self.others = {
            name: aggregate
            for name, aggregate in self.definition.aggregates.items()
            if aggregate.python is None
        }
        # One of the job file's settings is for joins alone.
        self.settings = {
            k: v for k, v in settings.items() if v is not None and k != "right_watermark_delay"
        }
        self.wall_clock: str | None = self.settings.pop("wall_clock", None)
        own = {k: v for k, v in self.settings.items() if k != "api"}
        api = self.settings.get("api")
        self.streaming, kind = choose(engine, self.window, api, rolling=False)
        resolved = resolve(own, engine, self.streaming, OPERATORS[kind].takes)
        # With a cache, emission on close, or a trigger that waits for a clock, a key's output
        # depends on other keys' events; so does what is pending, if these events move the clock.
        shares = self.streaming.shares_its_clock
        self.apart = (
            OPERATORS[kind].apart(resolved)
            and not delays(resolved)
            and (resolved.drained or shares)
        )
        # Early panes are of windows that are not complete, so they do not show where the clock was.
        early = early_trigger(resolved) is not None
        self.shows_its_end = (
            shares
            and "drained" in OPERATORS[kind].takes
            and "drained" in self.streaming.settings
            and "drained" not in self.settings
            and not early
        )
        timed = self.streaming.clock != "none"
        #: Each window is written when it is complete, and not before.
        self.waits = timed and resolved.emit in _WHEN_COMPLETE and not early
        #: Events have partitions and offsets. Kafka's partitions have clocks of their own.
        self.partitioned = len(self.spec.arrival or context.source.arrival) == 2
        shared = self.streaming.clock in ("watermark", "batches")
        self.one_clock = shared or not self.partitioned
        self._check_places()
        self._check_ticks()
        self.checkpoint = None if checkpoint is None else self._told_by(checkpoint)

    def of(self, stream: DataFrame, sample: float | None, few: bool) -> Reconciled:
        """Runs the comparison."""
        sides = self._sides(stream, sample)
        parts: list[Part] = []
        differences: Sequence[Explained] = []
        ordered = True
        with self.stack:
            by_driver = few_windows.compared(sides) if few else None
            if by_driver is None:
                totals = sides.totals()
                off = sides.differing(totals, self._held)
            else:
                totals, off = by_driver
            self.progress(
                f"{totals.batch:,} windows in the table and {totals.stream:,} in the stream; "
                f"{off.keys:,} keys differ"
            )
            if off.keys:
                off = replace(off, windows=self._held(off.windows))
                received = self._received()
                last = self._last(stream) if self.shows_its_end or self.waits else None
                parts, ordered = self._parts(sides, off, received, last)
                bound = {name: received.bound[aggregate] for name, aggregate in self.others.items()}
                differences = recounted(self.context.spark, parts, bound)
        alike = totals.batch + sum(part.matched - part.windows for part in parts)
        return Reconciled(self.name, alike, differences, totals.batch, totals.stream, ordered)

    def _check_places(self) -> None:
        columns = self.spec.arrival or self.context.source.arrival
        fields = self.context.source.frame.schema.fields
        if not self.partitioned:
            problem = "the events have none"
        elif columns[-1] in {field.name for field in fields if not is_whole(field.dataType)}:
            problem = f"{columns[-1]} is not a whole number"
        else:
            return
        for name in PLACES:
            if names_places(self.settings, name):
                raise JobFileError(
                    f"needs offsets, but {problem}",
                    field=f"stream.{name}",
                    value=self.settings[name],
                    way_out="Name the events' columns, events.arrival: [partition, offset], "
                    "or leave it out",
                )

    def _check_ticks(self) -> None:
        own, theirs = self.spec.engine.tick_us, self.system.tick_us
        if is_distinct(self.window) and own != theirs:
            raise JobFileError(
                "distinct sliding windows begin one tick after an event, and the stream's engine "
                "has a different tick: the windows cannot be told apart",
                field="engine",
                value=self.spec.engine.name,
                way_out=f"Publish them as the stream has them: engine: {self.system.name}",
            )

    def _told_by(self, checkpoint: str) -> Batches | None:
        batches = read_checkpoint(checkpoint)
        if not batches.first:
            return batches
        # The watermarks by which these batches judged lateness are unknown.
        self.progress(
            f"{checkpoint}: Spark has dropped its logs of the batches before {batches.first}, so "
            "causes that depend on the order of arrival are possible, not proved"
        )
        return None

    def _held(self, frame: DataFrame) -> DataFrame:
        held, release = kept(frame)
        self.stack.callback(release)
        return held

    def _sides(self, stream: DataFrame, sample: float | None) -> Sides:
        keys, tick = keys_of(self.context), self.system.tick_us
        rows = published_table(self.context, self.name).read(self.context.spark)
        start, end = kind_of(self.window, self.spec.engine, self.spec.timezone).bounds()
        names = list(self.definition.aggregates)
        batch = rows.select(
            *(column(own).alias(inner) for own, inner in zip(self.spec.key, keys, strict=True)),
            floored(start, tick).alias(START),
            floored(end, tick).alias(END),
            *(column(name) for name in names),
        )
        values = {f.name: f.dataType for f in batch.schema.fields if f.name in names}
        theirs = stream.select(*batch.columns)
        if interchangeable(self.window):
            batch, theirs = (numbered(frame, keys, names) for frame in (batch, theirs))
        if sample is not None:
            batch, theirs = (sampled(frame, keys, sample) for frame in (batch, theirs))
        return Sides(batch, theirs, keys, values)

    def _last(self, stream: DataFrame) -> int:
        """Where the stream's last window ends, µs."""
        (last,) = stream.agg(F.max(START if interchangeable(self.window) else END)).collect()[0]
        return BEGINNING if last is None else int(last)

    def _waiting(self) -> int:
        """How long after its end a window is complete, µs."""
        if interchangeable(self.window):
            return 0
        gap = self.window.gap.us if isinstance(self.window, SessionWindow) else 0
        return gap + self.streaming.complete_ticks * self.system.tick_us

    def _surely(self, last: int | None) -> int | None:
        """The end up to which windows were complete, as the output shows or a checkpoint says."""
        if last is None or self.checkpoint is None:
            return last
        return max(last, self.checkpoint.last - self._waiting())

    def _received(self) -> Received:
        """All events, as the operator received them."""
        delay = fixed(self.settings.get("watermark_delay", "0s"), field="watermark_delay").us
        return received(
            self.context,
            self.system,
            self.streaming,
            self.columns,
            delay,
            self.checkpoint,
            list(self.others.values()),
            self.wall_clock,
        )

    def _parts(
        self, sides: Sides, off: Found, received: Received, last: int | None
    ) -> tuple[list[Part], bool]:
        """The results for the keys that differ, and whether the order of arrival was used."""
        every, ordered = received.frame, received.ordered
        if not self.apart and self.streaming.clock != "none":
            every = every.drop(CLOCK, LATEST_CLOCK, END_CLOCK)
            tables = _gathered(MOST_EVENTS, off, every) if ordered else None
            if tables is not None:
                self.progress(f"replaying {tables[1].num_rows:,} events of all keys together")
                together = self._keyed(sides, last, ordered=True, joint=True)
                return [together.explained(*tables)], True
            ordered = False
        keyed = self._keyed(sides, last, ordered=ordered, joint=False)
        events = of_keys(every, off.differing, sides.keys, "left_semi")
        tables = _gathered(FEW_EVENTS, off, events)
        if tables is not None:
            self.progress(f"replaying {tables[1].num_rows:,} events")
            return [keyed.explained(*tables)], ordered
        events, windows = self._held(events), off.windows
        counts = windows.count(), events.count()
        parts = max(_FEWEST_PARTS, -(-max(counts) // _IN_PART))
        self.progress(f"replaying {counts[1]:,} events in {parts:,} parts")
        try:
            return in_parts(keyed, windows, events, parts), ordered
        except ReplayError as error:
            if max(counts) > MOST_EVENTS:
                raise
            self.progress(f"replaying them in this process, because {error.problem}")
            return [keyed.explained(windows.toArrow(), events.toArrow())], ordered

    def _keyed(self, sides: Sides, last: int | None, *, ordered: bool, joint: bool) -> KeyExplainer:
        record = self.context.tables[self.name].record
        operator = Operator(
            window=self.window,
            engine=self.system,
            aggregates=self.fields,
            timezone=self.spec.timezone,
            settings=self.settings,
            ordered=ordered,
        )
        return KeyExplainer(
            operator=operator,
            batch=replace(
                operator,
                engine=without_loss(self.spec.engine, self.window),
                settings=ENDLESS if is_distinct(self.window) else {},
            ),
            others=tuple(self.others),
            columns=tuple(self.columns),
            doubles=frozenset(
                name
                for name, kind in sides.values.items()
                if name in self.fields and isinstance(kind, T.DoubleType | T.FloatType)
            ),
            keys=tuple(sides.keys),
            expired=self.context.limit(None if record is None else record.horizon),
            latest=None if last is None or not self.shows_its_end else last + self._waiting(),
            waits=self.waits,
            last=self._surely(last) if self.one_clock else None,
            joint=joint,
        )


def _gathered(most: int, off: Found, events: DataFrame) -> tuple[pa.Table, pa.Table] | None:
    """The windows and the events; None if there are more than `most` of either."""
    windows = off.windows.limit(most + 1).toArrow() if off.few is None else off.few
    if windows.num_rows > most:
        return None
    rows = events.limit(most + 1).toArrow()
    return None if rows.num_rows > most else (windows, rows)
