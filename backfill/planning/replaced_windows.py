"""Which windows are replaced by new ones: by time, or by key and extent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill.columns import END, START, column
from backfill.rows.compute import Built

_OTHER = "_other"
#: Up to this many rows are sent to where a table's rows are, rather than those to them. This is
#: some 10 MB, which Spark considers little where it knows the size.
FEW = 100_000


@dataclass(frozen=True)
class ReplacedWindows:
    """The rows of a table that new windows replace.

    Attributes:
        span: [low, high) in µs: every window that an event of it can be in; None for none.
        extents: key, start and end (µs): for sessions every one that overlaps such an extent of
            its key, for aligned windows exactly these, for windows around single events every
            row that stands in one; None for none.
    """

    span: tuple[int | None, int | None] | None
    extents: DataFrame | None


def overlaps(built: Built, span: tuple[int | None, int | None]) -> Column:
    """Whether an event of the span can be in a window, by the window's start and end."""
    return built.kind.affected(span)


def match_rows(rows: DataFrame, built: Built, old_windows: ReplacedWindows, how: str) -> DataFrame:
    """The rows that extents replace (`left_semi`), or the rows that stay (`left_anti`)."""
    if old_windows.extents is None:
        return rows if how == "left_anti" else rows.limit(0)
    keys = built.sliced.key.inner
    others = old_windows.extents.select(
        *(F.col(name).alias(f"{_OTHER}{name}") for name in (*keys, START, END))
    )
    same = [F.col(name).eqNullSafe(F.col(f"{_OTHER}{name}")) for name in keys]
    met = built.kind.met(F.col(f"{_OTHER}{START}"), F.col(f"{_OTHER}{END}"))
    return rows.join(others, reduce(and_, same, met), how)


def of_keys(rows: DataFrame, others: DataFrame, keys: Sequence[str], how: str) -> DataFrame:
    """The rows whose key is among the others (`left_semi`), or is not (`left_anti`)."""
    theirs = others.select(*(column(name).alias(f"{_OTHER}{name}") for name in keys))
    same = [column(name).eqNullSafe(column(f"{_OTHER}{name}")) for name in keys]
    return rows.join(theirs, reduce(and_, same, F.lit(True)), how)


def sent(rows: DataFrame, most: int) -> DataFrame:
    """The rows, at most `most` of them, to be joined with many others.

    Spark cannot tell how few they are before both sides are on their way.
    """
    return F.broadcast(rows) if most <= FEW else rows
