"""Published windows in the form that they were built from: bounds in µs, and states."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill.columns import END, EVENTS, FIRST, LAST, START, column, key_name
from backfill.kinds import kind_of, times_of
from backfill.ledger.state import State
from backfill.planning.context import Context
from backfill.planning.replaced_windows import ReplacedWindows, match_rows, of_keys, overlaps
from backfill.rows.compute import Built, Sliced
from backfill.rows.definition import Definition
from backfill.runtimes.differences import computed_once
from backfill.store import FILE, DataFile
from backfill.time.spans import Span


def with_bounds(rows: DataFrame, definition: Definition, sliced: Sliced) -> DataFrame:
    """The rows of a table, with inner key columns, start and end added."""
    start, end = kind_of(definition.window, sliced.engine, sliced.zone).bounds()
    inner = {
        key_name(i): column(name).cast(type)
        for i, (name, type) in enumerate(zip(sliced.key.names, sliced.key.types, strict=True))
    }
    return rows.withColumns({**inner, START: start, END: end})


def as_slices(rows: DataFrame, definition: Definition, sliced: Sliced, *also: Column) -> DataFrame:
    """The rows of a table as slices: key, bounds, number of events, states.

    Args:
        rows: what `with_bounds` gives.
        definition: the table's window and aggregates, all mergeable.
        sliced: the slices that these rows are merged with.
        also: further columns to keep.
    """
    states = {
        sliced.bound[aggregate]: sliced.bound[aggregate].published(name)
        for name, aggregate in definition.aggregates.items()
    }
    return rows.select(
        *sliced.key.inner,
        F.col(START).alias(FIRST),
        F.col(END).alias(LAST),
        START,
        END,
        EVENTS,
        *(state for columns in states.values() for state in columns),
        *also,
    )


def published(
    context: Context, state: State, built: Built, files: Sequence[DataFile], **options: bool
) -> DataFrame:
    """Rows of a table with their bounds.

    Args:
        context: the run's context.
        state: the table.
        built: windows of the same definition.
        files: the files to read.
        options: options of `Table.read`.
    """
    assert state.table is not None
    rows = state.table.read(context.spark, [file.path for file in files], **options)
    return with_bounds(rows, built.definition, built.sliced)


def candidates(
    context: Context, state: State, built: Built, low: int | None, high: int | None
) -> list[DataFile]:
    """The files that can hold windows with an instant in [low, high], by statistics."""
    files = []
    starts, ends = times_of(built.definition.window)
    for file in state.files:
        first, last = file.minimum.get(starts), file.maximum.get(ends)
        after = high is not None and first is not None and first > high
        if last is not None:
            last = built.kind.last(last) + context.spec.engine.tick_us
        before = low is not None and last is not None and last < low
        if not after and not before:
            files.append(file)
    return files


def rows_to_replace(
    context: Context,
    state: State,
    built: Built,
    old_windows: ReplacedWindows,
    hull: Span,
) -> DataFrame | None:
    """The published windows to be replaced: key, start, end, numbers of events, file.

    Args:
        context: the run's context.
        state: the table.
        built: windows of the table.
        old_windows: which windows are replaced.
        hull: the first and the last instant of these, µs, inclusive.

    Returns:
        None if there can be none.
    """
    files = candidates(context, state, built, *hull)
    if not files:
        return None
    columns = dict.fromkeys([*built.sliced.key.inner, START, END, EVENTS, built.kind.held, FILE])
    rows = published(context, state, built, files, with_file=True).select(*columns)
    if old_windows.span is None:
        return match_rows(rows, built, old_windows, "left_semi")
    inside = overlaps(built, old_windows.span)
    if old_windows.extents is None:
        return rows.where(inside)
    others = match_rows(rows.where(~inside), built, old_windows, "left_semi")
    return rows.where(inside).unionByName(others)


def published_extents(
    context: Context,
    state: State,
    sliced: Sliced,
    span: tuple[int | None, int | None],
    wanted: DataFrame,
) -> DataFrame | None:
    """Key, start and end (µs) of published sessions of some keys that overlap [low, high).

    Returns:
        None if there can be none.
    """
    low, high = span
    built = Built(sliced.frame, context.definitions[state.name], sliced)
    files = candidates(context, state, built, low, None if high is None else high - 1)
    if not files:
        return None
    rows = published(context, state, built, files).where(overlaps(built, span))
    keys = sliced.key.inner
    return computed_once(of_keys(rows, wanted, keys, "left_semi").select(*keys, START, END))
