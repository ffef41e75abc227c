"""Sessions at the edges of a date have files of their own.

An event can join sessions of a neighboring date only at that date's edges. So late events of a
date, or a new date, rewrite only that date's files and these small ones.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.engines import Engine
from backfill.kinds import kind_of
from backfill.operators.calendar import local_date
from backfill.store import APART
from backfill.windows import AnyWindow, SessionWindow, by_place


def with_edges_apart(rows: DataFrame, window: AnyWindow, engine: Engine, zone: str) -> DataFrame:
    """Adds APART to rows of sessions: whether an event of another date could join the session.

    Other windows have no such edges: how many dates one reaches over depends only on its length.
    """
    if not isinstance(window, SessionWindow) or by_place(window):
        return rows
    (start, last), gap = kind_of(window, engine, zone).bounds(), window.gap.us
    edges = (start - gap, last + gap)
    first, final = (local_date(edge, zone) != F.col("date") for edge in edges)
    return rows.withColumn(APART, F.coalesce(first | final, F.lit(True)))
