"""Slices: the partial aggregates of one key's events in one short span of time.

Events are grouped by key and slice, which Spark combines on the map side; so a key that holds
half of all events costs no more than other keys. Windows are built from slices alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.window import Window as Over

from backfill.aggregates.bound import Bound
from backfill.columns import EVENTS, FIRST, LAST, ROWS, TIME, sortable
from backfill.operators.grids import Cutting, floor_to
from backfill.runtimes.differences import runtime_of
from backfill.runtimes.nulls_first import flagged, sorts_alike

ID = "_id"
_UNIQUE = "_unique"
_HOUR_US = 3_600_000_000


def cut(
    events: DataFrame,
    *,
    keys: Sequence[str],
    cuttings: Iterable[Cutting],
    aggregates: Sequence[Bound],
    deduplicate: bool,
) -> DataFrame:
    """Cuts events into slices, in one pass for all windows of a job.

    Args:
        events: usable events as `aggregates.bound.bind` gives them: key, time and arrival
            columns and the aggregates' inputs; with `deduplicate` the id; ROWS, if they have been
            deduplicated already.
        keys: the key columns.
        cuttings: the grids; an event belongs to one slice of each, and events that share a slice
            in all of them make one row.
        aggregates: the aggregates whose states to make.
        deduplicate: count events of equal key, time and id once.

    Returns:
        One row per key and slice: first and last event (µs), the number of events, the number of
        rows before duplicates were removed, states.
    """
    grid = {
        f"_grid{i}": cutting.cut(F.col(TIME)) for i, cutting in enumerate(dict.fromkeys(cuttings))
    }
    placed = events.withColumns(grid)
    if deduplicate:
        placed = distinct(placed, [*keys, *grid])
    rows = F.sum(ROWS) if ROWS in placed.columns else F.count(F.lit(1))
    return placed.groupBy(*keys, *grid).agg(
        F.min(TIME).alias(FIRST),
        F.max(TIME).alias(LAST),
        F.count(F.lit(1)).alias(EVENTS),
        rows.alias(ROWS),
        *(state for binding in aggregates for state in binding.partial()),
    )


def apart(
    events: DataFrame, *, keys: Sequence[str], states: Sequence[Column], deduplicate: bool
) -> DataFrame:
    """Each event as a slice of its own, for windows that rarely merge two of them.

    Args:
        events: as for `cut`.
        keys: the key columns.
        states: the aggregates' states of one event.
        deduplicate: as for `cut`; events are exchanged by key then.

    Returns:
        As `cut`, without the last event, which is the first one.
    """
    rows = F.lit(1).cast("long").alias(ROWS)
    if deduplicate:
        events, rows = distinct(events, list(keys)), F.col(ROWS)
    one = F.lit(1).cast("long").alias(EVENTS)
    return events.select(*keys, F.col(TIME).alias(FIRST), one, rows, *states)


def together(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Puts rows with equal values in these columns into one partition; without columns, all."""
    return rows.repartition(*columns) if columns else rows.coalesce(1)


def distinct(placed: DataFrame, place: list[str]) -> DataFrame:
    """One row per event; if copies differ, the one with the smallest (arrival, inputs).

    The events are exchanged once, by their place: key and slice. Both this grouping and the one
    into slices then find their rows together, and a hot key is spread over its slices.
    """
    same = [*place, TIME, ID, _UNIQUE]
    payload = [name for name in placed.columns if name not in same]
    tagged = together(placed, place).withColumn(
        # Rows without an id are never copies of each other.
        _UNIQUE,
        F.when(F.col(ID).isNull(), F.monotonically_increasing_id()),
    )
    counted = F.count(F.lit(1)).alias(ROWS)
    if not payload:
        return tagged.groupBy(*same).agg(counted)
    types = {name: placed.schema[name].dataType for name in payload}
    least = _smallest(types)
    if not runtime_of(placed.sparkSession).orders_nulls:
        if not all(map(sorts_alike, types.values())):
            return _first_of(tagged, same, payload)
        least = F.min(flagged(F.struct(*payload), {name: lambda value: value for name in payload}))
    kept = tagged.groupBy(*same).agg(counted, least.alias("_copy"))
    return kept.select(*same, ROWS, *(F.col("_copy")[name].alias(name) for name in payload))


def _first_of(rows: DataFrame, same: list[str], payload: list[str]) -> DataFrame:
    """As `distinct`, but by a sort: it orders NULL and NaN where the least struct may not."""
    copies = Over.partitionBy(*same)
    # Sail 0.7.2 has no frame by values over a struct, which is the default frame of an order.
    ordered = copies.orderBy(*payload).rowsBetween(Over.unboundedPreceding, Over.currentRow)
    numbered = rows.select(
        *same,
        F.count(F.lit(1)).over(copies).alias(ROWS),
        *payload,
        F.row_number().over(ordered).alias("_copy"),
    )
    return numbered.where(F.col("_copy") == 1).drop("_copy")


def distinct_by_hour(events: DataFrame, keys: list[str]) -> DataFrame:
    """As `distinct`, for events that are not needed together by key: a hot key is spread."""
    hours = events.withColumn("_hour", floor_to(F.col(TIME), _HOUR_US, 0))
    return distinct(hours, [*keys, "_hour"]).drop("_hour")


def _smallest(payload: Mapping[str, T.DataType]) -> Column:
    row = F.struct(*payload)
    if not all(map(sortable, payload.values())):
        # Such as maps, which have no order: by their text.
        order = (
            F.col(name) if sortable(type) else F.to_json(F.struct(name))
            for name, type in payload.items()
        )
        return F.min_by(row, F.struct(*order))
    if len(payload) > 1:
        return F.min(row)
    # A single column of fixed width is aggregated by hashing; NULL is the smallest, as in a struct.
    [name] = payload
    only = F.col(name)
    return F.struct(F.when(F.count(only) == F.count(F.lit(1)), F.min(only)).alias(name))
