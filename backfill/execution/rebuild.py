"""Windows that can't be had by merging, built from events: theirs and no others.

These are windows of an aggregate that needs all its events, and sessions that reach to dates that
are not covered, whose sessions are not published. Every input counts everywhere here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill.columns import END, START
from backfill.compute import Built, Definition, Sliced
from backfill.errors import SourceError
from backfill.events.model import shown
from backfill.execution.lost_events import fewer
from backfill.ledger.reader import events_of, events_within
from backfill.ledger.record import Record
from backfill.ledger.state import State
from backfill.planning.closure import follow
from backfill.planning.context import Context
from backfill.planning.extents import extents_of, limits
from backfill.planning.published_windows import published_extents
from backfill.planning.replaced_windows import ReplacedWindows, match_rows, of_keys
from backfill.planning.slicing import computed_once, slices
from backfill.planning.time_spans import dates_between, hull
from backfill.time.dates import ALL
from backfill.windows import SessionWindow


def behind(context: Context, record: Record, definition: Definition) -> Column:
    """Whether something that is not published could belong to the window.

    Sessions that start on a date that is not covered are in no table, however far they reach; so
    every window behind such a date is looked at, if there can be events on it. And windows that
    ended before a limit of retention were dropped.

    Args:
        context: of the run.
        record: what was counted and covered before.
        definition: of the window.
    """
    window = definition.window
    if not isinstance(window, SessionWindow):
        # What had ended was dropped; should it be kept after all, its events are needed.
        return F.lit(False) if record.expired is None else F.col(END) < record.expired
    least, most = context.reader.limits(list(context.inputs))
    tests = [F.lit(False)]
    if record.expired is not None:
        tests.append(F.col(START) - window.gap.us <= record.expired)
    for low, high in record.covered.rest().spans(context.spec.timezone):
        empty = (high is not None and least is not None and least >= high) or (
            low is not None and most is not None and most < low
        )
        if not empty:
            tests.append(F.lit(True) if low is None else F.col(END) + window.gap.us >= low)
    return reduce(or_, tests)


def rebuilt(
    context: Context,
    state: State,
    names: Sequence[str],
    sliced: Sliced,
    wanted: DataFrame,
) -> tuple[DataFrame, DataFrame]:
    """The final windows, and the extents that they take the place of.

    Args:
        context: of the run.
        state: the table.
        names: the tables whose slices to make.
        sliced: slices of the same key.
        wanted: merged windows. They are final where states could be merged and no session reaches
            to a date that is not covered.

    Raises:
        SourceError: the source does not hold what was counted.
    """
    definition = context.definitions[state.name]
    final, extents = _rebuilt(context, state, names, sliced, wanted)
    final = computed_once(final)
    lost = hull(fewer(wanted, Built(final, definition, sliced)))
    if lost is not None:
        (low, high), *_ = dates_between(*lost, context.spec.timezone).ranges
        raise SourceError(
            "no longer holds events that were counted; they cannot be removed by merging",
            field="source",
            value=shown(context.spec.source.path),
            way_out=f"Run these dates: backfill run JOB --from {low} --to {high}",
        )
    return final, extents


def _rebuilt(
    context: Context,
    state: State,
    names: Sequence[str],
    sliced: Sliced,
    wanted: DataFrame,
) -> tuple[DataFrame, DataFrame]:
    definition = context.definitions[state.name]
    keys = sliced.key.inner
    bounds = [*keys, START, END]
    columns = sliced.build(definition).frame.columns
    if not isinstance(definition.window, SessionWindow):
        final = _from_events(context, names, sliced, definition, wanted)
        return final.select(*columns), wanted.select(*bounds)
    reaching = behind(context, state.settled, definition)
    followed_keys = computed_once(wanted.where(reaching).select(*keys))
    settled = of_keys(wanted, followed_keys, keys, "left_anti")
    edge = of_keys(wanted, followed_keys, keys, "left_semi").select(*bounds)
    final = (
        settled.select(*columns)
        if definition.mergeable
        else _from_events(context, names, sliced, definition, settled).select(*columns)
    )
    extents = wanted.select(*bounds)
    if not followed_keys.count():
        return final, extents
    followed, over = _followed(context, state, names, sliced, edge)
    return final.unionByName(followed.select(*columns)), extents.unionByName(over)


def _from_events(
    context: Context,
    names: Sequence[str],
    sliced: Sliced,
    definition: Definition,
    windows: DataFrame,
) -> DataFrame:
    """These windows, whose bounds are known, from their events and no others."""
    wanted = computed_once(windows.select(*sliced.key.inner, START, END))
    bounds = hull(wanted)
    low, high = bounds if bounds is not None else (0, -1)
    events = events_within(_events(context, (low, high + 1)), sliced.key, wanted)
    again = slices(context, events, names).build(definition)
    return match_rows(again.frame, again, ReplacedWindows(None, wanted), "left_semi")


def _followed(
    context: Context,
    state: State,
    names: Sequence[str],
    sliced: Sliced,
    edge: DataFrame,
) -> tuple[DataFrame, DataFrame]:
    """The sessions of these extents, from events, followed outward until they close.

    Returns:
        The sessions, and the extents of what they take the place of.
    """
    definition = context.definitions[state.name]
    window, keys = definition.window, sliced.key.inner
    assert isinstance(window, SessionWindow)
    edge = computed_once(edge)
    bounds = hull(edge)
    assert bounds is not None
    gap = window.gap.us
    span = (bounds[0] - gap - 1, bounds[1] + gap + 2)

    def read(low: int | None, high: int | None, wanted: DataFrame) -> DataFrame:
        events = events_of(_events(context, (low, high)), sliced.key, wanted)
        return computed_once(slices(context, events, names).frame)

    events = events_of(_events(context, span), sliced.key, edge)
    inside = slices(context, events, names)
    kept = replace(inside, frame=computed_once(inside.frame))
    beside = published_extents(context, state, sliced, span, edge)
    extents = extents_of(kept, definition, edge, beside)
    found = follow(
        extents,
        window,
        context.spec.engine.rules_for(window),
        keys,
        span=span,
        limits=limits(context, state),
        read=read,
        published=lambda low, high, wanted: published_extents(
            context, state, sliced, (low, high), wanted
        ),
    )
    whole = replace(kept, frame=reduce(DataFrame.unionByName, found.slices, kept.frame))
    built = whole.build(definition)
    over = computed_once(found.extents)
    return match_rows(built.frame, built, ReplacedWindows(None, over), "left_semi"), over


def _events(context: Context, span: tuple[int | None, int | None]) -> DataFrame:
    """All events of a span: after this run every input is counted everywhere."""
    return context.reader.events(dict.fromkeys(context.inputs, ALL), span)
