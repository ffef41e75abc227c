"""Windows that fire in panes as a clock passes their ends: the triggers that operators share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from heapq import heappop, heappush
from operator import itemgetter
from typing import Any, ClassVar

from backfill.replay.clocks import ALWAYS, NEVER, ProcessingTime
from backfill.replay.event import Event
from backfill.replay.pane import Pane
from backfill.replay.settings import Settings
from backfill.replay.setup import Operator, Setup
from backfill.replay.triggering import Firing, Moment, Since, early_trigger, late_trigger


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
            "drained",
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
        tick = streaming.timer_ticks * setup.tick
        early = early_trigger(settings)
        self._early = None if early is None else Firing(early, tick)
        self._late = Firing(late_trigger(settings), tick)
        firings = [firing for firing in (self._early, self._late) if firing is not None]
        self._waits = any(firing.waits for firing in firings)
        self._moves = any(firing.silence is not None for firing in firings)
        self._keeps_fired = streaming.keeps_fired and any(firing.combines for firing in firings)
        self._discards = settings.accumulation == "discarding"
        self._retracts = settings.accumulation == "retracting"
        self._changelog = streaming.changelog
        #: The operator's clock is the wall clock itself.
        self._timed = streaming.clock == "processing_time"
        self._clock = setup.processing_time() if self._timed else setup.watermark()
        self._wall = NEVER
        self._empty_panes = streaming.empty_panes
        self._bundled = streaming.feed == "bundles"
        #: Windows that got events of this bundle, and how many.
        self._touched: dict[Pane, int] = {}
        #: Events whose watermarks wait for the end of the bundle.
        self._unseen: list[tuple[Event, int]] = []
        #: How far a session's reported end is before the end that the clock is compared with.
        self._behind = 0
        #: When windows are complete or gone, and when their triggers may fire by the same clock:
        #: the time, the number of a window's timer, whether it is of the former kind, the window.
        self._timers: list[tuple[int, int, bool, Pane]] = []
        #: When triggers may fire by the wall clock.
        self._alarms: list[tuple[int, int, Pane]] = []
        self._made = 0
        self._noted = 0

    @classmethod
    def apart(cls, settings: Settings) -> bool:
        """A key's windows do not depend on other keys', but a restart loses the clock of all."""
        return not settings.restarts

    @abstractmethod
    def ends(self, time: int) -> Iterable[int]:
        """The possible ends, as the clock judges them, of windows with an event of this time."""

    def dues(self, time: int) -> Iterable[int]:
        """When these windows are complete, when they are gone, and when a trigger may fire."""
        for end in self.ends(time):
            yield end + self._complete
            if self._lateness:
                yield end + self._complete + self._lateness
        since = Since(time, time, time)
        for firing in (self._early, self._late):
            if firing is not None:
                yield from firing.event_times(since)
                if self._timed:
                    yield from firing.wall_times(since)

    def turn(self, clock: int, time: int, arrival: Any) -> None:
        """Fires what the clock has passed meanwhile."""
        before, self._clock.now = self._clock.now, clock
        if clock > before:
            self._fire(clock, arrival)

    def pass_wall_clock(self, now: int, arrival: Any) -> None:
        """Fires what the wall clock has passed."""
        if now <= self._wall:
            return
        self._wall = now = now // self._tick * self._tick
        alarms = self._alarms
        while alarms and alarms[0][0] <= now:
            pane = heappop(alarms)[2]
            if not pane.gone:
                self._judge(pane, arrival)

    @property
    def _now(self) -> int:
        return self._clock.now

    def process(self, event: Event, time: int) -> None:
        """Adds the event; the clock moves after it, or before it if it is the wall clock.

        In a bundle the clock moves at the end.
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
        """Completes all windows, if the engine does that and the operator was drained."""
        if self._setup.streaming.flushes and self._setup.settings.drained:
            self._fire(ALWAYS, None, flush=True)
            return
        in_order = (pane for *_, pane in sorted(self._timers, key=itemgetter(0, 1)))
        for pane in dict.fromkeys(in_order):
            # A session that was merged into another is gone.
            if pane.total is not None and not pane.gone and (pane.unseen or not pane.done):
                end = pane.end - self._behind
                window = self._output.window(pane.key, pane.start, end, pane.total)
                self._output.pending.append(window)

    def late_by(self, end: int) -> int:
        """How late a window with this end is, in µs; 0 or less if it is not gone."""
        return self._now - (end + self._complete + self._lateness) + self._tick

    def schedule(self, pane: Pane) -> None:
        """Sets the timer of a new pane, or of one whose end has moved."""
        pane.made = self._made = self._made + 1
        due = pane.deadline + self._complete
        if due <= self._now and self._lateness:
            pane.done = True
            due += self._lateness
        heappush(self._timers, (due, self._made, True, pane))
        self._arm(pane)

    def add(self, pane: Pane, event: Event, time: int) -> None:
        """Adds an event, which may fire the window early or late; in a bundle, at its end."""
        if pane.done and not self._changelog:
            due = pane.deadline + self._complete
            if due > self._now:
                # A restart lost the clock that had completed the window, so it is completed once
                # more; but a group window of SQL keeps in its state that it was completed.
                pane.done = False
                pane.spent = self._early is not None and self._early.once
                heappush(self._timers, (due, pane.made, True, pane))
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
        if self._waits:
            self._note(pane, time)
        if self._bundled:
            self._touched[pane] = self._touched.get(pane, 0) + 1
        else:
            self._judge(pane, event.arrival)

    def _note(self, pane: Pane, time: int) -> None:
        """An event of this time has come to the window now."""
        wall = time if self._timed else self._wall
        if pane.since is None:
            pane.since = self.since(time, wall)
            self._arm(pane)
            return
        if self._moves and not self._is_overdue(pane, pane.since, time):
            pane.since = pane.since._replace(last=wall)
            self._arm(pane)

    def since(self, time: int, wall: int) -> Since:
        """That an event of this time comes now."""
        self._noted += 1
        return Since(time, wall, wall, self._noted)

    def _is_overdue(self, pane: Pane, since: Since, time: int) -> bool:
        """Whether a silence was long enough before an event that comes before the timers run.

        The event does not cancel what is due by then.
        """
        firing = self._firing(pane)
        if firing is None or firing.silence is None or not self._timed:
            return False
        return self._now < since.last + firing.silence <= time

    def _firing(self, pane: Pane) -> Firing | None:
        """The trigger that a window has now."""
        return None if pane.spent else self._late if pane.done else self._early

    def _arm(self, pane: Pane) -> None:
        """Sets timers for the times at which a window's trigger may fire."""
        firing, since = self._firing(pane), pane.since
        if firing is None or since is None:
            return
        for due in firing.event_times(since):
            heappush(self._timers, (due, pane.made, False, pane))
        for due in firing.wall_times(since):
            if self._timed:
                heappush(self._timers, (due, pane.made, False, pane))
            else:
                self._made += 1
                heappush(self._alarms, (due, self._made, pane))

    def _judge(self, pane: Pane, arrival: Any, due: int | None = None) -> None:
        """Fires the window early or late, if its trigger does.

        `due` is the time that a timer was set for, so that a canceled timer does not fire for a
        later one, though timers run after both times.
        """
        if not pane.unseen:
            return
        assert pane.total is not None
        if pane.done and not pane.counts_as_on_time and pane.unseen == pane.total.count:
            # A window that begins late has not fired on time yet: its first event makes up for it.
            self.emit(pane, "late", arrival)
            return
        firing = self._firing(pane)
        if firing is None:
            return
        if firing.count is not None:
            fires = pane.unseen >= firing.count
        else:
            assert pane.since is not None
            wall = self._wall
            if self._timed:
                wall = self._now if due is None else due
            at = Moment(pane.unseen, pane.since, self._now, wall)
            if self._keeps_fired and firing.combines:
                fires = self._combined(pane, firing, at)
            else:
                fires = firing.ready(at)
        if fires:
            pane.spent = firing.once
            self.emit(pane, "late" if pane.done else "early", arrival)

    def _combined(self, pane: Pane, firing: Firing, at: Moment) -> bool:
        """Whether a trigger fires whose parts stay fired once they have fired."""
        early, late = pane.fired
        fired = late if pane.done else early
        if not firing.ready(at, fired):
            return False
        fired = firing.fire(at, fired)
        pane.fired = (early, fired) if pane.done else (fired, late)
        return True

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
            for bounds in pane.stands:
                output.retract(arrival, key, *bounds, "retraction", stamp)
            output.send(arrival, key, start, end, total, op, stamp)
            pane.stands = [(start, end)] if self._retracts else []
            pane.emitted = True
        pane.unseen, pane.since = 0, None

    def _fire(self, now: int, arrival: Any, *, flush: bool = False) -> None:
        timers, complete, lateness = self._timers, self._complete, self._lateness
        while timers and timers[0][0] <= now:
            due, made, completes, pane = heappop(timers)
            on_time = pane.deadline + complete
            if not completes:
                # Early panes do not come with the one on time, but from an earlier timer; and the
                # end of the input completes windows without waiting for an early pane.
                if not (pane.gone or flush) and (self._timed or now < on_time or pane.done):
                    self._judge(pane, arrival, due)
                continue
            if pane.gone or (due != on_time and due != on_time + lateness):
                continue  # it has ended, or the session was merged into another
            if not pane.done:
                self.emit(pane, "on_time", arrival)
                if lateness:
                    pane.done, pane.spent = True, False
                    heappush(timers, (on_time + lateness, made, True, pane))
                    continue
            elif pane.unseen:
                self.emit(pane, "late", arrival)
            pane.gone = True
            self.forget(pane)
