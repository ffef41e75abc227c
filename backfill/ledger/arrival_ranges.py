"""What has newly arrived in a source without files: a catalog's table, by its arrival column."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill.columns import column
from backfill.errors import SourceError
from backfill.events import Source
from backfill.ledger.record import Input

#: A span of arrivals, (after, up to], as whole numbers: µs for times. None: from the beginning.
ArrivalRange = tuple[int | None, int]

_NUMBERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)


def arrived(
    source: Source, table: str, arrival: tuple[str, ...], known: Mapping[str, Input]
) -> dict[str, Input]:
    """The inputs of a table: what was looked at before, and what has arrived since.

    Rows are identified by their arrival alone. So a row whose arrival is not later than all that
    was seen before is not found, and a change of an old row is not noticed.

    Args:
        source: the table as a source.
        table: its name.
        arrival: the columns that give the order of arrival.
        known: inputs that were recorded.

    Returns:
        Inputs by name, each a span of arrivals; one without a span if there is no such column.

    Raises:
        SourceError: rows have no arrival.
    """
    if not can_tell(source, arrival):
        return {table: Input(0, 0, None, None)}
    ranges = {name: span for name, span in known.items() if span.arrived is not None}
    last = max((span.arrived[1] for span in ranges.values() if span.arrived), default=None)
    at = _number(source, arrival[0])
    rows = source.frame if last is None else source.frame.where(at.isNull() | (at > last))
    summary = rows.agg(
        F.max(at).alias("last"), F.count_if(at.isNull()).alias("without"), F.count(at).alias("rows")
    ).collect()[0]
    if summary["without"]:
        raise SourceError(
            f"{summary['without']:,} rows have no arrival, so it is unknown when they arrived",
            field="events.arrival",
            value=arrival[0],
            way_out="Add the values, or remove events.arrival and use full runs",
        )
    if summary["last"] is None:
        return ranges
    name = f"{table} ({arrival[0]} up to {summary['last']})"
    return {
        **ranges,
        name: Input(summary["rows"], 0, None, None, arrived=(last, summary["last"])),
    }


def can_tell(source: Source, arrival: tuple[str, ...]) -> bool:
    """Whether one column, of times or whole numbers, puts all rows in the order of arrival."""
    if len(arrival) != 1 or arrival[0] not in source.frame.columns:
        return False
    return isinstance(source.frame.schema[arrival[0]].dataType, (T.TimestampType, *_NUMBERS))


def among(source: Source, arrival: tuple[str, ...], ranges: list[ArrivalRange]) -> Column:
    """Whether a row is in one of the spans."""
    at = _number(source, arrival[0])
    tests = [
        (at <= last) if after is None else (at > after) & (at <= last) for after, last in ranges
    ]
    return reduce(or_, tests, F.lit(False))


def _number(source: Source, arrival: str) -> Column:
    own = column(arrival)
    if isinstance(source.frame.schema[arrival].dataType, T.TimestampType):
        return F.unix_micros(own)
    return own.cast("bigint")
