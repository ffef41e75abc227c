"""Few windows on both sides: compared by the driver, row by row.

Two of Spark's plans over all windows, with which more are compared, take it seconds to make and to
compile, however few windows there are.
"""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from pyspark.sql import functions as F

from backfill.planning.replaced_windows import of_keys
from backfill.reconciliation.arrow_rows import SIDE
from backfill.reconciliation.compare import Found, Sides, Totals

#: So many on both sides together.
FEW_WINDOWS = 50_000


def compared(sides: Sides) -> tuple[Totals, Found] | None:
    """What `Sides.totals` and `Sides.differing` give; None where there are more windows."""
    both = sides.both()
    table = both.limit(FEW_WINDOWS + 1).toArrow()
    if table.num_rows > FEW_WINDOWS:
        return None
    streams = table[SIDE].to_pylist()
    columns = [table[each].to_pylist() for each in sides.keys]
    keys = [repr(row) for row in zip(*columns, strict=True)] if columns else ["()"] * len(streams)
    # What is alike as text is alike to the bit. The rest is matched again, key by key.
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
    # Without a key there is nothing to join by, and all is of the one key.
    windows = both
    differing = both.select(*sides.keys).limit(1)
    if not off:
        windows, differing = (each.where(F.lit(False)) for each in (windows, differing))
    elif sides.keys:
        differing = both.sparkSession.createDataFrame(own).select(
            *(F.col(each).cast(types[each]).alias(each) for each in sides.keys)
        )
        windows = of_keys(both, differing, sides.keys, "left_semi")
    totals = Totals(streams.count(False), streams.count(True), {}, {})
    return totals, Found(windows, len(off), differing, few)
