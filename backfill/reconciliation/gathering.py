"""Rows of Spark as windows and events of each key."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import Row as SparkRow
from pyspark.sql import functions as F

from backfill.columns import END, START, TIME
from backfill.reconciliation.clocks import CLOCK, PARTITION, PLACE
from backfill.reconciliation.rows import Row, Slack
from backfill.reconciliation.sources import Field
from backfill.replay import Event

Key = tuple[Any, ...]


def floored(at: Column, tick: int) -> Column:
    """Times (µs) at an engine's resolution."""
    return at if tick == 1 else F.floor(at / tick) * tick


def windows_by_key(side: DataFrame, keys: Sequence[str]) -> dict[Key, list[Row]]:
    """One side's windows."""
    found: dict[Key, list[Row]] = {}
    for row in side.collect():
        values = row.asDict()
        key = tuple(values.pop(each) for each in keys)
        start, end = values.pop(START), values.pop(END)
        found.setdefault(key, []).append(Row(start, end, values))
    return found


def rows_by_key(rows: Iterable[SparkRow], keys: Sequence[str]) -> dict[Key, list[dict[str, Any]]]:
    """Rows as mappings, without the key's columns."""
    found: dict[Key, list[dict[str, Any]]] = {}
    for row in rows:
        values = row.asDict()
        found.setdefault(tuple(values.pop(each) for each in keys), []).append(values)
    return found


def events_of(
    key: Key, rows: Sequence[Mapping[str, Any]], fields: Sequence[str]
) -> tuple[list[Event], dict[int, int]]:
    """The events in order of arrival, and which are copies of earlier ones."""
    order = sorted(rows, key=lambda row: (row[PARTITION], row[PLACE], row[TIME], repr(row)))
    events, copies = [], {}
    first: dict[tuple[Any, ...], int] = {}
    for place, row in enumerate(order):
        events.append(
            Event(
                key=key,
                time=row[TIME],
                arrival=place,
                value={name: row[name] for name in fields},
                partition=row[PARTITION],
                batch=row.get("_batch"),
                clock=row.get(CLOCK),
            )
        )
        if row.get("_id") is not None:
            same = (row[TIME], row["_id"])
            if same in first:
                copies[place] = first[same]
            else:
                first[same] = place
    return events, copies


def slack_of(field: Field, events: Sequence[Event]) -> Slack:
    """How far apart sums of these values can be."""
    values = [
        each.value[field.expression]
        for each in events
        if field.expression is not None and each.value[field.expression] is not None
    ]
    return Slack(len(values), sum(abs(float(each)) for each in values))


def only(row: Row, names: Collection[str]) -> Row:
    """The row with some of its values."""
    return row._replace(values={name: row.values[name] for name in row.values if name in names})
