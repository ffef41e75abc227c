"""Erasing a key from what is published: its rows, and what else of it the runs have left.

The other rows stay as they are, and so does the record of what was counted.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill.columns import column
from backfill.errors import ColumnError, JobFileError, TableError
from backfill.execution.date_edges import with_edges_apart
from backfill.kinds import times_of
from backfill.ledger.state import QUARANTINE
from backfill.planning.context import Progress
from backfill.quality.store import erase_examples, word_pattern
from backfill.spec import JobSpec
from backfill.store import FILE, DataFile, Store, Table
from backfill.time.dates import Dates
from backfill.windows import key_of


@dataclass(frozen=True)
class Forgotten:
    """What was erased from a table.

    Attributes:
        rows: the rows that were deleted.
        version: that the commit made; None where no row was of the key.
        unpublished: the runs whose unpublished rows were deleted, since some were of the key.
        older: the first and the last older version, which can still hold the key; None: there are
            none.
    """

    rows: int
    version: int | None
    unpublished: tuple[str, ...]
    older: tuple[int, int] | None


def forget(
    spark: SparkSession,
    store: Store,
    spec: JobSpec,
    key: Mapping[str, Any],
    *,
    run_id: str,
    metadata: Mapping[str, str],
    progress: Progress,
) -> dict[str, Forgotten]:
    """Deletes the rows of a key from all tables that have the key's columns.

    Files without such rows stay as they are. Each table has a commit of its own; after a failure
    the same call goes on.

    Args:
        spark: the session that rewrites files.
        store: the job's tables.
        spec: the job.
        key: the value of each of the key's columns; text is turned into the column's type.
        run_id: of the commits.
        metadata: kept with them.
        progress: called with a line of text for each table.

    Returns:
        By table; those that do not have the key's columns are left out.

    Raises:
        JobFileError: the job's events have no key.
        ColumnError: a value is not of its column's type.
        TableError: a table can't be read, or another run published meanwhile.
    """
    if not key:
        raise JobFileError("the job's events have no key", field="key (--key)")
    done: dict[str, Forgotten] = {}
    types: Mapping[str, T.DataType] = dict.fromkeys(key, T.StringType())
    for name in (*spec.windows, QUARANTINE):
        if name in spec.windows and not set(key) <= set(
            key_of(spec.windows[name].window, spec.key)
        ):
            continue
        table = store.open(name)
        if table is None:
            continue
        if name == QUARANTINE:
            theirs = _in_raw(key, types)
        else:
            types = _types(table.read(spark, []), key)
            theirs = _same(spark, key, types)
        unpublished = _discard_unpublished(spark, store, name, theirs)
        rows, version = _erase(spark, store, spec, table, theirs, run_id, metadata)
        older = [each.version for each in table.commits]
        if version is None:
            older.remove(table.version)
        done[name] = Forgotten(
            rows, version, unpublished, (min(older), max(older)) if older else None
        )
        progress(f"{name}: {rows:,} rows deleted")
    erase_examples(spec.tables, [str(value) for value in key.values() if value is not None])
    return done


def _discard_unpublished(
    spark: SparkSession, store: Store, name: str, theirs: Column
) -> tuple[str, ...]:
    """Deletes what runs wrote and did not publish, if it has rows of the key."""
    found = []
    for run in store.unpublished(name):
        if not spark.read.parquet(*store.dataset(name, run).files).where(theirs).isEmpty():
            store.discard_unpublished(name, run)
            found.append(run)
    return tuple(found)


def _erase(
    spark: SparkSession,
    store: Store,
    spec: JobSpec,
    table: Table,
    theirs: Column,
    run_id: str,
    metadata: Mapping[str, str],
) -> tuple[int, int | None]:
    """Deletes rows of one table: how many, and the version of the commit."""
    name = table.name
    rows = table.read(spark, with_file=True).where(theirs).groupBy(FILE).count().collect()
    held = {row[FILE]: row["count"] for row in rows}
    gone = sum(held.values())
    if not gone:
        return 0, None
    files = [each for each in table.files if each.path in held]
    others = table.read(spark, sorted(held)).where(~theirs)
    partition_by: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ("source",)
    dates = None
    if name in spec.windows:
        window = spec.windows[name].window
        others = with_edges_apart(others, window, spec.engine, spec.timezone)
        partition_by, dates = ("date",), _dates(files)
        sort_by = (*key_of(window, spec.key), times_of(window)[0])
    staged = store.stage(name, others, run_id=run_id, partition_by=partition_by, sort_by=sort_by)
    try:
        if staged.rows != sum(each.rows for each in files) - gone:
            raise TableError("rows of other keys were lost; nothing was published", field=name)
        return gone, store.publish(
            name,
            staged,
            replace=sorted(held),
            base=table.version,
            dates=dates,
            metadata={**metadata, "rows": str(staged.rows), "changed": str(gone)},
            record=_unchanged,
        )
    finally:
        store.discard(staged)


def _unchanged(before: dict[str, Any] | None) -> dict[str, Any]:
    """The record of what was counted."""
    if before is None:
        raise TableError("the table has no record of what it has counted", field="tables")
    return before


def _dates(files: Sequence[DataFile]) -> list[tuple[dt.date, dt.date]]:
    """Those of the files' rows, half-open."""
    days = {each.minimum["date"] for each in files}
    return list(Dates.of((day, day + dt.timedelta(days=1)) for day in days).ranges)


def _types(rows: DataFrame, key: Mapping[str, Any]) -> dict[str, T.DataType]:
    """Of the key's columns."""
    fields = {each.name: each.dataType for each in rows.schema.fields}
    missing = [name for name in key if name not in fields]
    if missing:
        raise ColumnError("the table has no such column", field=missing[0])
    return {name: fields[name] for name in key}


def _same(spark: SparkSession, key: Mapping[str, Any], types: Mapping[str, T.DataType]) -> Column:
    """Whether a row of a window's table is of the key."""
    values = {name: _value(value, types[name]) for name, value in key.items()}
    made = spark.range(1).select(*values.values()).collect()[0]
    for (name, value), typed in zip(key.items(), made, strict=True):
        if value is not None and typed is None:
            kind = types[name].simpleString()
            raise ColumnError(f"the value is not of type {kind}", field=name, value=str(value))
    return reduce(and_, [column(name).eqNullSafe(each) for name, each in values.items()])


def _in_raw(key: Mapping[str, Any], types: Mapping[str, T.DataType]) -> Column:
    """Whether a row of the quarantine is of the key, or a line without columns that names it."""
    known = {name: value for name, value in key.items() if value is not None}
    if not known:
        # Rows without a key are nobody's.
        return F.lit(False)
    row = F.from_json("raw", T.StructType([T.StructField(each, T.StringType()) for each in key]))
    same = [
        row.getField(name).try_cast(types[name]).eqNullSafe(_value(value, types[name]))
        for name, value in key.items()
    ]
    words = [F.col("raw").rlike(word_pattern(str(value))) for value in known.values()]
    unparsable = F.col("reason") == "unparsable_line"
    return F.coalesce(
        F.when(unparsable, reduce(and_, words)).otherwise(reduce(and_, same)), F.lit(False)
    )


def _value(value: Any, kind: T.DataType) -> Column:
    return F.lit(None if value is None else str(value)).try_cast(kind)
