"""Numbers the events of each key in an order, from 1, without a task that holds all of them.

The events of a key are counted first. Those of a key with many are split into blocks by their
place in the order; a number is then the number within the block plus the events in the blocks
before it. What is put in front of all tasks, for this, is a row for each block, and a key with few
events has none.
"""

from __future__ import annotations

from collections.abc import Sequence
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
#: Blocks are cut within cells of 2^40 units (12 days of µs), so that a single event far away from
#: the others does not leave these in one block.
_CELL_BITS = 40
#: Within a long, as a double.
_FAR = 9e18

_AT, _CELL, _BLOCK, _MANY = "_at", "_cell", "_block", "_many"
_COUNT, _LOW, _HIGH, _WIDTH, _BEFORE = "_count", "_low", "_high", "_width", "_before"


def numbered(
    events: DataFrame,
    keys: Sequence[str],
    *,
    order: Sequence[str],
    place: str,
    ties: Sequence[str],
) -> DataFrame:
    """Adds NUMBER: 1 for a key's first event in the order, 2 for the next one, and so on.

    Args:
        events: any rows.
        keys: the columns of the key; none for one group of all events.
        order: columns that precede `place` in the order, such as a partition.
        place: the column that orders events next, a number or a time.
        ties: columns that order events with equal places. Rows that are equal in all of these are
            numbered in any order.

    Returns:
        The rows with NUMBER (a long).
    """
    at = events.withColumn(_AT, _whole(events, place))
    at = at.withColumn(_CELL, F.shiftright(_AT, _CELL_BITS))
    cell = [*keys, *order, _CELL]
    cells = at.groupBy(*cell).agg(
        F.count(F.lit(1)).alias(_COUNT), F.min(_AT).alias(_LOW), F.max(_AT).alias(_HIGH)
    )
    # The width of a block is at least the units that hold a block's events on average.
    blocks = F.ceil(F.col(_COUNT) / BLOCK)
    width = F.floor((F.col(_HIGH) - F.col(_LOW)) / blocks) + 1
    split = (
        cells.withColumn(_MANY, F.sum(_COUNT).over(Over.partitionBy(*keys)) > BLOCK)
        .where(_MANY)
        .select(*cell, _LOW, width.alias(_WIDTH), _MANY)
    )
    into = F.col(_AT) - F.col(_LOW)
    begin = F.col(_AT) - F.pmod(into, F.col(_WIDTH))
    places = [F.col(each) for each in (*order, _CELL)]
    placed = (
        _attached(at, split, cell)
        .withColumn(_BLOCK, F.when(F.col(_MANY), F.struct(*places, begin.alias(_LOW))))
        .drop(_CELL, _LOW, _WIDTH, _MANY)
    )
    counts = (
        placed.where(F.col(_BLOCK).isNotNull())
        .groupBy(*keys, _BLOCK)
        .agg(F.count(F.lit(1)).alias(_COUNT))
    )
    earlier = Over.partitionBy(*keys).orderBy(_BLOCK).rowsBetween(Over.unboundedPreceding, -1)
    before = counts.select(*keys, _BLOCK, F.sum(_COUNT).over(earlier).alias(_BEFORE))
    within = Over.partitionBy(*keys, _BLOCK).orderBy(*order, place, *ties)
    number = F.row_number().over(within) + F.coalesce(_BEFORE, F.lit(0))
    return (
        _attached(placed, before, [*keys, _BLOCK])
        .withColumn(NUMBER, number.cast("long"))
        .drop(_AT, _BLOCK, _BEFORE)
    )


def _whole(events: DataFrame, place: str) -> Column:
    """The place as a long that never falls where the place rises."""
    at, type = F.col(place), events.schema[place].dataType
    if isinstance(type, T.IntegralType):
        return at.cast("long")
    if isinstance(type, T.TimestampType | T.TimestampNTZType | T.DateType):
        return instant(at, type, place, "UTC")
    number = F.least(F.greatest(at.cast("double"), F.lit(-_FAR)), F.lit(_FAR))
    # The functions above take no notice of NULL.
    return F.when(at.isNotNull(), F.floor(number))


def _attached(rows: DataFrame, few: DataFrame, on: Sequence[str]) -> DataFrame:
    """The rows with the columns of those few rows that are equal in some; NULL equals NULL."""
    other = {name: f"{name}_few" for name in on}
    equal = reduce(and_, (F.col(name).eqNullSafe(F.col(other[name])) for name in on))
    found = rows.join(F.broadcast(few.withColumnsRenamed(other)), equal, "left")
    return found.drop(*other.values())
