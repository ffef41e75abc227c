"""Measures of a run's events, from their slices: nothing is read again.

Only the check for events counted twice needs the events' ids, and so another look at them. If there
are many events, it looks at some of the keys only, at all events of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill.columns import EVENTS, FIRST, LAST, TIME, column
from backfill.quality import sample
from backfill.rows.compute import Sliced

#: The checks that look at slices.
_OF_SLICES = ("key_present", "time_present", "inside_range")


@dataclass(frozen=True, kw_only=True)
class Counted:
    """The events that a run counted.

    Attributes:
        sliced: their slices, kept.
        sums: sums over the slices, including the values of `slice_checks`.
        events: normalised, usable events, including duplicates.
        id: the column of the event id, if the job has one.
        read: how many rows were read, including those that can't be used.
        quarantined: how many of them can't be used; the events of bots are not included.
        until: the end of the range of dates that was asked for, µs; None if there was none.
        latest: the largest event time of all, µs.
    """

    sliced: Sliced
    sums: Mapping[str, Any]
    events: DataFrame
    id: str | None
    read: int
    quarantined: int
    until: int | None = None
    latest: int | None = None


def slice_checks(sliced: Sliced, span: tuple[int | None, int | None]) -> list[Column]:
    """Aggregates over slices: the events that break a check, named after the check.

    Args:
        sliced: the slices.
        span: the times that events were read for, µs, [low, high); None for no bound.
    """
    low, high = span
    keys = sliced.key.inner
    keyless = F.lit(False)
    if keys and not sliced.engine.null_key:
        keyless = reduce(and_, [F.col(name).isNull() for name in keys])
    outside = F.lit(False)
    if low is not None:
        outside |= F.col(FIRST) < low
    if high is not None:
        outside |= F.col(LAST) >= high
    timeless = F.col(FIRST).isNull() | F.col(LAST).isNull()
    return [
        F.sum(F.when(broken, F.col(EVENTS)).otherwise(0)).alias(name)
        for name, broken in zip(_OF_SLICES, (keyless, timeless, outside & ~timeless), strict=True)
    ]


def measure_events(counted: Counted) -> dict[str, float]:
    """The numbers of the built-in checks, by name: events that break one, shares, spans in µs."""
    metrics: dict[str, float] = {name: counted.sums[name] or 0 for name in _OF_SLICES}
    metrics["quarantined_share"] = counted.quarantined / counted.read if counted.read else 0.0
    if counted.until is not None and counted.latest is not None:
        metrics["freshness"] = max(0, counted.until - counted.latest)
    if counted.id is not None:
        metrics["counted_once"] = _twice(counted, counted.id)
    return metrics


def _twice(counted: Counted, id: str) -> int:
    """Events counted, minus distinct events; for many events, only of some keys."""
    sliced, events = counted.sliced, counted.events
    slices = sliced.frame
    own = [
        # 0.0 and -0.0 are one key, and would be two to the hash.
        column(name) + F.lit(0.0).cast(type)
        if isinstance(type, T.FloatType | T.DoubleType)
        else column(name)
        for name, type in zip(sliced.key.names, sliced.key.types, strict=True)
    ]
    if counted.read > sample.FEW:
        slices = slices.where(sample.sampled([F.col(name) for name in sliced.key.inner]))
        events = events.where(sample.sampled(own))
    (held,) = slices.agg(F.sum(EVENTS)).collect()[0]
    key = [value.alias(f"_own{i}") for i, value in enumerate(own)]
    # Grouped, because Sail 0.7.2 needs gigabytes for some thousand distinct structs beside a count.
    copies = events.groupBy(*key, TIME, column(id).alias("_id")).agg(F.count(F.lit(1)).alias("_n"))
    # Each row without an id is an event.
    without_id = F.coalesce(F.sum(F.when(F.col("_id").isNull(), F.col("_n"))), F.lit(0))
    nameless, different = copies.agg(without_id, F.count("_id")).collect()[0]
    return int(max(0, (held or 0) - nameless - different))
