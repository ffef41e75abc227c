"""Spans of time that windows and sessions reach over, and the dates of these spans."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F

from backfill.alignment import assigner
from backfill.columns import START, TIME
from backfill.kinds import reach
from backfill.planning.context import Context
from backfill.rows.definition import Definition
from backfill.time.dates import DAY, NONE, Dates, date_of
from backfill.time.durations import DAY_US
from backfill.time.spans import Span, inside_span
from backfill.windows import AnyWindow, EventWindow, SessionWindow, SlidingWindow, TableWindow


def widened(
    context: Context, span: tuple[int, int], definitions: Iterable[Definition]
) -> tuple[int, int]:
    """From the first aligned window that overlaps the span to the end of the last one; µs."""
    engine, zone = context.spec.engine, context.spec.timezone
    low, high = span
    for definition in definitions:
        window = definition.window
        if not isinstance(window, SessionWindow | EventWindow | TableWindow):
            rules = engine.rules_for(window)
            windows = assigner(window, rules, tick=engine.tick_us, zone=zone)
            for start, end in (*windows(span[0]), *windows(span[1] - 1)):
                low, high = min(low, start), max(high, end + engine.tick_us)
    return low, high


def first_start(context: Context, span: tuple[int, int], definitions: Sequence[Definition]) -> int:
    """The start of the first window, other than a session, in which an event of the span counts.

    Windows around an event start with the event, except distinct ones, which end with it; µs.
    """
    low, _ = widened(context, span, definitions)
    sizes = [
        definition.window.size.us
        for definition in definitions
        if isinstance(definition.window, SlidingWindow)
        and definition.window.distinct
        and definition.window.size is not None
    ]
    return min(low, *(span[0] - size for size in sizes), span[0])


def metrics_reach(context: Context) -> dt.timedelta | None:
    """How many days after an event rows of metrics can still stand; None without metrics."""
    definitions = context.definitions.values()
    reaches = [
        reach(definition.window, context.spec.engine).ahead or 0
        for definition in definitions
        if definition.steps
    ]
    # A day of a zone can have 23 hours.
    return dt.timedelta(days=max(reaches) // DAY_US + 2) if reaches else None


def last_date(context: Context, low: dt.date, high: dt.date, *, further: dt.timedelta) -> Dates:
    """The last date with events in the source, in [low, high) or up to `further` before it."""
    zone = context.spec.timezone
    first = low - min(further, low - dt.date.min)
    spans = Dates.between(first, high).spans(zone)
    if not spans:  # The calendar begins here.
        return NONE
    events = context.reader.events(context.all_dates, spans[0])
    latest = events.agg(F.max(TIME)).collect()[0][0]
    if latest is None:
        return NONE
    date = date_of(latest, zone)
    return Dates.between(date, date + DAY)


def touched(context: Context, span: tuple[int, int], definition: Definition) -> Span:
    """Where windows, other than sessions, can be that hold an event of the span; µs."""
    if definition.of_events:
        return reach(definition.window, context.spec.engine).rows(span)
    return widened(context, span, [definition])


def needed(context: Context, span: tuple[int, int], definitions: Sequence[Definition]) -> Span:
    """Where the events are that windows with an event of the span need; sessions excepted."""
    low: int | None
    high: int | None
    low, high = widened(context, span, definitions)
    for definition in definitions:
        if definition.of_events:
            reaching = reach(definition.window, context.spec.engine)
            first, last = reaching.events(reaching.rows(span))
            low = None if low is None or first is None else min(low, first)
            high = None if high is None or last is None else max(high, last)
    return low, high


def dates_between(first: int, last: int, zone: str) -> Dates:
    """The dates from one instant (µs) to another, both inclusive."""
    return Dates.between(date_of(first, zone), date_of(last, zone) + DAY)


def dates_looked_at(bounds: tuple[int, int] | None, window: AnyWindow, zone: str) -> Dates:
    """The dates of windows from one instant (µs) to another, and of events that would join them."""
    if bounds is None:
        return NONE
    low, high = bounds
    # An event within the gap of a session would be in it, or join two into one.
    further = window.gap.us + 1 if isinstance(window, SessionWindow) else 0
    return dates_between(low - further, high + further, zone)


def dates_of_span(span: Span, zone: str) -> Dates:
    """The dates of a span, [low, high) in µs."""
    low, high = span
    return Dates.between(
        dt.date.min if low is None else date_of(low, zone),
        dt.date.max if high is None else date_of(high - 1, zone) + DAY,
    )


def dates_over(dates: Dates, horizon: int | None, zone: str) -> tuple[dt.date, ...]:
    """Those of the dates that are over: they are before the date of the horizon (µs)."""
    last = dt.date.max if horizon is None else date_of(horizon, zone)
    return tuple((dates & Dates.between(dt.date.min, last)).days())


def starts_on(dates: Dates, zone: str) -> Column:
    """Whether a window starts on one of the dates."""
    inside = [inside_span(F.col(START), span) for span in dates.spans(zone)]
    return reduce(or_, inside, F.lit(False))
