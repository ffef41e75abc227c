"""A key whose windows differ, the faults that may explain it, and the explanation.

A cause is proved if the replay under it gives exactly what the stream wrote, and nothing else that
was tried does so as well. Causes that assume less are tried first: the operator as it is described;
then one fault of its output, its settings or its input; then faults of two of these kinds.
`backfill.causes` lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from backfill.causes import CAUSES
from backfill.reconciliation.doubles import Doubles, same_rows
from backfill.reconciliation.matching import Difference
from backfill.reconciliation.operator import Operator
from backfill.reconciliation.rows import Row
from backfill.reconciliation.same_time import interchangeable
from backfill.replay import Event, Replayed
from backfill.windows import SessionWindow, is_distinct

T = TypeVar("T")
#: No more replays than this are made to look for events that the stream left out or repeated.
MOST_TRIES = 2_000


@dataclass(frozen=True)
class Explanation:
    """Why one difference is there.

    Attributes:
        causes: in order of weight; the first counts.
        proved: the replay under them gives the stream's rows, and no other does.
        evidence: what shows it.
        rows: those about the difference that the stream holds under these causes, each with the
            arrivals of its events.
    """

    causes: tuple[str, ...]
    proved: bool
    evidence: Mapping[str, Any] = field(default_factory=dict)
    rows: Sequence[Row] = ()

    def __post_init__(self) -> None:
        # A cause that is not listed could be neither accepted nor drawn.
        unknown = [each for each in self.causes if each not in CAUSES]
        if unknown:
            raise ValueError(f"not listed as causes: {', '.join(unknown)}")


@dataclass(frozen=True)
class Case:
    """One key with differences.

    Attributes:
        operator: as it is described.
        events: of the key, in order of arrival, redelivered copies among them.
        stream: all the stream's rows of the key.
        differences: to be explained.
        doubles: those that are added up.
        copies: for each event (by arrival) that is a copy of an earlier one, that one's arrival.
        expired: what ended before it is past the batch's retention, µs.
        batch: what the batch does, as an operator to which nothing is late; None: as `plain`.
        complete: of windows that end later it is not sure that the operator's clock completed them,
            for events that move it may be lost; µs. None: all were written.
        made: what has been replayed of the key, by what it was replayed under: a key with many
            differences is replayed once for each fault that is tried, and not for each difference.
    """

    operator: Operator
    events: Sequence[Event]
    stream: Sequence[Row]
    differences: Sequence[Difference]
    doubles: Doubles = field(default_factory=lambda: Doubles((), {}, 1))
    copies: Mapping[Any, Any] = field(default_factory=dict)
    expired: int | None = None
    batch: Operator | None = None
    complete: int | None = None
    made: dict[Any, Any] = field(default_factory=dict)

    def once(self, name: Hashable, make: Callable[[], T]) -> T:
        """What has been made under this name, or is now."""
        if name not in self.made:
            self.made[name] = make()
        found: T = self.made[name]
        return found

    @property
    def tries(self) -> int:
        """How many replays may still be made to look for faults."""
        among = self.operator.among
        return MOST_TRIES if among is None else min(MOST_TRIES, among.tries)

    def same(self, one: Row, other: Row) -> bool:
        """Whether two rows say the same."""
        return one.bounds == other.bounds and same_rows(one, other, self.doubles)

    def gives(self, made: Sequence[Row], hull: tuple[int, int]) -> bool:
        """Whether these rows are the stream's about a difference: those that meet its span.

        But for other windows that differ, which have faults of their own.
        """
        apart = self.once("apart", self._apart)

        def counts(row: Row) -> bool:
            return self.meets(row, hull) and (row.bounds == hull or row.bounds not in apart)

        return self._alike(filter(counts, made), filter(counts, self.stream))

    def gives_all(self, made: Sequence[Row]) -> bool:
        """Whether these rows are all that the stream has of the key."""
        return self._alike(made, self.stream)

    def _alike(self, made: Iterable[Row], stream: Iterable[Row]) -> bool:
        ours, theirs = (sorted(rows, key=_by_bounds) for rows in (made, stream))
        return len(ours) == len(theirs) and all(map(self.same, ours, theirs))

    def _apart(self) -> frozenset[tuple[int, int]]:
        """The bounds of all windows that differ; not of sessions, which differ together."""
        if self.sessions:
            return frozenset()
        return frozenset(row.bounds for d in self.differences for row in (*d.batch, *d.stream))

    def meets(self, row: Row, hull: tuple[int, int]) -> bool:
        """Whether a row has an instant of a span; windows that only touch share none."""
        low, high = hull
        first, last = row.start, row.end
        if last < first:
            first, last = last, first
        if self.inclusive:
            return first <= high and last >= low
        return first < high and last > low

    def concerns(self, row: Row, hull: tuple[int, int]) -> bool:
        """Whether a row belongs to the difference of this span: sessions that meet it.

        Other windows, though they overlap it, only if they have its bounds.
        """
        return self.meets(row, hull) if self.sessions else row.bounds == hull

    def within(self, event: Event, hull: tuple[int, int]) -> bool:
        """Whether an event is in a span, as it would be in a window of these bounds.

        Or of a row of this time, if each event has one; or whether a distinct window is there for
        the sake of the event, a tick after it.
        """
        time = self.floored(event)
        if time is None:
            return False
        low, high = hull
        if self.inclusive:
            before = 0 if self.sessions else self.operator.engine.tick_us
            return low - before <= time <= high
        if interchangeable(self.operator.window):
            back = self.operator.back_us
            return (back is None or low - back <= time) and time < high
        closed = self.operator.engine.rules.closed
        return low < time <= high if closed == "right" else low <= time < high

    def floored(self, event: Event) -> int | None:
        """The event's time as the rows have it."""
        return (
            None if event.time is None else event.time - event.time % self.operator.engine.tick_us
        )

    @property
    def inclusive(self) -> bool:
        """Whether the last instant of a row can be the time of an event in it."""
        return self.sessions or is_distinct(self.operator.window)

    @property
    def sessions(self) -> bool:
        """Whether the windows are sessions, whose bounds are events."""
        return isinstance(self.operator.window, SessionWindow)


@dataclass(frozen=True)
class Hypothesis:
    """Rows that the stream would hold, if a fault were there.

    Attributes:
        causes: what the fault is called.
        rows: what the key's output would be.
        replayed: where they come from; None where the output alone is at fault.
        evidence: what the fault is.
        proved: that the rows agree proves it.
    """

    causes: tuple[str, ...]
    rows: Sequence[Row]
    replayed: Replayed | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    proved: bool = True


#: Makes hypotheses of a fault, for one difference.
Fault = Callable[[Case, Difference, Replayed], Iterator[Hypothesis]]


def _by_bounds(row: Row) -> tuple[int, int, str]:
    return row.start, row.end, repr(sorted(row.values.items(), key=str))
