"""Numbers the events of each key in an order, from 1, without a task that holds a large key.

A sample shows which keys have many events. The others are numbered as they are, each in one task.
The events of a key with many are split into blocks by their place in the order; an event's number
is then its number within the block plus the number of events in the blocks before it. For this, one
row for each block is sent to all tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.window import Window as Over

from backfill.events.times import instant

#: An event's number.
NUMBER = "_number"
#: About this many events are numbered in one task; a key with no more is not split.
BLOCK = 100_000
#: One of this many places is counted, to tell which keys have more events than BLOCK. A key with
#: just that many has 1,500 of them, so the sample is off by a few percent, and only the tasks'
#: sizes depend on it.
ONE_OF = 64
#: Blocks are cut within cells of 2^40 units (12 days of µs), so that a single event far away from
#: the others does not leave these in one block.
_CELL_BITS = 40
#: A double that is within the range of a long.
_FAR = 9e18

_AT, _CELL, _BLOCK = "_at", "_cell", "_block"
_COUNT, _LOW, _HIGH, _WIDTH, _BEFORE = "_count", "_low", "_high", "_width", "_before"


@dataclass(frozen=True)
class Numbering:
    """The order in which events are numbered.

    Attributes:
        keys: the columns of the key; none for one group of all events.
        order: columns that precede `place` in the order, such as a partition.
        place: the column that orders events next, a number or a time.
        ties: columns that order events with equal places. Rows that are equal in all of these are
            numbered in any order.
    """

    keys: Sequence[str]
    order: Sequence[str]
    place: str
    ties: Sequence[str]

    def divided(
        self, events: DataFrame, count: int | None
    ) -> tuple[DataFrame | None, DataFrame | None]:
        """The events of keys with few events, and of those with many; None if there are none.

        Args:
            events: any rows.
            count: how many there are; None if that is not known.
        """
        if count is not None and count <= BLOCK:
            return events, None
        if not self.keys:
            return None, events
        sampled = self._sampled(events).groupBy(*self.keys).agg(F.count(F.lit(1)).alias(_COUNT))
        many = sampled.where(F.col(_COUNT) * ONE_OF > BLOCK).select(*self.keys)
        return _joined(events, many, self.keys, "left_anti"), _joined(
            events, many, self.keys, "left_semi"
        )

    def together(self, events: DataFrame) -> DataFrame:
        """The events with NUMBER, a long; one task numbers all events of a key."""
        in_order = Over.partitionBy(*self.keys).orderBy(*self.order, self.place, *self.ties)
        return events.withColumn(NUMBER, F.row_number().over(in_order).cast("long"))

    def in_blocks(self, events: DataFrame) -> DataFrame:
        """The events with NUMBER; several tasks number the events of a key."""
        keys, order = self.keys, self.order
        cell = [*keys, *order, _CELL]
        cells = (
            self._sampled(events)
            .withColumn(_CELL, F.shiftright(_AT, _CELL_BITS))
            .groupBy(*cell)
            .agg(F.count(F.lit(1)).alias(_COUNT), F.min(_AT).alias(_LOW), F.max(_AT).alias(_HIGH))
        )
        # Blocks of equal width that together cover the places of a cell that the sample has.
        blocks = F.ceil(F.col(_COUNT) * ONE_OF / BLOCK)
        width = F.floor((F.col(_HIGH) - F.col(_LOW)) / blocks) + 1
        split = cells.select(*cell, _LOW, width.alias(_WIDTH))
        at = self._placed(events).withColumn(_CELL, F.shiftright(_AT, _CELL_BITS))
        # A cell that is not in the sample is one block.
        whole = F.lit(1 << _CELL_BITS)
        into = F.pmod(F.col(_AT) - F.coalesce(_LOW, F.lit(0)), F.coalesce(_WIDTH, whole))
        places = [F.col(name) for name in (*order, _CELL)]
        block = F.struct(*places, (F.col(_AT) - into).alias(_LOW))
        placed = (
            _joined(at, split, cell, "left").withColumn(_BLOCK, block).drop(_CELL, _LOW, _WIDTH)
        )
        counts = placed.groupBy(*keys, _BLOCK).agg(F.count(F.lit(1)).alias(_COUNT))
        earlier = Over.partitionBy(*keys).orderBy(_BLOCK).rowsBetween(Over.unboundedPreceding, -1)
        before = counts.select(*keys, _BLOCK, F.sum(_COUNT).over(earlier).alias(_BEFORE))
        within = Over.partitionBy(*keys, _BLOCK).orderBy(*order, self.place, *self.ties)
        number = F.row_number().over(within) + F.coalesce(_BEFORE, F.lit(0))
        return (
            _joined(placed, before, [*keys, _BLOCK], "left")
            .withColumn(NUMBER, number.cast("long"))
            .drop(_AT, _BLOCK, _BEFORE)
        )

    def _sampled(self, events: DataFrame) -> DataFrame:
        """The events at a sample of the places."""
        wanted = F.pmod(F.xxhash64(_AT), F.lit(ONE_OF)) == 0
        return self._placed(events).select(*self.keys, *self.order, _AT).where(wanted)

    def _placed(self, events: DataFrame) -> DataFrame:
        return events.withColumn(_AT, _whole(events, self.place))


def _whole(events: DataFrame, place: str) -> Column:
    """The place as a long that never falls where the place rises."""
    at, type = F.col(place), events.schema[place].dataType
    if isinstance(type, T.IntegralType):
        return at.cast("long")
    if isinstance(type, T.TimestampType | T.TimestampNTZType | T.DateType):
        return instant(at, type, place, "UTC")
    number = F.least(F.greatest(at.cast("double"), F.lit(-_FAR)), F.lit(_FAR))
    # The functions above ignore NULL.
    return F.when(at.isNotNull(), F.floor(number))


def _joined(rows: DataFrame, few: DataFrame, on: Sequence[str], how: str) -> DataFrame:
    """Joins rows with a few others that are equal in some columns; NULL equals NULL."""
    other = {name: f"{name}_few" for name in on}
    equal = reduce(and_, (F.col(name).eqNullSafe(F.col(other[name])) for name in on))
    joined = rows.join(F.broadcast(few.withColumnsRenamed(other)), equal, how)
    return joined.drop(*other.values())
