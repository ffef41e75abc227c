"""Puts new windows in the place of published ones; rewrites only the files that held these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.columns import EVENTS
from backfill.execution.published_types import as_published
from backfill.execution.staging import Staging
from backfill.ledger.state import State
from backfill.planning.context import Context
from backfill.planning.published_windows import with_bounds
from backfill.planning.replaced_windows import ReplacedWindows, match_rows, overlaps
from backfill.planning.touched_files import touched_files
from backfill.rows.compute import Built
from backfill.runtimes.differences import observed
from backfill.store import Staged

#: A rewritten part often has one date, which one task would write at Spark's setting, 64 MiB.
_TASK = 8 * 1024 * 1024


@dataclass(frozen=True)
class FileRewrite:
    """Files of a table to be replaced by staged ones.

    Attributes:
        rows: the number of new windows.
        events: the sum of their numbers of events.
    """

    staged: Staged
    replaced: tuple[str, ...]
    rows: int
    events: int


def rewrite_files(
    context: Context,
    staging: Staging,
    state: State,
    built: Built,
    old_windows: ReplacedWindows,
    hull: tuple[int | None, int | None] | None,
    horizon: int,
    replaced: Sequence[str] | None = None,
) -> FileRewrite:
    """Writes the new windows, and the other rows of the files that are replaced.

    Args:
        context: the run's context.
        staging: where to write.
        state: the table.
        built: the new windows.
        old_windows: what they replace.
        hull: the first and the last instant of these, µs, inclusive; None: nothing is replaced.
        horizon: the largest event time, µs.
        replaced: the files that hold these; None: look up those of the extents, not of the span.
    """
    sums = F.count(F.lit(1)).alias("rows"), F.sum(EVENTS).alias("events")
    new, counted = observed(built.table(horizon), *sums, hold=True)
    unknown = old_windows.extents if replaced is None else None
    rewritten = {
        *(replaced or ()),
        *touched_files(context, state, built, unknown, hull, horizon),
    }
    everything = new
    if rewritten:
        assert state.table is not None
        like = state.table.read(context.spark, sorted(rewritten))
        bounded = with_bounds(like, built.definition, built.sliced)
        rest = _remaining(bounded, built, old_windows, horizon)
        rest = as_published(rest, like, state.name)
        everything = as_published(new, like, state.name).unionByName(rest)
    staged = staging.windows(state.name, everything, task_bytes=_TASK)
    # Spark may observe nothing of a frame that it finds to be empty.
    rows, events = counted().values() if staged.rows else (0, 0)
    return FileRewrite(staged, tuple(sorted(rewritten)), rows, events or 0)


def _remaining(
    rows: DataFrame, built: Built, old_windows: ReplacedWindows, horizon: int
) -> DataFrame:
    """The rows of rewritten files, without those that are replaced."""
    kept = rows if old_windows.span is None else rows.where(~overlaps(built, old_windows.span))
    kept = match_rows(kept, built, old_windows, "left_anti")
    return kept.withColumn("is_open", built.kind.is_open(horizon))
