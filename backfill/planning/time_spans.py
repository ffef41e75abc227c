"""Spans of time that windows and sessions reach over, and the dates that these are on."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill.columns import END, START
from backfill.compute import Definition
from backfill.ledger.reader import inside_span
from backfill.operators.aligned import layout
from backfill.planning.context import Context
from backfill.time.dates import Dates, date_of
from backfill.windows import SessionWindow

_DAY = dt.timedelta(days=1)


def widened(
    context: Context, span: tuple[int, int], definitions: Iterable[Definition]
) -> tuple[int, int]:
    """From the first aligned window that overlaps the span to the end of the last one; µs."""
    columns = []
    for definition in definitions:
        window = definition.window
        if not isinstance(window, SessionWindow):
            where = layout(window, context.spec.engine, context.spec.timezone)
            for at in (span[0], span[1] - 1):
                instant = F.lit(at).cast("bigint")
                columns.append(F.transform(where.windows(instant), lambda each: each[START]))
                columns.append(F.transform(where.windows(instant), lambda each: each[END]))
    if not columns:
        return span
    row = context.spark.range(1).select(*columns).collect()[0]
    edges = [each for edges in row for each in edges or ()]
    tick = context.spec.engine.tick_us
    return min(span[0], *edges), max(span[1], *(each + tick for each in edges))


def hull(extents: DataFrame) -> tuple[int, int] | None:
    """From the first start to the last end, µs; None where there is nothing."""
    low, high = extents.agg(F.min(START), F.max(END)).collect()[0]
    return None if low is None else (low, high)


def dates_between(first: int, last: int, zone: str) -> Dates:
    """The dates from one instant (µs) to another, both inclusive."""
    return Dates.between(date_of(first, zone), date_of(last, zone) + _DAY)


def dates_over(dates: Dates, horizon: int | None, zone: str) -> tuple[dt.date, ...]:
    """Those of the dates that are over: before that of the horizon (µs)."""
    last = dt.date.max if horizon is None else date_of(horizon, zone)
    return tuple(day for day in dates.days() if day < last)


def starts_on(dates: Dates, zone: str) -> Column:
    """Whether a window, by its start, starts on one of the dates."""
    inside = [inside_span(F.col(START), span) for span in dates.spans(zone)]
    return reduce(or_, inside, F.lit(False))
