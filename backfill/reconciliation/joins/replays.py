"""Replays a streaming join in each order of its events, with all of them or without some."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from backfill.replay import Event, JoinReplayed

#: The numbers of the events of a row, the left one first; None where there is none.
Pair = tuple["int | None", "int | None"]
#: Replays the join of a left and a right side's events.
Replaying = Callable[[Sequence[Event], Sequence[Event]], JoinReplayed]


class JoinReplays:
    """The replays of one join.

    Args:
        left, right: all events of both streams, in the order of arrival, and numbered by it.
        orders: the orders in which they can have arrived, each as the places of the events.
        replay: the join of these events.
        first: for each event that is a copy of an earlier one, the number of the earlier one.
        unread: events or copies that the stream is known not to have read: they are in no replay.

    Attributes:
        left: the numbers of the left side's events.
        unread: the events of which no copy was read.
    """

    def __init__(
        self,
        left: Sequence[Event],
        right: Sequence[Event],
        orders: Sequence[Sequence[int]],
        replay: Replaying,
        first: Mapping[int, int],
        unread: Collection[int],
    ) -> None:
        self.left = {event.arrival for event in left}
        self._sides: Sequence[Sequence[Event]] = [
            [event for event in side if event.arrival not in unread] for side in (left, right)
        ]
        read = {first.get(e.arrival, e.arrival) for side in self._sides for e in side}
        self.unread = {first.get(number, number) for number in unread} - read
        self._orders = orders
        self._replay = replay
        self._first = first

    def of(
        self,
        gone: Collection[int] = frozenset(),
        unseen: Collection[int] = frozenset(),
        silent: Collection[int] = frozenset(),
    ) -> Iterator[ReplayedJoin]:
        """The replays, one by one: in the order that is given, and in the others.

        Args:
            gone: events that are left out, with their copies.
            unseen: events or copies that are left out.
            silent: events that only move the clock.
        """
        first, sides = self._first, self._sides
        came: set[int] = set()
        hidden: set[int] = set()

        def taken(events: Sequence[Event]) -> Iterable[Event]:
            for event in events:
                number = first.get(event.arrival, event.arrival)
                if number in silent:
                    hidden.add(event.arrival)
                    # A key of its own, with which nothing is joined.
                    yield replace(event, key=("silent", event.arrival))
                elif number not in gone and event.arrival not in unseen:
                    came.add(number)
                    yield event

        if gone or unseen or silent:
            sides = [list(taken(side)) for side in self._sides]
        missing = {*gone, *silent, *(first.get(number, number) for number in unseen)} - came
        for order in self._orders:
            yield ReplayedJoin(self._replay, sides, order, missing, hidden)

    def unseen(self, seen: Collection[int], gone: Collection[int]) -> set[int]:
        """Events in no row that would be ahead of the clock that the events in rows set.

        Args:
            seen: events that are in a row.
            gone: events that move no clock.
        """
        first = self._first
        latest: dict[Any, int] = {}
        arrivals = set()
        # In some engines each side has a clock of its own.
        for side, events in enumerate(self._sides):
            for event in events:
                number, clock = first.get(event.arrival, event.arrival), (side, event.partition)
                if number in gone or event.time is None:
                    continue
                if clock in latest and event.time <= latest[clock]:
                    continue
                if event.arrival in seen:
                    latest[clock] = event.time
                else:
                    arrivals.add(event.arrival)
        return arrivals


class ReplayedJoin:
    """A replay, by the numbers of its events.

    Args:
        replay: the join.
        sides: the left and the right side's events.
        order: the places in which they arrive.
        missing: the events that never came.
        hidden: those of them that only move the clock.

    Attributes:
        missing: the events that never came.
        dropped: why events were dropped.
        pending: the events whose windows are open at the end.
    """

    def __init__(
        self,
        replay: Replaying,
        sides: Sequence[Sequence[Event]],
        order: Sequence[int],
        missing: set[int],
        hidden: Collection[int],
    ) -> None:
        self.missing = missing
        self._order = order
        # The same objects for all orders; copies as replayed would hold millions of events a dozen
        # times.
        self._sides = sides
        numbers = sorted(range(len(order)), key=order.__getitem__)

        def at_its_place(event: Event) -> Event:
            place = order[event.arrival]
            return event if place == event.arrival else replace(event, arrival=place)

        replayed = replay(*(list(map(at_its_place, side)) for side in sides))
        self.dropped = {numbers[drop.arrival]: drop.reason for drop in replayed.dropped}
        self.pending = {numbers[place] for place in replayed.pending}
        self._of: dict[int, list[Pair]] = defaultdict(list)
        for emission in replayed.emissions:
            left = None if emission.left is None else numbers[emission.left]
            right = None if emission.right is None else numbers[emission.right]
            event = right if left is None else left
            assert event is not None
            if event not in hidden:
                self._of[event].append((left, right))

    @cached_property
    def overtaken(self) -> set[int]:
        """The events that came after one of a later time, of their partition."""
        latest: dict[Any, int] = {}
        arrivals = set()
        every = (event for side in self._sides for event in side)
        for event in sorted(every, key=lambda event: self._order[event.arrival]):
            if event.time is None:
                continue
            before = latest.get(event.partition, event.time)
            if event.time < before:
                arrivals.add(event.arrival)
            latest[event.partition] = max(before, event.time)
        return arrivals

    @cached_property
    def clocks(self) -> dict[Any, int]:
        """The latest time of each side and partition, µs."""
        latest: dict[Any, int] = {}
        for side, events in enumerate(self._sides):
            for event in events:
                if event.time is not None:
                    clock = (side, event.partition)
                    latest[clock] = max(latest.get(clock, event.time), event.time)
        return latest

    @property
    def seen(self) -> set[int]:
        """The events that are in a row."""
        pairs = (pair for group in self._of.values() for pair in group)
        return {event for pair in pairs for event in pair if event is not None}

    def last(self, events: Iterable[int]) -> int:
        """The one of these events that came last."""
        return max(events, key=self._order.__getitem__)

    def of(self, events: Iterable[int]) -> list[Pair]:
        """The pairs of these events, which are all of a key."""
        return [pair for event in events for pair in self._of.get(event, ())]
