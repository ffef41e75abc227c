"""Frames that are computed once, and sums over them in the same pass.

A run over little data spends most of its time on planning and starting Spark jobs. So a sum has no
job of its own if it can be computed along the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill.columns import END, START
from backfill.runtimes.differences import computed_once, observed, runtime_of


def computed_with(frame: DataFrame, *sums: Column) -> tuple[DataFrame, Mapping[str, Any]]:
    """The frame, computed now and once, and aggregates over it.

    Args:
        frame: any rows.
        sums: aggregates with names; none of distinct values, which Spark does not observe.

    Returns:
        The rows, and the values of the aggregates by name.
    """
    if not runtime_of(frame.sparkSession).observes:
        rows, seen = observed(frame, *sums, hold=True)
        return rows, seen()
    watched, seen = observed(frame, *sums)
    rows = computed_once(watched)
    # Over Spark Connect a checkpoint observes nothing.
    return rows, seen() or rows.agg(*sums).collect()[0].asDict()


def computed_extents(extents: DataFrame) -> tuple[DataFrame, tuple[int, int] | None]:
    """The extents, computed now and once, and their hull as `hull` gives it."""
    rows, seen = computed_with(extents, *ends())
    return rows, hull_of(seen)


def hull(extents: DataFrame) -> tuple[int, int] | None:
    """From the first start to the last end, µs; None if there are no extents."""
    return hull_of(extents.agg(*ends()).collect()[0].asDict())


def ends() -> tuple[Column, Column]:
    """The aggregates over extents that `hull_of` reads."""
    return F.min(START).alias("low"), F.max(END).alias("high")


def hull_of(bounds: Mapping[str, Any]) -> tuple[int, int] | None:
    """As `hull`, from the values of `ends`."""
    return None if bounds["low"] is None else (bounds["low"], bounds["high"])
