"""Looking windows up in a published table, without Spark."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from functools import reduce
from operator import and_
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from backfill.errors import ColumnError, TableError, did_you_mean

Direction = Literal["ascending", "descending"]
#: The least and the largest instant, both inclusive; None for no bound.
Bounds = tuple[int | None, int | None]

_START = "window_start"
_END = "window_end"
#: The columns of a row's first and last instant; both are the time in tables with a row for each
#: event. A key may be called `at`, too.
_TIMES = ((_START, _END), ("event_time", "event_time"), ("at", "at"))
_DATE = "date"
_MICROSECONDS = pa.timestamp("us", tz="UTC")


def look_up(
    rows: ds.Dataset,
    *,
    key: Mapping[str, Any] = {},
    start_us: int | None = None,
    end_us: int | None = None,
    end_inclusive: bool = False,
    starts: Bounds = (None, None),
    ends: Bounds = (None, None),
    limit: int | None = None,
    order_by: Sequence[tuple[str, Direction]] | None = None,
) -> pa.Table:
    """The windows of a table that have these keys and overlap this range of time.

    Files that cannot hold such windows, by the table's statistics, are not opened; with a limit,
    no more than the limit and one batch of rows are held at a time.

    Args:
        rows: the table's rows, from `Store.dataset`.
        key: values by column; text is converted to the column's type, None looks for NULL.
        start_us: the range's start, µs since the epoch, inclusive; None for no bound.
        end_us: the range's end, µs since the epoch, exclusive; None for no bound.
        end_inclusive: whether `window_end` belongs to its window (the engine's convention); an
            `event_time`, or a metric's `at`, does.
        starts: the least and largest start, µs since the epoch, both inclusive; None for no bound.
        ends: the least and largest end likewise, in the form that the table has.
        limit: the maximum number of rows; None for all.
        order_by: columns and directions, by default the start; ties are ordered by the columns
            that identify a window.

    Returns:
        The public columns (without those that begin with an underscore, and without the partition
        column `date`); times in UTC.

    Raises:
        TableError: the table cannot be read.
        ColumnError: the table lacks a column, a key's value is not of its column's type, or a
            column can't be ordered.
    """
    columns = [name for name in rows.schema.names if name != _DATE and name[:1] != "_"]
    conditions = [_key_condition(rows.schema, columns, *pair) for pair in key.items()]
    start, end = next((pair for pair in _TIMES if pair[0] in columns), (None, None))
    if start is not None and end is not None:
        single = start == end
        conditions += _time_conditions(start, end, start_us, end_us, end_inclusive or single)
        conditions += [*_between(start, starts), *_between(end, ends)]
    elif (start_us, end_us, *starts, *ends) != (None,) * 6:
        raise ColumnError("the table has no times", field="start", way_out="Leave the times out")
    order = _order(rows.schema, columns, start, order_by or [(start or columns[0], "ascending")])
    scanner = rows.scanner(columns=columns, filter=reduce(and_, conditions) if conditions else None)
    try:
        return _smallest(scanner, order, limit)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise TableError(f"the table cannot be read: {error}", field="tables") from error


def _key_condition(
    schema: pa.Schema, columns: Sequence[str], name: str, given: Any
) -> ds.Expression:
    _check_column(columns, name)
    value = key_value(schema, name, given)
    field = pc.field(name)
    if not value.is_valid:
        return field.is_null()
    # Spark groups NaN with NaN; in Arrow, NaN equals nothing.
    nan = pa.types.is_floating(value.type) and math.isnan(value.as_py())
    return field.is_nan() if nan else field == value


def key_value(schema: pa.Schema, name: str, given: Any) -> pa.Scalar:
    """A key's value in the type of its column; text is converted, None becomes NULL.

    Raises:
        ColumnError: there is no such column, or the value is not of its type.
    """
    _check_column(schema.names, name)
    kind = schema.field(name).type
    try:
        if pa.types.is_timestamp(kind) and isinstance(given, str):
            return _timestamp(given, kind)
        # A cast fails where making a scalar of the type would truncate what does not fit.
        return pc.cast(pa.scalar(given), kind)
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise ColumnError(
            f"the value is not of type {kind}",
            field=name,
            value=str(given),
            way_out="Give a value of the column's type",
        ) from error


def _timestamp(text: str, kind: pa.TimestampType) -> pa.Scalar:
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    if kind.tz is None:
        return pa.scalar(moment.replace(tzinfo=None), kind)
    return pa.scalar(moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc), kind)


def _time_conditions(
    first: str, last: str, start_us: int | None, end_us: int | None, end_inclusive: bool
) -> list[ds.Expression]:
    conditions = []
    start, end = pc.field(first), pc.field(last)
    if start_us is not None:
        bound = pa.scalar(start_us, _MICROSECONDS)
        # A window that ends where it starts overlaps a range that begins there.
        conditions.append(end >= bound)
        if not end_inclusive:
            conditions.append((end > bound) | (start >= bound))
    if end_us is not None:
        conditions.append(start < pa.scalar(end_us, _MICROSECONDS))
    return conditions


def _between(name: str, bounds: Bounds) -> list[ds.Expression]:
    low, high = bounds
    conditions = []
    if low is not None:
        conditions.append(pc.field(name) >= pa.scalar(low, _MICROSECONDS))
    if high is not None:
        conditions.append(pc.field(name) <= pa.scalar(high, _MICROSECONDS))
    return conditions


def _order(
    schema: pa.Schema,
    columns: Sequence[str],
    start: str | None,
    order_by: Sequence[tuple[str, Direction]],
) -> list[tuple[str, Direction]]:
    """The order, made total by the columns that identify a window: those before its start."""
    for name, _ in order_by:
        _check_column(columns, name)
        if pa.types.is_nested(schema.field(name).type):
            raise ColumnError("lists and structs can't be used for ordering", field=name)
    named = {name for name, _ in order_by}
    identity = columns[: columns.index(start) + 1] if start in columns else []
    return [
        *order_by,
        *(
            (name, "ascending")
            for name in identity
            if name not in named and not pa.types.is_nested(schema.field(name).type)
        ),
    ]


def _smallest(
    scanner: ds.Scanner, order: list[tuple[str, Direction]], limit: int | None
) -> pa.Table:
    if limit is None:
        return scanner.to_table().sort_by(order)
    kept = scanner.projected_schema.empty_table()
    for batch in scanner.to_batches():
        if batch.num_rows:
            rows = pa.concat_tables([kept, pa.Table.from_batches([batch])])
            kept = rows.sort_by(order).slice(0, limit)
    return kept


def _check_column(columns: Sequence[str], name: str) -> None:
    if name not in columns:
        raise ColumnError(
            "the table has no such column", field=name, way_out=did_you_mean(name, columns)
        )
