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
class Counted:
    """Which events the batch counts; by default all.

    Attributes:
        first: of events that are copies of an earlier one, that one.
        without: the numbers of those that it can't use.
        filtered: pairs that it does not have are of no interest to the stream either: what follows
            the stream's join keeps pairs by the same condition.
        expired: whether a pair is past the batch's retention.
    """

    first: Mapping[int, int] = field(default_factory=dict)
    without: Collection[int] = ()
    filtered: bool = False
    expired: Callable[[Pair], bool] = lambda pair: False

    def pair(self, pair: Pair) -> Pair:
        """The same pair of the events that are counted."""
        left, right = pair
        return (
            None if left is None else self.first.get(left, left),
            None if right is None else self.first.get(right, right),
        )


@dataclass(frozen=True)
class KeyRows:
    """One key's rows.

    Attributes:
        batch: the pairs of the join in batch, as the events now give them.
        table: the rows that the batch has; None: those of its pairs.
        stream: the rows that the stream wrote, as often as it did.
        events: the numbers of the key's events.
    """

    batch: list[Pair] = field(default_factory=list)
    table: Counter[Row] | None = None
    stream: Counter[Row] = field(default_factory=Counter)
    events: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Found:
    """A row that only one side has, and why.

    Attributes:
        row: which.
        streams: the stream has it, and the batch has not.
        cause: of `backfill.causes`.
        pair: its events; None where they are not known.
        proved: the replay gives the row, or its lack.
    """

    row: Row
    streams: bool
    cause: str
    pair: Pair | None
    proved: bool = True


class JoinCauses:
    """The causes for the keys that differ.

    Args:
        left, right: all events of both streams, by number: their places in the order of arrival.
        replay: the join of these events.
        row: what identifies the row of a pair.
        spurious: events are emitted alone before their partners come.
        counted: which events the batch counts.
    """

    def __init__(
        self,
        left: Sequence[Event],
        right: Sequence[Event],
        replay: Callable[[Sequence[Event], Sequence[Event]], JoinReplayed],
        row: Callable[[Pair], Row],
        spurious: bool,
        counted: Counted,
    ) -> None:
        self._counted = counted
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
        found = self._of_pairs(keys)
        return {key: self._of_table(keys[key], each) for key, each in found.items()}

    def _of_pairs(self, keys: Mapping[Key, KeyRows]) -> dict[Key, list[Found]]:
        """What the stream has, and the batch's pairs have not, or the other way round."""
        first = _Replayed(self._replay(*self._sides))
        rest = {key: own for key, own in keys.items() if not self._gives(first, own)}
        found = {key: self._found(first, own) for key, own in keys.items() if key not in rest}
        if not rest:
            return found
        # Events of which the stream has no row may never have come there: then it has the rows
        # that the replay makes without them.
        missing = {each for own in rest.values() for each in self._absent(first, own)}
        second = _Replayed(self._replay(*(self._without(side, missing) for side in self._sides)))
        for key, own in rest.items():
            if missing & set(own.events) and self._gives(second, own):
                found[key] = self._found(second, own, missing)
            else:
                found[key] = self._differing(own, lambda pair, streams: UNEXPLAINED)
        return found

    def _of_table(self, own: KeyRows, found: list[Found]) -> list[Found]:
        """The same for the rows that the batch has, where they are not those of its pairs."""
        if own.table is None:
            return found
        known: dict[tuple[Row, bool], list[Found]] = defaultdict(list)
        for each in found:
            known[each.row, each.streams].append(each)
        pairs = {self._row(each): each for each in own.batch}
        rows = []
        for streams, more in ((False, own.table - own.stream), (True, own.stream - own.table)):
            for row, times in more.items():
                rows += known[row, streams][:times]
                pair = pairs.get(row)
                gone = pair is not None and self._counted.expired(pair)
                # Why the table lacks a row that its events give, or has another, nobody looks up.
                cause = "retention" if gone else "missing_in_batch"
                other = Found(row, streams, cause, pair, proved=gone)
                rows += [other] * (times - len(known[row, streams]))
        return rows

    def _emitted(self, replayed: _Replayed, own: KeyRows) -> list[Pair]:
        """What went downstream of a key, as pairs of events that are counted."""
        pairs = [self._counted.pair(each) for each in replayed.of(own.events)]
        if not self._counted.filtered:
            return pairs
        batch = set(own.batch)
        return [each for each in pairs if each in batch]

    def _gives(self, replayed: _Replayed, own: KeyRows) -> bool:
        return Counter(map(self._row, self._emitted(replayed, own))) == own.stream

    def _absent(self, replayed: _Replayed, own: KeyRows) -> Iterable[int]:
        """The events that no row of the stream can be of, though the replay has rows of them."""
        possible: dict[int, set[Row]] = defaultdict(set)
        for pair in {*self._emitted(replayed, own), *own.batch}:
            for event in pair:
                if event is not None:
                    possible[event] |= {self._row(pair), self._row(self._alone(event))}
        return (event for event, rows in possible.items() if not rows & own.stream.keys())

    def _without(self, events: Sequence[Event], missing: Collection[int]) -> list[Event]:
        first = self._counted.first
        return [each for each in events if first.get(each.arrival, each.arrival) not in missing]

    def _alone(self, event: int) -> Pair:
        return (event, None) if event in self._left else (None, event)

    def _found(
        self, replayed: _Replayed, own: KeyRows, missing: Collection[int] = ()
    ) -> list[Found]:
        emitted, batch = set(self._emitted(replayed, own)), set(own.batch)
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
            if any(each in self._counted.without for each in events):
                return "missing_in_batch"
            if pair in batch:
                return "redelivered"
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
        emitted = [] if replayed is None else self._emitted(replayed, own)
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
                found += [Found(row, streams, cause(pair, streams), pair) for pair in known]
                found += [Found(row, streams, UNEXPLAINED, None)] * (times - len(known))
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
