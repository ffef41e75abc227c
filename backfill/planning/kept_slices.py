"""The published slices of metrics: what a run of some dates reads instead of events."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill.columns import END, TIME, column
from backfill.ledger.changed_inputs import replaced
from backfill.ledger.record import Record
from backfill.ledger.state import State
from backfill.operators.rolling_steps import STATES
from backfill.planning.computed import computed_with
from backfill.planning.context import Context
from backfill.planning.published_windows import candidates, published
from backfill.planning.replaced_windows import of_keys, sent
from backfill.planning.time_spans import dates_of_span, needed, touched
from backfill.rows.compute import Built, Sliced
from backfill.rows.definition import Definition
from backfill.rows.step_rows import begins
from backfill.store import DataFile
from backfill.time.dates import Dates
from backfill.time.spans import Span, inside_span
from backfill.windows import MetricSlices, RollingWindow


def kept_slices(
    context: Context, group: Sequence[State], counted: Mapping[str, Dates], span: tuple[int, int]
) -> dict[str, State]:
    """For each metric the table of its slices, if its rows can be merged from these.

    They can if the slices hold all events outside the span that count and that the rows need.

    Args:
        context: the run's context.
        group: the tables that have counted the same.
        counted: the dates on which each input counts.
        span: the span of which all events are read, µs.
    """
    names = {state.name for state in group}
    kept = {}
    for state in group:
        window = context.definitions[state.name].window
        if isinstance(window, MetricSlices) and window.metric in names and state.record is not None:
            read = needed(context, span, [context.definitions[window.metric]])
            if _holds_all(context, state.record, counted, span, read):
                kept[window.metric] = state
    return kept


def _holds_all(
    context: Context,
    record: Record,
    counted: Mapping[str, Dates],
    span: tuple[int, int],
    read: Span,
) -> bool:
    """Whether each event of `read` that counts is in the span or in a slice of a covered date."""
    zone = context.spec.timezone
    if replaced(record, context.inputs, zone):
        return False
    # What has been dropped, and what will be.
    for limit in (record.expired, context.limit(context.latest_event)):
        if limit is not None and (read[0] is None or read[0] < limit):
            return False
    known = record.covered | dates_of_span(span, zone)
    # No row stands after the last covered date, and so none needs an event after it.
    within = dates_of_span(read, zone) & Dates.between(dt.date.min, known.ranges[-1][1])
    # A slice can stand on a later date than its events; before a hole, that date is not covered.
    if len((known & within).ranges) > 1:
        return False
    return not any(
        context.reader.may_hold(path, part)
        for path, dates in counted.items()
        for part in (dates & within - known).spans(zone)
    )


def definitions_read(
    context: Context, names: Iterable[str], kept: Mapping[str, State]
) -> list[Definition]:
    """The definitions whose events are read: those of slices, for metrics merged from slices."""
    return [context.definitions[kept[name].name if name in kept else name] for name in names]


def own_events(
    context: Context, name: str, span: tuple[int, int], kept: Mapping[str, State]
) -> Column:
    """Whether an event is one of those that the rows of a table are computed from.

    Args:
        context: the run's context.
        name: a table of windows around single events, by number or by offset, or of a metric.
        span: the span whose events the run is about, µs.
        kept: the published slices of metrics.
    """
    [definition] = definitions_read(context, [name], kept)
    if name not in kept:
        return inside_span(F.col(TIME), needed(context, span, [definition]))
    window = definition.window
    assert isinstance(window, MetricSlices)
    return inside_span(begins(window.step.us, window.offset.us), touched(context, span, definition))


def files_outside(
    context: Context, metric: str, kept: State, sliced: Sliced, span: tuple[int, int]
) -> list[DataFile]:
    """The files of slices that `slices_outside` reads; it has the same arguments."""
    [before, after] = _outside(context, metric, kept, span)
    built = _built(context, kept, sliced)
    files = [file for span in (before, after) for file in candidates(context, kept, built, *span)]
    return list({file.path: file for file in files}.values())


def slices_outside(
    context: Context,
    metric: str,
    kept: State,
    sliced: Sliced,
    span: tuple[int, int],
    rows: Span,
) -> DataFrame | None:
    """The published slices that a metric's rows need, and that hold no event of the span.

    These are only slices of dimensions with an event that begins or ceases to count in these rows:
    for others no value changes there.

    Args:
        context: the run's context.
        metric: the metric's table.
        kept: the table of its slices.
        sliced: the events of a run.
        span: the span whose events the run is about, µs.
        rows: where the wanted rows are, µs.

    Returns:
        Key, END, and what is packed in a slice, as STATES; None if there can be no slices.
    """
    files = files_outside(context, metric, kept, sliced, span)
    if not files:
        return None
    built = _built(context, kept, sliced)
    assert built.sliced.events is not None
    spans = _outside(context, metric, kept, span)
    outside = reduce(or_, (inside_span(F.col(END), part) for part in spans))
    old_slices = published(context, kept, built, files).where(outside)
    keys = built.sliced.key.inner
    if keys:
        window = context.definitions[metric].window
        assert isinstance(window, RollingWindow)
        lengths = (0, *(length.us for length in window.windows))
        moves = reduce(or_, (inside_span(F.col(END) + length, rows) for length in lengths))
        moving = (
            old_slices.where(moves).select(*keys).unionByName(built.sliced.events.select(*keys))
        )
        moving, facts = computed_with(moving.distinct(), F.count(F.lit(1)).alias("keys"))
        old_slices = of_keys(old_slices, sent(moving, facts["keys"]), keys, "left_semi")
    [name] = built.definition.aggregates
    return old_slices.select(*keys, END, column(name).alias(STATES))


def _outside(context: Context, metric: str, kept: State, span: tuple[int, int]) -> list[Span]:
    """Where the slices stand that a metric needs, before and after those computed anew."""
    low, high = needed(context, span, [context.definitions[metric]])
    first, last = touched(context, span, context.definitions[kept.name])
    return [(low, first), (last, high)]


def _built(context: Context, kept: State, sliced: Sliced) -> Built:
    definition = context.definitions[kept.name]
    own = sliced.of(definition)
    return Built(own.frame, definition, own)
