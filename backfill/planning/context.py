"""The basis of a run: one snapshot of the source, one version of each table, one reference time.

A context is opened once for all that is planned, explained or executed; it never changes.
"""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pyspark.sql import SparkSession

from backfill.errors import TableError
from backfill.events import EventRules, Source, check_parts, open_source
from backfill.ledger.changed_inputs import Replaced, replaced
from backfill.ledger.compacted_source import carried_over
from backfill.ledger.inputs import check_types, inputs_of
from backfill.ledger.reader import Reader
from backfill.ledger.record import Input, Record, unlike
from backfill.ledger.state import QUARANTINE, State, states
from backfill.planning.combining import COMBINED, Combining
from backfill.printable import shown
from backfill.rows.definition import Definition
from backfill.spec import JobSpec
from backfill.store import Store
from backfill.time.dates import ALL, Dates
from backfill.time.spans import Span

#: Is called with a line of text for each thing that is done.
Progress = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Context:
    """One job, source and set of tables, as they were at one time.

    Attributes:
        spec: the job.
        store: its tables.
        spark: the session.
        progress: called with one line of text per step.
        run_id: the run id of what is committed.
        now_us: the reference time, µs.
        late: the paths of late events that are inputs of the job.
        source: the opened source; its snapshot is listed once.
        inputs: the inputs, by path.
        reader: the reader of their events.
        tables: the windows' tables and the quarantine.
        combining: how events become slices.
    """

    spec: JobSpec
    store: Store
    spark: SparkSession
    progress: Progress
    run_id: str
    now_us: int
    late: tuple[str, ...]
    source: Source
    inputs: Mapping[str, Input]
    reader: Reader
    tables: Mapping[str, State]
    combining: Combining = COMBINED

    @property
    def definitions(self) -> dict[str, Definition]:
        """The windows, by name."""
        return {
            name: Definition(entry.window, entry.aggregates)
            for name, entry in self.spec.windows.items()
        }

    @property
    def rules(self) -> EventRules:
        """What is an event."""
        return self.reader.rules

    @property
    def all_dates(self) -> dict[str, Dates]:
        """Every input on every date: what a recompute counts."""
        return dict.fromkeys(self.inputs, ALL)

    @property
    def known_span(self) -> Span:
        """The span of the inputs' events, according to their statistics; [low, high)."""
        low, high = self.reader.limits(list(self.inputs))
        return low, None if high is None else high + 1

    def limit(self, horizon: int | None) -> int | None:
        """The time (µs) before which what ended is beyond retention; None if all is kept."""
        if self.spec.retention_us is None or horizon is None:
            return None
        return horizon - self.spec.retention_us

    @cached_property
    def latest_event(self) -> int | None:
        """The largest event time in the snapshot, µs; reads only new inputs if that is enough."""
        known, seen = None, set()
        for name in self.definitions:
            record = self.tables[name].record
            if record is None or any(
                path not in self.inputs or replace(self.inputs[path], counted=file.counted) != file
                for path, file in record.inputs.items()
            ):
                return self.reader.horizon(list(self.inputs), None)
            known, seen = record.horizon, set(record.inputs)
        return self.reader.horizon(
            [
                path
                for path, file in self.inputs.items()
                if path not in seen or self._was_future(file, known)
            ],
            known,
        )

    def _was_future(self, input: Input, horizon: int | None) -> bool:
        """Whether a known input can have events that were too far in the future before."""
        if self.spec.max_future_us is None or horizon is None:
            return False
        return input.bounds is None or input.bounds[1] > horizon

    def replaced(self, state: State) -> list[Replaced]:
        """The inputs that a table has counted and that are gone or different now."""
        return replaced(state.record, self.inputs, self.spec.timezone)

    def carried(self, record: Record) -> Record:
        """The record, with files of a source's table that were only rewritten counted as known."""
        return _carried(record, self.source, self.inputs)

    def after_commits(self) -> Context:
        """The same source and time, for a further run, with the tables as they are now.

        Raises:
            TableError: another run has counted inputs meanwhile that this one has not seen.
        """
        opened = states(self.spec, self.store, list(self.tables))
        tables = _known(opened, self.source, self.inputs)
        for name, state in tables.items():
            before, now = (
                {} if version.record is None else version.record.inputs
                for version in (self.tables[name], state)
            )
            theirs = set(unlike(now, before))
            unseen = [path for path in unlike(now, self.inputs) if path in theirs]
            if unseen:
                raise TableError(
                    "another run has counted an input that this one has not seen: "
                    + shown(unseen[0]),
                    field=name,
                    way_out="Run again.",
                )
        return replace(self, run_id=new_run_id(), tables=tables, combining=COMBINED)


def new_run_id() -> str:
    """A run id: the time when the run started, and a random part."""
    return f"{dt.datetime.now(dt.timezone.utc):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"


def open_context(
    spec: JobSpec,
    store: Store,
    spark: SparkSession,
    progress: Progress,
    *,
    late: Sequence[str] = (),
) -> Context:
    """Opens the tables and the source as they are now.

    Args:
        spec: the job.
        store: its tables.
        spark: the session.
        progress: called with one line of text per step.
        late: paths of late events; they are inputs from now on.

    Raises:
        SourceError: the source can't be read, or its columns have other types than before.
        TableError: a table can't be read.
    """
    now = dt.datetime.now(dt.timezone.utc)
    now_us = int(now.timestamp()) * 1_000_000 + now.microsecond
    opened = states(spec, store, [*spec.windows, QUARANTINE])
    records = [state.record for state in opened if state.record is not None]
    before = [path for record in records for path in record.late]
    if spec.source.parts:
        # They are from a time when the job had one source: inputs that are gone now.
        before = []
    paths = tuple(dict.fromkeys([*before, *late]))
    progress(f"opening {shown(spec.source.path)}")
    source = open_source(spark, spec.source, late=paths)
    check_parts(source, [*spec.key, spec.time, *([spec.id] if spec.id else []), *spec.arrival])
    check_types(source, spec, records)
    rules = spec.event_rules(spec.engine, source.arrival, now_us)
    inputs = inputs_of(source, spec, rules, records)
    return Context(
        spec=spec,
        store=store,
        spark=spark,
        progress=progress,
        run_id=new_run_id(),
        now_us=now_us,
        late=paths,
        source=source,
        inputs=inputs,
        reader=Reader(
            source,
            rules,
            spec.timezone,
            {path: file.bounds for path, file in inputs.items()},
            {path: file.arrived for path, file in inputs.items() if file.arrived is not None},
            spec.arrival,
        ),
        tables=_known(opened, source, inputs),
    )


def _known(
    tables: Iterable[State], source: Source, inputs: Mapping[str, Input]
) -> dict[str, State]:
    return {
        state.name: state
        if state.record is None
        else replace(state, record=_carried(state.record, source, inputs))
        for state in tables
    }


def _carried(record: Record, source: Source, inputs: Mapping[str, Input]) -> Record:
    if record.version is None or record.inputs.keys() <= inputs.keys():
        return record
    return carried_over(record, source.rewrites(record.version), inputs)
