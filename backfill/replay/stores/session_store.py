"""Sessions by key and end (KIP-94's session store)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from sortedcontainers import SortedDict

from backfill.replay.stores.segments import Segments, segment_interval

_EVER = 1 << 62


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
    the number of the key's sessions.

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
        self._by_key: dict[Any, Any] = {}  # of key: sorted dict of (end, start): value
        self._longest: dict[Any, int] = {}
        self._told = expired
        self._segments: Segments[tuple[Any, int, int]] = Segments(
            retention=retention,
            interval=interval or segment_interval(retention),
            tick=tick,
            expired=self._expire,
        )

    def put(self, key: Any, start: int, end: int, value: Any) -> bool:
        """Stores a session, over one of the same bounds; whether it is not past retention."""
        segments = self._segments
        segments.observe(end)
        if not segments.add(end, (key, end, start)):
            return False
        sessions = self._by_key.get(key)
        if sessions is None:
            sessions = self._by_key[key] = SortedDict()
        sessions[end, start] = value
        if end - start > self._longest.get(key, -1):
            self._longest[key] = end - start
        return True

    def remove(self, key: Any, start: int, end: int) -> None:
        """Forgets a session, if it is there."""
        self._segments.observe(end)
        self._segments.discard(end, (key, end, start))
        self._delete(key, start, end)

    def find_sessions_to_merge(
        self, key: Any, earliest_end: int, latest_start: int
    ) -> list[Session]:
        """The key's sessions that end and start so, by end, then start; not the hidden ones."""
        sessions = self._by_key.get(key)
        if sessions is None:
            return []
        low = max(earliest_end, self._segments.visible_from)
        # One that starts in time ends no later than the longest one could.
        high = latest_start + self._longest[key] + 1
        return [
            Session(key, start, end, sessions[end, start])
            for end, start in sessions.irange((low, -_EVER), (high, -_EVER))
            if start <= latest_start
        ]

    def fetch(self, key: Any) -> Iterator[Session]:
        """The key's sessions as they are now, by end, then start; not the hidden ones."""
        return iter(self.find_sessions_to_merge(key, -_EVER, _EVER))

    def shows(self, key: Any, start: int, end: int) -> bool:
        """Whether the session is there, and not hidden."""
        return end >= self._segments.visible_from and (end, start) in self._by_key.get(key, ())

    def live_from(self, time: int) -> int:
        """Once a session that ends at `time` was put, those that end earlier can't be any more."""
        return self._segments.live_from(time)

    def ending(self, low: int, high: int) -> list[Session]:
        """All sessions that end in [low, high], hidden ones too, in no order."""
        return [
            Session(key, start, end, self._by_key[key][end, start])
            for key, end, start in self._segments.between(low, high)
            if low <= end <= high
        ]

    def all(self) -> Iterator[Session]:
        """All sessions that are not hidden, as they are now."""
        return iter(
            [
                Session(key, start, end, value)
                for key, sessions in self._by_key.items()
                for (end, start), value in sessions.items()
                if end >= self._segments.visible_from
            ]
        )

    def _expire(self, entry: tuple[Any, int, int]) -> None:
        key, end, start = entry
        value = self._delete(key, start, end)
        if self._told is not None:
            self._told(Session(key, start, end, value))

    def _delete(self, key: Any, start: int, end: int) -> Any:
        sessions = self._by_key.get(key)
        if sessions is None:
            return None
        value = sessions.pop((end, start), None)
        if not sessions:
            del self._by_key[key]
            del self._longest[key]
        return value
