"""Which rows of two frames are pairs: those whose positions are close, in time or in an order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill.columns import TIME
from backfill.operators.binned import AT, binned
from backfill.windows.join_window import LEFT, RIGHT
from backfill.windows.within import Reach

#: An event's number in its side's order, and how many events of the other side come before it.
INDEX, SEEN = "_join_index", "_join_seen"


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
    """Pairs of an event and one of the last `count` events of the other side before it.

    One event of a pair comes first, so each pair is in exactly one of the two relations.
    """
    last = count - 1
    return [Relation(SEEN, INDEX, Reach(-last, 0)), Relation(INDEX, SEEN, Reach(0, last))]


@dataclass(frozen=True)
class Pairing:
    """Two frames whose rows are paired.

    Attributes:
        frames: by LEFT and RIGHT, with the columns of the relations.
        keys: columns that both have; NULL is equal to nothing.
        relations: which have no pair in common.
        where: a further condition on a pair.
    """

    frames: Mapping[str, DataFrame]
    keys: Sequence[str]
    relations: Sequence[Relation]
    where: Column | None

    def joined(
        self, own: str, relation: Relation, how: str, rows: DataFrame | None = None
    ) -> DataFrame:
        """Joins the rows of one relation, as `binned` does.

        Args:
            own: the side whose rows are kept where `how` says so.
            relation: one of `relations`.
            how: inner, left, semi or anti, as seen from that side.
            rows: rows of the side; None for all.
        """
        other = RIGHT if own == LEFT else LEFT
        at = {LEFT: relation.left, RIGHT: relation.right}
        rows = self.frames[own] if rows is None else rows
        return binned(
            rows.withColumn(AT, F.col(at[own])),
            self.frames[other].withColumn(AT, F.col(at[other])),
            keys=self.keys,
            reach=relation.reach if own == LEFT else relation.reach.reversed(),
            how=how,
            names=(own, other),
            where=self.where,
        )

    def without(self, own: str, relations: Sequence[Relation] | None = None) -> DataFrame:
        """The rows of a side without a pair in these relations; None: in any relation."""
        rest = self.frames[own]
        for relation in self.relations if relations is None else relations:
            rest = self.joined(own, relation, "anti", rest)
        return rest.alias(own)

    def having(self, own: str) -> list[DataFrame]:
        """The rows of a side that have a partner, each once: by the first relation that fits."""
        return [
            self.joined(own, relation, "semi", self.without(own, self.relations[:place]))
            for place, relation in enumerate(self.relations)
        ]
