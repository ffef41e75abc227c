"""Turns Arrow tables into windows and events of each key, on the driver or in a worker."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from backfill.columns import END, START, TIME
from backfill.reconciliation.clocks import CLOCK, PARTITION, PLACE, WALL_CLOCK
from backfill.reconciliation.rows import Row
from backfill.replay import Event

#: True for windows of the stream, false for those of the batch.
SIDE = "_streams"

#: The number of a row in its table.
NUMBER = "_number"

Key = tuple[Any, ...]
Values = dict[str, Any]


def floored(at: Column, tick: int) -> Column:
    """Times (µs) at an engine's resolution."""
    return at if tick == 1 else F.floor(at / tick) * tick


def by_key(table: pa.Table, keys: Sequence[str]) -> dict[Key, list[Values]]:
    """The rows of each key, without the key's columns, but with their numbers in the table."""
    rows = table.to_pylist()
    for number, row in enumerate(rows):
        row[NUMBER] = number
    for field in table.schema:
        if pa.types.is_nested(field.type) or pa.types.is_timestamp(field.type):
            for row in rows:
                row[field.name] = comparable(row[field.name], field.type)
    groups: dict[Key, list[Values]] = {}
    for row in rows:
        key = tuple(_itself(row.pop(name)) for name in keys)
        groups.setdefault(key, []).append(row)
    return groups


def windows_of(rows: Sequence[Values]) -> list[Row]:
    """The windows of one key and side."""
    bounds = (START, END, SIDE, NUMBER)
    return [
        Row(row[START], row[END], {name: row[name] for name in row if name not in bounds})
        for row in rows
    ]


def in_order(rows: Sequence[Values]) -> list[Values]:
    """Events as they arrived."""
    return sorted(rows, key=lambda row: (row[PARTITION], row[PLACE], row[TIME], repr(row)))


def events_of(
    key: Key | None, rows: Sequence[Values], fields: Sequence[str], places: Iterable[int]
) -> tuple[list[Event], dict[int, int]]:
    """The events of a key, and which are copies of earlier ones.

    Args:
        key: None if the events have no key.
        rows: in order of arrival.
        fields: the fields that the events hold.
        places: their arrivals.
    """
    events, copies = [], {}
    first: dict[tuple[Any, ...], int] = {}
    for place, row in zip(places, rows, strict=True):
        events.append(
            Event(
                key=key,
                time=row[TIME],
                arrival=place,
                value={name: row[name] for name in fields},
                partition=row[PARTITION],
                batch=row.get("_batch"),
                clock=row.get(CLOCK),
                wall_clock=row.get(WALL_CLOCK),
            )
        )
        if row.get("_id") is not None:
            same = (row[TIME], row["_id"])
            if same in first:
                copies[place] = first[same]
            else:
                first[same] = place
    return events, copies


def comparable(value: Any, type: pa.DataType) -> Any:
    """Structs as tuples, maps as mappings, whose order does not count, and times in UTC."""
    if value is None:
        return None
    if pa.types.is_timestamp(type):
        return value if type.tz is None else value.astimezone(dt.timezone.utc)
    if not pa.types.is_nested(type):
        return value
    if pa.types.is_struct(type):
        return tuple(comparable(value[field.name], field.type) for field in type)
    if pa.types.is_map(type):
        return {key: comparable(item, type.item_type) for key, item in value}
    return [comparable(element, type.value_type) for element in value]


def _itself(value: Any) -> Any:
    """The key; NaN always as the same object, because only then does it equal itself."""
    return math.nan if isinstance(value, float) and value != value else value
