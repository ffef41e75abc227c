"""When a window that a store holds goes downstream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Protocol

from sortedcontainers import SortedDict

from backfill.replay.clocks import NEVER
from backfill.replay.folding import State
from backfill.replay.keys import key_bytes
from backfill.replay.output import Output
from backfill.replay.result import Emission, Window


class Closing(NamedTuple):
    """What an emitter must know about an operator's windows.

    Attributes:
        grace: µs from the end of a suppressed window to its emission.
        strict: whether a window is closed only when its end is before the close time, not at it.
        tick: the resolution of time.
        shows: whether the store still shows windows that start there when they close.
        place: gives what windows with the same end are ordered by.
        stamp: the time that a window's record carries.
        by_key: whether windows with the same end are found by key and then start, not by start and
            then key.
    """

    grace: int
    strict: bool
    tick: int
    shows: Callable[[int], bool]
    place: Callable[[Any, int, int], bytes]
    stamp: Callable[[int, State], int]
    by_key: bool = False


class Emitter(Protocol):
    """Decides which of an operator's changes go downstream, and when.

    Attributes:
        watches: whether the emitter needs to know up to when windows are closed.
    """

    watches: ClassVar[bool]

    def send(
        self, arrival: Any, key: Any, start: int, end: int, state: State, op: str, stamp: int | None
    ) -> None:
        """A window has changed."""

    def retract(
        self, arrival: Any, key: Any, start: int, end: int, op: str, stamp: int | None
    ) -> None:
        """A window was removed."""

    def superseded(self, key: Any, start: int, end: int) -> None:
        """A window was removed, and no record says so."""

    def closed(self, arrival: Any, close: int) -> None:
        """An event was processed: windows are closed up to `close`."""

    def reached(self, arrival: Any, now: int) -> None:
        """Records of other keys have come, with times up to `now`."""

    def expired(self, key: Any, start: int, end: int, state: State) -> None:
        """A window was deleted with its segment."""

    def restart(self) -> None:
        """The operator has restarted."""

    def finish(self) -> None:
        """The input has ended: reports what is pending."""


class OnUpdate:
    """Every change is emitted immediately."""

    watches: ClassVar[bool] = False

    def __init__(self, output: Output, closing: Closing) -> None:
        self.send = output.send
        self.retract = output.retract
        self.superseded = output.superseded

    def closed(self, arrival: Any, close: int) -> None:
        """Nothing waits for its end."""

    def reached(self, arrival: Any, now: int) -> None:
        """Nothing waits for a time."""

    def expired(self, key: Any, start: int, end: int, state: State) -> None:
        """Its last change has been emitted."""

    def restart(self) -> None:
        """Nothing to lose."""

    def finish(self) -> None:
        """Nothing is pending."""


class OnClose:
    """A window goes downstream once, when it has closed, as the store holds it then.

    What the store has deleted or hidden by then is lost; so is what comes to a window that had
    closed before a restart, because the last close time is kept.
    """

    watches: ClassVar[bool] = True

    def __init__(self, output: Output, closing: Closing) -> None:
        self._output = output
        self._closing = closing
        self._reach = closing.tick if closing.strict else 0
        self._until = NEVER
        self._waiting: Any = SortedDict()  # by place: what the store holds
        self._by_key = closing.by_key
        self._missed: dict[tuple[Any, int, int], State] = {}

    def send(
        self, arrival: Any, key: Any, start: int, end: int, state: State, op: str, stamp: int | None
    ) -> None:
        """The window waits in the store."""
        if end + self._reach <= self._until:
            self._missed[key, start, end] = state
        else:
            self._waiting[self._place(key, start, end)] = key, start, end, state

    def retract(
        self, arrival: Any, key: Any, start: int, end: int, op: str, stamp: int | None
    ) -> None:
        """The tombstone does not go downstream, even if the window did."""
        self._forget(key, start, end)
        self._output.superseded(key, start, end)

    def superseded(self, key: Any, start: int, end: int) -> None:
        """The window may have been emitted."""
        self._output.superseded(key, start, end)

    def closed(self, arrival: Any, close: int) -> None:
        """Emits what has closed since the last time."""
        if close <= self._until:
            return
        self._until = close
        output, waiting, high = self._output, self._waiting, close - self._reach
        while waiting and waiting.keys()[0][0] <= high:
            _, (key, start, end, state) = waiting.popitem(0)
            if self._closing.shows(start):
                stamp = self._closing.stamp(end, state)
                output.send(arrival, key, start, end, state, "final", stamp)
            else:
                output.lost.append(output.window(key, start, end, state))

    def reached(self, arrival: Any, now: int) -> None:
        """Windows close by the operator's clock instead."""

    def expired(self, key: Any, start: int, end: int, state: State) -> None:
        """The window is lost, if it was not emitted."""
        if self._forget(key, start, end):
            self._output.lost.append(self._output.window(key, start, end, state))

    def restart(self) -> None:
        """The last close time is kept with the offsets."""

    def finish(self) -> None:
        """What has not closed is pending."""
        output = self._output
        output.pending.extend(output.window(*window) for window in self._waiting.values())
        output.lost.extend(output.window(*window, state) for window, state in self._missed.items())

    def _forget(self, key: Any, start: int, end: int) -> bool:
        """Forgets the window; returns whether it was still waiting."""
        if self._missed.pop((key, start, end), None) is not None:
            return True
        return self._waiting.pop(self._place(key, start, end), None) is not None

    def _place(self, key: Any, start: int, end: int) -> tuple[Any, ...]:
        encoded = key_bytes(key)
        return (end, encoded, start) if self._by_key else (end, start, encoded)


class Suppressed:
    """A window's last value goes downstream once, from a buffer, when its time has come.

    The buffer has a stream time of its own, the largest time of the records that came, and it
    drops tombstones: nothing retracts a window that was sent.
    """

    watches: ClassVar[bool] = False

    def __init__(self, output: Output, closing: Closing) -> None:
        self._output = output
        self._closing = closing
        self._now = NEVER
        self._buffer: Any = SortedDict()  # of (end, key bytes): window, its stamp
        self._stale: set[tuple[Any, int, int]] = set()

    def send(
        self, arrival: Any, key: Any, start: int, end: int, state: State, op: str, stamp: int | None
    ) -> None:
        """The window waits in the buffer, as it is now."""
        self._stale.discard((key, start, end))
        self._put(arrival, self._output.window(key, start, end, state), stamp)

    def retract(
        self, arrival: Any, key: Any, start: int, end: int, op: str, stamp: int | None
    ) -> None:
        """The tombstone takes the window's place in the buffer."""
        self._output.superseded(key, start, end)
        self._put(arrival, Window(key, start, end, {}), stamp, gone=True)

    def superseded(self, key: Any, start: int, end: int) -> None:
        """The window stays in the buffer."""
        self._stale.add((key, start, end))
        self._output.superseded(key, start, end)

    def closed(self, arrival: Any, close: int) -> None:
        """The buffer sees only records."""

    def reached(self, arrival: Any, now: int) -> None:
        """The buffer's stream time is that of all keys."""
        if now > self._now:
            self._now = now
        self._flush(arrival)

    def expired(self, key: Any, start: int, end: int, state: State) -> None:
        """The window is still in the buffer."""

    def restart(self) -> None:
        """The buffer is restored, its stream time is not."""
        self._now = NEVER

    def finish(self) -> None:
        """What is in the buffer is pending."""
        self._output.pending.extend(window for window, _, gone in self._buffer.values() if not gone)

    def _put(self, arrival: Any, window: Window, stamp: int | None, gone: bool = False) -> None:
        place = window.end, self._closing.place(window.key, window.start, window.end)
        self._buffer[place] = window, stamp, gone
        if stamp is not None and stamp > self._now:
            self._now = stamp
        self._flush(arrival)

    def _flush(self, arrival: Any) -> None:
        until = self._now - self._closing.grace
        while self._buffer and self._buffer.keys()[0][0] <= until:
            _, (window, time, tombstone) = self._buffer.popitem(0)
            if not tombstone:
                self._emit(arrival, window, time)

    def _emit(self, arrival: Any, window: Window, stamp: int | None) -> None:
        key, start, end, values, row, events = window
        self._output.emissions.append(
            Emission(arrival, key, start, end, values, "final", stamp, row, events)
        )
        if (key, start, end) in self._stale:
            self._output.superseded(key, start, end)


#: By the names that `Streaming.emits` gives.
EMITTERS: Mapping[str, Callable[[Output, Closing], Emitter]] = MappingProxyType(
    {"on_update": OnUpdate, "on_close": OnClose, "suppressed": Suppressed}
)
