"""Windows that fire in panes as a clock passes their ends: the triggers that operators share."""

from __future__ import annotations

from abc import abstractmethod
from heapq import heappop, heappush
from typing import Any, ClassVar

from backfill.replay.clocks import ALWAYS, NEVER, ProcessingTime
from backfill.replay.event import Event
from backfill.replay.folding import State
from backfill.replay.settings import Settings
from backfill.replay.setup import Operator, Setup


class Pane:
    """A window that is held: its bounds, its content, and what of it has been emitted.

    Attributes:
        total: the content of a window in all; with discarding panes, what its panes add up to.
        fresh: with discarding panes, the content since the last one; else None.
        unseen: the number of events since the last pane.
        emitted: the values of the last pane, or None before the first one.
        done: it was complete and has fired, or can only fire late.
        end: the start of what is not in the window any more.
        deadline: the same as it is judged by the clock.
        early: when the next early pane is due; None where no timer is set for one.
        spent: its only early pane has fired.
    """

    __slots__ = (
        *("deadline", "done", "early", "end", "fresh", "key", "spent", "start"),
        *("emitted", "total", "unseen"),
    )

    def __init__(self, key: Any, start: int, end: int) -> None:
        self.key = key
        self.start = start
        self.end = self.deadline = end
        self.early: int | None = None
        self.spent = False
        self.total: State | None = None
        self.fresh: State | None = None
        self.unseen = 0
        self.emitted: Any = None
        self.done = False


class Panes(Operator):
    """Holds windows, fires them when the clock has passed their ends, forgets them later.

    With L the allowed lateness, a window fires on time when it is complete and once more for late
    events until L after that; then it is gone.
    """

    takes: ClassVar[frozenset[str]] = frozenset(
        {
            "watermark_delay",
            "watermark_every",
            "allowed_lateness",
            "early",
            "early_after",
            "early_once",
            "late",
            "accumulation",
            "restarts",
            "timer_interval",
            "batch_size",
        }
    )

    def __init__(self, setup: Setup) -> None:
        settings, streaming = setup.settings, setup.streaming
        self._setup = setup
        self._output = setup.output
        self._folding = setup.folding
        self._tick = setup.tick
        self._lateness = settings.allowed_lateness
        self._complete = streaming.complete_ticks * setup.tick
        self._early = 1 if settings.emit == "on_update" else settings.early
        self._early_after = settings.early_after if self._early is None else None
        self._early_once = settings.early_once
        self._late = settings.late
        self._discards = settings.accumulation == "discarding"
        self._changelog = streaming.changelog
        timed = streaming.clock == "processing_time"
        self._clock = setup.processing_time() if timed else setup.watermark()
        self._empty_panes = streaming.empty_panes
        self._bundled = streaming.feed == "bundles"
        #: Windows that got events of this bundle, and how many.
        self._touched: dict[Pane, int] = {}
        #: Events whose watermarks wait for the end of the bundle.
        self._unseen: list[tuple[Event, int]] = []
        #: What a session's reported end is before the end that the clock judges.
        self._behind = 0
        self._timers: list[tuple[int, int, Pane]] = []
        self._made = 0

    @classmethod
    def apart(cls, settings: Settings) -> bool:
        """Windows of other keys mean nothing to a key's; a restart takes the clock from all."""
        return not settings.restarts

    def turn(self, clock: int, time: int, arrival: Any) -> None:
        """Fires what the clock has passed meanwhile."""
        before, self._clock.now = self._clock.now, clock
        if clock > before:
            self._fire(clock, arrival)

    @property
    def _now(self) -> int:
        return self._clock.now

    def process(self, event: Event, time: int) -> None:
        """Adds the event; the clock moves after it, or before it if it is the wall clock.

        In a bundle it moves at the end.
        """
        clock = self._clock
        if isinstance(clock, ProcessingTime):
            if clock.turn(time):
                self._fire(clock.now, event.arrival)
            self.update(event, time)
        else:
            self.update(event, time)
            self._see(event, time)

    def mark(self, event: Event) -> None:
        """The clock moves as after an event that is processed."""
        self._see(event, NEVER)

    def end_batch(self, arrival: Any) -> bool:
        """A bundle ended: its windows are judged once each, then the clock moves."""
        touched, self._touched = self._touched, {}
        for pane in touched:
            self._judge(pane, arrival)
        unseen, self._unseen = self._unseen, []
        clock = self._clock
        assert not isinstance(clock, ProcessingTime)
        moved = [clock.see(event, time) for event, time in unseen]
        if any(moved):
            self._fire(clock.now, arrival)
        return False

    def _see(self, event: Event, time: int) -> None:
        clock = self._clock
        if self._bundled:
            self._unseen.append((event, time))
        elif not isinstance(clock, ProcessingTime) and clock.see(event, time):
            self._fire(clock.now, event.arrival)

    @abstractmethod
    def update(self, event: Event, time: int) -> None:
        """Adds the event to its windows."""

    @abstractmethod
    def forget(self, pane: Pane) -> None:
        """A window has come to its end."""

    def restart(self) -> None:
        """The clock is lost, the windows are not."""
        if not isinstance(self._clock, ProcessingTime):
            self._clock.restart()

    def finish(self) -> None:
        """Completes all windows, where the engine does."""
        if self._setup.streaming.flushes:
            self._fire(ALWAYS, None, flush=True)
        else:
            for _, _, pane in sorted(self._timers):
                assert pane.total is not None
                window = self._output.window(pane.key, pane.start, pane.end, pane.total)
                self._output.pending.append(window)

    def fired(self, pane: Pane) -> None:
        """A window is complete."""

    def late_by(self, end: int) -> int:
        """How late a window is that ends there, in µs; 0 or less if it is not gone."""
        return self._now - (end + self._complete + self._lateness) + self._tick

    def schedule(self, pane: Pane) -> None:
        """Sets the timer of a new pane, or of one whose end has moved."""
        self._made += 1
        due = pane.deadline + self._complete
        if due <= self._now and self._lateness:
            pane.done = True
            due += self._lateness
        heappush(self._timers, (due, self._made, pane))

    def add(self, pane: Pane, event: Event, time: int) -> None:
        """Adds an event, which may fire the window early or late; in a bundle, at its end."""
        folding = self._folding
        if pane.total is None:
            pane.total = folding.single(event, time)
        else:
            folding.add(pane.total, event, time)
        if self._discards:
            if pane.fresh is None:
                pane.fresh = folding.single(event, time)
            else:
                folding.add(pane.fresh, event, time)
        pane.unseen += 1
        if self._early_after is not None and pane.early is None and not (pane.done or pane.spent):
            self._made += 1
            pane.early = time + self._early_after
            heappush(self._timers, (pane.early, self._made, pane))
        if self._bundled:
            self._touched[pane] = self._touched.get(pane, 0) + 1
        else:
            self._judge(pane, event.arrival)

    def _judge(self, pane: Pane, arrival: Any) -> None:
        """Fires the window early or late, if enough has come since it last fired."""
        if pane.done:
            # A window that begins late has not fired on time yet: its first event makes up for it.
            begins = pane.total is not None and pane.unseen == pane.total.count
            if begins or pane.unseen >= self._late:
                self.emit(pane, "late", arrival)
        elif self._early is not None and not pane.spent and pane.unseen >= self._early:
            self._emit_early(pane, arrival)

    def _emit_early(self, pane: Pane, arrival: Any) -> None:
        pane.early, pane.spent = None, self._early_once
        self.emit(pane, "early", arrival)

    def emit(self, pane: Pane, op: str, arrival: Any) -> None:
        """Sends what the window holds, or what it got since the last pane."""
        output, folding = self._output, self._folding
        key, start, end, total = pane.key, pane.start, pane.end - self._behind, pane.total
        assert total is not None
        stamp = self._setup.stamp(pane.end)
        if self._changelog:
            values = folding.values(total)
            if values != pane.emitted:
                if pane.emitted is not None:
                    output.retract(arrival, key, start, end, "-U", stamp)
                op = "+I" if pane.emitted is None else "+U"
                output.send(arrival, key, start, end, total, op, stamp)
            pane.emitted = values
        elif self._discards:
            if pane.fresh is None and not self._empty_panes:
                return
            output.send(arrival, key, start, end, pane.fresh or folding.empty(), op, stamp)
            output.sums(key, start, end, total)
            pane.emitted = True
            pane.fresh = None
        else:
            output.send(arrival, key, start, end, total, op, stamp)
            pane.emitted = True
        pane.unseen = 0

    def _fire(self, now: int, arrival: Any, *, flush: bool = False) -> None:
        timers, complete, lateness = self._timers, self._complete, self._lateness
        while timers and timers[0][0] <= now:
            due, made, pane = heappop(timers)
            on_time = pane.deadline + complete
            if due == pane.early and not pane.done:
                pane.early = None
                # The end of the input completes windows, and waits for no early pane.
                if not flush:
                    self._emit_early(pane, arrival)
                continue
            if due != on_time and due != on_time + lateness:
                continue  # the session was merged into another
            if not pane.done:
                self.fired(pane)
                self.emit(pane, "on_time", arrival)
                if lateness:
                    pane.done = True
                    heappush(timers, (on_time + lateness, made, pane))
                    continue
            elif pane.unseen:
                self.emit(pane, "late", arrival)
            pane.early = None
            self.forget(pane)
