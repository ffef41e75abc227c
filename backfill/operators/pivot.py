"""A few overlapping windows at once: a block's windows side by side in one row of its group.

The windows' starts are cut into blocks of as many windows as can hold a slice, so a slice counts in
two blocks at most. There it is merged into the columns of the windows that hold it. This is done by
hashing alone: nothing is sorted, and only one row for each key and block is sent on. (SQL calls
this a pivot, of aggregates.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill.columns import END, EVENTS, FIRST, START
from backfill.operators.fixed import FixedWindows

#: The largest number of columns: with more, the code of a row is too long for Java to compile well.
WIDEST = 64

_BLOCK, _INTO, _BEFORE = "_block", "_into", "_before"


def pivoted(
    slices: DataFrame, where: FixedWindows, keys: Sequence[str], functions: Mapping[str, str]
) -> DataFrame:
    """Merges slices into hopping windows.

    Args:
        slices: key, first event, states.
        where: the windows.
        keys: the key columns.
        functions: what merges each state, and the number of events: sum, min or max.

    Returns:
        As `operators.aligned.aligned`.
    """
    length = where.most_each * where.advance
    at = F.col(FIRST) - where.shift
    into = F.pmod(at - where.offset, F.lit(length))
    # In its own step before rows are doubled: else Spark would compute it twice for each of them.
    placed = slices.select(*keys, *functions, (at - into).alias(_BLOCK), into.alias(_INTO))
    doubled = (
        placed.withColumn(_BEFORE, F.explode(F.array(F.lit(0), F.lit(length))))
        .withColumn(_INTO, F.col(_INTO) + F.col(_BEFORE))
        .where(F.col(_INTO) < length - where.advance + where.size)
    )
    places = range(0, length, where.advance)
    merged = doubled.groupBy(*keys, (F.col(_BLOCK) - F.col(_BEFORE)).alias(_BLOCK)).agg(
        *(
            getattr(F, function)(F.when(_holds(where, place), F.col(name))).alias(f"{name}_{place}")
            for place in places
            for name, function in functions.items()
        )
    )
    types = {field.name: field.dataType for field in slices.schema.fields}
    start = F.col(_BLOCK)
    windows = (
        F.struct(
            (start + place).alias(START),
            (start + place + where.size).alias(END),
            *(F.col(f"{name}_{place}").cast(types[name]).alias(name) for name in functions),
        )
        for place in places
    )
    held = merged.select(*keys, F.inline(F.array(*windows))).where(F.col(EVENTS) > 0)
    return held.where(F.col(START) >= 0) if where.clips else held


def _holds(where: FixedWindows, place: int) -> Column:
    """Whether the window that starts at this place of the block holds the slice."""
    return (F.col(_INTO) >= place) & (F.col(_INTO) < place + where.size)
