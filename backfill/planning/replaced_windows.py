"""Which windows are replaced by new ones: by time, or by key and extent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill.columns import END, START
from backfill.compute import Built
from backfill.operators.aligned import layout
from backfill.operators.fixed import FixedWindows
from backfill.windows import SessionWindow

_OTHER = "_other"
#: So many rows are sent to where a table's are, rather than these to them: some 10 MB, which is
#: what Spark takes for little, where it knows.
FEW = 100_000


@dataclass(frozen=True)
class ReplacedWindows:
    """The rows of a table that new windows replace.

    Attributes:
        span: [low, high) in µs: every window that overlaps it; None for none.
        extents: key, start and end (µs): for sessions every one that overlaps such an extent of
            its key, for aligned windows exactly these; None for none.
    """

    span: tuple[int | None, int | None] | None
    extents: DataFrame | None


def overlaps(built: Built, span: tuple[int | None, int | None]) -> Column:
    """Whether a window, by its start and end, holds an instant of the span."""
    low, high = span
    window = built.definition.window
    shift, inclusive = 0, isinstance(window, SessionWindow)
    if not isinstance(window, SessionWindow):
        where = layout(window, built.sliced.engine, built.sliced.zone)
        shift = where.shift if isinstance(where, FixedWindows) else 0
    conditions = [F.lit(True)]
    if low is not None:
        end = F.col(END) + shift
        conditions.append(end >= low if inclusive else end > low)
    if high is not None:
        conditions.append(F.col(START) + shift < high)
    return reduce(and_, conditions)


def match_rows(rows: DataFrame, built: Built, old_windows: ReplacedWindows, how: str) -> DataFrame:
    """The rows that extents replace (`left_semi`), or the rows that stay (`left_anti`)."""
    if old_windows.extents is None:
        return rows if how == "left_anti" else rows.limit(0)
    keys = built.sliced.key.inner
    others = old_windows.extents.select(
        *(F.col(each).alias(f"{_OTHER}{each}") for each in (*keys, START, END))
    )
    same = [F.col(each).eqNullSafe(F.col(f"{_OTHER}{each}")) for each in keys]
    start, end = F.col(f"{_OTHER}{START}"), F.col(f"{_OTHER}{END}")
    if isinstance(built.definition.window, SessionWindow):
        met = (F.col(START) <= end) & (F.col(END) >= start)
    else:
        met = (F.col(START) == start) & (F.col(END) == end)
    return rows.join(others, reduce(and_, same, met), how)


def of_keys(rows: DataFrame, others: DataFrame, keys: Sequence[str], how: str) -> DataFrame:
    """The rows whose key is among the others (`left_semi`), or is not (`left_anti`)."""
    theirs = others.select(*(F.col(each).alias(f"{_OTHER}{each}") for each in keys))
    same = [F.col(each).eqNullSafe(F.col(f"{_OTHER}{each}")) for each in keys]
    return rows.join(theirs, reduce(and_, same, F.lit(True)), how)


def sent(rows: DataFrame, most: int) -> DataFrame:
    """The rows, of which there are at most so many, to be joined with many others.

    Spark cannot tell how few they are before both sides are on their way.
    """
    return F.broadcast(rows) if most <= FEW else rows
