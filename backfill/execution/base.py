"""What every run has: one snapshot, one now, staged files, and one commit for each table."""

from __future__ import annotations

import datetime as dt
import getpass
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import reduce
from operator import and_
from types import MappingProxyType

import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill.columns import END, EVENTS, LAST, REASON, START
from backfill.compute import Built, Definition, Sliced, slice_events
from backfill.conservation import totals
from backfill.errors import ColumnError, SourceError, TableError
from backfill.events import (
    EventRules,
    open_source,
    quarantine_rows,
    rewrites,
)
from backfill.execution.edges import with_edges_apart
from backfill.execution.gate import Gate, Rows
from backfill.execution.results import Past
from backfill.execution.retention import beyond, ended
from backfill.ledger.changes import changes
from backfill.ledger.inputs import check_types, inputs_of
from backfill.ledger.reader import Reader
from backfill.ledger.record import Input, Record
from backfill.ledger.replaced import Replaced, replaced
from backfill.ledger.rewritten import carried_over
from backfill.ledger.state import State, settings, states
from backfill.operators.aligned import layout
from backfill.planning.combining import Combining, choose
from backfill.quality.checks import Outcome
from backfill.quality.errors import ChecksFailed
from backfill.quality.events import Counted
from backfill.spec import JobSpec
from backfill.store import DeltaStore, StagedFiles
from backfill.store.delta.stats import added_up
from backfill.time.dates import ALL, NONE, Dates, date_of
from backfill.windows import SessionWindow

QUARANTINE = "quarantine"
# What tells a row of the quarantine from others.
_PLACE = ("reason", "raw", "source")
Progress = Callable[[str], None]


class BaseRun:
    """One run: it reads one snapshot, has one now, and publishes at its end or not at all."""

    kind = "run"

    def __init__(
        self,
        spec: JobSpec,
        store: DeltaStore,
        spark: SparkSession,
        progress: Progress,
        *,
        late: Sequence[str] = (),
        facts: Mapping[str, object] = MappingProxyType({}),
        anyway: str | None = None,
    ) -> None:
        self.spec, self.store = spec, store
        self.spark, self.progress = spark, progress
        self.facts = facts
        self.anyway, self.evident = anyway, False
        self.combining = Combining(True, "little is read")
        self.began = time.monotonic()
        now = dt.datetime.now(dt.timezone.utc)
        self.now_us = int(now.timestamp()) * 1_000_000 + now.microsecond
        self.id = f"{now:%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"
        self.definitions = {
            name: Definition(each.window, each.aggregates) for name, each in spec.windows.items()
        }
        self.stack = ExitStack()
        self.states = {
            each.name: each for each in states(spec, store, [*self.definitions, QUARANTINE])
        }
        records = [each.record for each in self.states.values() if each.record is not None]
        self.late = tuple(dict.fromkeys([*(path for each in records for path in each.late), *late]))
        self.progress(f"opening {spec.source.path}")
        self.source = open_source(spark, spec.source, late=self.late)
        check_types(self.source, spec, records)
        self.inputs = inputs_of(self.source, spec, self.rules(), records)
        for name, state in self.states.items():
            if state.record is not None:
                self.states[name] = replace(state, record=self._carried(state.record))
        self.reader = Reader(
            self.source,
            self.rules(),
            spec.timezone,
            {path: each.bounds for path, each in self.inputs.items()},
            {path: each.arrived for path, each in self.inputs.items() if each.arrived is not None},
            spec.arrival,
        )

    def rules(self) -> EventRules:
        """What is an event."""
        return self.spec.event_rules(self.spec.engine, self.source.arrival, self.now_us)

    def choose(self, paths: Iterable[str], names: Sequence[str]) -> None:
        """Chooses how the events of these inputs become slices, for all that this run reads."""
        self.combining = choose(
            self.spec,
            self.reader,
            paths,
            [self.definitions[name] for name in names],
            lambda usable: self.slices(usable, names),
        )

    def slices(self, usable: DataFrame, names: Sequence[str]) -> Sliced:
        """The slices that these windows are built from; lazy."""
        sliced = slice_events(
            usable,
            [self.definitions[name] for name in names],
            key=self.spec.key,
            engine=self.spec.engine,
            zone=self.spec.timezone,
            id=self.spec.id,
            arrival=self.spec.arrival or self.source.arrival,
            combine=self.combining.combined,
        )
        # What follows sessions beyond the range needs both ends of every slice.
        frame = sliced.frame.withColumn(LAST, F.col(sliced.last))
        return replace(sliced, frame=frame, last=LAST)

    def stage_window(
        self, name: str, rows: DataFrame, *, task_bytes: int | None = None
    ) -> StagedFiles:
        """Writes rows of a window's table, of which a task takes about so many bytes."""
        order = (*self.spec.key, "window_start")
        marked = with_edges_apart(
            rows, self.definitions[name].window, self.spec.engine, self.spec.timezone
        )
        return self._stage(name, marked, ("date",), order, task_bytes)

    def stage_quarantine(
        self,
        rows: DataFrame | None,
        *,
        known: DataFrame | None = None,
        kept: DataFrame | None = None,
    ) -> StagedFiles:
        """Writes the normalised rows that have a reason; None: there are none.

        Args:
            rows: normalised.
            known: rows of the quarantine that are not to be added again.
            kept: rows of the quarantine to be written beside them.
        """
        empty = self.reader.unusable([]).limit(0) if rows is None else rows
        found = quarantine_rows(empty).withColumn("run_id", F.lit(self.id))
        if known is not None:
            again = known.select(*(F.col(each).alias(f"_known_{each}") for each in _PLACE))
            same = [F.col(each).eqNullSafe(F.col(f"_known_{each}")) for each in _PLACE]
            found = found.join(again, reduce(and_, same), "left_anti")
        if kept is not None:
            found = found.unionByName(kept)
        return self._stage(QUARANTINE, found, (), ("source",))

    def _stage(
        self,
        name: str,
        frame: DataFrame,
        partition_by: tuple[str, ...],
        sort_by: tuple[str, ...],
        task_bytes: int | None = None,
    ) -> StagedFiles:
        staged = self.store.stage(
            name,
            frame,
            run_id=self.id,
            partition_by=partition_by,
            sort_by=sort_by,
            task_bytes=task_bytes,
        )
        self.stack.callback(self._discard, staged)
        return staged

    def _discard(self, staged: StagedFiles) -> None:
        if not self.evident:
            self.store.discard(staged)

    def audit(self, counted: Counted, windows: Mapping[str, Rows]) -> tuple[Outcome, ...]:
        """Checks what is about to be published.

        Raises:
            ChecksFailed: it is not as it has to be, and is kept as evidence.
        """
        self.progress("checking what was written")
        gate = Gate(self.spec, self.store, self.id)
        try:
            outcomes = gate.audit(counted, windows, anyway=self.anyway is not None)
        except ChecksFailed:
            self.evident = True
            raise
        if any(each.stops for each in outcomes):
            self.facts = {**self.facts, "published_anyway": self.anyway}
        return outcomes

    def over(self, dates: Dates, horizon: int | None) -> tuple[dt.date, ...]:
        """Those of the dates that are over: before that of the horizon (µs)."""
        last = dt.date.max if horizon is None else date_of(horizon, self.spec.timezone)
        return tuple(day for day in dates.days() if day < last)

    def changed(self, staged: StagedFiles, replaced: Sequence[str] | None) -> int | None:
        """How many changes the files make, as `backfill changes` tells them.

        Args:
            staged: of a window's table.
            replaced: the files that they take the place of; None: all.

        Returns:
            None where what was published has another key or kind of window.
        """
        state = self.states[staged.name]
        if state.version is None:
            return staged.rows
        old = self.store.read(self.spark, staged.name, version=state.version, files=replaced)
        new = self.store.read_staged(self.spark, staged)
        window = self.definitions[staged.name].window
        rules = self.spec.engine.rules_for(window)
        try:
            found = changes(old, new, key=self.spec.key, window=window, rules=rules)
        except ColumnError:
            return None
        return found.count()

    def recorded(
        self,
        state: State,
        *,
        counted: Dates = ALL,
        covered: Dates = NONE,
        horizon: int | None,
        inputs: Mapping[str, Input] | None = None,
    ) -> Callable[[dict[str, object] | None], dict[str, object]]:
        """Makes the record of a commit from the one that it stands on.

        Args:
            state: the table as the run found it.
            counted: the dates on which the run counted all inputs.
            covered: the dates that it computed.
            horizon: µs.
            inputs: what it looked at besides; None: every file of the snapshot, and no other.
        """
        own = settings(self.spec, state.name)
        snapshot, home = self.source.snapshot, self.spec.path.parent

        def record(before: dict[str, object] | None) -> dict[str, object]:
            base = Record(settings=own)
            if before is not None:
                base = self._carried(Record.from_json(before, home))
            found = None if state.record is None else state.record.horizon
            if before is not None and base.horizon not in (found, horizon):
                raise self.moved(state.name)
            after = base.with_counted(
                self.inputs if inputs is None else {**base.inputs, **inputs},
                on=ALL if before is None else counted,
                covered=covered,
                late=self.late,
                horizon=horizon,
                schema=snapshot.schema,
                version=snapshot.version,
                settings=own,
                expired=self.limit(horizon),
                zone=self.spec.timezone,
            )
            return after.json(home)

        return record

    def _carried(self, record: Record) -> Record:
        """The record, which knows files of a Delta source that were only written anew."""
        now = self.source.snapshot.version
        if now is None or record.version is None or record.inputs.keys() <= self.inputs.keys():
            return record
        found = rewrites(self.spec.source.path, record.version, now)
        return carried_over(record, found, self.inputs)

    def replaced(self, state: State) -> list[Replaced]:
        """The inputs that a table has counted and that are gone or different now."""
        return replaced(state.record, self.inputs, self.spec.timezone)

    def limit(self, horizon: int | None) -> int | None:
        """What ended before it is beyond retention, µs; None where all is kept."""
        if self.spec.retention_us is None or horizon is None:
            return None
        return horizon - self.spec.retention_us

    def past(self, events: DataFrame, windows: Mapping[str, Built], limit: int) -> Past:
        """What of the events is beyond retention.

        Args:
            events: normalised and usable.
            windows: of each table, the windows that have ended before the limit; and, of
                sessions, perhaps others.
            limit: µs.
        """
        kept = {
            name: replace(each, frame=self.kept(each.frame.where(ended(each, limit))))
            for name, each in windows.items()
        }
        found = beyond(events, kept.values(), limit)
        if self.spec.id is None:
            rows = count = found.count()
        else:
            sums = totals(self.slices(found, list(self.definitions)), self.definitions)
            rows, count = sums.rows, sums.accepted
        held = {
            name: each.frame.agg(F.sum(EVENTS)).collect()[0][0] or 0 for name, each in kept.items()
        }
        return Past(found, rows, count, held)

    def kept(self, frame: DataFrame) -> DataFrame:
        """The frame, computed once.

        Not persisted: that keeps the plan, and a run over little data spends most of its time on
        plans that hold all that went before.
        """
        return frame.localCheckpoint()

    def metadata(self, **facts: object) -> dict[str, str]:
        """What goes with a commit, for `history`."""
        known = {
            "run_id": self.id,
            "kind": self.kind,
            "user": getpass.getuser(),
            **self.facts,
            **facts,
        }
        return {name: str(value) for name, value in known.items() if value is not None}

    def known_span(self) -> tuple[int | None, int | None]:
        """Between which times the inputs' events lie, as their statistics have it; [low, high)."""
        low, high = self.reader.limits(list(self.inputs))
        return low, None if high is None else high + 1

    def widened(self, span: tuple[int, int], definitions: Iterable[Definition]) -> tuple[int, int]:
        """From the first window that overlaps the span to the end of the last one."""
        columns = []
        for definition in definitions:
            window = definition.window
            if not isinstance(window, SessionWindow):
                where = layout(window, self.spec.engine, self.spec.timezone)
                for at in (span[0], span[1] - 1):
                    instant = F.lit(at).cast("bigint")
                    columns.append(F.transform(where.windows(instant), lambda each: each[START]))
                    columns.append(F.transform(where.windows(instant), lambda each: each[END]))
        if not columns:
            return span
        row = self.spark.range(1).select(*columns).collect()[0]
        edges = [each for edges in row for each in edges or ()]
        tick = self.spec.engine.tick_us
        return min(span[0], *edges), max(span[1], *(each + tick for each in edges))

    def hull(self, first: int, last: int) -> Dates:
        """The dates from one instant (µs) to another, both inclusive."""
        low, high = (date_of(each, self.spec.timezone) for each in (first, last))
        return Dates.between(low, high + dt.timedelta(days=1))

    def nothing_usable(self) -> SourceError:
        """The source has no event."""
        path = self.spec.source.path
        counts = (
            self.reader.rows(list(self.inputs))
            .groupBy(REASON)
            .count()
            .orderBy(F.desc("count"))
            .collect()
        )
        read = sum(row["count"] for row in counts)
        if not read:
            return SourceError("is empty", field="source", value=path, way_out="Check the path")
        why = ", ".join(f"{row[REASON]}: {row['count']:,}" for row in counts)
        return SourceError(
            f"none of its {read:,} rows can be used ({why})",
            field="source",
            value=path,
            way_out="Check events.key, events.time and events.time_format in the job file",
        )

    def moved(self, name: str) -> TableError:
        """Another run has moved the horizon, and with it which windows are open."""
        return TableError(
            "another run published events that are later than all that this run knew",
            field=name,
            way_out="Nothing was published. Run again.",
        )


def total(staged: StagedFiles) -> int:
    """The windows' numbers of events, added up from files as they were written."""
    return added_up([staged.folder / each.path for each in staged.files], EVENTS)


def reasons(staged: StagedFiles) -> dict[str, int]:
    """The rows of a staged quarantine by reason, most frequent first."""
    if not staged.files:
        return {}
    table = ds.dataset(staged.folder, format="parquet").to_table(columns=["reason"])
    counts = table["reason"].value_counts()
    found = {str(each["values"]): each["counts"].as_py() for each in counts}
    return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))
