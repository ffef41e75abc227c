"""Merges late events into what is published; merging reads no event that was counted before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill.columns import END, EVENTS, START
from backfill.conservation import Totals, check_held
from backfill.execution.bot_rows import late_bots
from backfill.execution.change import Computed, ComputedWindows, TableChange
from backfill.execution.changed_windows import changed_windows, spans_of
from backfill.execution.dropped import dropped_of
from backfill.execution.late_events import LateEvents, read_late, seen_again
from backfill.execution.late_keys import late_keys
from backfill.execution.late_rows import late_rows
from backfill.execution.merged_windows import LATE, merged
from backfill.execution.quarantine import unusable
from backfill.execution.rebuild import Rebuild, behind, rebuilt
from backfill.execution.retention import counts_of, lasting, past_if_any
from backfill.execution.rewrite import rewrite_files
from backfill.execution.run_result import Past
from backfill.execution.staging import Staging
from backfill.ledger.record import between
from backfill.ledger.state import State
from backfill.planning.bots import People, people
from backfill.planning.computed import computed_extents, computed_with, hull
from backfill.planning.context import Context
from backfill.planning.published_windows import candidates, published, with_bounds
from backfill.planning.replaced_windows import FEW, ReplacedWindows, of_keys, sent
from backfill.planning.slicing import slices
from backfill.planning.stages import LateInputs, MergeStage
from backfill.planning.time_spans import dates_looked_at, dates_over, starts_on, widened
from backfill.quality.events import Counted
from backfill.rows.compute import Built, Sliced
from backfill.rows.definition import Definition
from backfill.runtimes.differences import computed_once
from backfill.store import FileBitmap
from backfill.time.dates import Dates
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
        late: the late events.
        past: what is beyond retention.
    """

    tables: list[TableChange]
    late: LateEvents
    past: Past | None


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
    tables = [change for merge in merges for change in merge.tables]
    closure = Dates.union(change.closure for change in tables if change.closure)
    late, gone, leaving = None, None, None
    if stage.again:
        late, gone, leaving = seen_again(context, stage.again)
    elif merges:
        # There is only one, or some tables would lack what others have counted.
        late, gone = merges[0].late, merges[0].past
    bots = late_bots(context, None if late is None else late.anew, every=bool(stage.again))
    quarantine = unusable(context, staging, stage.unseen, gone, closure, bots, leaving)
    counts, counted = {"read": 0, "accepted": 0, "duplicates": 0}, None
    if late is not None:
        counts = counts_of(late.read, late.sums, gone)
        counted = Counted(
            sliced=late.sliced,
            sums=late.sums.also,
            events=late.events,
            id=context.spec.id,
            read=late.read + quarantine.unusable,
            quarantined=quarantine.unusable,
        )
    return Computed(
        tables=tables,
        quarantine=quarantine,
        counted=counted,
        read=counts["read"] + quarantine.rows,
        accepted=counts["accepted"],
        duplicates=counts["duplicates"],
        horizon=None if late is None else late.horizon(context, list(context.spec.windows)),
    )


def _merged(context: Context, staging: Staging, inputs: LateInputs) -> _Merged:
    """Merges late events into tables that have counted the same."""
    states = [context.tables[name] for name in inputs.tables]
    late = read_late(context, inputs.inputs, inputs.tables)
    anew, sliced, sums = late.anew, late.sliced, late.sums
    went = None
    if anew is not None:
        context.progress(
            f"{anew.late_bots:,} late rows are bots' events; of the events counted before, "
            f"{anew.became:,} now count as bots' and {anew.ceased:,} no longer do"
        )
        if anew.became:
            went = slices(context, anew.went, inputs.tables, computed_once).by_key()
            went = replace(went, frame=computed_once(went.frame))
    context.progress(f"{sums.accepted:,} late events")
    horizon = late.horizon(context, inputs.tables)
    # Events of bots are included: they count in judging who is a bot.
    times = (sums.first, sums.horizon, *((anew.first, anew.last) if anew is not None else ()))
    known = None if went is None else _people_nearby(context, inputs.tables, sliced, went)
    computed = {}
    for state in states:
        of = Rebuild(context, state, inputs.tables, sliced, known)
        windows = _window(of, staging, sums, horizon, went)
        context.progress(f"{state.name}: {windows.rewrite.rows:,} windows changed")
        computed[state.name] = windows
    every = {name: table_windows.every for name, table_windows in computed.items()}
    gone = past_if_any(context, late.events, every, sums, horizon)
    facts = {"late": sums.accepted, **counts_of(late.read, sums, gone)}
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
    return _Merged(tables, late, gone)


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
