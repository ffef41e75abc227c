"""Feeding events to operators: one by one, by partition, or in micro-batches or bundles."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

from backfill.errors import ReplayError
from backfill.replay.clocks import NEVER
from backfill.replay.event import Event
from backfill.replay.result import Replayed
from backfill.replay.settings import Settings
from backfill.replay.setup import Operator, Setup
from backfill.replay.triggering import delays
from backfill.time.durations import DAY_US, Calendar, Fixed
from backfill.triggers import AfterEventTime
from backfill.windows import CountWindow, durations_of

#: From the beginning of year 2 to the end of 9998, µs since the epoch.
_YEARS = (
    (dt.date(2, 1, 1) - dt.date(1970, 1, 1)).days * DAY_US,
    (dt.date(9999, 1, 1) - dt.date(1970, 1, 1)).days * DAY_US,
)


class Partitioned(Operator):
    """An instance of an operator for each partition."""

    def __init__(self, setup: Setup, kind: type[Operator]) -> None:
        self._instances = {partition: kind(setup) for partition in sorted(setup.inputs, key=repr)}

    def instance(self, partition: Any) -> Operator:
        """The instance of the partition."""
        return self._instances[partition]

    def turn(self, clock: int, time: int, arrival: Any) -> None:
        """Sets the clocks of all instances to where they stand when the input ends."""
        for machine in self._instances.values():
            machine.turn(clock, time, arrival)

    def process(self, event: Event, time: int) -> None:
        """Gives the event to its partition's instance."""
        self._instances[event.partition].process(event, time)

    def mark(self, event: Event) -> None:
        """Its partition's instance sees the watermark."""
        self._instances[event.partition].mark(event)

    def commit(self, arrival: Any) -> None:
        """All of them commit."""
        for machine in self._instances.values():
            machine.commit(arrival)

    def restart(self) -> None:
        """All of them restart."""
        for machine in self._instances.values():
            machine.restart()

    def finish(self) -> None:
        """Their inputs have ended."""
        for machine in self._instances.values():
            machine.finish()


def one_by_one(events: list[Event], setup: Setup, machine: Operator) -> Replayed:
    """Feeds every event, with the commits and restarts that were asked for."""
    usable, process, tick = _usable(setup), _process(setup, machine), setup.tick
    emissions, emitted = setup.output.emissions, []
    settings = setup.settings
    restarts = frozenset(settings.restarts)
    every, places = 0, frozenset[Any]()
    wall, interval = setup.wall_clock, 0
    if isinstance(settings.commits, int):
        every = settings.commits
    elif isinstance(settings.commits, Fixed):
        interval = settings.commits.us
    elif settings.commits is not None:
        places = frozenset(settings.commits)
    timed = bool(interval or settings.emit_interval or waits_for_wall_clock(settings))
    committed = NEVER
    last: Any = None
    for count, event in enumerate(events, 1):
        if timed:
            wall.see(event)
            machine.pass_wall_clock(wall.now, event.arrival)
            if interval and wall.now - committed > interval:
                if committed == NEVER:
                    committed = wall.now
                else:
                    # It commits at every interval, whether something has come meanwhile or not.
                    committed += (wall.now - committed - 1) // interval * interval
                    machine.commit(last)
        if restarts and event.arrival in restarts:
            machine.commit(last)
            machine.restart()
        time = event.time
        if event.passes:
            _pass(machine, event, tick)
        elif usable(event) and time is not None:
            process(event, time - time % tick)
        elif event.watermark is not None:
            machine.mark(event)
        last = event.arrival
        if (every and not count % every) or (places and last in places):
            machine.commit(last)
        emitted.append(len(emissions))
    if events:
        machine.commit(last)
        emitted[-1] = len(emissions)
    _end(setup, machine)
    return setup.output.result([event.arrival for event in events], emitted)


def in_batches(events: list[Event], setup: Setup, machine: Operator) -> Replayed:
    """Feeds micro-batches or bundles, and batches without data where there were some.

    A batch without data comes for each number that no event has, after each batch that raised the
    watermark if the query is idle in between, and at the end of the input if the last batch raised
    it.
    """
    usable, process, tick = _usable(setup), _process(setup, machine), setup.tick
    idle, clocked = setup.settings.idle_batches, setup.clocked
    emissions, emitted = setup.output.emissions, []
    numbers = batch_numbers(events, setup.settings.batch_size)
    more, begun = False, None
    wall, timed = setup.wall_clock, waits_for_wall_clock(setup.settings)
    for event, number, following in zip(events, numbers, [*numbers[1:], None], strict=False):
        if timed:
            wall.see(event)
            if number != begun:
                # Within a bundle the wall clock stands still, as the watermark does.
                machine.pass_wall_clock(wall.now, event.arrival)
                begun = number
        if event.passes:
            _pass(machine, event, tick)
        elif usable(event) and event.time is not None:
            process(event, event.time - event.time % tick)
        elif event.watermark is not None:
            machine.mark(event)
        if following != number:
            more = machine.end_batch(event.arrival) and not clocked
            if following is not None and not clocked:
                for _ in range(following - number - 1 or int(idle and more)):
                    machine.end_batch(event.arrival)
        emitted.append(len(emissions))
    if more:
        machine.end_batch(None)
    _end(setup, machine)
    return setup.output.result([event.arrival for event in events], emitted)


def waits_for_wall_clock(settings: Settings) -> bool:
    """Whether a trigger waits for the wall clock."""
    return any(not isinstance(trigger, AfterEventTime) for trigger in delays(settings))


def _pass(machine: Operator, event: Event, tick: int) -> None:
    """Moves the clocks as an event of another key did."""
    instance = machine.instance(event.partition)
    if event.wall_clock is not None:
        instance.pass_wall_clock(event.wall_clock, event.arrival)
    if event.clock is not None:
        instance.turn(event.clock - event.clock % tick, NEVER, event.arrival)


def _process(setup: Setup, machine: Operator) -> Callable[[Event, int], None]:
    """How an event is processed; if clocks are given, the clock is set first."""
    tick = setup.tick

    def clocked(event: Event, time: int) -> None:
        assert event.clock is not None
        instance = machine.instance(event.partition)
        instance.turn(event.clock - event.clock % tick, time, event.arrival)
        instance.process(event, time)

    process = clocked if setup.clocked else machine.process
    if isinstance(setup.window, CountWindow) and setup.window.per == "stream":
        # Windows of the whole stream: its events are one group.
        return lambda event, time: process(replace(event, key=None), time)
    return process


def _end(setup: Setup, machine: Operator) -> None:
    if setup.end_clock is not None:
        machine.turn(setup.end_clock - setup.end_clock % setup.tick, NEVER, None)
    machine.finish()


def batch_numbers(events: list[Event], size: int | None) -> list[int]:
    """The number of each event's batch."""
    named = [event for event in events if event.batch is not None]
    if not named:
        return [place // (size or 1) for place in range(len(events))]
    if size is not None or len(named) < len(events):
        raise ReplayError(
            "either every event names its batch, or none does and batch_size is given",
            field="batch",
            value=f"named by {len(named)} of {len(events)} events",
            way_out="Leave out batch_size, or name the batch of each event",
        )
    numbers = [event.batch for event in events if event.batch is not None]
    for number in numbers:
        if type(number) is not int:
            raise ReplayError(
                "must be a whole number: the number of a batch",
                field="batch",
                value=number,
                way_out="Number the batches, from 0",
            )
    for before, after in pairwise(numbers):
        if after < before:
            raise ReplayError(
                f"comes after batch {before} in the order of arrival",
                field="batch",
                value=after,
                way_out="Let arrivals follow the batches, such as (batch, place in it)",
            )
    return numbers


def _range(setup: Setup) -> tuple[int, int, str]:
    """The range of times that can be computed with, [low, high) in µs, and its name."""
    window = setup.window
    if any(isinstance(duration, Calendar) for duration in durations_of(window).values()):
        # A year away from both ends of Python's calendar, within which the windows' bounds lie.
        return *_YEARS, "the range of a calendar, the years 2 to 9998"
    return -(1 << 63), 1 << 63, "the range of 64 bits"


def _usable(setup: Setup) -> Callable[[Event], bool]:
    """Tells whether an event reaches the operator, and reports it if it does not."""
    output, engine, streaming = setup.output, setup.engine, setup.streaming
    groups = streaming.null_key == "group"
    gaps, before_epoch = streaming.gaps, engine.before_epoch
    low, high, years = _range(setup)

    def usable(event: Event) -> bool:
        time = event.time
        if time is None:
            _check(streaming.null_time, "time", event)
            output.drop(event.arrival, "no_time")
            return False
        if not low <= time < high:
            raise ReplayError(
                f"is outside {years}",
                field="time",
                value=time,
                way_out="Give µs since the epoch, and leave out events with such times",
            )
        if event.key is None and not groups:
            _check(streaming.null_key, "key", event)
            output.drop(event.arrival, "no_key")
            return False
        if time < 0 and not before_epoch:
            output.drop(event.arrival, "before_epoch")
            return False
        if event.gap is not None:
            _check_gap(event, gaps)
        return True

    def _check_gap(event: Event, allowed: bool) -> None:
        assert event.gap is not None
        if not allowed:
            raise ReplayError(
                f"the engine {engine.name} has no gaps that differ between events",
                field="gap",
                value=event.gap,
                way_out="Leave it out",
            )
        if event.gap % engine.tick_us or (event.gap <= 0 and not streaming.filters_gaps):
            raise ReplayError(
                "must be whole milliseconds, greater than zero",
                field="gap",
                value=event.gap,
                way_out="Give whole milliseconds in µs, such as 60_000_000",
            )

    def _check(treatment: str, field: str, event: Event) -> None:
        if treatment == "refuse":
            raise ReplayError(
                f"the engine {engine.name} fails at an event without one",
                field=field,
                value=f"None, at arrival {event.arrival!r}",
                way_out="Leave such events out, as the stream must have done",
            )

    return usable
