"""What a run over a range of dates reads: the range, and beyond it what reaches over its edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.columns import END, EVENTS, FIRST, LAST, START, TIME
from backfill.conservation import Totals
from backfill.ledger.changed_inputs import counted_before, counted_by, replaced
from backfill.ledger.record import Record
from backfill.ledger.state import State, grouped
from backfill.operators.calendar import day_number, local_date
from backfill.planning.bots import People, near_edges, people
from backfill.planning.closure import Followed, follow
from backfill.planning.computed import computed_with
from backfill.planning.context import Context
from backfill.planning.extents import extents_of, limits
from backfill.planning.judged_anew import JudgedAnew, judged_anew
from backfill.planning.kept_slices import definitions_read, kept_slices, own_events
from backfill.planning.published_windows import candidates, published, published_extents
from backfill.planning.replaced_windows import overlaps
from backfill.planning.slicing import counted_slices, slices, with_combining
from backfill.planning.time_spans import first_start, last_date, metrics_reach, needed
from backfill.planning.whole_sessions import dates_of_numbers
from backfill.rows.compute import Built, Sliced
from backfill.runtimes.differences import computed_once
from backfill.time.dates import DAY, Dates, date_of, midnight
from backfill.time.spans import Span
from backfill.windows import SessionWindow

#: The dates of slices, each from its first event to its last one.
_DATES = "_dates"


@dataclass(frozen=True)
class RangeInput:
    """What a range run reads for every key, for the tables that have counted the same.

    Attributes:
        states: the tables.
        dates: the range.
        counted: the dates on which each input counts.
        span: the range itself, µs, [low, high); longer if events beyond it are judged differently
            because of events in it.
        read: the same, with what is needed by windows, other than sessions, that reach over its
            edges.
        begins: the start of the first window, other than a session, in which an event of the range
            counts; µs.
        kept: for each metric whose rows are merged from published slices, the table of these.
        anew: who is a bot now that the events of the range count; None if nothing can be judged
            differently, or if that cannot be known because inputs were replaced.
    """

    states: Sequence[State]
    dates: Dates
    counted: Mapping[str, Dates]
    span: tuple[int, int]
    read: Span
    begins: int
    kept: Mapping[str, State]
    anew: JudgedAnew | None = None

    @property
    def names(self) -> list[str]:
        """The tables."""
        return [state.name for state in self.states]


def span_of(dates: Dates, zone: str) -> tuple[int, int]:
    """A range of dates in µs, [low, high)."""
    ((low, high),) = dates.spans(zone)
    assert low is not None
    assert high is not None
    return low, high


def range_inputs(context: Context, dates: Dates) -> list[RangeInput]:
    """What must be read; more than one item if tables have counted different inputs.

    Args:
        context: the run's context.
        dates: one range.

    Raises:
        TableError: a table is stale.
    """
    tables = [context.tables[name] for name in context.spec.windows]
    for state in tables:
        if state.record is not None:
            _ = state.settled
    groups = [
        (group, counted_by(group[0].record, context.inputs, dates, context.spec.timezone))
        for group in grouped(tables)
    ]
    judged = [
        _judged_otherwise(context, group[0].record, dates, counted) for group, counted in groups
    ]
    # One span for all: whether an event is beyond retention depends on the windows of all tables.
    wider = Dates.union([dates, *(days for _, days in judged)])
    span = span_of(_hull(wider), context.spec.timezone)
    return [
        _range_input(context, dates, span, *group, anew)
        for group, (anew, _) in zip(groups, judged, strict=True)
    ]


def sliced_input(context: Context, part: RangeInput) -> tuple[Context, People, Sliced, Totals]:
    """The slices of the events, computed once; and their totals, checked.

    Returns:
        The context, with the choice of how events become slices; the events; the slices; their
        totals.
    """
    paths = [
        path
        for path, dates in part.counted.items()
        if dates and context.reader.may_hold(path, part.read)
    ]
    context = with_combining(context, paths, part.names)
    context.progress("reading the events of the range")
    traffic = people(context, part.counted, part.read)
    first, last = (local_date(F.col(name), context.spec.timezone) for name in (FIRST, LAST))
    dates = F.collect_set(F.sequence(first, last)).alias(_DATES)
    inside = [
        F.count_if(own_events(context, name, part.span, part.kept)).alias(events_for(name))
        for name in part.names
        if context.definitions[name].of_events
    ]
    kept, sums = counted_slices(
        context, traffic.events, part.names, span=part.read, also=[dates], of_events=inside
    )
    context.progress(f"{sums.accepted:,} events accepted")
    return context, traffic, kept, sums


def events_for(name: str) -> str:
    """Names the total that says how many events a table of windows around events needs."""
    return f"{name}_needs"


def followed(context: Context, state: State, sliced: Sliced, part: RangeInput) -> Followed:
    """The slices beyond the range of the keys whose sessions reach over its edges."""
    definition = context.definitions[state.name]
    window, keys = definition.window, sliced.key.inner
    assert isinstance(window, SessionWindow)
    whole = beside = None
    held = _reaching_out(context, state, sliced, part)
    if held is not None:
        inside = overlaps(Built(held, definition, sliced), part.span)
        whole, beside = held.where(inside), held.where(~inside)
    extents = extents_of(sliced, definition, whole, beside, part.span)
    low, high = part.span
    gap = window.gap.us
    near = (F.col(START) - low <= gap) | (F.lit(high) - F.col(END) <= gap)

    def read(low: int | None, high: int | None, wanted: DataFrame) -> Sliced:
        events = people(context, part.counted, (low, high), (sliced.key, wanted)).events
        new_slices = slices(context, events, part.names)
        frame, sums = computed_with(new_slices.frame, F.sum(EVENTS).alias("events"))
        return replace(new_slices, frame=frame, count=sums["events"] or 0)

    crossing = follow(
        extents.where(near),
        window,
        context.spec.engine.rules_for(window),
        keys,
        span=part.read,
        limits=limits(context, state),
        read=read,
        published=lambda low, high, wanted: published_extents(
            context, state, sliced, (low, high), wanted
        ),
    )
    for step in crossing.steps:
        context.progress(
            f"{state.name}: {step.keys:,} keys have sessions that cross the range's boundary"
        )
    return crossing


def covered_after(
    context: Context, sums: Totals, part: RangeInput, bots: DataFrame | None
) -> dict[str, Dates]:
    """The covered dates of each table after a run of the range.

    These are the dates from the first to the last date of the range that has events; and, before
    them, dates without events as far back as windows reach that hold events of the range: nothing
    else will ever compute these. In a job with metrics, they are all dates of the range, since rows
    can stand on dates without events: the plan says on which. So dates before the range are left
    out if rows can stand on them, after dates that are covered or have events.
    """
    zone = context.spec.timezone
    dates = {date for days in sums.also[_DATES] for date in days}
    if bots is not None:
        dates |= {row[0] for row in bots.select(local_date(F.col(TIME), zone)).distinct().collect()}
    here = [date for date in dates if date in part.dates]
    record, further = part.states[0].record, metrics_reach(context)
    before, new = Dates() if record is None else record.covered, Dates()
    if here:
        low, earliest = min(here), date_of(part.begins, zone)
        if further is not None and low > earliest and low - DAY not in dates:
            before |= last_date(context, earliest, low, further=further)
        while low > earliest and low - DAY not in dates:
            if further is not None and before & Dates.between(low - DAY - further, low):
                break
            low -= DAY
        new = Dates.between(low, max(here) + DAY)
    if further is not None:
        new |= part.dates
    return {
        state.name: new | (Dates() if state.record is None else state.record.covered)
        for state in part.states
    }


def _reaching_out(
    context: Context, state: State, sliced: Sliced, part: RangeInput
) -> DataFrame | None:
    """The published sessions that are not inside the range: key, start, end.

    Those inside are replaced, and nothing beyond the range depends on them.
    """
    built = Built(sliced.frame, context.definitions[state.name], sliced)
    (low, high), (first, last) = part.span, part.read
    files = candidates(context, state, built, first, None if last is None else last - 1)
    if not files:
        return None
    rows = published(context, state, built, files)
    outside = (F.col(START) < low) | (F.col(END) >= high)
    held = rows.where(overlaps(built, part.read) & outside)
    return computed_once(held.select(*sliced.key.inner, START, END))


def _range_input(
    context: Context,
    dates: Dates,
    span: tuple[int, int],
    group: Sequence[State],
    counted: Mapping[str, Dates],
    anew: JudgedAnew | None,
) -> RangeInput:
    """The range, with what windows that reach over its edges need.

    If they reach back to a date that is not covered, the whole date is read, to find out whether
    it has events.
    """
    zone, record = context.spec.timezone, group[0].record
    own, names = span_of(dates, zone), [state.name for state in group]
    begins = first_start(context, own, [context.definitions[name] for name in names])
    covered = Dates() if record is None else record.covered
    open_before = (
        begins < own[0] and Dates.between(date_of(begins, zone), dates.ranges[0][0]) - covered
    )
    kept = kept_slices(context, group, counted, span)
    low, high = needed(context, span, definitions_read(context, names, kept))
    if open_before:
        first = midnight(date_of(begins, zone), zone)
        low = None if low is None or first is None else min(low, first)
    return RangeInput(group, dates, counted, span, (low, high), begins, kept, anew)


def _hull(dates: Dates) -> Dates:
    return Dates.between(dates.ranges[0][0], dates.ranges[-1][1])


def _judged_otherwise(
    context: Context, record: Record | None, dates: Dates, counted: Mapping[str, Dates]
) -> tuple[JudgedAnew | None, Dates]:
    """Who is a bot once the range counts; and dates outside it with events judged differently."""
    if context.spec.bots is None or record is None:
        return None, Dates()
    zone = context.spec.timezone
    if replaced(record, context.inputs, zone):
        # How the events of replaced inputs were judged can no longer be found out.
        return None, near_edges(context, counted, dates) - dates
    before = {path: counted_before(record, path, file) for path, file in context.inputs.items()}
    new = {path: counted[path] - days for path, days in before.items()}
    new = {
        path: days
        for path, days in new.items()
        if days and any(context.reader.may_hold(path, span) for span in days.spans(zone))
    }
    if not new:
        return None, Dates()
    anew = judged_anew(context, before, new)
    if not anew.became + anew.ceased:
        return anew, Dates()
    context.progress(f"{anew.became + anew.ceased:,} events counted before are judged differently")
    on = anew.moved.select(day_number(F.col(TIME), zone)).distinct().collect()
    return anew, dates_of_numbers(row[0] for row in on) - dates
