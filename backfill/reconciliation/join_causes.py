"""Why a stream's join has other rows than the join in batch: what the replay made of the events."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from backfill.causes import UNEXPLAINED
from backfill.replay import Event, JoinReplayed

#: The numbers of the events of a row, the left one first; None where there is none.
Pair = tuple["int | None", "int | None"]
#: What identifies a row, and a key, by its values.
Row = str
Key = str

_OF_REASON = {"late": "late", "before_epoch": "end_convention"}


@dataclass(frozen=True)
class KeyRows:
    """One key's rows.

    Attributes:
        batch: the pairs of the join in batch.
        stream: the rows that the stream wrote, as often as it did.
        events: the numbers of the key's events.
    """

    batch: list[Pair] = field(default_factory=list)
    stream: Counter[Row] = field(default_factory=Counter)
    events: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Found:
    """A row that only one side has, and why.

    Attributes:
        row: which.
        streams: the stream has it, and the batch has not.
        cause: of `backfill.causes`.
    """

    row: Row
    streams: bool
    cause: str


class JoinCauses:
    """The causes for the keys that differ.

    Args:
        left, right: all events of both streams, by number: their places in the order of arrival.
        replay: the join of these events.
        row: what identifies the row of a pair.
        spurious: events are emitted alone before their partners come.
    """

    def __init__(
        self,
        left: Sequence[Event],
        right: Sequence[Event],
        replay: Callable[[Sequence[Event], Sequence[Event]], JoinReplayed],
        row: Callable[[Pair], Row],
        spurious: bool,
    ) -> None:
        self._sides = (left, right)
        self._replay = replay
        self._row = row
        self._spurious = spurious
        self._left = {each.arrival for each in left}
        self._overtaken = _overtaken([*left, *right])

    def of(self, keys: Mapping[Key, KeyRows]) -> dict[Key, list[Found]]:
        """What differs, by key.

        Args:
            keys: the keys that differ.
        """
        first = _Replayed(self._replay(*self._sides))
        rest = {key: own for key, own in keys.items() if not self._gives(first, own)}
        found = {key: self._found(first, own) for key, own in keys.items() if key not in rest}
        if not rest:
            return found
        # Events of which the stream has no row may never have come there: then it has the rows
        # that the replay makes without them.
        missing = {each for own in rest.values() for each in self._absent(first, own)}
        second = _Replayed(self._replay(*(_without(side, missing) for side in self._sides)))
        for key, own in rest.items():
            if missing & set(own.events) and self._gives(second, own):
                found[key] = self._found(second, own, missing)
            else:
                found[key] = self._differing(own, lambda pair, streams: UNEXPLAINED)
        return found

    def _gives(self, replayed: _Replayed, own: KeyRows) -> bool:
        return Counter(map(self._row, replayed.of(own.events))) == own.stream

    def _absent(self, replayed: _Replayed, own: KeyRows) -> Iterable[int]:
        """The events that no row of the stream can be of, though the replay has rows of them."""
        possible: dict[int, set[Row]] = defaultdict(set)
        for pair in {*replayed.of(own.events), *own.batch}:
            for event in pair:
                if event is not None:
                    possible[event] |= {self._row(pair), self._row(self._alone(event))}
        return (event for event, rows in possible.items() if not rows & own.stream.keys())

    def _alone(self, event: int) -> Pair:
        return (event, None) if event in self._left else (None, event)

    def _found(
        self, replayed: _Replayed, own: KeyRows, missing: Collection[int] = ()
    ) -> list[Found]:
        emitted = set(replayed.of(own.events))
        partners: dict[int, list[Pair]] = defaultdict(list)
        for pair in own.batch:
            if None not in pair:
                for event in pair:
                    assert event is not None
                    partners[event].append(pair)

        def lost(pair: Pair) -> str:
            """Why the stream lacks a pair, or an event without a partner."""
            events = [each for each in pair if each is not None]
            if any(each in missing for each in events):
                return "missing_in_stream"
            for each in events:
                if each in replayed.dropped:
                    return _OF_REASON.get(replayed.dropped[each], "missing_in_stream")
            if len(events) == 1 and events[0] in replayed.pending:
                return "pending"
            # A partner had gone when the second one came: that came late, or it did not.
            return "late" if max(events) in self._overtaken else "engine_loss"

        def cause(pair: Pair, streams: bool) -> str:
            if not streams:
                return lost(pair)
            events = [each for each in pair if each is not None]
            if len(events) == 2:
                return UNEXPLAINED
            for each in partners[events[0]]:
                if each not in emitted:
                    return lost(each)
            # Alone and in a pair: its window had passed when it came.
            return "spurious" if self._spurious else "late"

        return self._differing(own, cause, replayed)

    def _differing(
        self,
        own: KeyRows,
        cause: Callable[[Pair, bool], str],
        replayed: _Replayed | None = None,
    ) -> list[Found]:
        """The rows that one side has more often than the other, with their causes."""
        emitted = [] if replayed is None else replayed.of(own.events)
        found = []
        of_batch = Counter(map(self._row, own.batch))
        for streams, more, pairs, others in (
            (False, of_batch - own.stream, own.batch, set(emitted)),
            (True, own.stream - of_batch, emitted, set(own.batch)),
        ):
            # Of pairs whose rows are alike, those that the other side lacks.
            of_row: dict[Row, list[Pair]] = defaultdict(list)
            for pair in sorted(pairs, key=lambda pair: pair in others):
                of_row[self._row(pair)].append(pair)
            for row, times in more.items():
                known = of_row[row][:times]
                causes = [cause(pair, streams) for pair in known]
                causes += [UNEXPLAINED] * (times - len(known))
                found += [Found(row, streams, each) for each in causes]
        return found


class _Replayed:
    """A replay, by the numbers of its events."""

    def __init__(self, found: JoinReplayed) -> None:
        self.dropped = {each.arrival: each.reason for each in found.dropped}
        self.pending = set(found.pending)
        self._of: dict[int, list[Pair]] = defaultdict(list)
        for each in found.emissions:
            pair = (each.left, each.right)
            self._of[each.right if each.left is None else each.left].append(pair)

    def of(self, events: Iterable[int]) -> list[Pair]:
        """The pairs of these events, which are all of a key."""
        return [pair for event in events for pair in self._of.get(event, ())]


def _without(events: Sequence[Event], missing: Collection[int]) -> list[Event]:
    return [each for each in events if each.arrival not in missing]


def _overtaken(events: Sequence[Event]) -> set[int]:
    """The numbers of the events that came after one of a later time, of their partition."""
    latest: dict[Any, int] = {}
    found = set()
    for each in sorted(events, key=lambda event: event.arrival):
        if each.time is None:
            continue
        before = latest.get(each.partition)
        if before is not None and each.time < before:
            found.add(each.arrival)
        latest[each.partition] = each.time if before is None else max(before, each.time)
    return found
