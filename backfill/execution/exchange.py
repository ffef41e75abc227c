"""Windows put in the place of published ones: only the files that held these are written anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill.columns import END, START, column
from backfill.compute import Built
from backfill.execution.origins import FILE
from backfill.operators.aligned import layout
from backfill.operators.fixed import FixedWindows
from backfill.operators.session import session_is_open
from backfill.windows import SessionWindow

_OTHER = "_other"
#: So many rows are sent to where a table's are, rather than these to them: some 10 MB, which is
#: what Spark takes for little, where it knows.
FEW = 100_000


@dataclass(frozen=True)
class Place:
    """What of a table gives way to new windows.

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


def given_way(rows: DataFrame, built: Built, place: Place, how: str) -> DataFrame:
    """The rows that give way (`left_semi`) to extents, or those that stay (`left_anti`)."""
    if place.extents is None:
        return rows if how == "left_anti" else rows.limit(0)
    keys = built.sliced.key.inner
    others = place.extents.select(
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


def still_open(built: Built, horizon: int) -> Column:
    """`is_open` of a published row at a horizon (µs), from its start and end."""
    window, engine = built.definition.window, built.sliced.engine
    if isinstance(window, SessionWindow):
        return session_is_open(F.col(END), window, engine.rules_for(window), horizon)
    return layout(window, engine, built.sliced.zone).is_open(F.col(END), horizon)


def remaining(rows: DataFrame, built: Built, place: Place, horizon: int) -> DataFrame:
    """The rows of files that are written anew, but for those that give way."""
    kept = rows if place.span is None else rows.where(~overlaps(built, place.span))
    kept = given_way(kept, built, place, "left_anti")
    return kept.withColumn("is_open", still_open(built, horizon))


def touched(rows: DataFrame, built: Built, place: Place, horizon: int | None) -> list[str]:
    """The files that hold a row that gives way, or is not open any more; by path."""
    found = []
    if place.extents is not None:
        found.append(given_way(rows, built, place, "left_semi").select(FILE))
    conditions = [] if place.span is None else [overlaps(built, place.span)]
    if horizon is not None:
        conditions.append(F.col("is_open") != still_open(built, horizon))
    if conditions:
        found.append(rows.where(reduce(or_, conditions)).select(FILE))
    every = reduce(DataFrame.unionByName, found).distinct().collect()
    return sorted(row[FILE] for row in every)


def as_published(new: DataFrame, like: DataFrame) -> DataFrame:
    """The rows with the columns and types that the table has."""
    types = {field.name: field.dataType for field in like.schema.fields}
    return new.select(*(column(name).cast(kind).alias(name) for name, kind in types.items()))
