"""Retention: windows that ended too long before the horizon aren't published; no event is lost.

An event is beyond retention only if every window that it belongs to has wholly ended before the
limit. So an old event of a session that goes on after the limit counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill.columns import END, FIRST, REASON, START, TIME
from backfill.conservation import Totals, totals
from backfill.execution.run_result import Past
from backfill.kinds import kind_of
from backfill.ledger.reader import events_within
from backfill.planning.computed import computed_with
from backfill.planning.context import Context
from backfill.planning.slicing import slices
from backfill.rows.compute import Built, Sliced
from backfill.rows.definition import Definition
from backfill.runtimes.differences import where
from backfill.windows import by_place

BEYOND = "beyond_retention"


def ended(built: Built, limit: int) -> Column:
    """Whether a window, as it is reported, has ended before the limit (µs)."""
    return built.kind.reported_end() < limit


def _ended_windows(sliced: Sliced, definition: Definition, limit: int) -> Built:
    """The windows of these slices that have ended before the limit.

    Only slices and events that can be part of them are read.
    """
    latest = limit + kind_of(definition.window, sliced.engine, sliced.zone).open_us
    old = replace(sliced, frame=sliced.frame.where(F.col(FIRST) <= latest))
    if sliced.events is not None and not by_place(definition.window):
        old = replace(old, events=sliced.events.where(F.col(TIME) <= latest))
    built = old.build(definition)
    return replace(built, frame=built.frame.where(ended(built, limit)))


def beyond(events: DataFrame, windows: Iterable[Built], limit: int) -> DataFrame:
    """The events whose windows have all ended before the limit, with that as their reason.

    Args:
        events: normalised and usable.
        windows: for each definition, at least the windows of these events that have ended. Only
            those of sessions are looked up; when others end follows from the event's time.
        limit: µs.
    """
    old = events.where(F.col(TIME) < limit)
    looked_up = []
    for built in windows:
        all_ended = built.kind.all_ended(F.col(TIME), limit)
        if all_ended is None:
            looked_up.append(built)
        else:
            old = where(old, all_ended)
    for built in looked_up:
        key = built.sliced.key
        gone = built.frame.where(ended(built, limit)).select(*key.inner, START, END)
        old = events_within(old, key, gone)
    return old.withColumn(REASON, F.lit(BEYOND))


def past(context: Context, events: DataFrame, windows: Mapping[str, Built], limit: int) -> Past:
    """The events that are beyond retention.

    Args:
        context: the run's context.
        events: normalised and usable.
        windows: for each table, at least the windows that have ended before the limit.
        limit: µs.
    """
    kept, held = {}, {}
    for name, built in windows.items():
        wanted = (*built.sliced.key.inner, START, END, built.kind.held)
        over = built.frame.where(ended(built, limit)).select(*wanted)
        frame, facts = computed_with(over, F.sum(built.kind.held).alias("held"))
        kept[name], held[name] = replace(built, frame=frame), facts["held"] or 0
    gone = beyond(events, kept.values(), limit)
    if context.spec.id is None:
        rows = count = gone.count()
    else:
        names = list(context.definitions)
        sums = totals(slices(context, gone, names), context.definitions)
        rows, count = sums.rows, sums.accepted
    return Past(gone, rows, count, held)


def past_of_all(context: Context, events: DataFrame, sliced: Sliced, limit: int) -> Past:
    """As `past`, with the windows that all events make.

    Args:
        context: the run's context.
        events: normalised and usable.
        sliced: the slices of all events.
        limit: µs.
    """
    ended_before = {
        name: _ended_windows(sliced, definition, limit)
        for name, definition in context.definitions.items()
    }
    return past(context, events, ended_before, limit)


def past_if_any(
    context: Context, events: DataFrame, windows: Mapping[str, Built], sums: Totals, horizon: int
) -> Past | None:
    """As `past`; None if retention is unlimited or no event is that old.

    Args:
        context: the run's context.
        events: normalised and usable.
        windows: for each table, all windows of these events.
        sums: the totals of the events.
        horizon: the largest event time, µs.
    """
    limit = context.limit(horizon)
    if limit is None or sums.first is None or sums.first >= limit:
        return None
    return past(context, events, windows, limit)


def duplicates_of(sums: Totals, gone: Past | None) -> int:
    """How many rows were copies of events that count."""
    return sums.rows - sums.accepted - (gone.rows - gone.events if gone else 0)


def counts_of(read: int, sums: Totals, gone: Past | None) -> dict[str, int]:
    """The counts of a run over part of the events.

    Args:
        read: how many usable rows were read, including copies of events that were counted before.
        sums: the totals of the events.
        gone: what is beyond retention.
    """
    return {
        "read": read,
        "accepted": sums.accepted - (gone.events if gone else 0),
        "duplicates": duplicates_of(sums, gone) + read - sums.rows,
    }


def lasting(context: Context, built: Built, horizon: int) -> Column:
    """Whether a window is within retention."""
    limit = context.limit(horizon)
    return F.lit(True) if limit is None else ~ended(built, limit)
