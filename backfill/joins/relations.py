"""The rows of each kind of join, and the numbers by which its events are placed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from backfill.columns import TIME
from backfill.joins.merging import SECOND, arrivals, group, merged, ties
from backfill.joins.sides import SHARED, Sides
from backfill.operators.pairing import INDEX, SEEN, Pairing, Relation
from backfill.windows.join_window import LEFT, RIGHT


def numbered(sides: Sides, arrival: Sequence[str]) -> Sides:
    """Adds INDEX, an event's number among its side's of the key, and SEEN, the other side's so far.

    Events are in order of time, arrival, left before right, and then of all their columns.

    Args:
        sides: two sides.
        arrival: columns that both have.
    """
    frames = {LEFT: sides.left, RIGHT: sides.right}
    all_ties = [tie for side, frame in frames.items() for tie in ties(side, frame)]
    order = [*map(F.col, (TIME, *arrivals(arrival), SECOND)), *all_ties]
    so_far = (
        Over.partitionBy(*group(sides.on))
        .orderBy(*order)
        .rowsBetween(Over.unboundedPreceding, Over.currentRow)
    )
    counts = {f"_{side}": F.count(side).over(so_far) for side in frames}
    counted = merged(frames, sides.on, arrival=arrival, second=RIGHT).withColumns(counts)

    def of(side: str, other: str) -> DataFrame:
        # Without a time there is no place in the order.
        placed = F.col(TIME).isNotNull()
        numbers = {INDEX: f"_{side}", SEEN: f"_{other}"}
        return counted.where(F.col(side).isNotNull()).select(
            f"{side}.*", *(F.when(placed, F.col(old)).alias(new) for new, old in numbers.items())
        )

    return Sides(of(LEFT, RIGHT), of(RIGHT, LEFT), sides.on, sides.columns)


def related(
    sides: Sides,
    relations: Sequence[Relation],
    how: str,
    where: Column | None,
    starts: Column | None = None,
) -> DataFrame:
    """Joins by relations that have no pair in common.

    Args:
        sides: with the relations' columns.
        relations: one or more.
        how: inner, left, full, semi or anti.
        where: a further condition of a pair.
        starts: an array; a pair is repeated for each of its values, which go into SHARED.
    """
    repeated = [] if starts is None else [F.explode_outer(starts).alias(SHARED)]
    once = [] if starts is None else [F.lit(None).cast("bigint").alias(SHARED)]
    pairing = Pairing({LEFT: sides.left, RIGHT: sides.right}, sides.on, relations, where)
    if how == "anti":
        return pairing.without(LEFT).select(*sides.kept())
    if how == "semi":
        frames = [frame.select(*sides.kept()) for frame in pairing.having(LEFT)]
        return reduce(DataFrame.unionAll, frames)
    # A single relation finds those without a partner by itself.
    kind = "left" if how != "inner" and len(relations) == 1 else "inner"
    pairs = [
        pairing.joined(LEFT, relation, kind).select(*sides.both(), *repeated)
        for relation in relations
    ]
    if how != "inner" and kind == "inner":
        pairs.append(pairing.without(LEFT).select(*sides.only(LEFT), *once))
    if how == "full":
        pairs.append(pairing.without(RIGHT).select(*sides.only(RIGHT), *once))
    return reduce(DataFrame.unionAll, pairs)
