"""Many overlapping windows at once: each slice is merged a few times, not once per window.

The windows' starts are cut into blocks of as many windows as can hold a slice. The windows of a
block that hold a slice then reach to the block's end, or from its beginning. So a window's value
merges the slices that have begun to count in its block with those that have not ceased to: two
running aggregates, however many windows overlap (van Herk 1992; Gil and Werman 1993). They change
only where a slice begins or ceases to count; all windows between two such places are alike. Nothing
is subtracted, so sums of doubles stay exact, and extremes work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from backfill.columns import END, EVENTS, FIRST, START
from backfill.operators.fixed import FixedWindows
from backfill.operators.grids import floor_to

_BLOCK, _AT, _CEASES = "_block", "_at", "_ceases"


def hopping(
    slices: DataFrame, where: FixedWindows, keys: Sequence[str], functions: Mapping[str, str]
) -> DataFrame:
    """Merges slices into hopping windows; takes and returns what `operators.pivot.pivoted` does."""
    length = where.most_each * where.advance
    edges = slices.select(*keys, *functions, F.explode(_edges(where, length)).alias("_edge"))
    edges = edges.select(*keys, *functions, "_edge.*")

    up = Over.partitionBy(*keys, _BLOCK).orderBy(_AT)
    down = Over.partitionBy(*keys, _BLOCK).orderBy(F.col(_AT).desc())
    begun = up.rangeBetween(Over.unboundedPreceding, Over.currentRow)
    lasting = down.rangeBetween(Over.unboundedPreceding, -1)
    ceasing = down.rangeBetween(Over.unboundedPreceding, Over.currentRow)
    ceases = F.col(_CEASES)
    running = {"_next": F.lead(_AT).over(up), "_before": F.lag(_AT).over(up)}
    for name, function in functions.items():
        merge = getattr(F, function)
        running[f"{name}_begun"] = merge(F.when(~ceases, F.col(name))).over(begun)
        running[f"{name}_lasting"] = merge(F.when(ceases, F.col(name))).over(lasting)
        running[f"{name}_ceasing"] = merge(F.when(ceases, F.col(name))).over(ceasing)
    types = {field.name: field.dataType for field in slices.schema.fields}

    def values(of: dict[str, Column]) -> list[Column]:
        return [of[name].cast(types[name]).alias(name) for name in functions]

    # From each edge to the next one, and from the beginning of the block to the first one.
    behind = F.struct(
        F.col(_AT).alias("from"),
        F.coalesce("_next", F.col(_BLOCK) + length).alias("to"),
        *values({name: _joined(name, function) for name, function in functions.items()}),
    )
    ahead = F.struct(
        F.col(_BLOCK).alias("from"),
        F.col(_AT).alias("to"),
        *values({name: F.col(f"{name}_ceasing") for name in functions}),
    )
    runs = F.array(behind, F.when(F.col("_before").isNull(), ahead))
    return (
        edges.withColumns(running)
        .select(*keys, F.inline(runs))
        .where((F.col("from") < F.col("to")) & (F.col(EVENTS) > 0))
        .withColumn(
            START,
            F.explode(F.sequence("from", F.col("to") - where.advance, F.lit(where.advance))),
        )
        .select(*keys, START, (F.col(START) + where.size).alias(END), *functions)
    )


def _edges(where: FixedWindows, length: int) -> Column:
    """Where the slice begins to count (its first window), and where it ceases to."""
    first, last = where.range(F.col(FIRST))
    first_block = floor_to(first, length, where.offset)
    last_block = floor_to(last, length, where.offset)
    begins = F.struct(first_block.alias(_BLOCK), first.alias(_AT), F.lit(False).alias(_CEASES))
    ceases = F.struct(
        last_block.alias(_BLOCK), (last + where.advance).alias(_AT), F.lit(True).alias(_CEASES)
    )
    # Within one block a slice counts from its beginning, or to its end.
    from_beginning = first <= last_block
    return (
        F.when(first_block < last_block, F.array(begins, ceases))
        .when(from_beginning, F.array(ceases))
        .otherwise(F.array(begins))
    )


def _joined(name: str, function: str) -> Column:
    begun, lasting = F.col(f"{name}_begun"), F.col(f"{name}_lasting")
    if function == "sum":
        return F.coalesce(begun + lasting, begun, lasting)
    return F.least(begun, lasting) if function == "min" else F.greatest(begun, lasting)
