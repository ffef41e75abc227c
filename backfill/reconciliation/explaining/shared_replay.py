"""Replays keys that depend on each other together, and separates them afterwards.

Behind a cache, or where windows are emitted on close, other keys' events decide what becomes of a
key's windows: when the cache is flushed, when a segment is deleted. So every replay is of all keys.
The replay of the operator as it is described serves all keys; a replay that assumes a fault serves
a single difference, so their number is limited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import merge
from operator import attrgetter
from typing import Any

from backfill.reconciliation.explaining.operator import Operator
from backfill.reconciliation.marks import PLACES, names_places, nearest
from backfill.replay import Event, Replayed

#: The most events that are replayed in all to look for faults; that takes some minutes.
_MOST_REPLAYED = 20_000_000
_OF_KEYS = (
    "final",
    "emissions",
    "dropped_windows",
    "pending",
    "superseded",
    "lost",
    "refused",
    "begun_anew",
)


class SharedReplay:
    """All the events that one operator saw.

    Args:
        operator: as it is described.
        events: by key, each in order of arrival; arrivals are of all together.
    """

    def __init__(self, operator: Operator, events: Mapping[Any, Sequence[Event]]) -> None:
        self._operator = operator
        self._events = events
        self._count = sum(map(len, events.values()))
        self._spent = 0
        self._whole: dict[Any, Replayed] | None = None

    @property
    def tries(self) -> int:
        """How many more replays may be made to look for faults."""
        return max(0, _MOST_REPLAYED - self._spent) // max(1, self._count)

    def replay(self, key: Any, operator: Operator, events: Sequence[Event]) -> Replayed:
        """What becomes of a key's windows under an operator, if these are the key's events."""
        if events is self._events.get(key) and operator == self._operator:
            if self._whole is None:
                self._whole = _by_key(_together(operator, self._events), self._events)
            return self._whole[key]
        self._spent += self._count
        every = {**self._events, key: events}
        together = _together(_at_these(operator, every), every)
        return _by_key(together, {key: events})[key]


@dataclass(frozen=True)
class SharedKey:
    """One key among all, for `Operator.among`."""

    joint: SharedReplay
    key: Any

    @property
    def tries(self) -> int:
        """How many more replays may be made to look for faults."""
        return self.joint.tries

    def replay(self, operator: Operator, events: Sequence[Event]) -> Replayed:
        """The key's part of a replay of all, by the operator, with these events of the key."""
        return self.joint.replay(self.key, operator, events)


def _together(operator: Operator, events: Mapping[Any, Sequence[Event]]) -> Replayed:
    return operator.replay(list(merge(*events.values(), key=attrgetter("arrival"))))


def _at_these(operator: Operator, events: Mapping[Any, Sequence[Event]]) -> Operator:
    """The operator, with its restarts and commits at events that are not left out."""
    settings = dict(operator.settings)
    named = [name for name in PLACES if names_places(settings, name)]
    arrivals = sorted(event.arrival for own in events.values() for event in own) if named else []
    for name in named:
        positions = (nearest(name, arrivals, place) for place in settings[name])
        settings[name] = tuple({arrivals[at] for at in positions if at is not None})
    return replace(operator, settings=settings)


def _by_key(made: Replayed, events: Mapping[Any, Sequence[Event]]) -> dict[Any, Replayed]:
    parts: dict[Any, dict[str, list[Any]]] = {
        key: {name: [] for name in (*_OF_KEYS, "dropped")} for key in events
    }
    for name in _OF_KEYS:
        for row in getattr(made, name):
            if row.key in parts:
                parts[row.key][name].append(row)
    owner = {event.arrival: key for key, own in events.items() for event in own}
    for dropped in made.dropped:
        if dropped.arrival in owner:
            parts[owner[dropped.arrival]]["dropped"].append(dropped)
    return {
        key: replace(made, **{name: tuple(rows) for name, rows in own.items()})
        for key, own in parts.items()
    }
