"""Caches in front of the stores: when flushed, they pass on only the last change of a window.

A cache is assumed to be large enough: nothing is evicted before a commit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from backfill.replay.clocks import ALWAYS
from backfill.replay.stores.session_store import Session, SessionStore
from backfill.replay.stores.window_store import WindowStore

_REMOVED: Any = object()

K = TypeVar("K")


class CachedSessions:
    """A session store behind a cache.

    Args:
        store: gets the changes when the cache is flushed, and hides sessions by these.
        changed: called for every window that is forwarded: key, start, end, content; None: removed.
        swallowed: called for every removal that is not forwarded, because the store does not show
            the session.
    """

    def __init__(
        self,
        store: SessionStore,
        changed: Callable[[Any, int, int, Any], None],
        swallowed: Callable[[Any, int, int], None],
    ) -> None:
        self._store = store
        self._changed = changed
        self._swallowed = swallowed
        self._dirty: dict[tuple[Any, int, int], Any] = {}
        self.restart()

    def find_sessions_to_merge(
        self, key: Any, earliest_end: int, latest_start: int
    ) -> list[Session]:
        """As `SessionStore`, over cache and store; the cache hides nothing."""
        bounds = key, earliest_end, latest_start
        sessions = {(s.end, s.start): s for s in self._store.find_sessions_to_merge(*bounds)}
        sessions.update({(s.end, s.start): s for s in self._cache.find_sessions_to_merge(*bounds)})
        return [
            sessions[place] for place in sorted(sessions) if sessions[place].value is not _REMOVED
        ]

    def put(self, key: Any, start: int, end: int, value: Any) -> bool:
        """Stores a session in the cache."""
        self._cache.put(key, start, end, value)
        _last(self._dirty, (key, start, end), value)
        return True

    def remove(self, key: Any, start: int, end: int) -> None:
        """Removes a session in the cache."""
        self.put(key, start, end, _REMOVED)

    def flush(self) -> None:
        """Passes on what changed, in the order of the last changes."""
        dirty, self._dirty = self._dirty, {}
        for (key, start, end), value in dirty.items():
            if value is not _REMOVED:
                self._store.put(key, start, end, value)
                self._changed(key, start, end, value)
                continue
            self._cache.remove(key, start, end)
            if self._store.shows(key, start, end):
                self._store.remove(key, start, end)
                self._changed(key, start, end, None)
            else:
                self._swallowed(key, start, end)

    def restart(self) -> None:
        """Forgets the cache, which was flushed before."""
        self._cache = SessionStore(retention=ALWAYS, interval=ALWAYS)


class CachedWindows:
    """A window store behind a cache; `changed` is called for every window that is forwarded."""

    def __init__(self, store: WindowStore, changed: Callable[[Any, int, Any], None]) -> None:
        self._store = store
        self._changed = changed
        self._cache: dict[Any, dict[int, Any]] = {}
        self._dirty: dict[tuple[Any, int], Any] = {}

    def put(self, key: Any, start: int, value: Any) -> bool:
        """Stores a window in the cache."""
        self._cache.setdefault(key, {})[start] = value
        _last(self._dirty, (key, start), value)
        return True

    def fetch(self, key: Any, start: int) -> Any:
        """As `WindowStore`; from the cache, which hides nothing, if the window is there."""
        content = self._cache.get(key, {}).get(start)
        return self._store.fetch(key, start) if content is None else content

    def fetch_range(
        self, key: Any, low: int, high: int, *, latest_first: bool = False
    ) -> list[tuple[int, Any]]:
        """As `WindowStore`, over cache and store."""
        windows = dict(self._store.fetch_range(key, low, high))
        cached = self._cache.get(key, {})
        windows.update({start: value for start, value in cached.items() if low <= start <= high})
        return sorted(windows.items(), key=lambda window: window[0], reverse=latest_first)

    def flush(self) -> None:
        """Passes on what changed, in the order of the last changes."""
        dirty, self._dirty = self._dirty, {}
        for (key, start), value in dirty.items():
            self._store.put(key, start, value)
            self._changed(key, start, value)

    def restart(self) -> None:
        """Forgets the cache, which was flushed before."""
        self._cache = {}


def _last(dirty: dict[K, Any], entry: K, value: Any) -> None:
    dirty.pop(entry, None)
    dirty[entry] = value
