"""Windows that lose events and gain others, built again from their events.

What was merged into a window cannot be taken out again. Here every input counts on every date.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.columns import END, EVENTS, FIRST, LAST, START
from backfill.conservation import Totals, check_none_lost
from backfill.execution.change import ComputedWindows
from backfill.execution.dropped import dropped_of
from backfill.execution.lost_events import fewer, outside
from backfill.execution.rebuild import Rebuild, check_none_gone, followed, from_events
from backfill.execution.retention import lasting
from backfill.execution.rewrite import rewrite_files
from backfill.execution.staging import Staging
from backfill.planning.computed import computed_extents
from backfill.planning.published_windows import rows_to_replace
from backfill.planning.replaced_windows import ReplacedWindows, match_rows
from backfill.planning.time_spans import dates_looked_at, starts_on
from backfill.rows.compute import Built, Sliced
from backfill.rows.definition import Definition
from backfill.runtimes.differences import computed_once
from backfill.windows import SessionWindow


def changed_windows(
    of: Rebuild, staging: Staging, sums: Totals, horizon: int, went: Sliced
) -> ComputedWindows:
    """The sessions or aligned windows that held or now hold an event that came or went.

    Args:
        of: the table, and the events that came.
        staging: where to write.
        sums: the totals of the events that came.
        horizon: the largest event time, µs.
        went: the events that are no longer counted.

    Raises:
        ConservationError: an event that came is in no window.
        SourceError: the source no longer holds events that were counted.
    """
    context, state, late = of.context, of.state, of.sliced
    definition, zone = of.definition, context.spec.timezone
    edge = _touched(late, definition).unionByName(_touched(went, definition)).distinct()
    if isinstance(definition.window, SessionWindow):
        frame, over = followed(of, edge)
    else:
        frame, over = from_events(of, edge), edge
    built = Built(computed_once(frame), definition, late)
    over, bounds = computed_extents(over)
    _check_held(state.name, built, late)
    replaced = ReplacedWindows(None, over.where(lasting(context, built, horizon)))
    removed = None
    if bounds is not None:
        removed = rows_to_replace(context, state, built, replaced, bounds)
    if removed is not None:
        check_none_gone(context, fewer(removed, _with(built, went)))
    kept = starts_on(state.settled.covered, zone) & lasting(context, built, horizon)
    ours = replace(built, frame=built.frame.where(kept))
    rewrite = rewrite_files(context, staging, state, ours, replaced, bounds, horizon)
    assigned = sums.assigned[state.name]
    return ComputedWindows(
        rewrite=rewrite,
        closure=dates_looked_at(bounds, definition.window, zone),
        every=built,
        # Each event that came is in a window, as was checked.
        held=assigned,
        assigned=assigned,
        dropped=dropped_of(ours),
    )


def spans_of(events: Sliced) -> DataFrame:
    """Key, first and last event (START, END) of each slice."""
    return events.frame.select(*events.key.inner, F.col(FIRST).alias(START), F.col(LAST).alias(END))


def _touched(events: Sliced, definition: Definition) -> DataFrame:
    """Where events are: spans for sessions, otherwise the windows they are in; key, start, end."""
    if isinstance(definition.window, SessionWindow):
        return spans_of(events)
    return _windows(events, definition).select(*events.key.inner, START, END)


def _windows(events: Sliced, definition: Definition) -> DataFrame:
    return events.build(replace(definition, aggregates={})).frame


def _with(built: Built, went: Sliced) -> Built:
    """The windows plus the events that went, with only what is needed to count events."""
    columns = [*built.sliced.key.inner, START, END, EVENTS]
    if isinstance(built.definition.window, SessionWindow):
        lost = went.frame.withColumns({START: F.col(FIRST), END: F.col(LAST)})
    else:
        lost = _windows(went, built.definition)
    lost = lost.select(*columns)
    return replace(built, frame=built.frame.select(*columns).unionByName(lost))


def _check_held(name: str, built: Built, late: Sliced) -> None:
    """Checks that each event that came is in the windows that it must be in."""
    window = built.definition.window
    if isinstance(window, SessionWindow):
        # Rules can cut within a slice.
        lost = outside(late.singles.get(window, late.frame), built)
    else:
        own = _windows(late, built.definition)
        lost = match_rows(own, built, ReplacedWindows(None, built.frame), "left_anti")
    check_none_lost(name, lost.count())
