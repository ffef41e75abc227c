"""From a selection of dates to the stages that compute them."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace

from pyspark.sql import functions as F

from backfill.columns import TIME
from backfill.errors import TableError
from backfill.events import spark_errors
from backfill.ledger.changed_inputs import dates_of, uncounted
from backfill.ledger.state import State, settings
from backfill.operators.calendar import local_date
from backfill.planning.context import Context
from backfill.planning.date_states import date_states
from backfill.planning.preview import first_reaching, previewed
from backfill.planning.selection import Selection
from backfill.planning.slicing import with_combining
from backfill.planning.stages import FullStage, Plan, RangeStage
from backfill.planning.time_spans import first_start, last_date, metrics_reach
from backfill.store import Commit
from backfill.time.dates import ALL, DAY, NONE, Dates, Range, date_of
from backfill.time.spans import EVERYTHING, Span
from backfill.windows import SessionWindow, by_place

_Counts = dict[dt.date, int]


def plan_everything(selection: Selection) -> Plan:
    """The plan of a full run, for which nothing needs to be looked up."""
    return Plan(selection, (FullStage(),))


def plan_selection(
    context: Context, selection: Selection, *, explain: bool, shown: bool = True
) -> Plan:
    """The plan for a selection.

    Args:
        context: the job's context.
        selection: what was asked for.
        explain: also find out how events become slices and what is read beyond the ranges; and
            plan even for a stale table.
        shown: also find out the states of dates, which execution does not need.

    Raises:
        TableError: a part of a stale table is asked for, and not just explained.
        SourceError: an input can't be read.
    """
    with spark_errors(context.source.snapshot):
        return _plan(context, selection, explain=explain, shown=shown)


def _plan(context: Context, selection: Selection, *, explain: bool, shown: bool) -> Plan:
    states = [context.tables[name] for name in context.definitions]
    covered = _common(states)
    # Covered dates are not missing, whatever events they have: so a year of them is not counted.
    known = covered if selection.missing else NONE
    span: Span = EVERYTHING
    if selection.dates is not None:
        (span,) = Dates.between(*selection.dates).spans(context.spec.timezone)
    counts = _by_date(context, dict.fromkeys(context.inputs, known.rest()), span)
    with_events = _alike(counts)
    with_rows = _with_rows(context, with_events, covered)
    wanted = ALL if selection.dates is None else Dates.between(*selection.dates)
    further = metrics_reach(context)
    if selection.dates is not None and further is not None and wanted - (with_rows | covered):
        # Events before the range can have rows on dates in it.
        start = selection.dates[0]
        before = last_date(context, start, start, further=further)
        with_rows = _with_rows(context, with_events | before, covered)
    # A run of given dates does not need to know which others are within retention.
    followed = selection.missing or shown
    kept = _kept(context, with_events, covered, followed=followed)
    if selection.missing:
        wanted = (wanted & with_rows & kept) - covered
    changed = NONE
    if selection.dates is not None:
        # What a replaced input held there may be nowhere now, but is still in windows.
        changed = dates_of(
            replacement for state in states for replacement in context.replaced(state)
        )
    todo = wanted if selection.everything else wanted & (with_rows | covered | changed)
    refusal = None if selection.everything else _refusal(states)
    if refusal is not None and not explain:
        raise refusal
    plan = Plan(selection)
    if refusal is None and selection.everything:
        plan = replace(plan, stages=(FullStage(events=sum(counts.values())),))
    elif refusal is None:
        stages = tuple(_ranges(context, selection, todo, counts, states))
        plan = replace(plan, stages=stages)
    if explain:
        plan = replace(plan, stages=tuple(_explained(context, stage) for stage in plan.stages))
    holes = _hull(with_events | known) if selection.dates is None else wanted
    # A covered date is computed even if it has only rows of windows, without events.
    computed = NONE if selection.everything else todo
    plan = replace(plan, without_input=(holes & kept) - with_rows - known - changed - computed)
    if not shown:
        return plan
    late = _late(context, span)
    looked_at = with_rows | covered if selection.dates is None else wanted
    if selection.missing:
        looked_at = wanted
    spans = [
        *todo.spans(context.spec.timezone),
        *((beyond.low, beyond.high) for beyond in plan.reads),
    ]
    read = [
        file
        for file in context.source.snapshot.inputs
        if selection.everything or any(context.reader.may_hold(file.path, span) for span in spans)
    ]
    return replace(
        plan,
        windows={
            state.name: tuple(
                date_states(
                    state,
                    looked_at,
                    with_rows,
                    kept,
                    counts,
                    late[state.name],
                    context.replaced(state),
                )
            )
            for state in states
        },
        waiting=max((_waiting(state, late[state.name]) for state in states), default=0),
        files=len(read),
        size=sum(file.size for file in read),
        refused=None if refusal is None else str(refusal),
    )


def _explained(context: Context, stage: object) -> FullStage | RangeStage:
    """The stage, with how its events become slices and what it reads beyond its range."""
    if isinstance(stage, FullStage):
        chosen = with_combining(context, context.inputs, list(context.definitions))
        return replace(stage, combining=chosen.combining)
    assert isinstance(stage, RangeStage)
    return stage if stage.done is not None else previewed(context, stage)


def _with_rows(context: Context, with_events: Dates, covered: Dates) -> Dates:
    """The dates on which rows can stand: a metric's values change on dates without events, too.

    So a date without events is computed if events before it, of now or of earlier, reach it; but
    not beyond the last event, as in a run over everything.
    """
    further = metrics_reach(context)
    known = with_events | covered
    if further is None or not known:
        return with_events
    horizon = context.latest_event
    if horizon is None:
        return with_events
    end = date_of(horizon, context.spec.timezone) + DAY
    reached = Dates.of(
        (low, high + further if further < end - high else end) for low, high in known.ranges
    )
    return with_events | reached


def _kept(context: Context, with_events: Dates, covered: Dates, *, followed: bool) -> Dates:
    """The dates on which windows can start that end late enough to be within retention.

    `followed`: include those of sessions, which are followed back from the limit.
    """
    if context.spec.retention_us is None or not with_events:
        return ALL
    limit = context.limit(context.reader.horizon(list(context.inputs), None))
    assert limit is not None
    zone, tick = context.spec.timezone, context.spec.engine.tick_us
    definitions = list(context.definitions.values())
    sessions = [
        definition.window
        for definition in definitions
        if isinstance(definition.window, SessionWindow)
    ]
    if any(by_place(window) for window in sessions):
        # How far apart messages are in time is unknown.
        return ALL
    aligned = first_start(context, (limit - tick, limit + 1), definitions)
    first = date_of(min([aligned, *(limit - tick - window.gap.us for window in sessions)]), zone)
    near = Dates.between(first, date_of(limit, zone) + DAY) & with_events
    before = with_events - Dates.between(first, dt.date.max)
    # If the last date before is covered, an earlier run has found where sessions start.
    uncovered = bool(before) and before.ranges[-1][1] - DAY not in covered
    if followed and sessions and near and uncovered:
        began = first_reaching(context, _hull(near))
        first = first if began is None else min(first, date_of(began, zone))
    return Dates.between(first, dt.date.max)


def _late(context: Context, span: Span) -> dict[str, _Counts]:
    """For each window, the number of events of a span that are not in it yet, by date."""
    late: dict[str, _Counts] = {}
    known: dict[str, _Counts] = {}
    for name in context.definitions:
        state = context.tables[name]
        if state.record is None:
            late[name] = {}
            continue
        # On dates of replaced inputs it is unknown which events are not counted yet.
        known_before = dates_of(context.replaced(state)).rest()
        open_ = {
            path: dates & known_before
            for path, dates in uncounted(state.record, context.inputs).items()
        }
        key = repr(sorted((path, dates.json()) for path, dates in open_.items()))
        if key not in known:
            known[key] = _by_date(context, open_, span) if open_ else {}
        late[name] = known[key]
    return late


def _by_date(context: Context, counted: Mapping[str, Dates], span: Span) -> _Counts:
    date = local_date(F.col(TIME), context.spec.timezone).alias("date")
    rows = context.reader.events(counted, span).groupBy(date).count().collect()
    return {row["date"]: row["count"] for row in rows}


def _ranges(
    context: Context,
    selection: Selection,
    todo: Dates,
    counts: Mapping[dt.date, int],
    states: Iterable[State],
) -> Iterable[RangeStage]:
    parts = [part for dates in todo.ranges for part in _chunks(dates, selection.chunk)]
    for number, part in enumerate(parts, 1):
        # Dates without events get no stage; the end that was asked for is that of the last stage.
        asked = selection.dates if number == len(parts) else None
        key = _key(context, part)
        yield RangeStage(
            dates=part,
            until=(asked or part)[1],
            events=sum(counts.get(day, 0) for day in Dates.between(*part).days()),
            key=key,
            done=_done(part, key, states) if selection.chunk is not None else None,
        )


def _chunks(dates: Range, days: int | None) -> Iterable[Range]:
    low, high = dates
    step = high - low if days is None else min(days, (high - low).days) * DAY
    while low < high:
        yield low, min(high, low + step)
        low += step


def _key(context: Context, part: Range) -> str:
    """The dates, and a part that is the same for the same job file and snapshot."""
    inputs = context.source.snapshot.inputs
    files = [[file.path, file.size, file.modified_ms, file.deletions] for file in inputs]
    own = {name: settings(context.spec, name) for name in context.definitions}
    text = json.dumps([own, files], sort_keys=True)
    return f"{part[0]}/{part[1]} {hashlib.sha256(text.encode()).hexdigest()[:32]}"


def _done(part: Range, key: str, states: Iterable[State]) -> str | None:
    """The run that committed the same stage in every table, if no date of it has changed since.

    Stages of the same snapshot change nothing there, though their sessions can reach these dates.
    """
    of_snapshot, dates = key.partition(" ")[2], Dates.between(*part)
    runs: set[str] = set()
    for state in states:
        run: str | None = None
        for commit in () if state.table is None else state.table.commits:
            stage = commit.metadata.get("stage", "")
            if stage == key:
                run = commit.metadata["run_id"]
                break
            if not stage.endswith(f" {of_snapshot}") and _replaced(commit) & dates:
                break
        if run is None:
            return None
        runs.add(run)
    return max(runs)


def _replaced(commit: Commit) -> Dates:
    """The dates that a commit may have changed; all dates for a commit of another writer."""
    ranges = json.loads(commit.metadata.get("closure", "null"))
    return ALL if ranges is None else Dates.from_json(ranges)


def _refusal(states: Iterable[State]) -> TableError | None:
    """Why no part of the tables can be computed."""
    try:
        for state in states:
            if state.record is not None:
                _ = state.settled
    except TableError as error:
        return error
    return None


def _alike(counts: Mapping[dt.date, int]) -> Dates:
    return Dates.of((date, date + DAY) for date in counts)


def _common(states: Iterable[State]) -> Dates:
    """The dates that every table covers."""
    covered = ALL
    for state in states:
        covered &= NONE if state.record is None else state.record.covered
    return covered


def _hull(dates: Dates) -> Dates:
    return Dates.between(dates.ranges[0][0], dates.ranges[-1][1]) if dates else NONE


def _waiting(state: State, late: Mapping[dt.date, int]) -> int:
    covered = NONE if state.record is None else state.record.covered
    return sum(count for date, count in late.items() if date not in covered)
