"""Sessions in a store: KIP-94's find, merge, remove and put, with stream time and retention."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from backfill.replay.clocks import StreamTime
from backfill.replay.emitters import EMITTERS, Closing
from backfill.replay.event import Event
from backfill.replay.folding import State
from backfill.replay.keys import session_key_bytes
from backfill.replay.operators.stored import InStore
from backfill.replay.settings import Settings
from backfill.replay.setup import Setup
from backfill.replay.stores.cache import CachedSessions
from backfill.replay.stores.segments import segment_interval
from backfill.replay.stores.session_store import Session, SessionStore
from backfill.time.durations import DAY_US
from backfill.windows import SessionWindow

#: How long KIP-94 kept a session by default, µs.
_MAINTAINED = DAY_US


class StoredSessions(InStore):
    """One partition's sessions."""

    _stored: SessionStore

    takes: ClassVar[frozenset[str]] = frozenset(
        {
            "grace",
            "retention",
            "segment_interval",
            "segments",
            "past_retention",
            "caching",
            "commits",
            "restarts",
            "restored",
            "store",
            "emit_interval",
        }
    )

    def __init__(self, setup: Setup) -> None:
        assert isinstance(setup.window, SessionWindow)
        settings = setup.settings
        self._gap = setup.window.gap.us
        self._wait = settings.grace + self._gap
        self._output = setup.output
        self._folding = setup.folding
        self._clock = StreamTime()
        self._arrival: Any = None
        self._past = settings.past_retention
        memory = settings.store == "memory"
        # What was in memory is always restored.
        self._restored = settings.restored or memory
        self._throttle = setup.throttle()
        least = self._wait if self._past is None else _MAINTAINED
        retention = max(settings.retention or least, self._wait)
        self._stored = SessionStore(
            retention=retention,
            interval=settings.segment_interval
            or segment_interval(retention, segments=settings.segments),
            memory=memory,
            tick=setup.tick,
            expired=self._expired,
            refused=self._refused,
        )
        self._emitter = EMITTERS[settings.emit](
            setup.output,
            Closing(
                self._wait,
                True,
                setup.tick,
                _shown,
                _place,
                lambda end, state: end,
                by_key=memory,
            ),
        )
        self._watches = self._emitter.watches
        self._cache = (
            CachedSessions(self._stored, self._changed, self._emitter.superseded)
            if settings.caching
            else None
        )
        self._store: SessionStore | CachedSessions = self._cache or self._stored
        self._shows_again = settings.caching and bool(settings.restarts)

    @classmethod
    def apart(cls, settings: Settings) -> bool:
        """Unless other keys' events decide when the cache is flushed, or segments deleted."""
        return not settings.caching and settings.emit != "on_close" and not settings.restarts

    def dues(self, time: int) -> Iterable[int]:
        """When a buffer sends a session whose last event it is."""
        return (time + self._wait,)

    def turn(self, clock: int, time: int, arrival: Any) -> None:
        """Hides and emits what earlier events of other keys made due."""
        self._clock.now = clock
        self._stored.observe(clock)
        self._emitter.reached(arrival, clock)

    def process(self, event: Event, time: int) -> None:
        """Merges the event with the sessions within the gap, unless the result is closed."""
        clock = self._clock
        if time > clock.now:
            clock.now = time
        key, arrival, gap = event.key, event.arrival, self._gap
        sessions = self._store.find_sessions_to_merge(key, time - gap, time + gap)
        start = end = time
        for _, first, last, _ in sessions:
            if first < start:
                start = first
            if last > end:
                end = last
        close = clock.now - self._wait
        if end < close and self._past is None:
            self._output.drop(arrival, "late", close - end)
        elif self._past == "drop" and self._stored.live_from(end) > end:
            late_by = self._stored.live_from(end) - end
            self._output.drop(arrival, "past_retention", late_by)
        else:
            self._merge(event, time, sessions, start, end)
        if self._watches and self._throttle.opens():
            self._emitter.closed(arrival, close)

    def _merge(
        self, event: Event, time: int, sessions: list[Session], start: int, end: int
    ) -> None:
        key, folding = event.key, self._folding
        if not sessions:
            state: State = folding.single(event, time)
            if end < self._stored.visible_from and self._stored.holds(key, start, end):
                self._output.replaced(key, start, end)
        else:
            # With a cache, the store may keep a merged session, and show it after a restart.
            state = folding.copy(sessions[0].value) if self._shows_again else sessions[0].value
            for session in sessions[1:]:
                state = folding.merge(state, session.value)
            folding.add(state, event, time)
            # A session of one instant is not removed when it gets another event of that instant.
            if start != end:
                for _, first, last, _ in sessions:
                    self._store.remove(key, first, last)
                    if self._cache is None:
                        self._emitter.retract(event.arrival, key, first, last, "tombstone", last)
        stored = self._store.put(key, start, end, state)
        # What is emitted on close is read from the store when it closes.
        if self._cache is None and (stored or not self._watches):
            self._emitter.send(event.arrival, key, start, end, state, "update", end)

    def _changed(self, key: Any, start: int, end: int, state: State | None) -> None:
        if state is None:
            self._emitter.retract(self._arrival, key, start, end, "tombstone", end)
        else:
            self._emitter.send(self._arrival, key, start, end, state, "update", end)

    def _refused(self, session: Session) -> None:
        self._output.refused.append(self._output.window(*session))

    def _expired(self, session: Session) -> None:
        self._emitter.expired(session.key, session.start, session.end, session.value)


def _shown(start: int) -> bool:
    """Only what is deleted is not emitted."""
    return True


def _place(key: Any, start: int, end: int) -> bytes:
    return session_key_bytes(key, start, end)
