"""Erasing a key from what is published: its rows, and what else runs have left of it.

Rows of other keys stay as they are, and so does the record of what was counted.
"""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill.aggregates.base import Expression
from backfill.aggregates.last_seen import LastSeen
from backfill.columns import HOLDS_FROM, column
from backfill.errors import BackfillError, TableError
from backfill.execution.date_edges import with_edges_apart
from backfill.kinds import row_order
from backfill.ledger.state import QUARANTINE, State, states
from backfill.planning.context import Progress
from backfill.quality.store import erase_examples, text_of, word_pattern
from backfill.runtimes.differences import needs_spark
from backfill.spec import JobSpec
from backfill.store import FILE, Cleaned, DataFile, Store, key_value
from backfill.windows import MetricSlices, key_of

_UNPARSABLE = "unparsable_line"


@dataclass(frozen=True)
class Erased:
    """What was erased from a table.

    Attributes:
        rows: how many rows were deleted, or lost the key's value.
        version: the version that the commit made; None if no row belonged to the key.
        removed: what failed and killed runs had left, whatever its keys.
        older: the first and the last of the older versions, which can still hold the key; None if
            there are none.
    """

    rows: int
    version: int | None
    removed: Cleaned
    older: tuple[int, int] | None


def erase(
    spark: SparkSession,
    store: Store,
    spec: JobSpec,
    key: Mapping[str, Any],
    *,
    older_than_s: float,
    run_id: str,
    metadata: Mapping[str, str],
    progress: Progress,
) -> dict[str, Erased]:
    """Deletes the rows of a key from all tables that have the key's columns.

    From slices that hold distinct values of the key column, it deletes the key's value.
    Files without such rows stay as they are. Each table has a commit of its own; if one fails, the
    others are still made.

    Args:
        spark: the session that rewrites files.
        store: the job's tables.
        spec: the job.
        key: the value of each key column; text is converted to the column's type.
        older_than_s: what failed and killed runs left is deleted if it is older than this.
        run_id: the run id of the commits.
        metadata: stored with the commits.
        progress: called with a line of text for each table.

    Returns:
        What was erased, by table; tables that can't hold the key, or don't exist, are left out.

    Raises:
        ColumnError: a value is not of its column's type.
        TableError: a table can't be read, or another run published meanwhile.
        SetupError: the runtime is not Spark, and its JSON in the quarantine can't hold the key.
    """
    done: dict[str, Erased] = {}
    values: Mapping[str, pa.Scalar] = {name: pa.scalar(value) for name, value in key.items()}
    types: dict[str, T.DataType] = dict.fromkeys(key, T.StringType())
    problem: BackfillError | None = None
    among = among_values(spec)
    for name in (*holders(spec), *among, QUARANTINE):
        removed = store.clean(name, older_than_s=older_than_s)
        try:
            [state] = states(spec, store, [name])
            table = state.table
            if table is None:
                continue
            left = None
            if name == QUARANTINE:
                theirs = _in_raw(values, types)
            elif name in among:
                theirs, left = _among_values(spec, table.read(spark, []).schema, name, key)
            else:
                schema = store.dataset(name).schema
                values = {
                    key_column: key_value(schema, key_column, key[key_column]) for key_column in key
                }
                types = {
                    field.name: field.dataType for field in table.read(spark, []).schema.fields
                }
                for key_column in key:
                    if _is_inexact(types[key_column]):
                        kind = types[key_column].simpleString()
                        needs_spark(spark, f"keys of type {kind} are deleted", field=key_column)
                theirs = _same(values, types)
            rows, version = _erase(
                spark, store, spec, state, values, theirs, left, run_id, metadata
            )
        except BackfillError as error:
            # Erase what can be erased from the other tables first.
            progress(f"{name}: {error.problem}")
            problem = problem or error
            continue
        versions = [commit.version for commit in table.commits]
        older = [number for number in versions if version is not None or number != table.version]
        done[name] = Erased(rows, version, removed, (min(older), max(older)) if older else None)
        progress(f"{name}: {rows:,} rows deleted or changed")
    erase_examples(
        spec.tables, spec.pages, [value.as_py() for value in values.values() if value.is_valid]
    )
    if problem is not None:
        raise problem
    return done


def _is_inexact(kind: T.DataType) -> bool:
    """Whether the JSON of runtimes other than Spark loses a part of a value."""
    if isinstance(kind, T.DecimalType):
        # That JSON holds a floating-point number.
        return kind.precision > sys.float_info.dig
    return isinstance(kind, T.BinaryType)


def holders(spec: JobSpec) -> list[str]:
    """The tables of windows that have the key's columns."""
    own = set(spec.key)
    return [
        name for name, entry in spec.windows.items() if own <= set(key_of(entry.window, spec.key))
    ]


def among_values(spec: JobSpec) -> list[str]:
    """The tables of slices that have keys among the distinct values of their rows."""
    own = holders(spec)
    return [
        name
        for name, entry in spec.windows.items()
        if isinstance(entry.window, MetricSlices) and name not in own
        for aggregate in entry.aggregates.values()
        if isinstance(aggregate.sliding(), LastSeen) and _is_key(aggregate.expression, spec.key)
    ]


def _is_key(expression: Expression, key: tuple[str, ...]) -> bool:
    """Whether an aggregate's expression is the job's only key column, as Spark reads names."""
    if not isinstance(expression, str) or len(key) != 1:
        return False
    return expression.strip().replace("`", "").lower() == key[0].lower()


def _among_values(
    spec: JobSpec, schema: T.StructType, name: str, key: Mapping[str, Any]
) -> tuple[Column, dict[str, Column]]:
    """Whether a row has the key among its values, and the row's states without it."""
    [states] = spec.windows[name].aggregates
    packed = schema[states].dataType if states in schema.names else None
    if not isinstance(packed, T.StructType) or "values" not in packed.names:
        raise TableError(
            "was published for another aggregate, so it is not known where it holds the key",
            field=name,
            way_out="Rebuild all covered dates in one commit: backfill run JOB",
        )
    kind = packed["values"].dataType.elementType  # type: ignore[attr-defined]
    value, values = _literal(pa.scalar(key[spec.key[0]]), kind), column(states)["values"]
    # Distinct values have no NULL among them.
    theirs = F.coalesce(F.array_contains(values, value), F.lit(False))
    return theirs, {states: column(states).withField("values", F.array_remove(values, value))}


def _erase(
    spark: SparkSession,
    store: Store,
    spec: JobSpec,
    state: State,
    values: Mapping[str, pa.Scalar],
    theirs: Column,
    left: Mapping[str, Column] | None,
    run_id: str,
    metadata: Mapping[str, str],
) -> tuple[int, int | None]:
    """Deletes or changes rows of one table; returns how many, and the version of the commit.

    Args:
        spark: the session that rewrites files.
        store: the job's tables.
        spec: the job.
        state: the table.
        values: the key's values.
        theirs: whether a row belongs to the key.
        left: the new values of such a row, by column; None: the row is deleted.
        run_id: the run id of the commit.
        metadata: stored with the commit.
    """
    name, table = state.name, state.table
    assert table is not None
    # The quarantine's columns are not the key's, even where they have the same name.
    every = left is not None or name == QUARANTINE
    paths = [file.path for file in state.files if every or _may_hold(file, values)]
    counts = table.read(spark, paths, with_file=True).where(theirs).groupBy(FILE).count().collect()
    held = {row[FILE]: row["count"] for row in counts}
    gone = sum(held.values())
    if not gone:
        return 0, None
    others, kept = table.read(spark, sorted(held)), 0
    if left is None:
        others = others.where(~theirs)
    else:
        changed = {name: F.when(theirs, new).otherwise(column(name)) for name, new in left.items()}
        others, kept = others.withColumns(changed), gone
    partition_by: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ("source",)
    if name in spec.windows:
        window = spec.windows[name].window
        partition_by, sort_by = ("date",), tuple(values) if left is None else (HOLDS_FROM,)
        if not state.stale:
            # Otherwise the job file may name other columns, and a rebuild is due anyway.
            others = with_edges_apart(others, window, spec.engine, spec.timezone)
            sort_by = row_order(window, spec.key)
    staged = store.stage(name, others, run_id=run_id, partition_by=partition_by, sort_by=sort_by)
    try:
        if staged.rows != sum(file.rows for file in state.files if file.path in held) - gone + kept:
            raise TableError("rows of other keys were lost; nothing was published", field=name)
        return gone, store.publish(
            name,
            staged,
            replace=sorted(held),
            base=table.version,
            # Anything that another run publishes meanwhile may have rows of the key.
            dates=None,
            metadata={**metadata, "rows": str(staged.rows), "changed": str(gone)},
            record=_unchanged,
        )
    finally:
        store.discard(staged)


def _unchanged(before: dict[str, Any] | None) -> dict[str, Any]:
    """The record of what was counted."""
    if before is None:
        raise TableError(
            "the table has no record of what it has counted",
            field="tables",
            way_out="Run the whole backfill, which writes one, or restore a later version",
        )
    return before


def _may_hold(file: DataFile, values: Mapping[str, pa.Scalar]) -> bool:
    """Whether a file can have rows of the key, by the bounds of its values."""
    for name, scalar in values.items():
        value, low, high = scalar.as_py(), file.minimum.get(name), file.maximum.get(name)
        kinds = {type(low), type(value), type(high)}
        if kinds in ({str}, {int}, {dt.date}) and not low <= value <= high:
            return False
    return True


def _same(values: Mapping[str, pa.Scalar], types: Mapping[str, T.DataType]) -> Column:
    """Whether a row of a window's table belongs to the key."""
    same = [column(name).eqNullSafe(_literal(value, types[name])) for name, value in values.items()]
    return reduce(and_, same)


def _in_raw(values: Mapping[str, pa.Scalar], types: Mapping[str, T.DataType]) -> Column:
    """Whether a row of the quarantine is of the key, or is a line without columns that names it."""
    known = [text_of(value.as_py()) for value in values.values() if value.is_valid]
    if not known:
        # Rows without a key belong to nobody.
        return F.lit(False)
    row = F.from_json("raw", T.StructType([T.StructField(name, T.StringType()) for name in values]))
    texts = {name: row.getField(name) for name in values}
    same = [
        _from_text(texts[name], types[name]).eqNullSafe(_literal(value, types[name]))
        for name, value in values.items()
    ]
    # (?U) makes Java treat letters of all languages as parts of words, as Python and Rust do
    # anyway. In Rust it decides which of several matches is found, which does not matter.
    patterns = [f"(?U){pattern}" for pattern in map(word_pattern, known) if pattern is not None]
    named = [F.col("raw").rlike(pattern) for pattern in patterns]
    unreadable = (F.col("reason") == _UNPARSABLE) & F.coalesce(*texts.values()).isNull()
    words = reduce(and_, named) if len(named) == len(known) else F.lit(False)
    return F.coalesce(F.when(unreadable, words).otherwise(reduce(and_, same)), F.lit(False))


def _from_text(text: Column, kind: T.DataType) -> Column:
    """A value from its text in the quarantine's JSON."""
    if isinstance(kind, T.BinaryType):
        return F.try_to_binary(text, F.lit("base64"))
    return text.try_cast(kind)


def _literal(value: pa.Scalar, kind: T.DataType) -> Column:
    if value.is_valid and isinstance(kind, T.TimestampType):
        return F.timestamp_micros(F.lit(value.cast(pa.timestamp("us", "UTC")).value))
    plain = value.as_py()
    if isinstance(plain, dt.date):
        # Spark would leave out the zeros of years before 1000.
        plain = plain.isoformat()
    return F.lit(plain).cast(kind)
