"""Where an operator's clocks stood as each event arrived, and when they reached a given time.

Both are running maxima over all events in order of arrival. They are computed in blocks: the
maximum of each block, of those before it, and within it; never by one task over everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from backfill.runtimes.differences import stacked

#: The stream's partition, if each has a clock of its own; its events' order of arrival; the same
#: order as one number, which no two events share.
PARTITION, PLACE, ORDER = "_partition", "_place", "_order"
#: Where an event moves a clock to, if that is later; NULL: nowhere.
CLOCK_INPUT, WALL_INPUT = "_clock_input", "_wall_input"
#: Where the operator's clock stood before an event and after it; the wall clock at the event, and
#: before it.
BEFORE, AFTER, WALL, WALL_BEFORE = "_before", "_after", "_wall", "_wall_before"
#: Where the operator's clock stands for a row of a replay: before an event, or where an event moved
#: it to.
CLOCK = "_clock"
#: For each clock: what makes it move, and where it stood before an event. The clock has the name of
#: the column that says where it stood after an event, or at one.
CLOCKS = {AFTER: (CLOCK_INPUT, BEFORE), WALL: (WALL_INPUT, WALL_BEFORE)}
#: A time that a key waits for, by which of the clocks (AFTER or WALL).
DUE, BY = "_due", "_by"
#: The time of a clock before all events: the smallest value of a column of longs.
BEGINNING = -(1 << 63)

_BLOCK, _BLOCKS, _ROWS = "_block", 200, 1 << 40
_LOW, _HIGH = "_low", "_high"
_FROM, _TO = "_from", "_to"
_VALUE, _AT, _IS_DUE = "_value", "_at", "_is_due"


@dataclass(frozen=True)
class Arrived:
    """Events with the clocks.

    Attributes:
        frame: the events, with ORDER, and for each clock where it stood before and after them.
        known: for each block of a partition, where the clocks stood before and after it.
        clocks: the clocks that there are, of CLOCKS.
    """

    frame: DataFrame
    known: DataFrame
    clocks: Sequence[str]

    def reached(self, dues: DataFrame, keys: Sequence[str], clocks: Sequence[str]) -> DataFrame:
        """The events at which a clock reached the times that keys wait for.

        Args:
            dues: PARTITION, keys, DUE, µs, and BY, the clock.
            keys: the key's columns.
            clocks: those in BY.

        Returns:
            PARTITION and keys, and ORDER, PLACE and the clocks of the event; no row if the clock
            did not come so far.
        """
        at = F.struct(ORDER, PLACE, *self.clocks)
        spans = {clock: (CLOCKS[clock][1], clock) for clock in clocks}
        rises = (
            _by_clock(self.frame, spans, [at.alias(_AT)])
            .where(F.col(_FROM) < F.col(_TO))
            .select(PARTITION, BY, _BLOCK, F.col(_TO).alias(_VALUE), _AT, F.lit(0).alias(_IS_DUE))
        )
        known = {clock: (f"{_FROM}{clock}", f"{_TO}{clock}") for clock in clocks}
        blocks = _by_clock(self.known, known, []).alias("blocks")
        within = reduce(
            and_,
            (
                *(dues[name] == F.col(f"blocks.{name}") for name in (PARTITION, BY)),
                dues[DUE] > F.col(_FROM),
                dues[DUE] <= F.col(_TO),
            ),
        )
        asked = dues.join(F.broadcast(blocks), within).select(
            *(dues[name] for name in (PARTITION, BY, *keys)),
            _BLOCK,
            dues[DUE].alias(_VALUE),
            F.lit(1).alias(_IS_DUE),
        )
        both = stacked(rises, asked)
        # From the latest time back: the last rise so far is the first one that is late enough.
        back = (
            Over.partitionBy(PARTITION, BY, _BLOCK)
            .orderBy(F.col(_VALUE).desc(), _IS_DUE)
            .rowsBetween(Over.unboundedPreceding, Over.currentRow)
        )
        rows = both.withColumn(_AT, F.last(_AT, ignorenulls=True).over(back))
        return rows.where(F.col(_IS_DUE) == 1).select(PARTITION, *keys, f"{_AT}.*")


def _by_clock(
    rows: DataFrame, clocks: Mapping[str, tuple[str, str]], also: Sequence[Column]
) -> DataFrame:
    """A row for each clock: where it moved from, and where to."""
    moves = F.array(
        *(
            F.struct(F.lit(name).alias(BY), F.col(begin).alias(_FROM), F.col(end).alias(_TO))
            for name, (begin, end) in clocks.items()
        )
    )
    return rows.select(PARTITION, _BLOCK, *also, F.inline(moves))


def with_clocks(events: DataFrame, ties: Sequence[str], clocks: Sequence[str]) -> Arrived:
    """The events with the clocks.

    Args:
        events: with PARTITION, PLACE and the inputs of the clocks.
        ties: columns that put events of equal arrival in order; those that are equal in all of
            them are alike.
        clocks: the clocks that are wanted, of CLOCKS.
    """
    bounds = events.agg(
        F.min(PLACE).cast("double").alias(_LOW), F.max(PLACE).cast("double").alias(_HIGH)
    )
    # Doubles round, but never past each other, and do not overflow.
    width = F.greatest(F.lit(1.0), (F.col(_HIGH) - F.col(_LOW)) / _BLOCKS)
    block = F.floor((F.col(PLACE).cast("double") - F.col(_LOW)) / width)
    placed = events.crossJoin(F.broadcast(bounds)).withColumn(_BLOCK, block.cast("bigint"))
    blocked = placed.drop(_LOW, _HIGH)
    # At most a few hundred rows for each partition, however many events there are.
    most = blocked.groupBy(PARTITION, _BLOCK).agg(
        *(F.max(CLOCKS[clock][0]).alias(clock) for clock in clocks)
    )
    # Spark warns if all rows are in one window, even if they are as few as these.
    by_block = Over.partitionBy(PARTITION, F.col(_BLOCK) < 0).orderBy(_BLOCK)
    earlier = by_block.rowsBetween(Over.unboundedPreceding, -1)
    so_far = by_block.rowsBetween(Over.unboundedPreceding, Over.currentRow)
    known = most.select(
        PARTITION,
        _BLOCK,
        *(_known(F.max(clock).over(earlier)).alias(f"{_FROM}{clock}") for clock in clocks),
        *(_known(F.max(clock).over(so_far)).alias(f"{_TO}{clock}") for clock in clocks),
    )
    within = Over.partitionBy(PARTITION, _BLOCK).orderBy(PLACE, *ties)
    before = within.rowsBetween(Over.unboundedPreceding, -1)
    until = within.rowsBetween(Over.unboundedPreceding, Over.currentRow)
    added = {ORDER: F.col(_BLOCK) * _ROWS + F.row_number().over(within)}
    for clock in clocks:
        given, stood = CLOCKS[clock]
        added[stood] = _later(F.max(given).over(before), clock)
        added[clock] = _later(F.max(given).over(until), clock)
    clocked = blocked.join(F.broadcast(known), [PARTITION, _BLOCK]).withColumns(added)
    return Arrived(clocked, known, clocks)


def _later(within: Column, clock: str) -> Column:
    return F.greatest(within, F.col(f"{_FROM}{clock}"))


def _known(time: Column) -> Column:
    return F.coalesce(time, F.lit(BEGINNING))
