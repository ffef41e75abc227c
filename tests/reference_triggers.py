"""Beam's panes under triggers, as slowly and plainly as they can be written. Times in ms."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from backfill import (
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEventTime,
    AfterProcessingTime,
    AfterSilence,
    HoppingWindow,
    Repeatedly,
    SessionWindow,
)
from backfill.replay import Event

MS = 1_000
Sent = tuple[Any, Any, float, float, str, int | None]
#: Of an event: its time, the wall clock, and how many had come by then.
Came = tuple[int, int, int]


@dataclass(eq=False)
class Held:
    """A window: everything that came, and what of it came since the last pane.

    `unsent` is what a delta holds. `fresh` is what triggers count: they begin anew when a session
    that was complete grows and no longer is. `waited` is what they wait after. `beside` is what
    came when the window was complete: the early trigger waits after it, should the session grow.
    `stuck` holds, for an early and a late trigger that combine others, the places of those that
    have fired.
    """

    key: Any
    start: int
    end: int
    done: bool = False
    fired: bool = False
    spent: bool = False
    came: list[Came] = field(default_factory=list)
    fresh: list[Came] = field(default_factory=list)
    waited: list[Came] = field(default_factory=list)
    beside: list[Came] = field(default_factory=list)
    stuck: dict[str, set[int]] = field(default_factory=lambda: {"early": set(), "late": set()})
    unsent: list[Came] = field(default_factory=list)
    stands: list[tuple[int, int]] = field(default_factory=list)

    @property
    def sent_whole(self) -> bool:
        """Whether it has been complete, and was sent then."""
        return self.done and len(self.fresh) < len(self.came)


class Beam:
    """One run; `sent` is what went downstream."""

    def __init__(
        self, window: Any, *, delay: int, lateness: int, early: Any, late: Any, mode: str
    ) -> None:
        self.window, self.delay, self.lateness = window, delay, lateness
        self.early, self.late, self.mode = early, late, mode
        self.mark = self.wall = -(10**12)
        self.number = 0
        self.held: list[Held] = []
        self.sent: list[Sent] = []

    def run(self, events: list[Event]) -> list[Sent]:
        for event in events:
            assert event.time is not None
            time = event.time // MS
            wall = time if event.wall_clock is None else event.wall_clock // MS
            self.wall = max(self.wall, wall)
            self.look(event.arrival)
            self.put(event.key, time, event.arrival)
            self.pass_mark(max(self.mark, time - self.delay), event.arrival)
        for held in list(self.held):
            if not held.done:
                self.send(held, "on_time", None)
            elif held.fresh:
                self.send(held, "late", None)
        return self.sent

    def put(self, key: Any, time: int, arrival: Any) -> None:
        self.number += 1
        came = (time, self.wall, self.number)
        for start, end in self.windows(time):
            if end + self.lateness <= self.mark:
                continue
            held = self.of(key, start, end)
            if held.sent_whole:
                held.beside.append(came)
            held.came.append(came)
            held.fresh.append(came)
            held.waited.append(came)
            held.unsent.append(came)
            if held.done and len(held.fresh) == len(held.came):
                self.send(held, "late", arrival)
            else:
                self.judge(held, arrival)

    def windows(self, time: int) -> list[tuple[int, int]]:
        if isinstance(self.window, SessionWindow):
            return [(time, time + self.window.gap.us // MS)]
        size = self.window.size.us // MS
        hop = self.window.advance.us // MS if isinstance(self.window, HoppingWindow) else size
        return [(s, s + size) for s in range(-200, 400) if s % hop == 0 and s <= time < s + size]

    def of(self, key: Any, start: int, end: int) -> Held:
        own = [held for held in self.held if held.key == key]
        if not isinstance(self.window, SessionWindow):
            for held in own:
                if held.start == start:
                    return held
            window = Held(key, start, end)
        else:
            met = [held for held in own if held.start < end and start < held.end]
            window = Held(
                key, min([start, *(e.start for e in met)]), max([end, *(e.end for e in met)])
            )
            for held in met:
                if (held.start, held.end) == (window.start, window.end):
                    return held
            complete = window.end <= self.mark
            for part in sorted(met, key=lambda held: held.start):
                self.held.remove(part)
                window.came += part.came
                window.stands += part.stands
                window.unsent += part.unsent
                window.waited += part.beside if part.sent_whole and not complete else part.waited
                if complete or not any(e.sent_whole for e in met):
                    window.fresh += part.fresh
                elif self.early is not None and self.parts(self.early)[0]:
                    # Triggers that another one combines have counted all the time.
                    window.fresh += part.beside if part.sent_whole else part.fresh
                for op, places in part.stuck.items():
                    window.stuck[op] |= {p for p in places if self.counts(op, p)}
            window.waited.sort(key=lambda came: came[2])
            window.spent = any(held.spent for held in met if held.done == complete)
        if window.end <= self.mark:
            window.done = True
        self.held.append(window)
        return window

    def look(self, arrival: Any) -> None:
        for held in list(self.held):
            self.judge(held, arrival)

    def pass_mark(self, mark: int, arrival: Any) -> None:
        self.mark = mark
        for held in list(self.held):
            if held.done or held.end > mark:
                continue
            self.send(held, "on_time", arrival)
            held.done, held.spent = True, False
        for held in list(self.held):
            if held.end + self.lateness <= mark:
                if held.fresh:
                    self.send(held, "late", arrival)
                self.held.remove(held)
        self.look(arrival)

    def judge(self, held: Held, arrival: Any) -> None:
        trigger = self.late if held.done else self.early
        if trigger is None or held.spent or not held.fresh:
            return
        once = not isinstance(trigger, Repeatedly)
        op = "late" if held.done else "early"
        combines, parts = self.parts(trigger)
        firing = {n for n, part in enumerate(parts) if self.ready(part, held)} | held.stuck[op]
        if len(firing) == len(parts) if combines is AfterAll else firing:
            held.spent = once
            if combines:
                held.stuck[op] = firing
            self.send(held, op, arrival)

    def parts(self, trigger: Any) -> tuple[Any, Any]:
        inner = trigger.trigger if isinstance(trigger, Repeatedly) else trigger
        combines = type(inner) if isinstance(inner, (AfterAll, AfterAny)) else None
        return combines, inner.triggers if combines else (inner,)

    def counts(self, op: str, place: int) -> bool:
        _, parts = self.parts(self.late if op == "late" else self.early)
        return isinstance(parts[place], AfterCount)

    def ready(self, trigger: Any, held: Held) -> bool:
        delay = trigger.delay.us // MS if hasattr(trigger, "delay") else 0
        match trigger:
            case AfterCount():
                return len(held.fresh) >= trigger.count
            case AfterEventTime():
                return self.mark >= held.waited[0][0] + delay
            case AfterProcessingTime():
                return self.wall > held.waited[0][1] + delay
            case AfterSilence():
                return self.wall > held.waited[-1][1] + delay
            case AfterAny():
                return any(self.ready(part, held) for part in trigger.triggers)
            case AfterAll():
                return all(self.ready(part, held) for part in trigger.triggers)
        raise AssertionError(trigger)

    def send(self, held: Held, op: str, arrival: Any) -> None:
        for start, end in held.stands if self.mode == "retracting" else []:
            self.sent.append((arrival, held.key, start, end, "retraction", None))
        held.stands = [(held.start, held.end)]
        count = len(held.unsent if self.mode == "discarding" else held.came)
        self.sent.append((arrival, held.key, held.start, held.end, op, count))
        held.fresh, held.waited, held.unsent = [], [], []
