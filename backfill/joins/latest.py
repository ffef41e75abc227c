"""For each row of one frame, the latest row of another one that is not after it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.window import Window as Over

from backfill.columns import TIME, column, key_name, quoted
from backfill.operators.rule_inputs import sortable

_SIDE, _APART = "_side", "_apart"


def latest(
    own: DataFrame,
    other: DataFrame,
    *,
    keys: Sequence[str],
    arrival: Sequence[str] = (),
    allow_exact: bool,
    names: tuple[str, str],
) -> DataFrame:
    """Puts both frames in order of time, and carries on the last row of the other one.

    Args:
        own: rows with TIME.
        other: rows with TIME.
        keys: columns that both have; NULL is equal to nothing.
        arrival: columns of the other frame that order its rows of one time. What is still alike
            then is ordered by its other columns.
        allow_exact: a row of the same time is not after.
        names: of the two columns of the result.

    Returns:
        Each own row once, as a struct, and the other frame's row, NULL where there is none.
    """
    mine, theirs = names
    present = reduce(and_, (column(each).isNotNull() for each in (*keys, TIME)))
    whole = {
        name: F.struct(*map(column, frame.columns))
        for name, frame in ((mine, own), (theirs, other))
    }
    empty = {
        name: F.lit(None).cast(T.StructType(frame.schema.fields))
        for name, frame in ((mine, own), (theirs, other))
    }

    def rows(frame: DataFrame, name: str, *, last: bool) -> DataFrame:
        return frame.select(
            *(column(each).alias(key_name(i)) for i, each in enumerate(keys)),
            # Rows that match nothing are in groups of their own, however many have no key.
            F.when(~present, F.coalesce(F.pmod(TIME, F.lit(1_000)), F.lit(0))).alias(_APART),
            F.col(TIME),
            F.lit(last).alias(_SIDE),
            *((whole if each == name else empty)[each].alias(each) for each in names),
        )

    ties = [field.name for field in other.schema.fields if sortable(field.dataType)]
    by_key = [*(key_name(i) for i in range(len(keys))), _APART]
    place = (F.col(f"{theirs}.{quoted(each)}") for each in (*arrival, *ties))
    order = [F.col(TIME), F.col(_SIDE), *place]
    so_far = Over.partitionBy(*by_key).orderBy(*order).rowsBetween(Over.unboundedPreceding, 0)
    both = rows(own, mine, last=allow_exact).unionAll(
        rows(other.where(present), theirs, last=not allow_exact)
    )
    carried = both.withColumn(theirs, F.last(theirs, ignorenulls=True).over(so_far))
    return carried.where(F.col(mine).isNotNull()).select(mine, theirs)
