"""A run over a range of dates: it reads events, and replaces every window that holds one there."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from pyspark.sql import functions as F

from backfill.columns import END, EVENTS, START, TIME
from backfill.conservation import Totals, assigned_to, check_held
from backfill.execution.bot_rows import bots_of_range
from backfill.execution.change import Computed, ComputedWindows, TableChange
from backfill.execution.dropped import dropped_of
from backfill.execution.full import nothing_usable
from backfill.execution.lost_events import check_removed
from backfill.execution.quarantine import unusable
from backfill.execution.retention import counts_of, lasting, past_if_any
from backfill.execution.rewrite import rewrite_files
from backfill.execution.staging import Staging
from backfill.ledger.changed_inputs import dates_of
from backfill.ledger.record import between
from backfill.ledger.state import State
from backfill.operators.last_seen import cut_distances
from backfill.operators.rolling_steps import STATES
from backfill.planning.bots import People
from backfill.planning.computed import computed_with
from backfill.planning.context import Context
from backfill.planning.kept_slices import own_events, slices_outside
from backfill.planning.late import unseen_inputs
from backfill.planning.range_input import (
    RangeInput,
    covered_after,
    events_for,
    followed,
    range_inputs,
    sliced_input,
    span_of,
)
from backfill.planning.replaced_windows import ReplacedWindows, match_rows, overlaps
from backfill.planning.time_spans import (
    dates_between,
    dates_looked_at,
    dates_of_span,
    dates_over,
    needed,
    starts_on,
    touched,
)
from backfill.quality.events import Counted
from backfill.rows.compute import Sliced
from backfill.time.dates import Dates, Range, midnight
from backfill.time.spans import Span, inside_span
from backfill.windows import SessionWindow, SlidingWindow


@dataclass(frozen=True)
class _Computed:
    """The windows of tables that have counted the same.

    Attributes:
        part: what was read.
        traffic: the events, and the bots among them.
        sliced: their slices.
        sums: the totals of the slices.
        covered: the dates that each table covers after the run.
        windows: the windows of each table.
    """

    part: RangeInput
    traffic: People
    sliced: Sliced
    sums: Totals
    covered: Mapping[str, Dates]
    windows: Mapping[str, ComputedWindows]


def compute_range(
    context: Context, staging: Staging, dates: Dates, until: dt.date | None
) -> Computed:
    """Computes the windows of a range of dates, whatever is published there.

    Args:
        context: the run's context.
        staging: where to write.
        dates: one range.
        until: the end of the selection that it is a part of, for the gate.

    Raises:
        SourceError: the source has no event.
        ConservationError: events were lost in the computation.
        TableError: a table is stale.
    """
    horizon = context.latest_event
    if horizon is None:
        raise nothing_usable(context, context.reader.rows(list(context.inputs)))
    zone = context.spec.timezone
    new = [
        path
        for path in unseen_inputs(context)
        if context.reader.may_hold(path, span_of(dates, zone))
    ]
    computed = [
        _compute_input(context, staging, part, horizon) for part in range_inputs(context, dates)
    ]
    # All have read the same events of the span.
    last = computed[-1]
    inside = last.traffic.events.where(inside_span(F.col(TIME), last.part.span))
    every = {name: windows.every for one in computed for name, windows in one.windows.items()}
    gone = past_if_any(context, inside, every, last.sums, horizon)
    counts = counts_of(last.sums.rows, last.sums, gone)
    facts = {"from": dates.ranges[0][0], "to": dates.ranges[0][1], **counts}
    tables = [change for one in computed for change in _changes(context, one, horizon, facts)]
    closure = Dates.union([dates, *(change.closure for change in tables if change.closure)])
    covered = Dates.union(days for one in computed for days in one.covered.values())
    bots = bots_of_range(context, [one.part for one in computed], last.traffic.bots, covered)
    limit, leaving = context.limit(horizon), None
    if limit is not None and len(computed) > 1:
        # A table that was added since can have windows for what was beyond retention.
        leaving = inside.where(F.col(TIME) < limit)
    quarantine = unusable(context, staging, new, gone, closure, bots, leaving, dates)
    _report_replaced(context, dates)
    return Computed(
        tables=tables,
        quarantine=quarantine,
        counted=Counted(
            sliced=last.sliced,
            sums=last.sums.also,
            events=last.traffic.events,
            id=context.spec.id,
            read=last.sums.rows + quarantine.unusable,
            quarantined=quarantine.unusable,
            until=None if until is None else midnight(until, zone),
            latest=horizon,
        ),
        read=counts["read"] + quarantine.rows,
        accepted=counts["accepted"],
        duplicates=counts["duplicates"],
        horizon=horizon,
    )


def _report_replaced(context: Context, dates: Dates) -> None:
    """Reports dates outside the run's with windows of inputs that are gone or have changed."""
    replacements = [
        replacement
        for name in context.definitions
        for replacement in context.replaced(context.tables[name])
    ]
    left = dates_of(replacements) - dates
    if left:
        ranges = ", ".join(map(_range_text, left.ranges))
        context.progress(f"inputs of {ranges} are missing or have changed: run these dates as well")


def _range_text(dates: Range) -> str:
    low, high = dates
    if low == dt.date.min:
        return "all dates" if high == dt.date.max else f"dates before {high}"
    return f"dates from {low}" if high == dt.date.max else f"[{low}, {high})"


def _compute_input(context: Context, staging: Staging, part: RangeInput, horizon: int) -> _Computed:
    """Computes and writes the windows of some tables."""
    context, traffic, sliced, sums = sliced_input(context, part)
    covered = covered_after(context, sums, part, traffic.bots)
    computed = {}
    for state in part.states:
        windows = _window(context, staging, state, sliced, part, sums, horizon, covered[state.name])
        context.progress(f"{state.name}: {windows.rewrite.rows:,} windows computed")
        computed[state.name] = windows
    return _Computed(part, traffic, sliced, sums, covered, computed)


def _changes(
    context: Context, computed: _Computed, horizon: int, facts: Mapping[str, object]
) -> Iterator[TableChange]:
    """The changes to tables that have counted the same."""
    part, sums, bots = computed.part, computed.sums, computed.traffic.bots
    # Events of bots are included: they count in judging who is a bot.
    times = [sums.first, sums.horizon]
    if bots is not None:
        times += bots.agg(F.min(TIME), F.max(TIME)).collect()[0]
    for state in part.states:
        windows = computed.windows[state.name]
        yield windows.change(
            state,
            context.store.read_staged(context.spark, windows.rewrite.staged),
            dates=dates_over(part.dates, horizon, context.spec.timezone),
            horizon=horizon,
            times=between(times),
            facts=facts,
            counted=part.dates,
            covered=computed.covered[state.name],
        )


def _window(
    context: Context,
    staging: Staging,
    state: State,
    sliced: Sliced,
    part: RangeInput,
    sums: Totals,
    horizon: int,
    covered: Dates,
) -> ComputedWindows:
    definition = context.definitions[state.name]
    if isinstance(definition.window, SessionWindow) and not definition.of_events:
        return _session(context, staging, state, sliced, part, sums, horizon, covered)
    assigned = sums.assigned[state.name]
    kept = None
    if definition.of_events:
        count = sums.also[events_for(state.name)]
        sliced, assigned = _needed_events(context, state.name, sliced, part, count)
    reached = touched(context, part.span, definition)
    wanted = _up_to(reached, covered, context.spec.timezone)
    if state.name in part.kept:
        slices = part.kept[state.name]
        kept = slices_outside(context, state.name, slices, sliced, part.span, wanted)
    if kept is not None:
        assigned += kept.agg(F.sum(F.col(STATES)["events"])).collect()[0][0] or 0
    built = sliced.build(definition, wanted, kept)
    every, in_windows = computed_with(built.frame, F.sum(built.kind.held).alias("events"))
    held = in_windows["events"] or 0
    check_held(state.name, held, assigned)
    inside = replace(built, frame=every.where(overlaps(built, part.span)))
    old_windows, between = ReplacedWindows(part.span, None), _inclusive(reached)
    files = check_removed(context, state, part, inside, old_windows, between)
    zone = context.spec.timezone
    starts = starts_on(covered, zone) & lasting(context, built, horizon)
    ours = replace(built, frame=inside.frame.where(starts))
    rewrite = rewrite_files(context, staging, state, ours, old_windows, between, horizon, files)
    closure = (
        part.dates | dates_of_span(reached, zone) | dates_between(part.begins, part.span[0], zone)
    )
    return ComputedWindows(
        rewrite=rewrite,
        closure=closure,
        every=replace(built, frame=every),
        held=held,
        assigned=assigned,
    )


def _needed_events(
    context: Context, name: str, sliced: Sliced, part: RangeInput, count: int
) -> tuple[Sliced, int]:
    """The events needed by the rows that an event of the range can affect.

    Args:
        context: the run's context.
        name: a table of windows around single events, by number or by offset, or of a metric.
        sliced: the events of the run.
        part: the range.
        count: how many of these events are needed.

    Returns:
        These events, and how many are assigned to rows.
    """
    assert sliced.events is not None
    own = own_events(context, name, part.span, part.kept)
    events, definition = sliced.events.where(own), context.definitions[name]
    if isinstance(definition.window, SlidingWindow):
        span = needed(context, part.span, [definition])
        events = cut_distances(events, sliced.bound.values(), span)
    near = replace(sliced, events=events, count=count)
    return near, assigned_to(near, definition)


def _session(
    context: Context,
    staging: Staging,
    state: State,
    sliced: Sliced,
    part: RangeInput,
    sums: Totals,
    horizon: int,
    covered: Dates,
) -> ComputedWindows:
    definition = context.definitions[state.name]
    crossing = followed(context, state, sliced, part)
    whole = sliced.joined(crossing.slices)
    built = whole.build(definition)
    every, in_windows = computed_with(built.frame, F.sum(EVENTS).alias("events"))
    held = in_windows["events"] or 0
    assigned = sums.assigned[state.name] + sum(piece.count or 0 for piece in crossing.slices)
    check_held(state.name, held, assigned)
    here = replace(built, frame=every)
    low, high = part.span
    edges = [low, high - 1, *(crossing.hull or ())]
    between = min(edges), max(edges)
    within = overlaps(here, part.span)
    # Everything inside the range is replaced.
    over, reached = None, every.where(within)
    if between != (low, high - 1):
        over = crossing.extents.where((F.col(START) < low) | (F.col(END) >= high))
        beyond = match_rows(every.where(~within), here, ReplacedWindows(None, over), "left_semi")
        reached = reached.unionByName(beyond)
    inside = replace(built, frame=reached)
    old_windows = ReplacedWindows(part.span, over)
    files = check_removed(context, state, part, inside, old_windows, between)
    kept = starts_on(covered, context.spec.timezone) & lasting(context, here, horizon)
    ours = replace(built, frame=inside.frame.where(kept))
    rewrite = rewrite_files(context, staging, state, ours, old_windows, between, horizon, files)
    closure = part.dates | dates_of_span(part.span, context.spec.timezone)
    closure |= dates_looked_at(crossing.hull, definition.window, context.spec.timezone)
    if crossing.steps:
        starts = [start for start in (crossing.low, *edges) if start is not None]
        ends = [end - 1 for end in (crossing.high,) if end is not None]
        closure |= dates_between(min(starts), max([*edges, *ends]), context.spec.timezone)
    return ComputedWindows(
        rewrite=rewrite,
        closure=closure,
        every=here,
        held=held,
        assigned=assigned,
        dropped=dropped_of(ours),
    )


def _up_to(span: Span, covered: Dates, zone: str) -> Span:
    """The part of a span up to the last covered date, after which no row stands."""
    low, high = span
    end = covered.spans(zone)[-1][1] if covered else None
    if low is None or high is None or end is None:
        return span
    return low, max(low, min(high, end))


def _inclusive(span: Span) -> Span:
    low, high = span
    return low, None if high is None else high - 1
