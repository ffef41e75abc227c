"""The end of every run: what it computed is checked, committed and recorded."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.errors import ColumnError, TableError
from backfill.execution.change import Computed, TableChange
from backfill.execution.gate import Gate
from backfill.execution.run_result import Dropped, RunResult, WindowResult
from backfill.execution.staging import Staging
from backfill.ledger.author import author
from backfill.ledger.changes import changes
from backfill.ledger.record import Input, Record, between, counted_beyond
from backfill.ledger.state import QUARANTINE, State, settings
from backfill.planning.bots import mark
from backfill.planning.context import Context
from backfill.printable import shown
from backfill.quality.checks import Outcome
from backfill.quality.errors import ChecksFailed
from backfill.store import Table
from backfill.time.dates import ALL, NONE, Dates
from backfill.windows import key_of


def publish(
    context: Context,
    staging: Staging,
    computed: Computed,
    *,
    kind: str,
    began: float,
    facts: Mapping[str, object],
    anyway: str | None,
) -> RunResult:
    """Checks what a run computed, and commits it: the windows' tables, then the quarantine.

    Args:
        context: the run's context.
        staging: what the run wrote.
        computed: what it changes.
        kind: the kind of run, for `history`.
        began: when it began, by `time.monotonic`.
        facts: for `history`, in addition to those of the changes.
        anyway: the reason to publish even if checks fail.

    Raises:
        ChecksFailed: a check failed; the staged files are kept as evidence.
        TableError: another run published meanwhile; it says which tables this one had committed.
    """
    checks: tuple[Outcome, ...] = ()
    if computed.counted is not None:
        checks = _audit(context, staging, computed, anyway)
    if any(outcome.stops for outcome in checks):
        facts = {**facts, "published_anyway": anyway}
    known = {"run_id": context.run_id, "kind": kind, "user": author(), **facts}
    # A restore takes back all of these tables or none.
    tables = [change.state.name for change in computed.tables]
    if not _quarantines_nothing(context, computed):
        tables.append(QUARANTINE)
    known["tables"] = json.dumps(tables)
    changed = _changed(context, computed.tables)
    versions: dict[str, int] = {}
    try:
        for change in computed.tables:
            name = change.state.name
            versions[name] = _publish_table(
                context, change, {**known, "changed": changed.get(name)}
            )
        # The quarantine comes last: a rerun finds what it lacks, whatever the tables have counted.
        _publish_quarantine(context, computed, known)
    except TableError as error:
        done = ", ".join(versions) or "nothing"
        raise error.after(f"Published so far: {done}") from error
    by_name = {change.state.name: change for change in computed.tables}
    return RunResult(
        run_id=context.run_id,
        read=computed.read,
        accepted=computed.accepted,
        duplicates=computed.duplicates,
        quarantined=computed.quarantine.reasons,
        windows={
            name: WindowResult(
                by_name[name].rows, by_name[name].events, versions[name], by_name[name].dropped
            )
            for name in context.spec.windows
            if name in by_name
        },
        horizon_us=computed.horizon,
        seconds=time.monotonic() - began,
        checks=checks,
    )


def _audit(
    context: Context, staging: Staging, computed: Computed, anyway: str | None
) -> tuple[Outcome, ...]:
    context.progress("checking what was written")
    gate = Gate(context.spec, context.run_id)
    windows = {change.state.name: change.checked for change in computed.tables}
    try:
        return gate.audit(computed.counted, windows, anyway=anyway is not None)
    except ChecksFailed:
        staging.keep()
        raise


def _publish_table(context: Context, change: TableChange, known: Mapping[str, object]) -> int:
    return context.store.publish(
        change.state.name,
        change.staged,
        replace=change.replaces,
        base=change.state.version,
        dates=_ranges(change.closure),
        metadata=_texts({**known, "rows": change.rows, **change.facts, **_dropped(change.dropped)}),
        record=_recorded(
            context,
            change.state,
            counted=change.counted,
            covered=change.covered,
            horizon=change.horizon,
            times=change.times,
            anew=change.closure is None,
        ),
    )


def _publish_quarantine(context: Context, computed: Computed, known: Mapping[str, object]) -> None:
    state, change = context.tables[QUARANTINE], computed.quarantine
    tables = (context.store.open(name) for name in context.spec.windows)
    bots = mark(context.spec, (None if table is None else table.record for table in tables))
    before = None if state.record is None else state.record.bots
    if _quarantines_nothing(context, computed) and bots == before:
        return
    context.store.publish(
        QUARANTINE,
        change.staged,
        replace=change.replaces,
        base=state.version,
        dates=_ranges(change.closure),
        metadata=_texts({**known, "read": computed.read, **change.facts}),
        record=_recorded(
            context,
            state,
            covered=change.covered,
            horizon=computed.horizon,
            inputs=change.inputs,
            absent=change.absent,
            bots=bots,
        ),
    )


def _quarantines_nothing(context: Context, computed: Computed) -> bool:
    """Whether the quarantine stays as it is."""
    change = computed.quarantine
    nothing = change.inputs is not None and not (
        change.inputs or change.absent or change.staged.rows or change.replaces
    )
    return nothing and context.tables[QUARANTINE].version is not None


def _changed(context: Context, tables: Sequence[TableChange]) -> dict[str, int]:
    """How many changes a run makes to each table, as `backfill changes` counts them.

    A table whose key or kind of window has changed is left out.
    """
    totals, looked_up = {}, []
    for change in tables:
        name = change.state.name
        if change.changed is not None:
            totals[name] = change.changed
        elif change.state.table is None or change.replaces == ():
            totals[name] = change.staged.rows
        else:
            try:
                made = _changes(context, change, change.state.table)
            except ColumnError:
                continue
            totals[name] = 0
            looked_up.append(made.select(F.lit(name).alias("table")))
    if looked_up:
        counts = reduce(DataFrame.unionByName, looked_up).groupBy("table").count().collect()
        totals |= {row["table"]: row["count"] for row in counts}
    return totals


def _changes(context: Context, change: TableChange, table: Table) -> DataFrame:
    """The changes that a run makes to what is published of a table.

    Raises:
        ColumnError: what is published has another key or kind of window.
    """
    state = change.state
    files = None if change.replaces == "all" else change.replaces
    old = table.read(context.spark, files)
    new = context.store.read_staged(context.spark, change.staged)
    window = context.definitions[state.name].window
    return changes(
        old,
        new,
        key=key_of(window, context.spec.key),
        window=window,
        rules=context.spec.engine.rules_for(window),
        id=context.spec.id,
    )


def _recorded(
    context: Context,
    state: State,
    *,
    counted: Dates = ALL,
    covered: Dates = NONE,
    horizon: int | None,
    times: tuple[int, int] | None = None,
    anew: bool = False,
    inputs: Mapping[str, Input] | None = None,
    absent: Sequence[str] = (),
    bots: str | None = None,
) -> Callable[[dict[str, Any] | None], dict[str, Any]]:
    """Builds the record of a commit from the record of the version below it.

    Args:
        context: the run's context.
        state: the table as the run found it.
        counted: the dates on which the run counted all inputs.
        covered: the dates that it computed.
        horizon: the largest event time, µs.
        times: the least and the largest event time that it counted, µs.
        anew: whether it counted everything again.
        inputs: what it looked at, besides what is recorded; None: every input of the snapshot, and
            no other.
        absent: inputs that do not exist now, and are recorded no more.
        bots: for the quarantine, a mark of the counted events that its bots are from.
    """
    own = settings(context.spec, state.name)
    snapshot, home = context.source.snapshot, context.spec.path.parent

    def record(before: dict[str, Any] | None) -> dict[str, Any]:
        base = Record(settings=own)
        if before is not None:
            base = context.carried(Record.from_json(before, home))
        old_horizon = None if state.record is None else state.record.horizon
        if before is not None and base.horizon not in (old_horizon, horizon):
            raise _moved(state.name)
        seen = context.inputs
        if inputs is not None:
            left = {} if state.record is None else {p: state.record.inputs[p] for p in absent}
            # Unless another run has found one of them again meanwhile.
            known = {
                path: file
                for path, file in base.inputs.items()
                if path not in left or not left[path].same_content(file)
            }
            seen = {**known, **inputs}
        after = base.with_counted(
            seen,
            on=ALL if before is None else counted,
            covered=covered,
            late=context.late,
            horizon=horizon,
            bounds=_wider(None if before is None or anew else base, times),
            schema=snapshot.schema,
            version=snapshot.version,
            settings=own,
            expired=context.limit(horizon),
            bots=bots,
            zone=context.spec.timezone,
            known=state.record,
        )
        if before is not None and inputs is None:
            _check_further(state, base, after, context.spec.timezone)
        return after.json(home)

    return record


def _wider(before: Record | None, times: tuple[int, int] | None) -> tuple[int, int] | None:
    """The bounds of what was ever counted, after a run.

    Args:
        before: what was counted before; None: nothing, or all of it has been counted again.
        times: the least and the largest event time that the run has counted, µs.
    """
    if before is None:
        return times
    # What is unknown stays unknown until a full run.
    known = before.bounds
    return known if known is None or times is None else between([*known, *times])


def _check_further(state: State, newest: Record, after: Record, zone: str) -> None:
    """Refuses two concurrent runs if one covers further dates and the other counts beyond its own.

    Events that the other counted on dates that were not covered are in windows that reach there
    from covered dates. They are missing from windows of the further dates, and from windows that
    reach there from these.
    """
    before = Record(settings={}) if state.record is None else state.record
    paths: list[str] = []
    if after.covered - newest.covered:
        paths += counted_beyond(newest, before, newest.covered, zone)
    if newest.covered - before.covered:
        paths += counted_beyond(after, newest, before.covered, zone)
    if paths:
        raise TableError(
            "another run has published meanwhile, and one of the two covers further dates, for "
            f"which the other has counted late events of {shown(paths[0])}",
            field=state.name,
            way_out="Run again.",
        )


def _moved(name: str) -> TableError:
    """Another run has moved the horizon, and with it which windows are open."""
    return TableError(
        "another run has published events later than any that this run read",
        field=name,
        way_out="Run again.",
    )


def _dropped(dropped: Dropped | None) -> Mapping[str, int]:
    if dropped is None:
        return {}
    return {"dropped_sessions": dropped.sessions, "dropped_events": dropped.events}


def _ranges(dates: Dates | None) -> list[Any] | None:
    return None if dates is None else list(dates.ranges)


def _texts(facts: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in facts.items() if value is not None}
