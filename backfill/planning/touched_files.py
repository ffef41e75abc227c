"""The files of a table that a run rewrites: only those with rows that are replaced or change."""

from __future__ import annotations

from collections.abc import Set
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.ledger.state import State
from backfill.planning.context import Context
from backfill.planning.published_windows import candidates, published
from backfill.planning.replaced_windows import ReplacedWindows, match_rows
from backfill.planning.stages import Rewritten
from backfill.rows.compute import Built
from backfill.runtimes.differences import where
from backfill.store import FILE, DataFile

_REPLACED = "_replaced"


def touched_files(
    context: Context,
    state: State,
    built: Built,
    extents: DataFrame | None,
    hull: tuple[int | None, int | None] | None,
    horizon: int,
) -> dict[str, int]:
    """The files that hold a row that is replaced, or whose `is_open` changes, by path.

    Args:
        context: the run's context.
        state: the table.
        built: windows of the table.
        extents: which rows are replaced, as in `ReplacedWindows`; None: no row is.
        hull: the first and the last instant of these, µs, inclusive; None: no row is.
        horizon: the largest time of an event once the run is done, µs.

    Returns:
        How many rows of each file are replaced.
    """
    before = None if state.record is None else state.record.horizon
    moved = before is not None and before != horizon
    files: list[DataFile] = []
    if before is not None and moved:
        edge = min(before, horizon) - built.kind.open_us - context.spec.engine.tick_us
        files += candidates(context, state, built, edge, None)
    if extents is not None and hull is not None:
        files += candidates(context, state, built, *hull)
    if not files:
        return {}
    once = {file.path: file for file in files}
    rows = published(context, state, built, list(once.values()), with_file=True)
    frames = []
    if extents is not None and hull is not None:
        replaced = match_rows(rows, built, ReplacedWindows(None, extents), "left_semi")
        frames.append(replaced.select(FILE, F.lit(1).alias(_REPLACED)))
    if moved:
        changed = where(rows, F.col("is_open") != built.kind.is_open(horizon))
        frames.append(changed.select(FILE, F.lit(0).alias(_REPLACED)))
    every = reduce(DataFrame.unionAll, frames).groupBy(FILE).agg(F.sum(_REPLACED))
    return {row[0]: row[1] for row in every.collect()}


def no_longer_open(context: Context, state: State, built: Built, horizon: int) -> dict[str, int]:
    """The files with rows whose `is_open` changes; arguments and result as in `touched_files`."""
    return touched_files(context, state, built, None, None, horizon)


def rewritten(state: State, paths: Set[str]) -> Rewritten:
    """What it takes to write some files of a table again."""
    files = [file for file in state.files if file.path in paths]
    return Rewritten(
        files=len(files),
        rows=sum(file.rows for file in files),
        size=sum(file.size for file in files),
        of=len(state.files),
    )
