"""What operators with windows in a store have in common: commits, restarts, the end."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from backfill.replay.clocks import StreamTime, Throttle
from backfill.replay.emitters import Emitter
from backfill.replay.setup import Operator, Setup
from backfill.replay.stores.cache import CachedSessions, CachedWindows
from backfill.replay.stores.session_store import SessionStore
from backfill.replay.stores.window_store import WindowStore


class InStore(Operator):
    """One partition's windows, in a store, with or without a cache."""

    _arrival: Any
    _cache: CachedSessions | CachedWindows | None
    _clock: StreamTime
    _emitter: Emitter
    _restored: bool
    _stored: SessionStore | WindowStore
    _throttle: Throttle

    @abstractmethod
    def __init__(self, setup: Setup) -> None: ...

    def commit(self, arrival: Any) -> None:
        """Flushes the cache."""
        self._arrival = arrival
        if self._cache is not None:
            self._cache.flush()

    def restart(self) -> None:
        """Stream time is lost, and so is the store's own if its state is found on disk."""
        self._clock.restart()
        self._throttle.restart()
        if not self._restored:
            self._stored.restart()
        self._emitter.restart()
        if self._cache is not None:
            self._cache.restart()

    def finish(self) -> None:
        """The end of the input flushes nothing."""
        self._emitter.finish()
