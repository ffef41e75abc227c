"""When a trigger fires, given what came to a window since its last pane."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import NamedTuple

from backfill.replay.settings import Settings
from backfill.time.durations import Fixed
from backfill.triggers import (
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEventTime,
    AfterProcessingTime,
    AfterSilence,
    AnyTrigger,
    Delayed,
    Repeatedly,
    delays_of,
)


class Since(NamedTuple):
    """What came since a window's last pane.

    Attributes:
        first_time: the event time of what came first, µs.
        first: the wall clock then, µs.
        last: the wall clock as of what came last, µs.
        number: grows with what came first; the wall clock may stand still, or not be followed.
    """

    first_time: int
    first: int
    last: int
    number: int = 0

    def merged(self, other: Since) -> Since:
        """Of two windows that become one, the earlier one's first and the later one's last."""
        earlier = min(self, other, key=lambda since: since.number)
        return earlier._replace(last=max(self.last, other.last))


def early_trigger(settings: Settings) -> AnyTrigger | None:
    """What sends panes of a window that is not complete."""
    if settings.emit == "on_update":
        return Repeatedly(AfterCount(1))
    once: AfterCount | AfterProcessingTime
    if settings.early_after is not None:
        once = AfterProcessingTime(Fixed(settings.early_after))
    elif isinstance(settings.early, int):
        once = AfterCount(settings.early)
    else:
        return settings.early
    return once if settings.early_once else Repeatedly(once)


def late_trigger(settings: Settings) -> AnyTrigger:
    """What sends panes of a window that has been complete."""
    late = settings.late
    return Repeatedly(AfterCount(late)) if isinstance(late, int) else late


def delays(settings: Settings) -> list[Delayed]:
    """The triggers of a replay that wait for a time."""
    triggers = (early_trigger(settings), late_trigger(settings))
    return [
        delayed for trigger in triggers if trigger is not None for delayed in delays_of(trigger)
    ]


class Moment(NamedTuple):
    """A moment at which a trigger is checked.

    Attributes:
        events: how many came since the last pane.
        since: when they came.
        now: where the operator's clock stands, µs.
        wall: where the wall clock stands, µs.
    """

    events: int
    since: Since
    now: int
    wall: int


#: Where a trigger stands in another: the places from the outermost one to it.
Place = tuple[int, ...]


class Firing:
    """A trigger, as windows use it.

    Args:
        trigger: the trigger.
        tick: how far the wall clock must be beyond a time for it to have passed, µs.
    """

    def __init__(self, trigger: AnyTrigger, tick: int) -> None:
        self.once = not isinstance(trigger, Repeatedly)
        self._trigger = trigger.trigger if isinstance(trigger, Repeatedly) else trigger
        self._tick = tick
        delays = list(delays_of(trigger))
        self._by_event = [delayed for delayed in delays if isinstance(delayed, AfterEventTime)]
        self._by_wall = [delayed for delayed in delays if not isinstance(delayed, AfterEventTime)]
        #: Whether it combines others, all or any of which must fire.
        self.combines = isinstance(self._trigger, AfterAll | AfterAny)
        #: How many events it waits for, if for nothing else.
        self.count = self._trigger.count if isinstance(self._trigger, AfterCount) else None
        #: Whether it must know when they came.
        self.waits = self.count is None
        silences = [delayed.delay.us for delayed in delays if isinstance(delayed, AfterSilence)]
        #: The shortest silence that it waits for, µs, which every event breaks; None without one.
        self.silence = min(silences, default=None)

    def ready(self, at: Moment, fired: Set[Place] = frozenset()) -> bool:
        """Whether it fires; `fired`: which of the triggers that it combines count as firing."""
        return self._ready(self._trigger, at, fired, ())

    def fire(self, at: Moment, fired: Set[Place]) -> frozenset[Place]:
        """Which triggers that it combines have fired, once it does: all, or those that do."""
        return frozenset({*fired, *self._fire(self._trigger, at, fired, ())})

    def merged(self, fired: Set[Place]) -> frozenset[Place]:
        """Which of the fired triggers stay fired when windows merge.

        Those that count events do, and those that combine others if enough of these do.
        """
        return frozenset(self._merged(self._trigger, fired, ()))

    def event_times(self, since: Since) -> Iterable[int]:
        """The times of the operator's clock at which it may fire."""
        return (since.first_time + delayed.delay.us for delayed in self._by_event)

    def wall_times(self, since: Since) -> Iterable[int]:
        """The times of the wall clock at which it may fire."""
        for delayed in self._by_wall:
            yield _from(delayed, since) + delayed.delay.us + self._tick

    def _ready(self, trigger: AnyTrigger, at: Moment, fired: Set[Place], place: Place) -> bool:
        match trigger:
            case AfterCount():
                return at.events >= trigger.count
            case AfterEventTime():
                return at.now >= at.since.first_time + trigger.delay.us
            case AfterProcessingTime() | AfterSilence():
                return at.wall - self._tick >= _from(trigger, at.since) + trigger.delay.us
            case Repeatedly():
                return self._ready(trigger.trigger, at, fired, place)
        passes = (
            inner in fired or self._ready(part, at, fired, inner)
            for inner, part in _within(trigger, place)
        )
        return all(passes) if isinstance(trigger, AfterAll) else any(passes)

    def _fire(
        self, trigger: AnyTrigger, at: Moment, fired: Set[Place], place: Place
    ) -> Iterable[Place]:
        yield place
        for inner, part in _within(trigger, place):
            if isinstance(trigger, AfterAll) or self._ready(part, at, fired, inner):
                yield from self._fire(part, at, fired, inner)

    def _merged(self, trigger: AnyTrigger, fired: Set[Place], place: Place) -> set[Place]:
        if isinstance(trigger, AfterCount):
            return {place} & fired
        places: set[Place] = set()
        stay = []
        for inner, part in _within(trigger, place):
            places |= self._merged(part, fired, inner)
            stay.append(inner in places)
        if stay and (all(stay) if isinstance(trigger, AfterAll) else any(stay)):
            places.add(place)
        return places


def _within(trigger: AnyTrigger, place: Place) -> Iterable[tuple[Place, AnyTrigger]]:
    """The triggers that one combines directly, and where they stand."""
    if isinstance(trigger, AfterAll | AfterAny):
        for number, part in enumerate(trigger.triggers):
            yield (*place, number), part


def _from(trigger: Delayed, since: Since) -> int:
    return since.last if isinstance(trigger, AfterSilence) else since.first
