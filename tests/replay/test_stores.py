"""The stores against naive lists."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from backfill.errors import ReplayError
from backfill.replay import Session, SessionStore, WindowStore, segment_interval

pytestmark = pytest.mark.one_lane

RETENTION, INTERVAL, TICK = 50, 20, 1
keys = st.sampled_from(["a", "b", 3])
times = st.integers(-60, 200)


class Naive:
    """Entries (time, rest…) in a list; the definition says what is hidden and what is deleted."""

    def __init__(self, *, memory: bool) -> None:
        self.memory = memory
        self.entries: dict[Any, Any] = {}
        self.observed: int | None = None

    def lives(self, time: int) -> bool:
        assert self.observed is not None
        if self.memory:
            return time > self.observed - RETENTION
        return time // INTERVAL >= (self.observed - RETENTION) // INTERVAL

    def put(self, time: int, entry: Any, value: Any) -> bool:
        self.observe(time)
        if not self.lives(time):
            return False
        self.entries[entry] = (time, value)
        return True

    def observe(self, time: int) -> None:
        self.observed = time if self.observed is None else max(time, self.observed)
        self.entries = {e: tv for e, tv in self.entries.items() if self.lives(tv[0])}

    def visible(self) -> dict[Any, Any]:
        if self.observed is None:
            return {}
        return {e: v for e, (t, v) in self.entries.items() if t > self.observed - RETENTION}


class Sessions(RuleBasedStateMachine):
    memory = False

    def __init__(self) -> None:
        super().__init__()
        self.gone: list[Session] = []
        self.store = SessionStore(
            retention=RETENTION,
            interval=INTERVAL,
            tick=TICK,
            memory=self.memory,
            expired=self.gone.append,
        )
        self.naive = Naive(memory=self.memory)
        self.puts = 0
        self.expected_gone = 0

    @rule(key=keys, end=times, length=st.integers(0, 30))
    def put(self, key: Any, end: int, length: int) -> None:
        self.puts += 1
        before = len(self.naive.entries)
        known = (key, end - length, end) in self.naive.entries
        taken = self.naive.put(end, (key, end - length, end), self.puts)
        self.expected_gone += before + (taken and not known) - len(self.naive.entries)
        assert self.store.put(key, end - length, end, self.puts) == taken

    @precondition(lambda self: self.naive.entries)
    @rule(data=st.data())
    def remove(self, data: Any) -> None:
        key, start, end = data.draw(st.sampled_from(list(self.naive.entries)))
        self.store.remove(key, start, end)
        del self.naive.entries[key, start, end]
        assert not self.store.holds(key, start, end)

    @rule(key=keys, end=times, start=times)
    def remove_what_may_not_be_there(self, key: Any, end: int, start: int) -> None:
        before = len(self.naive.entries)
        known = (key, start, end) in self.naive.entries
        self.naive.observe(end)
        gone = before - len(self.naive.entries)
        deleted = known and (key, start, end) not in self.naive.entries
        self.naive.entries.pop((key, start, end), None)
        self.store.remove(key, start, end)
        assert gone or not deleted
        self.expected_gone += gone

    @rule(key=keys, earliest=times, latest=times)
    def find(self, key: Any, earliest: int, latest: int) -> None:
        expected = sorted(
            (end, start, value)
            for (k, start, end), value in self.naive.visible().items()
            if k == key and end >= earliest and start <= latest
        )
        sessions = self.store.find_sessions_to_merge(key, earliest, latest)
        assert [(s.end, s.start, s.value) for s in sessions] == expected

    @invariant()
    def holds_the_same(self) -> None:
        sessions = {(s.key, s.start, s.end): s.value for s in self.store.all()}
        assert sessions == self.naive.visible()
        for key in ("a", "b", 3):
            own = list(self.store.fetch(key))
            assert {s.value for s in own} == {v for e, v in sessions.items() if e[0] == key}
        for entry in self.naive.entries:
            assert self.store.holds(*entry)
            assert self.store.shows(*entry) == (entry in sessions)
        assert len(self.gone) == self.expected_gone


class Windows(RuleBasedStateMachine):
    memory = False

    def __init__(self) -> None:
        super().__init__()
        self.store = WindowStore(
            size=30,
            grace=10,
            retention=RETENTION,
            interval=INTERVAL,
            tick=TICK,
            memory=self.memory,
        )
        self.naive = Naive(memory=self.memory)
        self.puts = 0

    @rule(key=keys, start=times)
    def put(self, key: Any, start: int) -> None:
        self.puts += 1
        taken = self.naive.put(start, (key, start), self.puts)
        assert self.store.put(key, start, self.puts) == taken

    @rule(key=keys, low=times, high=times, latest_first=st.booleans())
    def fetch_range(self, key: Any, low: int, high: int, latest_first: bool) -> None:
        expected = sorted(
            (start, value)
            for (k, start), value in self.naive.visible().items()
            if k == key and low <= start <= high
        )
        windows = self.store.fetch_range(key, low, high, latest_first=latest_first)
        assert list(windows) == (expected[::-1] if latest_first else expected)

    @rule(low=times, high=times)
    def fetch_all(self, low: int, high: int) -> None:
        windows = list(self.store.fetch_all(low, high))
        expected = {(*e, v) for e, v in self.naive.visible().items() if low <= e[1] <= high}
        assert set(windows) == expected
        assert [start for _, start, _ in windows] == sorted(start for _, start, _ in expected)
        hidden_too = {(*e, v) for e, (_, v) in self.naive.entries.items() if low <= e[1] <= high}
        assert set(self.store.starting(low, high)) == hidden_too

    @invariant()
    def holds_the_same(self) -> None:
        visible = self.naive.visible()
        for entry in self.naive.entries:
            assert self.store.fetch(*entry) == visible.get(entry)
        assert self.store.fetch("never", 0) is None


class SessionsInMemory(Sessions):
    memory = True


class WindowsInMemory(Windows):
    memory = True


TestSessions = Sessions.TestCase
TestWindows = Windows.TestCase
TestSessionsInMemory = SessionsInMemory.TestCase
TestWindowsInMemory = WindowsInMemory.TestCase


def test_iterators_are_over_a_snapshot() -> None:
    sessions = SessionStore(retention=1_000_000)
    sessions.put("a", 0, 1_000, "one")
    iterator = sessions.fetch("a")
    everything = sessions.all()
    sessions.remove("a", 0, 1_000)
    sessions.put("a", 5_000, 6_000, "two")
    assert [s.value for s in iterator] == [s.value for s in everything] == ["one"]
    windows = WindowStore(size=1_000)
    windows.put("a", 0, "one")
    ranged, every = windows.fetch_range("a", 0, 9), windows.fetch_all()
    windows.put("a", 0, "two")
    assert list(ranged) == [(0, "one")]
    assert list(every) == [("a", 0, "one")]


def test_the_length_of_a_segment() -> None:
    minute = 60_000_000
    assert segment_interval(10 * minute) == 5 * minute
    assert segment_interval(minute) == minute
    # KIP-94: retention / (segments - 1), again not below a minute.
    assert segment_interval(10 * minute, segments=3) == 5 * minute
    assert segment_interval(10 * minute, segments=6) == 2 * minute
    assert segment_interval(10 * minute, segments=100) == minute


def test_a_window_store_keeps_at_least_size_and_grace() -> None:
    with pytest.raises(ReplayError, match="retention: is less than"):
        WindowStore(size=10_000, grace=5_000, retention=14_000)
