"""Published windows as what they were built from: bounds in µs, and states."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill.columns import END, EVENTS, FIRST, LAST, START, column, key_name
from backfill.compute import Definition, Sliced, bounds


def with_bounds(rows: DataFrame, definition: Definition, sliced: Sliced) -> DataFrame:
    """The rows of a table, with inner key columns, start and end besides."""
    start, end = bounds(definition.window, sliced.engine)
    inner = {
        key_name(i): column(name).cast(type)
        for i, (name, type) in enumerate(zip(sliced.key.names, sliced.key.types, strict=True))
    }
    return rows.withColumns({**inner, START: start, END: end})


def as_slices(rows: DataFrame, definition: Definition, sliced: Sliced, *also: Column) -> DataFrame:
    """The rows of a table as slices: key, bounds, number of events, states.

    Args:
        rows: what `with_bounds` gives.
        definition: the table's window and aggregates, all mergeable.
        sliced: the slices that these rows are to stand beside.
        also: further columns to keep.
    """
    states = {
        sliced.bound[aggregate]: sliced.bound[aggregate].published(name)
        for name, aggregate in definition.aggregates.items()
    }
    return rows.select(
        *sliced.key.inner,
        F.col(START).alias(FIRST),
        F.col(END).alias(LAST),
        START,
        END,
        EVENTS,
        *(state for each in states.values() for state in each),
        *also,
    )
