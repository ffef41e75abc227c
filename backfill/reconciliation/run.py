"""A published table beside what a streaming operator wrote: what differs, and why."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill.columns import END, START, column
from backfill.compute import Definition, bounds
from backfill.compute import Key as KeyColumns
from backfill.durations import fixed
from backfill.engines import Engine
from backfill.errors import ReplayError
from backfill.history.base import BaseRun, Progress
from backfill.history.exchange import of_keys
from backfill.reconciliation.causes import UNEXPLAINED, Case, Explanation
from backfill.reconciliation.checkpoint import Batches, read_checkpoint
from backfill.reconciliation.clocks import CLOCK, END_CLOCK
from backfill.reconciliation.compare import Sides
from backfill.reconciliation.explain import explain
from backfill.reconciliation.gathering import (
    Key,
    events_of,
    floored,
    only,
    rows_by_key,
    slack_of,
    windows_by_key,
)
from backfill.reconciliation.given import Given
from backfill.reconciliation.matching import Difference, match
from backfill.reconciliation.operator import Operator
from backfill.reconciliation.result import Explained, Reconciled
from backfill.reconciliation.rows import Row, same_values
from backfill.reconciliation.sources import fields_of, keys_of, received
from backfill.reconciliation.stream import decode
from backfill.replay.interface import choose
from backfill.replay.operators import OPERATORS
from backfill.replay.settings import resolve
from backfill.spec import JobSpec
from backfill.tables import DeltaStore
from backfill.windows import SessionWindow

#: So many events of keys that differ are replayed at once, on the driver.
MOST_EVENTS = 500_000
_PARTS = 10_000


def compare_with(
    spec: JobSpec,
    store: DeltaStore,
    spark: SparkSession,
    name: str,
    given: Given,
    *,
    checkpoint: str | None,
    sample: float | None,
    progress: Progress,
) -> Reconciled:
    """Decodes what a stream wrote, and compares a table with it.

    Args:
        spec: the job.
        store: its tables.
        spark: the session.
        name: the window's.
        given: where the output is, and the operator's settings.
        checkpoint: as for `compare`.
        sample: as for `compare`.
        progress: is told what is done.
    """
    schema = store.read(spark, name).schema
    types = {field.name: field.dataType for field in schema.fields}
    definition = spec.windows[name]
    progress(f"decoding {given.options.path}")
    decoded = decode(
        spark,
        given.options,
        definition.window,
        key=KeyColumns(spec.key, tuple(types[each] for each in spec.key)),
        aggregates={each: types[each] for each in definition.aggregates},
        engine=spec.engine,
        zone=spec.timezone,
        merged_by={
            each: None if aggregate.kept else aggregate.running
            for each, aggregate in definition.aggregates.items()
        },
    )
    counts = decoded.counts()
    progress(f"{counts.rows:,} rows, {counts.windows:,} windows")
    found = compare(
        spec,
        store,
        spark,
        name,
        decoded.frame,
        decoded.engine,
        settings=given.settings,
        checkpoint=checkpoint,
        sample=sample,
        progress=progress,
    )
    return replace(found, undecoded=counts.undecoded)


def compare(
    spec: JobSpec,
    store: DeltaStore,
    spark: SparkSession,
    name: str,
    stream: DataFrame,
    engine: Engine,
    *,
    settings: Mapping[str, Any],
    checkpoint: str | None = None,
    sample: float | None = None,
    progress: Progress,
) -> Reconciled:
    """Compares a table with the final state of a stream.

    Args:
        spec: the job.
        store: its tables.
        spark: the session.
        name: the window's.
        stream: inner key columns, START and END (µs; sessions from first to last event), the
            aggregates by name, one row per window.
        engine: whose output that is.
        settings: the operator's, as `replay` takes them.
        checkpoint: of a Spark query, whose logs tell its batches.
        sample: the share of keys that is looked at.
        progress: is told what is done.
    """
    reconciling = _Reconciling(spec, store, spark, name, engine, settings, checkpoint, progress)
    return reconciling.of(stream, sample)


class _Reconciling(BaseRun):
    """One comparison."""

    kind = "reconcile"

    def __init__(
        self,
        spec: JobSpec,
        store: DeltaStore,
        spark: SparkSession,
        name: str,
        engine: Engine,
        settings: Mapping[str, Any],
        checkpoint: str | None,
        progress: Progress,
    ) -> None:
        super().__init__(spec, store, spark, progress)
        self.name, self.system = name, engine
        self.definition: Definition = self.definitions[name]
        self.fields, self.columns = fields_of(self.definition.aggregates)
        self.streaming, kind = choose(engine, self.definition.window, None, rolling=False)
        self.settings = {k: v for k, v in settings.items() if v is not None}
        takes = OPERATORS[kind].takes
        resolved = resolve(self.settings, engine, self.streaming, takes)
        # With a cache, or emission on close, a key's output depends on other keys' events.
        self.apart = OPERATORS[kind].apart(resolved)
        self.checkpoint: Batches | None = (
            None if checkpoint is None else read_checkpoint(checkpoint)
        )

    def of(self, stream: DataFrame, sample: float | None) -> Reconciled:
        """Compares."""
        keys = keys_of(self)
        sides = self._sides(stream, sample)
        differing = sides.differing().persist()
        self.stack.callback(differing.unpersist)
        with self.stack:
            batch, theirs = sides.counted()
            count = differing.count()
            self.progress(f"{batch:,} windows and {theirs:,}; {count:,} keys differ")
            ours = windows_by_key(of_keys(sides.batch, differing, keys, "left_semi"), keys)
            others = windows_by_key(of_keys(sides.stream, differing, keys, "left_semi"), keys)
            alike = batch - sum(map(len, ours.values()))
            events, ordered, slack = self._events(sides, differing) if count else ({}, True, {})
        found: list[Explained] = []
        for key in sorted({*ours, *others}, key=repr):
            matched, explained = self._key(
                key, ours.get(key, []), others.get(key, []), events.get(key, []), slack, ordered
            )
            alike += matched
            found += explained
        return Reconciled(self.name, alike, found, batch, theirs, ordered)

    def _sides(self, stream: DataFrame, sample: float | None) -> Sides:
        keys, tick = keys_of(self), self.system.tick_us
        rows = self.store.read(self.spark, self.name, version=self.states[self.name].version)
        start, end = bounds(self.definition, self.spec.engine)
        names = list(self.definition.aggregates)
        batch = rows.select(
            *(column(own).alias(inner) for own, inner in zip(self.spec.key, keys, strict=True)),
            floored(start, tick).alias(START),
            floored(end, tick).alias(END),
            *(column(each) for each in names),
        )
        values = {f.name: f.dataType for f in batch.schema.fields if f.name in names}
        theirs = stream.select(*batch.columns)
        if sample is not None:
            share = round(sample * _PARTS)
            part = F.pmod(F.xxhash64(*keys), F.lit(_PARTS)) < share if keys else F.lit(True)
            batch, theirs = batch.where(part), theirs.where(part)
        return Sides(batch, theirs, keys, values)

    def _events(
        self, sides: Sides, differing: DataFrame
    ) -> tuple[dict[Key, list[dict[str, Any]]], bool, frozenset[str]]:
        """The events of these keys, by key; whether their order is known; sums of doubles."""
        delay = fixed(self.settings.get("watermark_delay", "0s"), field="watermark_delay").us
        every, ordered = received(
            self, self.system, self.streaming, self.columns, delay, self.checkpoint
        )
        own = of_keys(every, differing, sides.keys, "left_semi")
        if not self.apart and self.streaming.clock != "none":
            own, ordered = own.drop(CLOCK, END_CLOCK), False
        rows = own.limit(MOST_EVENTS + 1).collect()
        if len(rows) > MOST_EVENTS:
            raise ReplayError(
                f"the keys that differ have more than {MOST_EVENTS:,} events, which is what is "
                "replayed at once",
                field=self.name,
                way_out="Look at a part of the keys: --sample 1%",
            )
        self.progress(f"replaying {len(rows):,} events")
        doubles = frozenset(
            name
            for name, kind in sides.values.items()
            if isinstance(kind, T.DoubleType | T.FloatType)
        )
        return rows_by_key(rows, sides.keys), ordered, doubles

    def _key(
        self,
        key: Key,
        batch: list[Row],
        stream: list[Row],
        rows: Sequence[Mapping[str, Any]],
        doubles: Collection[str],
        ordered: bool,
    ) -> tuple[int, list[Explained]]:
        fields = self.fields
        events, copies = events_of(key, rows, list(self.columns))
        slack = {name: slack_of(fields[name], events) for name in doubles}
        sessions = isinstance(self.definition.window, SessionWindow)
        matched, differences = match(
            batch, stream, lambda a, b: same_values(a.values, b.values, slack), sessions=sessions
        )
        if not differences:
            return matched, []
        told = {name for name, each in fields.items() if each.python is not None}
        ends = [row[END_CLOCK] for row in rows if ordered and END_CLOCK in row]
        operator = Operator(
            window=self.definition.window,
            engine=self.system,
            aggregates={name: each for name, each in fields.items() if name in told},
            timezone=self.spec.timezone,
            settings=self.settings,
            ordered=ordered,
            end_clock=ends[0] if ends else None,
        )
        limit = self.limit(self._horizon())
        case = Case(
            operator=operator,
            events=events,
            stream=[only(row, told) for row in stream],
            differences=[
                Difference(
                    tuple(only(row, told) for row in each.batch),
                    tuple(only(row, told) for row in each.stream),
                )
                for each in differences
            ],
            slack=slack,
            copies=copies,
            expired=limit,
        )
        found = explain(case)
        return matched, [
            Explained(key, difference, self._admitted(difference, each, told))
            for difference, each in zip(differences, found, strict=True)
        ]

    def _admitted(
        self, difference: Difference, found: Explanation, told: Collection[str]
    ) -> Explanation:
        """An aggregate without a form in Python is not replayed: its differences have no cause."""
        if len(told) == len(self.definition.aggregates) or difference.status != "value_differs":
            return found
        one, other = difference.batch[0].values, difference.stream[0].values
        if any(one[name] != other[name] for name in told):
            return found
        names = sorted(set(self.definition.aggregates) - set(told))
        return Explanation((UNEXPLAINED,), False, {"not_replayed": names})

    def _horizon(self) -> int | None:
        record = self.states[self.name].record
        return None if record is None else record.horizon
