"""Sessions by key and end (KIP-94's session store)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from sortedcontainers import SortedDict

from backfill.replay.stores.segments import Segments, segment_interval

_EVER = 1 << 62

_Place = tuple[int, int, int]


class Session(NamedTuple):
    """A stored session: its first and last event (µs, both inclusive) and its content."""

    key: Any
    start: int
    end: int
    value: Any


class SessionStore:
    """Sessions that are kept for a while after their end, and found by key and time.

    A session is hidden from then on that its end is not later than the largest end put, less
    the retention; it is deleted with its segment. Putting and finding take time logarithmic in
    the number of sessions.

    Args:
        retention: in µs.
        interval: the length of a segment in µs; by default as `segment_interval` has it.
        tick: the resolution of time in µs.
        expired: told of every session that is deleted with its segment.
    """

    def __init__(
        self,
        *,
        retention: int,
        interval: int | None = None,
        tick: int = 1_000,
        expired: Callable[[Session], None] | None = None,
    ) -> None:
        self._sessions: Any = SortedDict()  # of (number of the key, end, start): session
        self._numbers: dict[Any, int] = {}
        self._longest: list[int] = []  # by the key's number: no session of it was longer
        self._told = expired
        self._segments: Segments[_Place] = Segments(
            retention=retention,
            interval=interval or segment_interval(retention),
            tick=tick,
            expired=self._expire,
        )

    def put(self, key: Any, start: int, end: int, value: Any) -> bool:
        """Stores a session, over one of the same bounds; whether it is not past retention."""
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._longest)
            self._longest.append(0)
        place = number, end, start
        if place not in self._sessions:
            segments = self._segments
            segments.observe(end)
            if not segments.add(end, place):
                return False
            if end - start > self._longest[number]:
                self._longest[number] = end - start
        self._sessions[place] = Session(key, start, end, value)
        return True

    def remove(self, key: Any, start: int, end: int) -> None:
        """Forgets a session, if it is there."""
        self._segments.observe(end)
        number = self._numbers.get(key)
        if number is not None and self._sessions.pop((number, end, start), None) is not None:
            self._segments.discard(end, (number, end, start))

    def find_sessions_to_merge(
        self, key: Any, earliest_end: int, latest_start: int
    ) -> list[Session]:
        """The key's sessions that end and start so, by end, then start; not the hidden ones."""
        number = self._numbers.get(key)
        if number is None:
            return []
        low = max(earliest_end, self._segments.visible_from)
        # One that starts in time ends no later than the longest one could.
        high = latest_start + self._longest[number] + 1
        sessions = self._sessions
        return [
            sessions[place]
            for place in sessions.irange((number, low), (number, high))
            if place[2] <= latest_start
        ]

    def fetch(self, key: Any) -> Iterator[Session]:
        """The key's sessions as they are now, by end, then start; not the hidden ones."""
        return iter(self.find_sessions_to_merge(key, -_EVER, _EVER))

    @property
    def visible_from(self) -> int:
        """Sessions that end earlier are hidden."""
        return self._segments.visible_from

    def holds(self, key: Any, start: int, end: int) -> bool:
        """Whether the session is there, hidden or not."""
        return (self._numbers.get(key), end, start) in self._sessions

    def shows(self, key: Any, start: int, end: int) -> bool:
        """Whether the session is there, and not hidden."""
        return end >= self.visible_from and self.holds(key, start, end)

    def live_from(self, time: int) -> int:
        """Once a session that ends at `time` was put, those that end earlier can't be any more."""
        return self._segments.live_from(time)

    def ending(self, low: int, high: int) -> list[Session]:
        """All sessions that end in [low, high], hidden ones too, in no order."""
        return [
            self._sessions[place]
            for place in self._segments.between(low, high)
            if low <= place[1] <= high
        ]

    def all(self) -> Iterator[Session]:
        """All sessions that are not hidden, as they are now, by key, end and start."""
        visible = self._segments.visible_from
        return iter([each for each in self._sessions.values() if each.end >= visible])

    def _expire(self, place: _Place) -> None:
        session = self._sessions.pop(place)
        if self._told is not None:
            self._told(session)
