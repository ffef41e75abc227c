"""For each row of one frame, the latest row of another one that is not after it."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from backfill.columns import TIME
from backfill.joins.merging import SECOND, group, merged, ties, usable


def latest(
    own: DataFrame,
    other: DataFrame,
    *,
    keys: Sequence[str],
    arrival: Sequence[str] = (),
    allow_exact: bool,
    names: tuple[str, str],
) -> DataFrame:
    """Puts both frames in order of time, and carries the last row of the other one forward.

    Args:
        own: rows with TIME.
        other: rows with TIME.
        keys: columns that both have; NULL is equal to nothing.
        arrival: columns of the other frame that order its rows of one time. Rows that are still
            alike are ordered by its other columns.
        allow_exact: whether a row of the same time counts as not after.
        names: of the two columns of the result.

    Returns:
        Each own row once, as a struct, and the other frame's row, NULL if there is none.
    """
    mine, theirs = names
    # Rows that can be in no pair are not carried forward.
    frames = {mine: own, theirs: other.where(usable(keys))}
    both = merged(frames, keys, second=mine if allow_exact else theirs)
    in_time = Over.partitionBy(*group(keys)).orderBy(TIME, SECOND, *ties(theirs, other, arrival))
    so_far = in_time.rowsBetween(Over.unboundedPreceding, Over.currentRow)
    carried = both.withColumn(theirs, F.last(theirs, ignorenulls=True).over(so_far))
    return carried.where(F.col(mine).isNotNull()).select(mine, theirs)
