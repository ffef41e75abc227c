"""Clocks: how far time has come, as an operator sees it. Times are µs, floored to the tick."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backfill.errors import ReplayError
from backfill.replay.event import Event

#: Before, and after, every instant of 64 bits, even if any duration is added to it.
NEVER = -(1 << 80)
ALWAYS = 1 << 80


class StreamTime:
    """The largest event time that one operator instance has seen; lost when it restarts."""

    def __init__(self) -> None:
        self.now = NEVER

    def restart(self) -> None:
        """Starts again from nothing."""
        self.now = NEVER


class WallClock:
    """The wall clock as the events report it: the latest time at which one was processed.

    Where an event does not say when that was, its own time is used.
    """

    def __init__(self) -> None:
        self.now = NEVER

    def see(self, event: Event) -> None:
        """The event is about to be processed."""
        at = event.time if event.wall_clock is None else event.wall_clock
        if at is not None and at > self.now:
            self.now = at


class Throttle:
    """Lets something be done again only an interval after it was done last.

    Args:
        clock: the clock that measures the interval.
        interval: in µs; with zero, it can always be done.
    """

    def __init__(self, clock: WallClock, interval: int) -> None:
        self._clock = clock
        self._interval = interval
        self._next = NEVER

    def opens(self) -> bool:
        """Whether it is time; if so, the next interval begins."""
        now = self._clock.now
        if now < self._next:
            return False
        self._next = now + self._interval
        return True

    def restart(self) -> None:
        """Forgets when it was done last."""
        self._next = NEVER


class Standing:
    """A clock that stands still until the input ends: nothing is late."""

    now = NEVER

    def see(self, event: Event, time: int) -> bool:
        """Whether the event moved the clock."""
        return False

    def restart(self) -> None:
        """Nothing to lose."""


class Watermark:
    """The smallest of the inputs' watermarks; each is the largest event time minus its delay.

    If events bring watermarks, only these move the clock.

    Args:
        delays: for each partition that events come through, the bound on disorder, in µs. Until
            each has sent a watermark, there is none.
        every: after how many events an input sends its next watermark.
        start: where the clock begins.
        given: events bring the watermark.
        tick: watermarks are floored to it.
    """

    def __init__(
        self, *, delays: Mapping[Any, int], every: int, start: int, given: bool, tick: int
    ) -> None:
        self.now = self._start = start
        self._latest: dict[Any, int] = dict.fromkeys(delays, NEVER)
        self._marked: dict[Any, int] = dict(self._latest)
        self._since = dict.fromkeys(self._latest, 0)
        self._delays = delays
        self._every = every
        self._given = given
        self._tick = tick

    def see(self, event: Event, time: int) -> bool:
        """Takes note of an event that was processed; returns whether that moved the clock."""
        now = self._by_hand(event) if self._given else self._derived(event.partition, time)
        if now <= self.now:
            return False
        self.now = now
        return True

    def restart(self) -> None:
        """Starts again from nothing: watermarks are not part of the state."""
        self.now = self._start
        self._latest = dict.fromkeys(self._latest, NEVER)
        self._marked = dict(self._latest)
        self._since = dict.fromkeys(self._latest, 0)

    def _by_hand(self, event: Event) -> int:
        return NEVER if event.watermark is None else event.watermark // self._tick * self._tick

    def _derived(self, source: Any, time: int) -> int:
        if time > self._latest[source]:
            self._latest[source] = time
        self._since[source] += 1
        if self._since[source] < self._every:
            return NEVER
        self._since[source] = 0
        mark = self._latest[source] - self._delays[source]
        if mark <= self._marked[source]:
            return NEVER
        self._marked[source] = mark
        return min(self._marked.values())


class BatchWatermark:
    """Spark's watermark: computed at the end of a micro-batch, in force one or two batches later.

    With several inputs, it is the smallest or the largest of their watermarks. An input without
    events keeps the smallest one at the start.

    Args:
        delays: for each input, in µs; a number if there is only one, which is called 0.
        start: where the clock begins.
        grain: watermarks are floored to it.
        given: events bring the watermark.
        both: whether lateness is judged by the same watermark as all else.
        largest: whether the largest watermark of several inputs counts.

    Attributes:
        late: the watermark by which lateness is judged in the current batch: the one after the
            batch before the previous one.
        now: the watermark by which windows are evicted and emitted: the one after the previous
            batch.
    """

    def __init__(
        self,
        *,
        delays: Mapping[Any, int] | int,
        start: int,
        grain: int,
        given: bool,
        both: bool,
        largest: bool = False,
    ) -> None:
        self.late = self.now = self._next = start
        self._delays = {0: delays} if isinstance(delays, int) else dict(delays)
        self._marks = dict.fromkeys(self._delays, start)
        self._grain = grain
        self._given = given
        self._both = both
        self._chosen = max if largest else min

    def see(self, event: Event, time: int, source: Any = 0) -> None:
        """Takes note of an event of the current batch."""
        if self._given:
            mark = NEVER if event.watermark is None else event.watermark
            self._next = max(self._next, mark)
            return
        mark = time // self._grain * self._grain - self._delays[source]
        if mark > self._marks[source]:
            self._marks[source] = mark

    def next_batch(self) -> bool:
        """Ends the current batch; returns whether the watermark rose."""
        before = self.now
        self.now = self._next = max(self._next, self._chosen(self._marks.values()))
        self.late = self.now if self._both else before
        return self.now > before


class ProcessingTime:
    """The wall clock when the events come; timers run all the time, or at intervals.

    Args:
        every: µs from one run of the timers to the next, counted from the epoch.
    """

    def __init__(self, *, every: int | None) -> None:
        self.now = NEVER
        self._every = every
        self._latest = NEVER

    def turn(self, time: int) -> bool:
        """Sets the time; returns whether timers have run again.

        Raises:
            ReplayError: if time has gone back.
        """
        if time < self._latest:
            raise ReplayError(
                "is before the time of an earlier arrival, but the engine's time is the wall "
                "clock's",
                field="time",
                value=time,
                way_out="Give each event the time at which it was processed",
            )
        self._latest = time
        ran = time if self._every is None else time // self._every * self._every
        if ran <= self.now:
            return False
        self.now = ran
        return True
