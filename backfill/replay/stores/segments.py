"""Segments: how a store forgets. Whole spans of time are deleted when retention has passed.

A store in memory has no segments: what it hides is deleted, as if each instant were a segment.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, Generic, TypeVar

from sortedcontainers import SortedDict

from backfill.replay.clocks import NEVER

K = TypeVar("K", bound=Hashable)

_LEAST_US = 60_000_000


def segment_interval(retention: int, *, segments: int | None = None) -> int:
    """The length of a segment in µs.

    Args:
        retention: of the store, in µs.
        segments: the number of segments from which KIP-94 computes the length; None: as in today's
            stores, two for each retention. No segment is shorter than a minute.

    Example:
        >>> segment_interval(3_600_000_000)
        1800000000
    """
    return max(retention // (2 if segments is None else segments - 1), _LEAST_US)


class Segments(Generic[K]):
    """Which entries lie in which segment, and which segments live.

    Args:
        retention: µs for which an entry lives after its time.
        interval: the length of a segment, in µs.
        tick: the resolution of time, in µs.
        memory: whether entries are deleted one by one, as soon as they are hidden.
        expired: called for every entry of a segment when the segment is deleted.

    Attributes:
        observed: the largest time put so far; before everything if there was none.
        visible_from: entries of an earlier time are not found any more.
    """

    def __init__(
        self,
        *,
        retention: int,
        interval: int,
        tick: int,
        memory: bool,
        expired: Callable[[K], None],
    ) -> None:
        self.retention = retention
        self.interval = tick if memory else interval
        self._reach = retention - tick if memory else retention
        self.observed = self.visible_from = NEVER
        self._tick = tick
        self._expired = expired
        self._oldest = NEVER
        self._entries: Any = SortedDict()  # of segment: dict of entry: None

    def observe(self, time: int) -> None:
        """A time was put: expires what is past retention."""
        if time <= self.observed:
            return
        self.observed = time
        self.visible_from = time - self.retention + self._tick
        oldest = (time - self._reach) // self.interval
        if oldest > self._oldest:
            self._oldest = oldest
            while self._entries and self._entries.keys()[0] < oldest:
                for entry in self._entries.popitem(0)[1]:
                    self._expired(entry)

    def restart(self) -> None:
        """What is on disk is found again, but not how far time had come."""
        self.observed = self.visible_from = self._oldest = NEVER

    def live_from(self, time: int) -> int:
        """Where the oldest living segment begins once `time` was put."""
        return (max(time, self.observed) - self._reach) // self.interval * self.interval

    @property
    def kept_from(self) -> int:
        """Where the oldest entries lie that are found when windows close."""
        return self.observed - self._reach

    def add(self, time: int, entry: K) -> bool:
        """Whether the entry's segment lives; if not, it is not added."""
        segment = time // self.interval
        if segment < self._oldest:
            return False
        held = self._entries.get(segment)
        if held is None:
            held = self._entries[segment] = {}
        held[entry] = None
        return True

    def discard(self, time: int, entry: K) -> None:
        """Takes the entry out, if it is there."""
        segment = time // self.interval
        held = self._entries.get(segment)
        if held is not None:
            held.pop(entry, None)
            if not held:
                del self._entries[segment]

    def between(self, low: int, high: int) -> Iterator[K]:
        """The entries of all segments with a time in [low, high], in no order within a segment."""
        for segment in list(self._entries.irange(low // self.interval, high // self.interval)):
            yield from list(self._entries[segment])
