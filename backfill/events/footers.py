"""The least and largest value of a column, from the footer of a Parquet file."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from backfill.time.durations import DAY_US


@dataclass(frozen=True)
class Extent:
    """The least and the largest value of a column.

    Attributes:
        least: inclusive; for times and dates, µs since the epoch, as if those without a zone were
            in UTC.
        largest: the same.
        is_time: whether these are times or dates; otherwise numbers.
    """

    least: int | float | Decimal
    largest: int | float | Decimal
    is_time: bool


def footer_extent(path: str, name: str) -> Extent | None:
    """The extent of a column of numbers or times; rows without a value do not count.

    Args:
        path: the path of a local file.
        name: the name of the column.

    Returns:
        None if the footer does not tell: no such column, no statistics (as for INT96
        timestamps), no value at all, or no readable file.
    """
    try:
        return _extent(pq.read_metadata(path), name)
    except (pa.ArrowException, OSError):
        return None


def _extent(footer: Any, name: str) -> Extent | None:
    leaves = [footer.schema.column(index) for index in range(footer.num_columns)]
    # The path of a nested field can look like a name with a dot; its own name does not.
    indices = [i for i, leaf in enumerate(leaves) if leaf.path == leaf.name == name]
    if len(indices) != 1 or leaves[indices[0]].physical_type == "INT96":
        return None
    bounded = []
    for index in range(footer.num_row_groups):
        group = footer.row_group(index)
        stats = group.column(indices[0]).statistics
        if stats is not None and stats.has_min_max:
            bounded.append(stats)
        elif group.num_rows and (stats is None or stats.null_count != group.num_rows):
            return None
    if not bounded:
        return None
    unit = _unit_us(leaves[indices[0]].logical_type)
    if unit is not None:
        least = min(chunk.min_raw for chunk in bounded) * unit
        return Extent(least, max(chunk.max_raw for chunk in bounded) * unit, True)
    ends = min(chunk.min for chunk in bounded), max(chunk.max for chunk in bounded)
    return Extent(*ends, False) if all(isinstance(e, int | float | Decimal) for e in ends) else None


def _unit_us(logical: Any) -> int | None:
    """The µs in one of the integers that stand for times of this type; None for other types."""
    if logical.type == "TIMESTAMP":
        return 1_000 if "milliseconds" in str(logical) else 1
    return DAY_US if logical.type == "DATE" else None
