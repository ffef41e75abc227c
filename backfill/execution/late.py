"""Merges late events into what is published; merging reads no event that was counted before."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill.columns import END, EVENTS, START, TIME, column
from backfill.conservation import Totals, check_held
from backfill.execution.bot_rows import late_bots
from backfill.execution.change import Computed, ComputedWindows, TableChange
from backfill.execution.changed_windows import changed_windows, spans_of
from backfill.execution.dropped import dropped_of
from backfill.execution.late_keys import late_keys
from backfill.execution.late_rows import late_rows
from backfill.execution.merged_windows import LATE, merged
from backfill.execution.quarantine import unusable
from backfill.execution.rebuild import Rebuild, behind, rebuilt
from backfill.execution.retention import duplicates_of, lasting, past_if_any
from backfill.execution.rewrite import rewrite_files
from backfill.execution.run_result import Past
from backfill.execution.staging import Staging
from backfill.ledger.record import Record, between
from backfill.ledger.state import State
from backfill.operators.calendar import local_date
from backfill.planning.bots import People, people, without
from backfill.planning.computed import computed_extents, computed_with, hull
from backfill.planning.context import Context
from backfill.planning.judged_anew import JudgedAnew
from backfill.planning.late import judged_late
from backfill.planning.published_windows import candidates, published, with_bounds
from backfill.planning.replaced_windows import FEW, ReplacedWindows, of_keys, sent
from backfill.planning.slicing import counted_slices, slices
from backfill.planning.stages import LateInputs, MergeStage
from backfill.planning.time_spans import dates_looked_at, dates_over, starts_on, widened
from backfill.planning.whole_sessions import bots_key
from backfill.quality.events import Counted
from backfill.rows.compute import Built, Sliced
from backfill.rows.definition import Definition
from backfill.runtimes.differences import computed_once
from backfill.store import FileBitmap
from backfill.time.dates import NONE, Dates
from backfill.windows import SessionWindow, SlidingWindow, TableWindow, by_place

#: With more staged rows than this, the gate checks only those of keys that the run computed.
MANY = FEW


@dataclass(frozen=True)
class _Summary:
    """A summary of merged windows.

    Attributes:
        late: how many late events they hold.
        behind: how many may continue on dates that are not covered.
        bounds: the first start and the last end, µs; None if there are no windows.
        files: the files that hold the published windows among them.
    """

    late: int
    behind: int
    bounds: tuple[int, int] | None
    files: tuple[str, ...]


@dataclass(frozen=True)
class _Merged:
    """The result of merging late events into tables that have counted the same inputs.

    Attributes:
        horizon: the largest event time, µs.
        anew: who is a bot now; None for a job without rules for bots.
        past: what is beyond retention.
        facts: for `history`.
        counted: the events, for the gate.
    """

    tables: list[TableChange]
    horizon: int
    anew: JudgedAnew | None
    past: Past | None
    facts: Mapping[str, int]
    counted: Counted


def compute_late(context: Context, staging: Staging, stage: MergeStage) -> Computed:
    """Merges what arrived since the tables were last published.

    Args:
        context: the run's context.
        staging: where to write.
        stage: what arrived.

    Raises:
        SourceError: the source does not hold what was counted.
        ConservationError: events were lost in the computation.
    """
    merges = [_merged(context, staging, late) for late in stage.late]
    last = merges[-1] if merges else None
    tables = [change for merge in merges for change in merge.tables]
    closure = reduce(Dates.__or__, [change.closure for change in tables if change.closure], NONE)
    gone = None if last is None else last.past
    anew = merges[0].anew if len(merges) == 1 else None
    covered = context.tables[next(iter(context.spec.windows))].settled.covered
    bots = late_bots(context, anew, covered)
    quarantine = unusable(context, staging, stage.unseen, gone, closure, bots)
    read = sum(merge.facts["read"] for merge in merges) + quarantine.rows
    counted = None
    if last is not None:
        people = read - quarantine.rows + quarantine.unusable
        counted = replace(last.counted, read=people, quarantined=quarantine.unusable)
    return Computed(
        tables=tables,
        quarantine=quarantine,
        counted=counted,
        read=read,
        accepted=sum(merge.facts["accepted"] for merge in merges),
        duplicates=sum(merge.facts["duplicates"] for merge in merges),
        horizon=None if last is None else last.horizon,
    )


def _merged(context: Context, staging: Staging, late: LateInputs) -> _Merged:
    """Merges late events into tables that have counted the same."""
    states = [context.tables[name] for name in late.tables]
    record = states[0].settled
    events, read = _late_events(context, record, late.inputs)
    anew = judged_late(context, record, late.inputs)
    went = None
    if anew is not None:
        events = without(events, anew.bots(context), bots_key(context)).unionByName(anew.came)
        read = None if read is None else read - anew.late_bots + anew.ceased
        context.progress(
            f"{anew.late_bots:,} late rows are bots' events; of the events counted before, "
            f"{anew.became:,} now count as bots' and {anew.ceased:,} no longer do"
        )
        if anew.became:
            went = slices(context, anew.went, late.tables, computed_once).by_key()
            went = replace(went, frame=computed_once(went.frame))
    sliced, sums = counted_slices(context, events, late.tables)
    context.progress(f"{sums.accepted:,} late events")
    read = sums.rows if read is None else read
    latest = (record.horizon, sums.horizon, None if anew is None else anew.last)
    horizon = max(time for time in latest if time is not None)
    # Events of bots are included: they count in judging who is a bot.
    times = (sums.first, sums.horizon, *((anew.first, anew.last) if anew is not None else ()))
    known = None if went is None else _people_nearby(context, late.tables, sliced, went)
    computed = {}
    for state in states:
        of = Rebuild(context, state, late.tables, sliced, known)
        windows = _window(of, staging, sums, horizon, went)
        context.progress(f"{state.name}: {windows.rewrite.rows:,} windows changed")
        computed[state.name] = windows
    every = {name: table_windows.every for name, table_windows in computed.items()}
    gone = past_if_any(context, events, every, sums, horizon)
    facts = {
        "late": sums.accepted,
        "read": read,
        "accepted": sums.accepted - (gone.events if gone else 0),
        # Copies of each other, and of events that were counted before.
        "duplicates": duplicates_of(sums, gone) + read - sums.rows,
    }
    few = sliced if sums.accepted <= FEW and went is None else None
    tables = []
    for state in states:
        windows = computed[state.name]
        frame = context.store.read_staged(context.spark, windows.rewrite.staged)
        tables.append(
            windows.change(
                state,
                frame,
                dates=dates_over(windows.closure, horizon, context.spec.timezone),
                horizon=horizon,
                times=between(times),
                facts=facts,
                changed=windows.rewrite.rows,
                computed=_computed(context, state, windows.rewrite.staged.rows, frame, few),
            )
        )
    counted = Counted(
        sliced=sliced,
        sums=sums.also,
        events=events,
        id=context.spec.id,
        read=read,
        quarantined=0,
    )
    return _Merged(tables, horizon, anew, gone, facts, counted)


def _computed(
    context: Context, state: State, count: int, rows: DataFrame, few: Sliced | None
) -> DataFrame | None:
    """The staged rows that the gate checks, if most of them are only copied.

    Args:
        context: the run's context.
        state: the table.
        count: how many staged rows there are.
        rows: the staged rows.
        few: the run's slices, if they are few; windows of other keys are copies.

    Returns:
        None for all of them.
    """
    if few is None or count <= MANY:
        return None
    definition = context.definitions[state.name]
    few = few.of(definition)
    if not few.key.inner:
        return None
    bounded, own = with_bounds(rows, definition, few), few.frame
    if definition.blanks:
        assert few.events is not None
        own = few.events.select(*few.key.inner).distinct()
    return of_keys(bounded, F.broadcast(own), few.key.inner, "left_semi")


def _late_events(
    context: Context, record: Record, late: Mapping[str, Dates]
) -> tuple[DataFrame, int | None]:
    """The late events without those that were counted before, and how many there are with them.

    Without an id none can be recognized: all are returned, and are not counted here.
    """
    events = context.reader.events(late)
    return (events, None) if context.spec.id is None else _not_counted(context, events, record)


def _not_counted(context: Context, events: DataFrame, record: Record) -> tuple[DataFrame, int]:
    """The events without redeliveries of those in the windows already, and how many with them.

    Only key, time and id are looked up, on the dates that late events fall in.
    """
    spec = context.spec
    assert spec.id is not None
    dates, rows = _dates(events, spec.timezone)
    counted = {path: file.counted & dates for path, file in record.inputs.items()}
    before = context.reader.events({path: days for path, days in counted.items() if days})
    names = [*spec.key, spec.id]
    known = before.select(
        *(column(name).alias(f"_known{i}") for i, name in enumerate(names)),
        F.col(TIME).alias("_known_time"),
    )
    same = [column(name).eqNullSafe(F.col(f"_known{i}")) for i, name in enumerate(names[:-1])]
    same += [column(spec.id) == F.col(f"_known{len(names) - 1}")]
    same += [F.col(TIME) == F.col("_known_time")]
    return events.join(known, reduce(and_, same), "left_anti"), rows


def _dates(events: DataFrame, zone: str) -> tuple[Dates, int]:
    """The dates that events fall in, and how many events there are."""
    date = local_date(F.col(TIME), zone)
    rows = events.groupBy(date).agg(F.count(F.lit(1))).collect()
    dates = Dates.of((row[0], row[0] + dt.timedelta(days=1)) for row in rows)
    return dates, sum(row[1] for row in rows)


def _people_nearby(
    context: Context, names: Sequence[str], late: Sliced, went: Sliced
) -> People | None:
    """The people around events that came and went, found once for several tables."""
    definitions = [context.definitions[name] for name in names]
    built = [definition for definition in definitions if not definition.of_events]
    if len(built) < 2:
        return None
    extents, bounds = computed_extents(spans_of(late).unionByName(spans_of(went)))
    if bounds is None:
        return None
    reached = [_reached(context, definition, *bounds) for definition in built]
    # Sessions are looked for a little further than their gap.
    span = min(low for low, _ in reached) - 1, max(high for _, high in reached) + 2
    return people(context, context.all_dates, span, (late.key, extents.select(*late.key.inner)))


def _window(
    of: Rebuild, staging: Staging, sums: Totals, horizon: int, went: Sliced | None
) -> ComputedWindows:
    """The windows that the late events change, written with the other windows of their files."""
    context, state, sliced = of.context, of.state, of.sliced
    definition, record = of.definition, state.settled
    if by_place(definition.window):
        return late_keys(context, staging, state, sliced, sums, horizon, went)
    if isinstance(definition.window, SlidingWindow | TableWindow):
        return late_rows(context, staging, state, sliced, sums, horizon, went)
    if went is not None:
        return changed_windows(of, staging, sums, horizon, went)
    built = Built(sliced.frame, definition, sliced)
    bitmap, rows = _near(context, state, built, sums)
    # If states can't be merged, merging still finds the windows to be built from events.
    known = definition if definition.mergeable else replace(definition, aggregates={})
    reaching = behind(context, record, definition)
    kept = lasting(context, built, horizon)
    on_covered = starts_on(record.covered, context.spec.timezone)
    starts = on_covered & kept
    wanted = (on_covered | bitmap.any()) & (kept | reaching)
    if definition.ruled:
        # Windows that are in no table can lie before one that starts on a covered date.
        wanted = F.lit(True)
    whole, facts = computed_with(
        merged(sliced, known, rows, bitmap), *_facts(wanted, bitmap, reaching)
    )
    summary = _summary(facts, bitmap)
    assigned = sums.assigned[state.name]
    check_held(state.name, summary.late, assigned)
    final = whole.where(wanted)
    # Each holds a late event.
    extents = sent(final, summary.late)
    bounds = summary.bounds
    files: tuple[str, ...] | None = summary.files
    if summary.behind or not definition.mergeable:
        final, extents = rebuilt(of, extents)
        bounds, files = hull(extents), None
    ours = replace(built, frame=final.where(starts))
    old_windows = ReplacedWindows(None, extents.where(kept))
    rewrite = rewrite_files(context, staging, state, ours, old_windows, bounds, horizon, files)
    others = whole.where(~wanted).select(*sliced.key.inner, START, END, EVENTS)
    every = others.unionByName(final.select(*others.columns))
    return ComputedWindows(
        rewrite=rewrite,
        closure=dates_looked_at(bounds, definition.window, context.spec.timezone),
        every=replace(built, frame=every),
        held=summary.late,
        assigned=assigned,
        dropped=dropped_of(ours),
    )


def _near(
    context: Context, state: State, built: Built, sums: Totals
) -> tuple[FileBitmap, DataFrame | None]:
    """The published rows that the late events can touch, as far as time and key tell."""
    if sums.first is None or sums.horizon is None:
        return FileBitmap([]), None
    low, high = _reached(context, built.definition, sums.first, sums.horizon)
    files = candidates(context, state, built, low, high)
    bitmap = FileBitmap([file.path for file in files])
    if not files:
        return bitmap, None
    keys = built.sliced.key.inner
    rows = published(context, state, built, files, with_file=True)
    near = rows.where((F.col(START) <= high) & (F.col(END) >= low))
    if keys:
        near = of_keys(near, sent(built.frame, sums.accepted), keys, "left_semi")
    return bitmap, bitmap.with_bits(context.spark, near)


def _reached(context: Context, definition: Definition, first: int, last: int) -> tuple[int, int]:
    """The first and last instant of windows that the late events can touch, µs, inclusive."""
    window = definition.window
    if isinstance(window, SessionWindow):
        return first - window.gap.us, last + window.gap.us
    return widened(context, (first, last + 1), [definition])


def _facts(wanted: Column, bitmap: FileBitmap, reaching: Column) -> list[Column]:
    """The aggregates over merged windows that `_summary` reads."""
    return [
        F.sum(LATE).alias("late"),
        F.count_if(wanted & reaching).alias("behind"),
        F.min(F.when(wanted, F.col(START))).alias("low"),
        F.max(F.when(wanted, F.col(END))).alias("high"),
        *bitmap.joined(wanted),
    ]


def _summary(row: Mapping[str, Any], bitmap: FileBitmap) -> _Summary:
    """Facts about the merged windows."""
    return _Summary(
        late=row["late"] or 0,
        behind=row["behind"],
        bounds=None if row["low"] is None else (row["low"], row["high"]),
        files=tuple(bitmap.of(row)),
    )
