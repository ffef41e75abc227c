"""The order in which the operator of a join received events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby
from operator import and_
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.columns import REASON, column
from backfill.errors import JobFileError
from backfill.planning.context import Context
from backfill.reconciliation.checkpoint import Batches
from backfill.reconciliation.sources import batch_of
from backfill.update_history.batches import check_batch
from backfill.windows.within import Reach

#: An event's number in the source; the batch that read it; the watermark after it, µs; and
#: whether no batch has read it.
_NUMBER, _BATCH, _WATERMARK = "_join_number", "_join_of_batch", "_join_watermark"
_UNREAD = "_join_unread"


@dataclass(frozen=True)
class JoinOrder:
    """How the order of arrival is known.

    Attributes:
        context: of the job.
        engine: the name of the stream's.
        checkpoint: of a Spark query, if it is given.
    """

    context: Context
    engine: str
    checkpoint: Batches | None

    @property
    def arrival(self) -> tuple[str, ...]:
        """Columns that put the events of both sides in the order of their arrival."""
        spec = self.context.spec
        if self.checkpoint is not None:
            return (_BATCH,)
        names = spec.arrival or self.context.source.arrival
        if self.engine == "spark" and len(names) < 2:
            raise JobFileError(
                "does not say which micro-batch read an event, which is needed to compare a Spark "
                "query's join",
                field="events.arrival",
                value=list(names) or None,
                way_out="Give --checkpoint, the folder of the query's checkpoint; or name the "
                "columns of the batch's number and of the place in it",
            )
        if self.engine == "spark":
            check_batch(self.context.source.frame, names[0], field="arrival")
            return names
        if not names:
            problem = "is needed to compare a join: it gives the order in which events arrived"
        elif len(names) == 1 or not (spec.source.parts or self.engine == "flink"):
            return names
        elif spec.source.parts:
            problem = "must be one column that orders the events of both sources by arrival"
        else:
            problem = "must be one column: the watermark depends on the order of all partitions"
        raise JobFileError(
            problem,
            field="events.arrival",
            value=list(names) or None,
            way_out="Name a column such as received_at",
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """The same, with a column of `received` that tells apart events that arrived at once."""
        return (*self.arrival, _NUMBER)

    @property
    def partition(self) -> str | None:
        """The column of the partition, if each partition has a task of its own."""
        parts = len(self.arrival) > 1 and self.engine != "spark"
        return self.arrival[0] if parts else None

    @property
    def number(self) -> str | None:
        """The column of the batch's number, under Spark."""
        return self.arrival[0] if self.engine == "spark" else None

    @property
    def watermark(self) -> str | None:
        """The column of the watermark after an event's batch, if a checkpoint tells it."""
        return None if self.checkpoint is None else _WATERMARK

    @property
    def unread(self) -> str | None:
        """The column that says whether no batch has read an event, if a checkpoint tells it."""
        return None if self.checkpoint is None else _UNREAD

    def received(self) -> DataFrame:
        """All events, as the operator received them, with their numbers."""
        context = self.context
        # What the engine does not take is left to the replay.
        rules = replace(context.rules, null_key=True, before_epoch=True)
        rows = replace(context.reader, rules=rules).rows(list(context.inputs))
        numbered = rows.withColumn(_NUMBER, F.monotonically_increasing_id())
        if self.checkpoint is not None:
            # Events that no batch has read come after all others, so a copy that was read is the
            # first.
            later = max(self.checkpoint.watermarks) + 1
            read = batch_of(self.checkpoint)
            batch = F.coalesce(read, F.lit(later)).cast("bigint")
            mark = F.lit(self.checkpoint.last).cast("bigint")
            for number in sorted(set(self.checkpoint.of_file.values())):
                after = F.lit(self.checkpoint.after(number)).cast("bigint")
                mark = F.when(F.col(_BATCH) == number, after).otherwise(mark)
            numbered = numbered.withColumns({_BATCH: batch, _UNREAD: read.isNull()})
            numbered = numbered.withColumn(_WATERMARK, mark)
        needed = list(self.arrival)
        if self.engine == "flink":
            # Flink fails at an event without a key, so the stream had none.
            needed += context.spec.key
        known = reduce(and_, (column(name).isNotNull() for name in needed))
        return numbered.where(F.col(REASON).isNull() & known)


def orders(events: Sequence[tuple[Any, bool, int | None]], reach: Reach) -> list[Sequence[int]]:
    """Those orders in which events can have arrived that differ most.

    With one clock, the fewest of the events that arrived at once are late if the earliest comes
    first, and the most if the latest does. One event of a pair may have come before the latest
    event, and its partner after it. If each side has a clock of its own, it can matter which side
    came first: one side's events come before the other's of the same time, or before all that they
    can be paired with. These are not all orders that can make a difference.

    Args:
        events: when each arrived, whether it is the left side's, and its event time in µs, in a
            possible order.
        reach: how far apart the events of a pair may be.

    Returns:
        For each order, the places of the events; the one that is given comes first.
    """
    given = list(range(len(events)))

    def time(number: int) -> int:
        return events[number][2] or 0

    def is_left(number: int) -> bool:
        return events[number][1]

    groups = [
        sorted(group, key=time) for _, group in groupby(given, key=lambda number: events[number][0])
    ]
    if all(len({events[number][1:] for number in group}) == 1 for group in groups):
        return [given]
    permutations: list[Sequence[int]] = [given]
    for key in (
        lambda number: (time(number), is_left(number)),
        lambda number: (time(number), not is_left(number)),
        lambda number: -time(number),
        lambda number: (0, time(number)) if is_left(number) else (1, -time(number)),
        lambda number: (1, -time(number)) if is_left(number) else (0, time(number)),
        lambda number: (time(number) + reach.low, 0) if is_left(number) else (time(number), 1),
        lambda number: (time(number), 1) if is_left(number) else (time(number) - reach.high, 0),
    ):
        places = [0] * len(events)
        ordered = (number for group in groups for number in sorted(group, key=key))
        for place, number in enumerate(ordered):
            places[number] = place
        if places not in permutations:
            permutations.append(places)
    return permutations
