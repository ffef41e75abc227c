"""Which events are pairs, as positions that are within reach of each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from backfill.columns import TIME
from backfill.join_window import LEFT, RIGHT
from backfill.joins.merging import SECOND, arrivals, group, merged, ties
from backfill.joins.sides import INDEX, SEEN, SHARED, Sides
from backfill.operators.binned import AT, binned
from backfill.within import Reach


@dataclass(frozen=True)
class Relation:
    """Pairs whose positions are within reach; the positions are columns of the two sides."""

    left: str
    right: str
    reach: Reach


def in_time(reach: Reach) -> list[Relation]:
    """Pairs that are close in time."""
    return [Relation(TIME, TIME, reach)]


def by_count(count: int) -> list[Relation]:
    """Pairs of an event and one of the last so many of the other side before it.

    Of a pair one event comes first, so that it is in one of the two relations.
    """
    last = count - 1
    return [Relation(SEEN, INDEX, Reach(-last, 0)), Relation(INDEX, SEEN, Reach(0, last))]


def numbered(sides: Sides, arrival: Sequence[str]) -> Sides:
    """Adds INDEX, an event's number among its side's of the key, and SEEN, the other side's so far.

    Events are in order of time, arrival, left before right, and then of all their columns.

    Args:
        sides: two sides.
        arrival: columns that both have.
    """
    frames = {LEFT: sides.left, RIGHT: sides.right}
    all_ties = [each for side, frame in frames.items() for each in ties(side, frame)]
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
    each: Column | None = None,
) -> DataFrame:
    """Joins by relations that have no pair in common.

    Args:
        sides: with the relations' columns.
        relations: one or more.
        how: inner, left, full, semi or anti.
        where: a further condition of a pair.
        each: an array; a pair is repeated for each of its values, which go into SHARED.
    """
    repeated = [] if each is None else [F.explode_outer(each).alias(SHARED)]
    once = [] if each is None else [F.lit(None).cast("bigint").alias(SHARED)]
    frames = {LEFT: sides.left, RIGHT: sides.right}

    def joined(own: str, rows: DataFrame, relation: Relation, kind: str) -> DataFrame:
        other = RIGHT if own == LEFT else LEFT
        at = {LEFT: relation.left, RIGHT: relation.right}
        return binned(
            rows.withColumn(AT, F.col(at[own])),
            frames[other].withColumn(AT, F.col(at[other])),
            keys=sides.on,
            reach=relation.reach if own == LEFT else relation.reach.reversed(),
            how=kind,
            names=(own, other),
            where=where,
        )

    def without(own: str, these: Sequence[Relation]) -> DataFrame:
        """The rows of a side that these relations pair with none."""
        rest = frames[own]
        for relation in these:
            rest = joined(own, rest, relation, "anti")
        return rest.alias(own)

    if how == "anti":
        return without(LEFT, relations).select(*sides.kept())
    if how == "semi":
        # Each with the first relation that pairs it.
        found = [
            joined(LEFT, without(LEFT, relations[:place]), relation, "semi").select(*sides.kept())
            for place, relation in enumerate(relations)
        ]
        return reduce(DataFrame.unionAll, found)
    # A single relation finds those without a partner by itself.
    kind = "left" if how != "inner" and len(relations) == 1 else "inner"
    pairs = [
        joined(LEFT, frames[LEFT], relation, kind).select(*sides.both(), *repeated)
        for relation in relations
    ]
    if how != "inner" and kind == "inner":
        pairs.append(without(LEFT, relations).select(*sides.only(LEFT), *once))
    if how == "full":
        pairs.append(without(RIGHT, relations).select(*sides.only(RIGHT), *once))
    return reduce(DataFrame.unionAll, pairs)
