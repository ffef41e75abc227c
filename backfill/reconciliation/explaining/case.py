"""A key whose windows differ, the faults that may explain it, and the explanation.

A cause is proved if the replay under it gives exactly what the stream wrote, and nothing else that
was tried does so too. Causes that assume less are tried first: the operator as it is described;
then one fault of its output, its settings or its input; then faults of two of these kinds.
`backfill.causes` lists the causes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from backfill.causes import CAUSES
from backfill.reconciliation.explaining.doubles import Doubles, same_rows
from backfill.reconciliation.explaining.matching import Difference
from backfill.reconciliation.explaining.operator import Operator
from backfill.reconciliation.explaining.outcome import Hypothesis
from backfill.reconciliation.explaining.timeline import Timeline
from backfill.reconciliation.rows import Row
from backfill.reconciliation.same_time import interchangeable
from backfill.replay import Event
from backfill.windows import SessionWindow, is_distinct

T = TypeVar("T")
#: About how many replays are made for a difference to look for events that the stream left out or
#: repeated; and about how many events are replayed for a key: if it has many differences, there are
#: fewer replays for each.
MOST_TRIES = 2_000
_MOST_REPLAYED = 5_000_000


@dataclass(frozen=True)
class Explanation:
    """Why one difference is there.

    Attributes:
        causes: in order of weight; the first counts.
        proved: the replay under them gives the stream's rows, and no other does.
        evidence: what shows it.
        rows: the rows about the difference that the stream would hold under these causes, each with
            the arrivals of its events.
    """

    causes: tuple[str, ...]
    proved: bool
    evidence: Mapping[str, Any] = field(default_factory=dict)
    rows: Sequence[Row] = ()

    def __post_init__(self) -> None:
        # A cause that is not listed could be neither accepted nor drawn.
        unknown = [cause for cause in self.causes if cause not in CAUSES]
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
        doubles: the doubles that are added up.
        copies: for each event (by arrival) that is a copy of an earlier one, the arrival of the
            earlier one.
        expired: windows that ended before this time are past the batch's retention, µs.
        batch: what the batch does, as an operator for which nothing is late; None: as PLAIN.
        complete: windows that end later than this, µs, may not have been completed by the
            operator's clock, because events that move it may be lost. None: all were written.
        made: the key's replays, by what they assume: a key with many differences is replayed once
            for each fault that is tried, not once for each difference.
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
        """What was made under this name before, or else is made now."""
        if name not in self.made:
            self.made[name] = make()
        value: T = self.made[name]
        return value

    @property
    def tries(self) -> int:
        """How many replays may still be made to look for faults of one difference."""
        if self.operator.among is not None:
            return min(MOST_TRIES, self.operator.among.tries)
        cost = max(1, len(self.events)) * max(1, len(self.differences))
        return max(1, min(MOST_TRIES, _MOST_REPLAYED // cost))

    def same(self, one: Row, other: Row) -> bool:
        """Whether two rows are equal."""
        return one.bounds == other.bounds and same_rows(one, other, self.doubles)

    @property
    def written(self) -> Timeline:
        """All the stream's rows of the key."""
        return self.once("written", lambda: Timeline(self.stream))

    def gives(self, made: Hypothesis, hull: tuple[int, int]) -> bool:
        """Whether a hypothesis gives the stream's rows that meet a difference's span.

        Other windows that differ are left out, because they have faults of their own.
        """
        apart = self.once("apart", self._apart)

        def counts(row: Row) -> bool:
            return self.meets(row, hull) and (row.bounds == hull or row.bounds not in apart)

        ours, theirs = made.rows.about(*hull), self.written.about(*hull)
        return self._alike(filter(counts, ours), filter(counts, theirs))

    def gives_all(self, made: Hypothesis) -> bool:
        """Whether a hypothesis gives exactly the stream's rows of the key."""
        return self._alike(made.rows, self.stream)

    def _alike(self, made: Iterable[Row], stream: Iterable[Row]) -> bool:
        ours, theirs = (sorted(rows, key=_by_bounds) for rows in (made, stream))
        return len(ours) == len(theirs) and all(map(self.same, ours, theirs))

    def _apart(self) -> frozenset[tuple[int, int]]:
        """The bounds of all windows that differ; none for sessions, which differ together."""
        if self.sessions:
            return frozenset()
        return frozenset(row.bounds for d in self.differences for row in (*d.batch, *d.stream))

    def meets(self, row: Row, hull: tuple[int, int]) -> bool:
        """Whether a row shares an instant with a span; windows that only touch share none."""
        low, high = hull
        first, last = row.start, row.end
        if last < first:
            first, last = last, first
        if self.inclusive:
            return first <= high and last >= low
        return first < high and last > low

    def concerns(self, row: Row, hull: tuple[int, int]) -> bool:
        """Whether a row belongs to the difference of this span.

        Sessions do if they meet it. Other windows do only if they have its bounds, even if they
        overlap it.
        """
        return self.meets(row, hull) if self.sessions else row.bounds == hull

    def inside(self, hull: tuple[int, int]) -> list[Event]:
        """The events that a window with a span's bounds would hold, by arrival.

        If each event has a row, those that the row of this time holds. For a distinct window, also
        those a tick before it, which are the reason why it is there.
        """
        low, high = hull
        first, last = bisect_left, bisect_right
        before: int | None = 0
        if self.inclusive:
            before = 0 if self.sessions else self.operator.engine.tick_us
        elif interchangeable(self.operator.window):
            before, last = self.operator.back_us, bisect_left
        elif self.operator.engine.rules.closed == "right":
            first = bisect_right
        else:
            last = bisect_left
        times, places = self.timed
        start = 0 if before is None else first(times, low - before)
        return [self.events[place] for place in sorted(places[start : last(times, high)])]

    @cached_property
    def timed(self) -> tuple[list[int], list[int]]:
        """The times of the events as the rows have them, in order, and each event's place."""
        times = [(self.floored(event), place) for place, event in enumerate(self.events)]
        known = sorted((time, place) for time, place in times if time is not None)
        return [time for time, _ in known], [place for _, place in known]

    @cached_property
    def times(self) -> frozenset[int]:
        """The times of the events as the rows have them."""
        return frozenset(self.timed[0])

    @cached_property
    def by_arrival(self) -> Mapping[Any, Event]:
        """The events by their arrivals."""
        return {event.arrival: event for event in self.events}

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


def _by_bounds(row: Row) -> tuple[int, int, str]:
    return row.start, row.end, repr(sorted(row.values.items(), key=str))
