"""A run over a range of dates: it reads events, and replaces every window that holds one there."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.columns import END, EVENTS, START
from backfill.compute import Built, Sliced
from backfill.conservation import Totals, check_held
from backfill.execution.change import Computed, TableChange
from backfill.execution.exchange import Exchange, exchange
from backfill.execution.full import nothing_usable
from backfill.execution.gate import Rows
from backfill.execution.losses import check_removed
from backfill.execution.quarantine import unusable
from backfill.execution.results import Past
from backfill.execution.retention import duplicates_of, lasting, past
from backfill.execution.staging import Staging
from backfill.ledger.replaced import dates_of
from backfill.ledger.state import State
from backfill.planning.context import Context
from backfill.planning.late import unseen_inputs
from backfill.planning.place import Place, given_way, overlaps
from backfill.planning.region import (
    Region,
    Span,
    covered_after,
    followed,
    regions,
    sliced_region,
    span_of,
)
from backfill.planning.slicing import computed_once
from backfill.planning.spans import dates_between, dates_over, hull, starts_on
from backfill.quality.events import Counted
from backfill.time.dates import Dates, midnight
from backfill.windows import SessionWindow


@dataclass(frozen=True)
class _Made:
    """One table's windows of the range.

    Attributes:
        exchange: for the table.
        closure: the dates of what was looked at, the range's among them.
        every: all windows that hold an event of the range, those that are not published too.
        held: how many events they hold.
        assigned: how many the engine assigns to them.
    """

    exchange: Exchange
    closure: Dates
    every: Built
    held: int
    assigned: int


@dataclass(frozen=True)
class _Computed:
    """What a region came to.

    Attributes:
        past: what is beyond retention.
        facts: for `history`.
        counted: the events, for the gate.
    """

    tables: list[TableChange]
    past: Past | None
    facts: Mapping[str, Any]
    counted: Counted


def compute_range(
    context: Context, staging: Staging, dates: Dates, until: dt.date | None
) -> Computed:
    """Computes the windows of a range of dates, whatever was published of them.

    Args:
        context: of the run.
        staging: where to write.
        dates: one range.
        until: the end of the selection that it is a part of, for the gate.

    Raises:
        SourceError: the source has no event.
        ConservationError: events went in that did not come out.
        TableError: a table is stale.
    """
    horizon = _horizon(context)
    if horizon is None:
        raise nothing_usable(context)
    zone = context.spec.timezone
    new = [
        path
        for path in unseen_inputs(context)
        if context.reader.may_hold(path, span_of(dates, zone))
    ]
    computed = [_region(context, staging, each, horizon) for each in regions(context, dates)]
    last = computed[-1]
    tables = [each for region in computed for each in region.tables]
    closure = reduce(Dates.__or__, [each.closure for each in tables if each.closure], dates)
    quarantine = unusable(context, staging, new, last.past, closure)
    _report_replaced(context, dates)
    return Computed(
        tables=tables,
        quarantine=quarantine,
        counted=replace(
            last.counted,
            read=last.counted.read + quarantine.rows,
            quarantined=quarantine.rows,
            until=None if until is None else midnight(until, zone),
            latest=horizon,
        ),
        read=last.facts["read"] + quarantine.rows,
        accepted=last.facts["accepted"],
        duplicates=last.facts["duplicates"],
        horizon=horizon,
    )


def _report_replaced(context: Context, dates: Dates) -> None:
    """Says on which dates, besides the run's, windows are left of inputs that changed."""
    found = [
        each for name in context.definitions for each in context.replaced(context.tables[name])
    ]
    left = dates_of(found) - dates
    if left:
        ranges = ", ".join(f"[{low}, {high})" for low, high in left.ranges)
        context.progress(f"inputs of {ranges} are gone or have changed: run these dates, too")


def _horizon(context: Context) -> int | None:
    """The largest event time in the snapshot, µs; only new inputs are looked at if they can."""
    inputs, reader = context.inputs, context.reader
    known, seen = None, set()
    for name in context.definitions:
        record = context.tables[name].record
        if record is None or any(
            path not in inputs or replace(inputs[path], counted=each.counted) != each
            for path, each in record.inputs.items()
        ):
            return reader.horizon(list(inputs), None)
        known, seen = record.horizon, set(record.inputs)
    return reader.horizon([each for each in inputs if each not in seen], known)


def _region(context: Context, staging: Staging, region: Region, horizon: int) -> _Computed:
    """Computes and writes a region's windows."""
    context, sliced, sums = sliced_region(context, region)
    covered = covered_after(context, sliced, region)
    made = {}
    for state in region.states:
        one = _window(context, staging, state, sliced, region, sums, horizon, covered[state.name])
        context.progress(f"{state.name}: {one.exchange.rows:,} windows computed")
        made[state.name] = one
    gone = _past(context, region, sums, horizon, {name: each.every for name, each in made.items()})
    facts = {
        "from": region.dates.ranges[0][0],
        "to": region.dates.ranges[0][1],
        "read": sums.rows,
        "accepted": sums.accepted - (gone.events if gone else 0),
        "duplicates": duplicates_of(sums, gone),
    }
    tables = [
        TableChange(
            state=state,
            staged=made[state.name].exchange.staged,
            replaces=made[state.name].exchange.replaced,
            rows=made[state.name].exchange.rows,
            events=made[state.name].exchange.events,
            counted=region.dates,
            covered=covered[state.name],
            closure=made[state.name].closure,
            horizon=horizon,
            facts=facts,
            checked=Rows(
                frame=context.store.read_staged(context.spark, made[state.name].exchange.staged),
                dates=dates_over(region.dates, horizon, context.spec.timezone),
                table=state.table,
                without=made[state.name].exchange.replaced,
                held=made[state.name].held,
                assigned=made[state.name].assigned,
            ),
        )
        for state in region.states
    ]
    counted = Counted(
        sliced=sliced,
        events=context.reader.events(region.counted, region.read),
        id=context.spec.id,
        read=sums.rows,
        quarantined=0,
        span=region.read,
    )
    return _Computed(tables, gone, facts, counted)


def _window(
    context: Context,
    staging: Staging,
    state: State,
    sliced: Sliced,
    region: Region,
    sums: Totals,
    horizon: int,
    covered: Dates,
) -> _Made:
    definition = context.definitions[state.name]
    if isinstance(definition.window, SessionWindow):
        return _session(context, staging, state, sliced, region, horizon, covered)
    built = sliced.build(definition)
    every = computed_once(built.frame)
    (events,) = every.agg(F.sum(EVENTS)).collect()[0]
    assigned = sums.assigned[state.name]
    check_held(state.name, events or 0, assigned)
    inside = replace(built, frame=every.where(overlaps(built, region.span)))
    place, between = Place(region.span, None), _inclusive(region.read)
    check_removed(context, state, region, inside, place, between)
    kept = starts_on(covered, context.spec.timezone) & lasting(context, built, horizon)
    ours = replace(built, frame=inside.frame.where(kept))
    exchanged = exchange(context, staging, state, ours, place, between, horizon)
    reached = dates_between(*_inclusive(region.read), context.spec.timezone)
    closure = region.dates | reached
    return _Made(exchanged, closure, replace(built, frame=every), events or 0, assigned)


def _session(
    context: Context,
    staging: Staging,
    state: State,
    sliced: Sliced,
    region: Region,
    horizon: int,
    covered: Dates,
) -> _Made:
    definition = context.definitions[state.name]
    found = followed(context, state, sliced, region)
    frame = reduce(
        DataFrame.unionByName,
        (each.select(*sliced.frame.columns) for each in found.slices),
        sliced.frame,
    )
    built = replace(sliced, frame=frame).build(definition)
    every = computed_once(built.frame)
    held, assigned = _check(state.name, every, frame)
    here = replace(built, frame=every)
    low, high = region.span
    # What lies inside the range gives way as such.
    over = computed_once(found.extents.where((F.col(START) < low) | (F.col(END) >= high)))
    within = overlaps(here, region.span)
    beyond = given_way(every.where(~within), here, Place(None, over), "left_semi")
    inside = replace(built, frame=every.where(within).unionByName(beyond))
    edges = [low, high - 1, *(hull(over) or ())]
    place, between = Place(region.span, over), (min(edges), max(edges))
    check_removed(context, state, region, inside, place, between)
    kept = starts_on(covered, context.spec.timezone) & lasting(context, here, horizon)
    ours = replace(built, frame=inside.frame.where(kept))
    exchanged = exchange(context, staging, state, ours, place, between, horizon)
    closure = region.dates
    if found.steps:
        starts = [each for each in (found.low, *edges) if each is not None]
        ends = [each - 1 for each in (found.high,) if each is not None]
        closure |= dates_between(min(starts), max([*edges, *ends]), context.spec.timezone)
    return _Made(exchanged, closure, here, held, assigned)


def _past(
    context: Context, region: Region, sums: Totals, horizon: int, every: Mapping[str, Built]
) -> Past | None:
    """What of the range's events is beyond retention."""
    limit = context.limit(horizon)
    if limit is None or sums.first is None or sums.first >= limit:
        return None
    return past(context, context.reader.events(region.counted, region.span), every, limit)


def _check(name: str, windows: DataFrame, slices: DataFrame) -> tuple[int, int]:
    """How many events the sessions hold, and how many there are: as many."""
    held, assigned = (each.agg(F.sum(EVENTS)).collect()[0][0] or 0 for each in (windows, slices))
    check_held(name, held, assigned)
    return held, assigned


def _inclusive(span: Span) -> Span:
    return span[0], span[1] - 1
