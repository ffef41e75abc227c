"""Reduces the rows that a stream wrote to one state per window.

States have the key, `_start`, `_end` and the aggregates of a window, and
ORDER: the order of its last row;
GONE: it was taken back, or merged into another, or is not in the last batch;
ROWS: how many rows there are of it;
TOMBSTONES: how many of them take it back;
USED: how many of them its values are made of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructType
from pyspark.sql.window import Window as Over

from backfill.columns import END, ROWS, START, column, quoted
from backfill.reconciliation.output.decoders.base import GONE, ORDER
from backfill.runtimes.differences import runtime_of

TOMBSTONES = "_tombstones"
USED = "_used"
_BATCH, _LAST, _PICKED, _RANK = "_batch", "_last_batch", "_picked", "_rank"
_MERGERS = {"sum": F.sum, "min": F.min, "max": F.max}


def last_of_each(rows: DataFrame, keys: Sequence[str], names: Sequence[str]) -> DataFrame:
    """The state of each window, as its last row leaves it."""
    if not runtime_of(rows.sparkSession).is_spark:
        return _last_by_sorting(rows, keys, names)
    fields = [*names, GONE, ORDER]
    if isinstance(rows.schema[ORDER].dataType, LongType):
        # One by one, because Spark then aggregates by hash, if the values also have a fixed width.
        last = {name: F.max_by(column(name), ORDER).alias(name) for name in fields}
        columns, picked = list(last.values()), {name: column(name) for name in fields}
    else:
        columns = [F.max_by(F.struct(*map(quoted, fields)), ORDER).alias(_PICKED)]
        picked = {name: F.col(_PICKED).getField(name).alias(name) for name in fields}
    states = rows.groupBy(*keys, START, END).agg(
        *columns, F.count(F.lit(1)).alias(ROWS), F.count_if(GONE).alias(TOMBSTONES)
    )
    used = (~picked[GONE]).cast("bigint").alias(USED)
    return states.select(*keys, START, END, *picked.values(), ROWS, TOMBSTONES, used)


def _last_by_sorting(rows: DataFrame, keys: Sequence[str], names: Sequence[str]) -> DataFrame:
    """The same; Sail 0.7.2 needs more than a kilobyte for each group whose last row is wanted."""
    of_window = Over.partitionBy(*keys, START, END)
    type = rows.schema[ORDER].dataType
    fields = [f"{ORDER}.{name}" for name in type.names] if isinstance(type, StructType) else [ORDER]
    latest_first = of_window.orderBy(*(F.col(field).desc() for field in fields))
    counted = rows.withColumns(
        {
            _RANK: F.row_number().over(latest_first),
            ROWS: F.count(F.lit(1)).over(of_window),
            TOMBSTONES: F.count_if(GONE).over(of_window),
        }
    )
    used = (~F.col(GONE)).cast("bigint").alias(USED)
    kept = [*keys, START, END, *map(quoted, names), GONE, ORDER, ROWS, TOMBSTONES]
    return counted.where(F.col(_RANK) == 1).select(*kept, used)


def every(rows: DataFrame) -> DataFrame:
    """Each row as it is, for windows with a row for each event: none replaces another."""
    return rows.withColumns(
        {
            ROWS: F.lit(1).cast("bigint"),
            TOMBSTONES: F.col(GONE).cast("bigint"),
            USED: (~F.col(GONE)).cast("bigint"),
        }
    )


def last_batch(rows: DataFrame, keys: Sequence[str], names: Sequence[str]) -> DataFrame:
    """The state of each window in the last batch, for a stream that repeats all in every batch."""
    batch = F.col(ORDER).getField("batch_id")
    batches = rows.select("*", batch.alias(_BATCH))
    newest = batches.agg(F.max(_BATCH).alias(_LAST))
    marked = batches.crossJoin(F.broadcast(newest))
    earlier = F.col(_BATCH) < F.col(_LAST)
    states = last_of_each(marked.withColumn(GONE, earlier), keys, names)
    return states.withColumn(TOMBSTONES, F.lit(0).cast("bigint"))


def merged(
    rows: DataFrame, keys: Sequence[str], names: Sequence[str], merged_by: Mapping[str, str]
) -> DataFrame:
    """The state of each window, made of all its rows together.

    Args:
        rows: decoded.
        keys: the inner key columns.
        names: of the aggregates.
        merged_by: for each of them sum, min or max.
    """
    return rows.groupBy(*keys, START, END).agg(
        *(_merger(rows, name, merged_by[name]).alias(name) for name in names),
        F.max(ORDER).alias(ORDER),
        F.lit(False).alias(GONE),
        F.count(F.lit(1)).alias(ROWS),
        F.lit(0).cast("bigint").alias(TOMBSTONES),
        F.count(F.lit(1)).alias(USED),
    )


def _merger(rows: DataFrame, name: str, how: str) -> Column:
    value = column(name)
    long = isinstance(rows.schema[name].dataType, LongType)
    if how == "sum" and long and not runtime_of(rows.sparkSession).reports_overflow:
        # The cast reports it if the total overflows.
        return F.sum(value.cast("decimal(28,0)")).cast("bigint")
    return _MERGERS[how](value)


def without_merged(states: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Marks sessions within another session of the key as gone: they were merged into it.

    A merged session covers all its parts, and nothing retracts these. Sessions that only overlap
    were never merged: the state of one was gone when the other began.
    """
    inside = F.coalesce(_end_before(keys) >= F.col(END), F.lit(False))
    marked = states.withColumn(GONE, F.col(GONE) | inside)
    return marked.withColumn(USED, F.when(F.col(GONE), F.lit(0)).otherwise(F.col(USED)))


def into_merged(
    states: DataFrame, keys: Sequence[str], names: Sequence[str], merged_by: Mapping[str, str]
) -> DataFrame:
    """Adds sessions within another session of the key to that one: see `without_merged`."""
    before = _end_before(keys)
    outer = F.coalesce(before < F.col(END), F.lit(True))
    # From one outer session to the next, neither the start nor the end decreases.
    so_far = _outer_first(keys).rowsBetween(Over.unboundedPreceding, Over.currentRow)
    placed = states.withColumn("_outer", outer)
    owners = {
        at: F.max(F.when(F.col("_outer"), F.col(at))).over(so_far).alias(at) for at in (START, END)
    }
    moved = placed.select(
        *keys,
        *owners.values(),
        *map(quoted, names),
        ORDER,
        ROWS,
    )
    return moved.groupBy(*keys, START, END).agg(
        *(_merger(moved, name, merged_by[name]).alias(name) for name in names),
        F.max(ORDER).alias(ORDER),
        F.lit(False).alias(GONE),
        F.sum(ROWS).alias(ROWS),
        F.lit(0).cast("bigint").alias(TOMBSTONES),
        F.sum(ROWS).alias(USED),
    )


def _outer_first(keys: Sequence[str]) -> Over:
    return Over.partitionBy(*keys).orderBy(F.col(START).asc(), F.col(END).desc())  # type: ignore[return-value]


def _end_before(keys: Sequence[str]) -> Column:
    """The largest end of the sessions of the key that begin no later, longer ones first."""
    earlier = _outer_first(keys).rowsBetween(Over.unboundedPreceding, -1)
    return F.max(END).over(earlier)
