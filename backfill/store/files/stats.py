"""File statistics for the Delta log, from Parquet footers, by which readers skip whole files.

A bound may be wider than the truth, never narrower; if that cannot be ensured, it is left out,
and readers then read the file. The form is that of the Delta protocol, "Per-file Statistics".
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from backfill.errors import TableError
from backfill.folders import Folder

# Longer texts are cut (smallest) or left out (largest), so that the log stays small.
MAX_TEXT = 64

_EPOCH = datetime(1970, 1, 1)
_INTEGERS = frozenset({"byte", "short", "integer", "long"})
_FLOATS = frozenset({"float", "double"})
_TIMESTAMPS = frozenset({"timestamp", "timestamp_ntz"})


@dataclass(frozen=True)
class FileStatistics:
    """What the log says about one file.

    Attributes:
        rows: the number of rows.
        json: numRecords, minValues, maxValues and nullCount in Delta's form.
    """

    rows: int
    json: str


def file_statistics(folder: Folder, path: str, columns: Mapping[str, str]) -> FileStatistics:
    """Statistics of a Parquet file.

    Args:
        folder: the folder of the file.
        path: the file's path in the folder.
        columns: the columns to describe, with Delta's names for their types; those that the file
            does not have (partition columns) are ignored.

    Raises:
        TableError: the file cannot be read.
    """
    try:
        with folder.answering():
            footer = pq.read_metadata(folder.path(path), filesystem=folder.filesystem)
    except (OSError, pa.ArrowException) as error:
        raise TableError(
            f"not a readable Parquet file: {error}", field=f"{folder}/{path}"
        ) from error
    smallest: dict[str, Any] = {}
    largest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for position in range(footer.num_columns):
        name = footer.schema.column(position).path
        # A path with a dot is a nested field or a name with a dot: not worth telling apart.
        kind = None if "." in name else columns.get(name)
        if kind is None:
            continue
        groups = [footer.row_group(group) for group in range(footer.num_row_groups)]
        statistics = [group.column(position).statistics for group in groups]
        if not groups or any(stats is None or stats.null_count is None for stats in statistics):
            continue
        nulls[name] = sum(stats.null_count for stats in statistics)
        bounded = [
            stats
            for stats, group in zip(statistics, groups, strict=True)
            if stats.null_count < group.num_rows
        ]
        if not bounded or not all(stats.has_min_max for stats in bounded):
            continue
        lower, upper = _bounds(kind, bounded)
        if lower is not None:
            smallest[name] = lower
        if upper is not None:
            largest[name] = upper
    document = {
        "numRecords": footer.num_rows,
        "minValues": smallest,
        "maxValues": largest,
        "nullCount": nulls,
    }
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return FileStatistics(footer.num_rows, text)


def _bounds(kind: str, groups: list[Any]) -> tuple[Any, Any]:
    """The smallest and largest value as JSON values; None for a bound that is left out."""
    if kind in _INTEGERS:
        return min(g.min_raw for g in groups), max(g.max_raw for g in groups)
    if kind in _TIMESTAMPS:
        zone = "Z" if kind == "timestamp" else ""
        lower, upper = min(g.min_raw for g in groups), max(g.max_raw for g in groups)
        # Delta's statistics are in milliseconds: the smallest is rounded down, the largest up.
        return _timestamp(lower // 1000, zone), _timestamp(-(-upper // 1000), zone)
    if kind == "date":
        return _date(min(g.min_raw for g in groups)), _date(max(g.max_raw for g in groups))
    if kind == "string":
        lower_text, upper_text = (
            _text(bound)
            for bound in (min(g.min_raw for g in groups), max(g.max_raw for g in groups))
        )
        return lower_text and lower_text[:MAX_TEXT], (
            upper_text if upper_text is not None and len(upper_text) <= MAX_TEXT else None
        )
    if kind in _FLOATS:
        return _float_bounds([g.min for g in groups], [g.max for g in groups])
    if kind == "boolean":
        return min(g.min for g in groups), max(g.max for g in groups)
    if kind.startswith("decimal"):
        return _decimal(min(g.min for g in groups)), _decimal(max(g.max for g in groups))
    return None, None


def _text(value: bytes) -> str | None:
    """The text, or None if it is not UTF-8, which Spark reads and writes all the same."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _float_bounds(lower: list[float], upper: list[float]) -> tuple[Any, Any]:
    # NaN is the largest number for Spark but not for other readers: so no bound is safe.
    if any(map(math.isnan, (*lower, *upper))):
        return None, None
    low, high = min(lower), max(upper)
    return (None if math.isinf(low) else low), (None if math.isinf(high) else high)


def _timestamp(milliseconds: int, zone: str) -> str | None:
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:  # years before 1 and after 9999 do not fit ISO's four digits
        return None
    return moment.isoformat(timespec="milliseconds") + zone


def _date(days: int) -> str | None:
    try:
        return date.fromordinal(_EPOCH.toordinal() + days).isoformat()
    except (OverflowError, ValueError):
        return None


def _decimal(value: Decimal) -> float | None:
    """A JSON number that reads back as exactly this decimal; None if a double can't hold it."""
    number = float(value)
    return number if Decimal(repr(number)) == value else None


def added_up(folder: Folder, paths: Collection[str], column: str) -> int:
    """The sum of a column of whole numbers over files; 0 without files."""
    if not paths:
        return 0
    with folder.answering():
        files = ds.dataset(
            [folder.path(path) for path in paths], filesystem=folder.filesystem, format="parquet"
        )
        batches = files.scanner(columns=[column]).to_batches()
        return sum(pc.sum(batch[column]).as_py() or 0 for batch in batches)
