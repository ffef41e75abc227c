"""Compares few windows on the driver, row by row.

More windows are compared by two Spark plans over all of them. Spark takes seconds to plan and
compile these, however few windows there are.
"""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from pyspark.sql import functions as F

from backfill.planning.replaced_windows import of_keys
from backfill.reconciliation.arrow_rows import SIDE
from backfill.reconciliation.compare import Found, Sides, Totals

#: The most windows, of both sides together, that the driver compares.
FEW_WINDOWS = 50_000


def compared(sides: Sides) -> tuple[Totals, Found] | None:
    """What `Sides.totals` and `Sides.differing` give; None if there are too many windows."""
    both = sides.both()
    table = both.limit(FEW_WINDOWS + 1).toArrow()
    if table.num_rows > FEW_WINDOWS:
        return None
    streams = table[SIDE].to_pylist()
    columns = [table[name].to_pylist() for name in sides.keys]
    keys = [repr(row) for row in zip(*columns, strict=True)] if columns else ["()"] * len(streams)
    # Rows that are alike as text are alike to the bit. The rest are matched again, key by key.
    rows = [repr(row) for row in table.drop_columns([*sides.keys, SIDE]).to_pylist()]
    left: Counter[tuple[str, str]] = Counter()
    for key, row, of_stream in zip(keys, rows, streams, strict=True):
        left[key, row] += -1 if of_stream else 1
    off = {key for (key, _), count in left.items() if count}
    numbers = [number for number, key in enumerate(keys) if key in off]
    few = table.take(pa.array(numbers, pa.int64()))
    first = {keys[number]: number for number in reversed(numbers)}
    own = table.select(sides.keys).take(pa.array(first.values(), pa.int64()))
    types = {field.name: field.dataType for field in both.schema.fields}
    # Without key columns there is nothing to join by, and all rows have the same key.
    windows = both
    differing = both.select(*sides.keys).limit(1)
    if not off:
        windows, differing = (frame.where(F.lit(False)) for frame in (windows, differing))
    elif sides.keys:
        differing = both.sparkSession.createDataFrame(own).select(
            *(F.col(name).cast(types[name]).alias(name) for name in sides.keys)
        )
        windows = of_keys(both, differing, sides.keys, "left_semi")
    totals = Totals(streams.count(False), streams.count(True), {}, {})
    return totals, Found(windows, len(off), differing, few)
