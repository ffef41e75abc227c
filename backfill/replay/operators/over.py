"""Windows that look back from each row (SQL's OVER): by time with peers, or by a number of rows.

Rows wait until the watermark reaches their time; then each has one output. Lateness is judged per
key: a row is dropped unless its time is after that of the last timer that fired for the key.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Any, ClassVar

from backfill.replay.clocks import ALWAYS, NEVER
from backfill.replay.event import Event
from backfill.replay.folding import State
from backfill.replay.settings import Settings
from backfill.replay.setup import Operator, Setup
from backfill.time.durations import Fixed
from backfill.windows import CountWindow, SlidingWindow


class _Rows:
    """What is known about a key: rows by time, and the time of the last timer that fired."""

    __slots__ = ("cleanup", "count", "fired", "first", "last", "latest", "rows", "total")

    def __init__(self, fired: int) -> None:
        self.rows: dict[int, list[Event]] = {}
        self.fired = fired
        self.cleanup = NEVER
        self.count = 0
        self.last: deque[tuple[Event, int]] = deque()
        self.total: State | None = None
        self.first: int | None = None
        self.latest: Event | None = None


class _Over(Operator):
    takes: ClassVar[frozenset[str]] = frozenset(
        {"watermark_delay", "watermark_every", "restarts", "drained"}
    )

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._output = setup.output
        self._folding = setup.folding
        self._tick = setup.tick
        self._clock = setup.watermark()
        self._keys: dict[Any, _Rows] = {}
        self._timers: list[tuple[int, int, Any]] = []
        self._set: set[tuple[int, Any]] = set()
        self._made = 0
        # A key that nothing has fired for yet drops rows up to the epoch, if anything is late.
        self._first = NEVER if setup.streaming.late == "never" else 0

    @classmethod
    def apart(cls, settings: Settings) -> bool:
        """A key's rows do not depend on other keys', but a restart loses the clock of all."""
        return not settings.restarts

    def turn(self, clock: int, time: int, arrival: Any) -> None:
        """Fires what the clock has passed meanwhile."""
        before, self._clock.now = self._clock.now, clock
        if clock > before:
            self._fire(clock, arrival)

    @abstractmethod
    def fire(self, held: _Rows, time: int, rows: list[Event], arrival: Any) -> None:
        """The watermark has reached the time of these rows of a key."""

    def process(self, event: Event, time: int) -> None:
        """Keeps the row until its time has come."""
        held = self._keys.get(event.key)
        if held is None:
            held = self._keys[event.key] = _Rows(self._first)
        late_by = self.late_by(held, time)
        if late_by > 0:
            self._output.drop(event.arrival, "late", late_by)
        else:
            rows = held.rows.get(time)
            if rows is None:
                rows = held.rows[time] = []
                self.timer(time, event.key)
            rows.append(event)
            self.kept(event.key, held, time)
        if self._clock.see(event, time):
            self._fire(self._clock.now, event.arrival)

    def mark(self, event: Event) -> None:
        """The clock moves as after an event that is processed."""
        if self._clock.see(event, NEVER):
            self._fire(self._clock.now, event.arrival)

    def late_by(self, held: _Rows, time: int) -> int:
        """How late a row is, in µs; 0 or less if it is not."""
        return held.fired - time + self._tick

    def kept(self, key: Any, held: _Rows, time: int) -> None:
        """A row was kept."""

    def timer(self, time: int, key: Any) -> None:
        """Sets a timer of a key, unless it is set already."""
        if (time, key) not in self._set:
            self._set.add((time, key))
            self._made += 1
            heappush(self._timers, (time, self._made, key))

    def restart(self) -> None:
        """The watermark is lost, the rows are not."""
        self._clock.restart()

    def finish(self) -> None:
        """Fires all rows; if the operator was not drained, they are pending instead."""
        sent = len(self._output.emissions)
        self._fire(ALWAYS, None)
        if not self._setup.settings.drained:
            self._output.withhold(sent)

    def _fire(self, now: int, arrival: Any) -> None:
        while self._timers and self._timers[0][0] <= now:
            time, _, key = heappop(self._timers)
            self._set.remove((time, key))
            held = self._keys.get(key)
            if held is None:
                held = self._keys[key] = _Rows(self._first)
            if NEVER < held.cleanup <= time:
                del self._keys[key]
                continue
            if time in held.rows:
                self.fire(held, time, held.rows[time], arrival)
            held.fired = time

    def _send(self, row: Event, time: int, start: int, state: State, arrival: Any) -> None:
        stamp = self._setup.stamp(time + self._tick)
        self._output.send(arrival, row.key, start, time, state, "+I", stamp, row.arrival)


class RangeOver(_Over):
    """[t - length, t] with all rows of time t; or, without a length, all rows up to t."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        assert isinstance(setup.window, SlidingWindow)
        length = setup.window.size
        self._length = None if length is None else length.us

    def late_by(self, held: _Rows, time: int) -> int:
        """Without a length, a row is late by the watermark itself."""
        if self._length is None:
            return self._clock.now - time + self._tick
        return super().late_by(held, time)

    def kept(self, key: Any, held: _Rows, time: int) -> None:
        """A key's state is cleared when nothing came for at least the length."""
        if self._length is None:
            return
        ticks = self._length // self._tick
        if held.cleanup <= time + self._length:
            held.cleanup = time + (ticks * 3 // 2 + 1) * self._tick
            self.timer(held.cleanup, key)

    def fire(self, held: _Rows, time: int, rows: list[Event], arrival: Any) -> None:
        """All rows of one time have one result."""
        if self._length is None:
            start, state = self._all(held, time, rows)
        else:
            start, state = self._near(held, time, time - self._length)
        for row in rows:
            self._send(row, time, start, state, arrival)

    def _all(self, held: _Rows, time: int, rows: list[Event]) -> tuple[int, State]:
        if held.first is None or held.total is None:
            held.first, held.total = time, self._folding.empty()
        for row in rows:
            self._folding.add(held.total, row, time)
        del held.rows[time]
        return held.first, held.total

    def _near(self, held: _Rows, time: int, start: int) -> tuple[int, State]:
        for old in [instant for instant in held.rows if instant < start]:
            del held.rows[old]
        state = self._folding.empty()
        for instant in sorted(held.rows):
            if instant <= time:
                for row in held.rows[instant]:
                    self._folding.add(state, row, instant)
        return start, state


class RowsOver(_Over):
    """The last `size` rows by time, then arrival, at every row, or at every `advance`-th.

    Without a size, all rows up to there.
    """

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        assert isinstance(setup.window, CountWindow)
        assert not isinstance(setup.window.size, Fixed)
        assert not isinstance(setup.window.advance, Fixed)
        self._size = setup.window.size
        self._advance = setup.window.advance
        self._counts_rest = setup.engine.rules.counts_rest

    def late_by(self, held: _Rows, time: int) -> int:
        """Without a size, a row is late by the watermark itself."""
        if self._size is None:
            return self._clock.now - time + self._tick
        return super().late_by(held, time)

    def fire(self, held: _Rows, time: int, rows: list[Event], arrival: Any) -> None:
        """Each row has a result of its own."""
        del held.rows[time]
        for row in rows:
            held.count += 1
            held.latest = row
            due = held.count % self._advance == 0
            if self._size is None:
                start, state = self._all(held, row, time)
                if due:
                    self._send(row, time, start, state, arrival)
                continue
            held.last.append((row, time))
            if len(held.last) > self._size:
                held.last.popleft()
            if due:
                self._send(row, time, held.last[0][1], self._state(held.last), arrival)

    def finish(self) -> None:
        """The last rows, which fill no window, form one or are pending, depending on the engine."""
        super().finish()
        for key, held in self._keys.items():
            since = held.count % self._advance
            if not since:
                continue
            if self._size is None:
                assert held.total is not None
                assert held.first is not None
                bounds, state = (held.first, held.fired), held.total
            else:
                kept = self._size - (self._advance - since)
                if kept <= 0:
                    continue
                last = list(held.last)[-kept:]
                bounds, state = (last[0][1], last[-1][1]), self._state(last)
            if self._counts_rest:
                assert held.latest is not None
                self._send(held.latest, bounds[1], bounds[0], state, None)
            else:
                self._output.pending.append(self._output.window(key, *bounds, state))

    def _all(self, held: _Rows, row: Event, time: int) -> tuple[int, State]:
        if held.first is None or held.total is None:
            held.first, held.total = time, self._folding.empty()
        self._folding.add(held.total, row, time)
        return held.first, held.total

    def _state(self, rows: Iterable[tuple[Event, int]]) -> State:
        state = self._folding.empty()
        for row, time in rows:
            self._folding.add(state, row, time)
        return state
