"""Micro-batches and bundles: when each ended, and where the clock stood."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from backfill.errors import ColumnError, ReplayError
from backfill.replay import Event
from backfill.replay.apart import Apart
from backfill.replay.clocks import NEVER


def check_batch(events: DataFrame, name: str, *, field: str) -> None:
    """Raises ColumnError if a column can't hold the numbers of micro-batches."""
    type = events.schema[name].dataType
    if not isinstance(type, T.IntegralType):
        raise ColumnError(
            "must be a whole number: the number of an event's micro-batch",
            field=field,
            value=f"{name} {type.simpleString()}",
            way_out="Cast the column",
        )


@dataclass(frozen=True)
class Batches:
    """The batches that had events.

    Attributes:
        numbers: their numbers, ascending.
        ends: the arrivals of their last events.
        before: where the clock stood by which events are judged.
        after: where the clock stood by which windows left at the end of a batch, or of a batch
            without data that followed it.
        last: the same at the end of the input; None if nothing more happens then.
    """

    numbers: Sequence[int]
    ends: Sequence[int]
    before: Sequence[int]
    after: Sequence[int]
    last: int | None

    @classmethod
    def of(
        cls, batches: Iterable[tuple[int, int, int, int | None]], apart: Apart, *, marked: bool
    ) -> Batches:
        """Runs the clock through the batches.

        Args:
            batches: for each batch, its number, its first and its last arrival, and its latest time
                or watermark, in µs.
            apart: the operator.
            marked: whether these are watermarks.

        Raises:
            ReplayError: a batch's events did not arrive together.
        """
        rows = sorted(batches)
        for one, other in pairwise(rows):
            if other[1] <= one[2]:
                raise ReplayError(
                    f"its events do not all arrive before those of batch {other[0]}",
                    field="batch",
                    value=one[0],
                    way_out="Let arrivals follow the batches",
                )
        if apart.streaming.feed == "bundles":
            return cls._of_bundles(rows)
        clock = apart.batches(marked=marked)
        idle = apart.settings.idle_batches
        before, after = [], []
        followers = [*(row[0] for row in rows[1:]), *([None] if rows else [])]
        for (number, _, _, most), following in zip(rows, followers, strict=True):
            before.append(clock.late)
            if most is not None:
                time = None if marked else most
                event = Event(key=None, time=time, arrival=0, watermark=most if marked else None)
                clock.see(event, NEVER if time is None else time)
            after.append(clock.now)
            rose = clock.next_batch()
            if following is not None:
                for _ in range(following - number - 1 or int(idle and rose)):
                    after[-1] = clock.now
                    clock.next_batch()
        numbers, ends = [row[0] for row in rows], [row[2] for row in rows]
        return cls(numbers, ends, before, after, clock.now)

    @classmethod
    def _of_bundles(cls, rows: Sequence[tuple[int, int, int, int | None]]) -> Batches:
        """The watermark moves at the end of each bundle; the end of the input completes all."""
        now = NEVER
        before, after = [], []
        for *_, most in rows:
            before.append(now)
            now = now if most is None else max(now, most)
            after.append(now)
        return cls([row[0] for row in rows], [row[2] for row in rows], before, after, None)

    def place_of(self, batch: int) -> int:
        """The place of a batch among these."""
        return bisect_left(self.numbers, batch)

    def reaching(self, due: int) -> int | None:
        """The place of the first batch after which the clock had reached `due`; None if none."""
        place = bisect_left(self.after, due)
        return place if place < len(self.after) else None
