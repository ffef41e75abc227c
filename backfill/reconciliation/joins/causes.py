"""Why a stream's join has other rows than the batch's, by what the replay made of the events."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from backfill.causes import UNEXPLAINED
from backfill.reconciliation.joins.replays import JoinReplays, Pair, ReplayedJoin

#: What identifies a row, and a key, by its values.
Row = str
Key = str

#: The most rounds that are made to look for events that the stream may have lost.
_ROUNDS = 8
_OF_REASON = {"late": "late", "before_epoch": "end_convention"}


@dataclass(frozen=True)
class Counted:
    """Which events the batch counts; by default all.

    Attributes:
        first: for each event that is a copy of an earlier one, the number of the earlier one.
        without: the numbers of the events that it can't use.
        filtered: pairs that the batch does not have do not count for the stream either, because
            what follows the stream's join filters pairs by the same condition.
        expired: whether a pair is past the batch's retention.
    """

    first: Mapping[int, int] = field(default_factory=dict)
    without: Collection[int] = ()
    filtered: bool = False
    expired: Callable[[Pair], bool] = lambda pair: False

    def pair(self, pair: Pair) -> Pair:
        """The same pair, with each copy replaced by the event that is counted."""
        left, right = pair
        return (
            None if left is None else self.first.get(left, left),
            None if right is None else self.first.get(right, right),
        )

    def came(self, seen: Collection[int], others: Collection[int]) -> set[int]:
        """The events and copies in rows, without those that may not have come.

        If an event's copies are not all in rows, or its key's rows are not the stream's, any one of
        the copies may have come, so none of them counts.

        Args:
            seen: the events and copies that are in a row of the replay of all events.
            others: the events of the keys whose rows that replay does not give.
        """
        doubtful = {
            number
            for copy, number in self.first.items()
            if number in others or copy not in seen or number not in seen
        }
        return {event for event in seen if self.first.get(event, event) not in doubtful}


@dataclass(frozen=True)
class KeyRows:
    """One key's rows.

    Attributes:
        batch: the pairs of the join in batch, as the events now give them.
        table: the rows that the batch has; None: the rows of its pairs.
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
        row: the row.
        streams: whether the stream has it, and not the batch.
        cause: one of `backfill.causes`.
        pair: its events; None where they are not known.
        proved: whether the replay shows the row, or its absence.
    """

    row: Row
    streams: bool
    cause: str
    pair: Pair | None
    proved: bool = True


class JoinCauses:
    """The causes for the keys that differ.

    Args:
        replays: of all events of both streams.
        row: what identifies the row of a pair.
        spurious: events are emitted alone before their partners come.
        counted: which events the batch counts.
    """

    def __init__(
        self,
        replays: JoinReplays,
        row: Callable[[Pair], Row],
        spurious: bool,
        counted: Counted,
    ) -> None:
        self._counted = counted
        self._replays = replays
        self._row = row
        self._spurious = spurious

    def of(self, keys: Mapping[Key, KeyRows]) -> dict[Key, list[Found]]:
        """What differs, by key.

        Args:
            keys: the keys that differ.
        """
        differences = self._of_pairs(keys)
        return {key: self._of_table(keys[key], rows) for key, rows in differences.items()}

    def _of_pairs(self, keys: Mapping[Key, KeyRows]) -> dict[Key, list[Found]]:
        """What the stream has and the batch's pairs lack, or the other way round."""
        first = list(self._replays.of())
        others = [own for own in keys.values() if not any(self._gives(r, own) for r in first)]
        absent = {event for own in others for event in self._absent(first[0], own)}
        replays = first
        if absent:
            seen = self._counted.came(first[0].seen, {e for own in others for e in own.events})
            replays = self._without(absent, seen, keys.values())
        differences = {}
        for key, own in keys.items():
            explained = self._of_replays(replays, own, first)
            if not explained and absent:
                # This holds only if all events came, but some of other keys did not.
                possible = self._of_replays(first, own, first)
                explained = [replace(difference, proved=False) for difference in possible]
            differences[key] = explained or self._differing(own, lambda pair, streams: UNEXPLAINED)
        return differences

    def _without(
        self, absent: set[int], seen: set[int], keys: Collection[KeyRows]
    ) -> list[ReplayedJoin]:
        """The replays without events that have no row in the stream, though they should.

        One event of a pair may have come and moved the clock, so that others were late. Whether
        events came that should have no row is unknown. So the clock is lowest if none of these
        events moves it, and highest if all do. With the lowest clock, others are not late, so they
        are absent as well if the stream has no row of them.
        """
        gone = absent
        for _ in range(_ROUNDS):
            least = self._replays.of(gone=gone, unseen=self._replays.unseen(seen, gone))
            in_order = next(least)
            more = {
                event
                for own in keys
                if not self._gives(in_order, own)
                for event in self._absent(in_order, own)
            }
            if not more:
                break
            gone = gone | more
        return [*self._replays.of(silent=absent), in_order, *least]

    def _of_replays(
        self, replays: Sequence[ReplayedJoin], own: KeyRows, first: Sequence[ReplayedJoin]
    ) -> list[Found]:
        """The differences by the first replay that gives the stream's rows; none if no replay does.

        A difference is proved if all other replays give the stream's rows too, and its row for the
        same reason. If events are missing, the replay of all events must show that: it gives the
        row that the stream lacks, or does not give the one that the stream has. If a row is of an
        event alone, no replay may end before its window did.
        """
        giving = [self._found(replay, own) for replay in replays if self._gives(replay, own)]
        if not giving:
            return []
        if len(giving) < len(replays):
            return [replace(difference, proved=False) for difference in giving[0]]
        agreed = set.intersection(*map(set, giving))
        if not any(replay.missing for replay in replays):
            return [replace(difference, proved=difference in agreed) for difference in giving[0]]
        of_all = [set(self._emitted(replay, own)) for replay in first]
        whole, some = set.intersection(*of_all), set.union(*of_all)
        as_late = all(replay.clocks == replays[0].clocks for replay in replays)

        def certain(difference: Found) -> bool:
            if difference not in agreed:
                return False
            if difference.pair is None:
                return True
            if difference.streams:
                is_missing = difference.cause == "missing_in_stream"
                return difference.pair not in some if is_missing else difference.pair in whole
            if not any(event in replay.missing for event in difference.pair for replay in replays):
                return True
            return difference.pair in whole and (as_late or None not in difference.pair)

        return [replace(difference, proved=certain(difference)) for difference in giving[0]]

    def _of_table(self, own: KeyRows, differences: list[Found]) -> list[Found]:
        """The same for the rows that the batch has, if they are not those of its pairs."""
        if own.table is None:
            return differences
        known: dict[tuple[Row, bool], list[Found]] = defaultdict(list)
        for difference in differences:
            known[difference.row, difference.streams].append(difference)
        pairs = {self._row(pair): pair for pair in own.batch}
        rows = []
        for streams, more in ((False, own.table - own.stream), (True, own.stream - own.table)):
            for row, times in more.items():
                rows += known[row, streams][:times]
                pair = pairs.get(row)
                gone = pair is not None and self._counted.expired(pair)
                # Why the table lacks a row that its events give, or has one that they do not give,
                # is not looked up.
                lacks = "missing_in_batch" if streams else UNEXPLAINED
                cause = "retention" if gone else lacks
                other = Found(row, streams, cause, pair, proved=gone)
                rows += [other] * (times - len(known[row, streams]))
        return rows

    def _emitted(self, replayed: ReplayedJoin, own: KeyRows) -> list[Pair]:
        """What a key sent downstream, as pairs of events that are counted."""
        pairs = [self._counted.pair(pair) for pair in replayed.of(own.events)]
        if not self._counted.filtered:
            return pairs
        batch = set(own.batch)
        return [pair for pair in pairs if pair in batch]

    def _gives(self, replayed: ReplayedJoin, own: KeyRows) -> bool:
        return Counter(map(self._row, self._emitted(replayed, own))) == own.stream

    def _absent(self, replayed: ReplayedJoin, own: KeyRows) -> set[int]:
        """The events that can't be in any row of the stream, though the replay has rows of them."""
        emitted = set(self._emitted(replayed, own))
        possible: dict[int, set[Row]] = defaultdict(set)
        for pair in {*emitted, *own.batch}:
            for event in pair:
                if event is not None:
                    possible[event] |= {self._row(pair), self._row(self._alone(event))}
        events = {event for pair in emitted for event in pair if event is not None}
        return {event for event in events if not possible[event] & own.stream.keys()}

    def _alone(self, event: int) -> Pair:
        return (event, None) if event in self._replays.left else (None, event)

    def _found(self, replayed: ReplayedJoin, own: KeyRows) -> list[Found]:
        emitted, batch = set(self._emitted(replayed, own)), set(own.batch)
        partners: dict[int, list[Pair]] = defaultdict(list)
        for pair in own.batch:
            if None not in pair:
                for event in pair:
                    assert event is not None
                    partners[event].append(pair)

        def lost(pair: Pair) -> str:
            """Why the stream lacks a pair, or an event without a partner."""
            events = [number for number in pair if number is not None]
            for number in events:
                if number in replayed.dropped:
                    return _OF_REASON.get(replayed.dropped[number], "missing_in_stream")
            if any(
                number in replayed.missing or number in self._replays.unread for number in events
            ):
                return "missing_in_stream"
            if len(events) == 1 and events[0] in replayed.pending:
                return "pending"
            # The partner was gone when the second event came, which was late or was not.
            return "late" if replayed.last(events) in replayed.overtaken else "engine_loss"

        def cause(pair: Pair, streams: bool) -> str:
            if not streams:
                return lost(pair)
            events = [number for number in pair if number is not None]
            if any(number in self._counted.without for number in events):
                return "missing_in_batch"
            if pair in batch:
                return "redelivered"
            if len(events) == 2:
                return UNEXPLAINED
            reasons = [lost(other) for other in partners[events[0]] if other not in emitted]
            if reasons:
                # It would not be alone if a missing partner had come, whether or not others were
                # late.
                return "missing_in_stream" if "missing_in_stream" in reasons else reasons[0]
            # It is alone and also in a pair: its window had passed when it came.
            return "spurious" if self._spurious else "late"

        return self._differing(own, cause, replayed)

    def _differing(
        self,
        own: KeyRows,
        cause: Callable[[Pair, bool], str],
        replayed: ReplayedJoin | None = None,
    ) -> list[Found]:
        """The rows that one side has more often than the other, with their causes."""
        emitted = [] if replayed is None else self._emitted(replayed, own)
        differences = []
        of_batch = Counter(map(self._row, own.batch))
        for streams, more, pairs, others in (
            (False, of_batch - own.stream, own.batch, set(emitted)),
            (True, own.stream - of_batch, emitted, set(own.batch)),
        ):
            # Of pairs whose rows are alike, those that the other side lacks come first.
            of_row: dict[Row, list[Pair]] = defaultdict(list)
            for pair in sorted(pairs, key=lambda pair: pair in others):
                of_row[self._row(pair)].append(pair)
            for row, times in more.items():
                known = of_row[row][:times]
                differences += [Found(row, streams, cause(pair, streams), pair) for pair in known]
                differences += [Found(row, streams, UNEXPLAINED, None)] * (times - len(known))
        return differences
