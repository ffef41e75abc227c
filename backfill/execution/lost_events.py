"""Checks that the windows a run writes hold the events of the windows that it removes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.columns import END, EVENTS, FIRST, LAST, START
from backfill.conservation import check_none_lost
from backfill.ledger.changed_inputs import counted_by
from backfill.ledger.state import State
from backfill.planning.bots import people_within
from backfill.planning.computed import computed_extents
from backfill.planning.context import Context
from backfill.planning.published_windows import rows_to_replace
from backfill.planning.range_input import RangeInput
from backfill.planning.replaced_windows import ReplacedWindows, match_rows
from backfill.planning.rows_of_extents import rows_of
from backfill.planning.slicing import slices
from backfill.rows.compute import Built
from backfill.runtimes.differences import computed_once, observed, stacked
from backfill.store import FILE
from backfill.time.spans import Span
from backfill.windows import CountWindow, SessionWindow

_BEFORE, _NOW, _THERE = "_before", "_now", "_there"
_FEWER = f"{_NOW} < {_BEFORE}"


def fewer(removed: DataFrame, written: Built) -> DataFrame:
    """Where fewer events are now in the place of removed windows: key, start and end, µs.

    Events come and do not go, unless the source has changed.

    Args:
        removed: key, start, end and numbers of events of published windows.
        written: the windows that were computed in their place.
    """
    return _compared(removed, written).where(_FEWER)


def _compared(removed: DataFrame, written: Built) -> DataFrame:
    """How many events removed windows hold, and the windows in their place; NULL for no windows.

    There is one row for each window or key compared; start and end are the removed windows'.
    """
    same, held = _same(written), _held(written)
    before = removed.select(*written.sliced.key.inner, START, END, F.col(held).alias(_BEFORE))
    now = written.frame.select(*same, F.col(held).alias(_NOW))
    ends = [] if START in same else [F.min(START).alias(START), F.max(END).alias(END)]
    # Grouping both together takes one exchange; a join would take two.
    both = stacked(before, now).groupBy(*same)
    events = F.sum(_BEFORE).alias(_BEFORE), F.coalesce(F.sum(_NOW), F.lit(0)).alias(_NOW)
    return both.agg(*events, *ends)


def _same(written: Built) -> list[str]:
    """What is compared: windows, or keys.

    Sessions can be joined and split, and more events move count windows. So these are compared
    as a whole for each key.
    """
    keys = written.sliced.key.inner
    moved = isinstance(written.definition.window, SessionWindow | CountWindow)
    return keys if moved else [*keys, START, END]


def _held(written: Built) -> str:
    return written.kind.held if isinstance(written.definition.window, CountWindow) else EVENTS


def outside(slices: DataFrame, written: Built) -> DataFrame:
    """The slices that are in no window written, although all of them must be.

    Args:
        slices: slices of sessions, none of which is cut by the end of a session.
        written: the sessions.
    """
    keys = written.sliced.key.inner
    columns = (*keys, START, END)
    others = written.frame.select(*(F.col(name).alias(f"{_THERE}{name}") for name in columns))
    same = [F.col(name).eqNullSafe(F.col(f"{_THERE}{name}")) for name in keys]
    inside = (F.col(FIRST) >= F.col(f"{_THERE}{START}")) & (F.col(LAST) <= F.col(f"{_THERE}{END}"))
    return slices.join(others, reduce(and_, same, inside), "left_anti")


def unlike(windows: DataFrame, written: Built) -> DataFrame:
    """The expected windows that were not written as expected: key, start, end.

    Args:
        windows: the expected windows: key, start, end and number of events.
        written: the windows that were computed.
    """
    same = [*written.sliced.key.inner, START, END]
    # Events at the same time have a row each.
    expected = windows.groupBy(*same).agg(F.sum(EVENTS).alias(EVENTS))
    now = written.frame.groupBy(*same).agg(F.sum(EVENTS).alias(_THERE))
    joined = _joined(expected, now, same, "left")
    return joined.where(~F.col(EVENTS).eqNullSafe(F.col(_THERE))).select(*same)


def _joined(one: DataFrame, other: DataFrame, names: list[str], how: str) -> DataFrame:
    """Joined where these columns are equal; NULL equals NULL."""
    theirs = other.select(
        *(F.col(name).alias(f"{_THERE}{name}") for name in names),
        *(name for name in other.columns if name not in names),
    )
    same = [F.col(name).eqNullSafe(F.col(f"{_THERE}{name}")) for name in names]
    joined = one.join(theirs, reduce(and_, same, F.lit(True)), how)
    return joined.drop(*(f"{_THERE}{name}" for name in names))


def check_removed(
    context: Context,
    state: State,
    part: RangeInput,
    written: Built,
    old_windows: ReplacedWindows,
    between: Span,
) -> Sequence[str]:
    """Checks that the source's events of replaced windows are in the windows written.

    Events are read again only for windows that have fewer events in their place.

    Args:
        context: the run's context.
        state: the table.
        part: the range that was computed.
        written: the windows that were computed in their place.
        old_windows: which windows are replaced.
        between: the first and the last instant of these, µs, inclusive.

    Returns:
        The files that hold replaced windows.

    Raises:
        ConservationError: events of a window that is removed are in no window written.
    """
    removed = rows_to_replace(context, state, written, old_windows, between)
    if removed is None:
        return []
    watched, seen = observed(removed, F.collect_set(FILE).alias("files"), hold=True)
    counts = (
        _compared(watched, written).agg(F.count(_BEFORE), F.count_if(F.expr(_FEWER))).collect()[0]
    )
    if counts[1]:
        lost = _joined(removed, fewer(removed, written), _same(written), "left_semi")
        _check_events(context, state, part, written, lost)
    # Spark may observe nothing of a frame that it finds to be empty.
    return sorted(seen()["files"]) if counts[0] else []


def _check_events(
    context: Context, state: State, part: RangeInput, written: Built, lost: DataFrame
) -> None:
    """Checks that the events of some removed windows are in the windows written."""
    kind = written.kind
    columns = [*written.sliced.key.inner, START, END]
    lost, bounds = computed_extents(lost.select(*columns).withColumn(START, kind.place()))
    assert bounds is not None
    low, high = bounds
    start, end = kind.needs(F.col(START), F.col(END))
    counted = counted_by(state.record, context.inputs, part.dates, context.spec.timezone)
    span, key = kind.events_of((low, high + 1)), written.sliced.key
    extents = lost.withColumns({START: start, END: end})
    definition = written.definition
    if not definition.of_events and isinstance(definition.window, SessionWindow):
        events = people_within(context, counted, span, key, extents)
        sliced = slices(context, events, [state.name], computed_once)
        # Rules can cut within a slice.
        wrong = outside(sliced.singles.get(definition.window, sliced.frame), written)
    else:
        again = rows_of(context, state.name, counted, span, key, extents)
        wrong = unlike(
            match_rows(again.frame, again, ReplacedWindows(None, lost), "left_semi"), written
        )
    check_none_lost(state.name, wrong.count())
