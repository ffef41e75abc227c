"""Sessions by key and end (KIP-94's session store)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from sortedcontainers import SortedDict

from backfill.replay.clocks import ALWAYS
from backfill.replay.stores.segments import Segments, segment_interval

#: Key, end, start.
_Place = tuple[Any, int, int]


class Session(NamedTuple):
    """A stored session: its first and last event (µs, both inclusive) and its content."""

    key: Any
    start: int
    end: int
    value: Any


class _Several:
    """A key's sessions by (end, start), and the length of the longest that it ever had."""

    __slots__ = ("longest", "sorted")

    def __init__(self, first: Session) -> None:
        self.sorted: Any = SortedDict({(first.end, first.start): first})
        self.longest = first.end - first.start


class SessionStore:
    """Sessions that are kept for a while after their end, and found by key and time.

    A session is hidden once its end is not later than the largest end put minus the retention; it
    is deleted with its segment. Putting and finding take time logarithmic in the number of
    sessions.

    Args:
        retention: in µs.
        interval: the length of a segment in µs; by default as `segment_interval` has it.
        tick: the resolution of time in µs.
        memory: whether it is in memory, and deletes what it hides.
        expired: called for every session that is deleted with its segment.
        refused: called for every session that is not stored, because it is past retention.
    """

    def __init__(
        self,
        *,
        retention: int,
        interval: int | None = None,
        tick: int = 1_000,
        memory: bool = False,
        expired: Callable[[Session], None] | None = None,
        refused: Callable[[Session], None] | None = None,
    ) -> None:
        # Most keys have one session at a time, which needs no order.
        self._by_key: dict[Any, Session | _Several] = {}
        self._on_expired = expired
        self._refused = refused
        self._segments: Segments[_Place] = Segments(
            retention=retention,
            interval=interval or segment_interval(retention),
            tick=tick,
            memory=memory,
            expired=self._expire,
        )

    def put(self, key: Any, start: int, end: int, value: Any) -> bool:
        """Stores a session, over one of the same bounds; returns whether it is within retention."""
        segments = self._segments
        if end > segments.observed:
            segments.observe(end)
        session = Session(key, start, end, value)
        if not segments.add(end, (key, end, start)):
            if self._refused is not None:
                self._refused(session)
            return False
        held = self._by_key.get(key)
        if held is None or (type(held) is Session and held.end == end and held.start == start):
            self._by_key[key] = session
            return True
        if type(held) is Session:
            held = self._by_key[key] = _Several(held)
        assert type(held) is _Several
        held.sorted[end, start] = session
        if end - start > held.longest:
            held.longest = end - start
        return True

    def observe(self, end: int) -> None:
        """A session that ends there was put by someone else."""
        self._segments.observe(end)

    def remove(self, key: Any, start: int, end: int) -> None:
        """Forgets a session, if it is there."""
        if self._delete(key, start, end) is not None:
            self._segments.discard(end, (key, end, start))
        # After a restart, this too tells the store how far time had come.
        self._segments.observe(end)

    def restart(self) -> None:
        """The store is opened again as it was; how far time had come is lost."""
        self._segments.restart()

    def find_sessions_to_merge(
        self, key: Any, earliest_end: int, latest_start: int
    ) -> list[Session]:
        """The key's sessions within these bounds, by end, then start; without hidden ones."""
        held = self._by_key.get(key)
        if held is None:
            return []
        visible = self._segments.visible_from
        low = visible if visible > earliest_end else earliest_end
        if type(held) is Session:
            return [held] if held.end >= low and held.start <= latest_start else []
        assert type(held) is _Several
        # A session that starts in time ends no later than the longest one could.
        high = latest_start + held.longest + 1
        return [
            held.sorted[place]
            for place in held.sorted.irange((low,), (high,))
            if place[1] <= latest_start
        ]

    def fetch(self, key: Any) -> Iterator[Session]:
        """The key's sessions as they are now, by end, then start; without hidden ones."""
        return iter(self.find_sessions_to_merge(key, -ALWAYS, ALWAYS))

    @property
    def visible_from(self) -> int:
        """Sessions that end earlier are hidden."""
        return self._segments.visible_from

    def holds(self, key: Any, start: int, end: int) -> bool:
        """Whether the session is there, hidden or not."""
        held = self._by_key.get(key)
        if type(held) is _Several:
            return (end, start) in held.sorted
        return type(held) is Session and held.end == end and held.start == start

    def shows(self, key: Any, start: int, end: int) -> bool:
        """Whether the session is there, and not hidden."""
        return end >= self.visible_from and self.holds(key, start, end)

    def live_from(self, time: int) -> int:
        """The earliest end that a session can have once one that ends at `time` was put."""
        return self._segments.live_from(time)

    def all(self) -> Iterator[Session]:
        """All sessions that are not hidden, as they are now, each key's by end, then start."""
        return iter([session for key in self._by_key for session in self.fetch(key)])

    def _expire(self, place: _Place) -> None:
        key, end, start = place
        session = self._delete(key, start, end)
        if self._on_expired is not None and session is not None:
            self._on_expired(session)

    def _delete(self, key: Any, start: int, end: int) -> Session | None:
        held = self._by_key.get(key)
        if type(held) is _Several:
            session: Session | None = held.sorted.pop((end, start), None)
            if not held.sorted:
                del self._by_key[key]
            return session
        if type(held) is Session and held.end == end and held.start == start:
            del self._by_key[key]
            return held
        return None
