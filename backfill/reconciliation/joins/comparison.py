"""Compares a batch join with a stream's in Spark, and replays what differs in plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.causes import UNEXPLAINED
from backfill.columns import TIME, column, sortable
from backfill.errors import ColumnError, ReplayError
from backfill.joins.sides import check_has
from backfill.planning.replaced_windows import of_keys
from backfill.reconciliation.arrow_rows import comparable
from backfill.reconciliation.joins.causes import Counted, JoinCauses, KeyRows
from backfill.reconciliation.joins.order import orders
from backfill.reconciliation.joins.replays import JoinReplays, Pair, Replaying
from backfill.reconciliation.joins.result import JoinDifference, JoinReconciled
from backfill.replay import Event
from backfill.runtimes.differences import kept
from backfill.windows.join_window import LEFT, RIGHT
from backfill.windows.within import Reach

#: The most events that are replayed: each is an object in this process.
MOST_EVENTS = 2_000_000
_OURS, _BATCH, _STREAM = "_join_ours", "_join_batch", "_join_stream"
#: Whether an event is a record without a value, which is in no pair.
SKIPPED = "_join_skipped"
#: Whether the batch can't use an event; and the arrival of the first of the event's copies.
WITHOUT, FIRST = "_join_without", "_join_first"
#: The arrivals of a pair's events, as structs.
LEFT_EVENT, RIGHT_EVENT = "_join_left_event", "_join_right_event"


@dataclass(frozen=True, kw_only=True)
class JoinComparison:
    """A join in batch and the rows that a stream wrote.

    Attributes:
        left, right: the events that the stream received: the key's columns, TIME, SKIPPED, perhaps
            WITHOUT and FIRST, and the columns that the other attributes name.
        on: the key's columns.
        reach: how far apart the events of a pair may be.
        arrival: columns that tell the events of a side apart, and put those of both in order.
        arrived: how many of them say when an event arrived; events that are alike in these arrived
            at once, in any order. None: all of them.
        partition, wall_clock, number, watermark: columns of both sides, if given; the number is
            that of an event's batch, the watermark the one after it, µs.
        unread: the column that says whether the stream has not read an event; None: it has read
            all.
        batch: the rows of the batch.
        pairs: the join of the events: the key's columns, LEFT_EVENT and RIGHT_EVENT.
        columns: for each column of the rows, the left side's and the right side's column that it
            comes from. If there are two, the left event's counts, if there is such an event.
        stream: the rows that went downstream.
        filtered: the stream's rows are filtered by the condition of the pairs.
        expired: pairs before this time are past the batch's retention, µs.
    """

    left: DataFrame
    right: DataFrame
    on: tuple[str, ...]
    reach: Reach
    arrival: tuple[str, ...]
    partition: str | None
    wall_clock: str | None
    batch: DataFrame
    pairs: DataFrame
    columns: Mapping[str, tuple[str | None, str | None]]
    stream: DataFrame
    filtered: bool = False
    expired: int | None = None
    number: str | None = None
    watermark: str | None = None
    unread: str | None = None
    arrived: int | None = None

    def result(self, replaying: Replaying, spurious: bool) -> JoinReconciled:
        """What differs, and why.

        Args:
            replaying: replays the join of a left and a right side's events.
            spurious: events are emitted alone before their partners come.
        """
        names = self._names()
        ours, theirs = (frame.select(*map(column, names)) for frame in (self.batch, self.stream))
        both = ours.withColumn(_OURS, F.lit(True)).unionAll(theirs.withColumn(_OURS, F.lit(False)))
        rows = both.groupBy(*map(column, names)).agg(
            F.count_if(_OURS).alias(_BATCH), F.count_if(~F.col(_OURS)).alias(_STREAM)
        )
        sums = rows.agg(*map(F.sum, (_BATCH, _STREAM)), F.sum(F.least(_BATCH, _STREAM)))
        batch, wrote, matched = (count or 0 for count in sums.collect()[0])
        if matched == batch == wrote:
            return JoinReconciled(matched, (), batch, wrote)
        differing = rows.where(F.col(_BATCH) != F.col(_STREAM))
        keys, release = kept(differing.select(*map(column, self.on)).distinct())
        try:
            explained = self._explained(names, keys, replaying, spurious)
        finally:
            release()
        return JoinReconciled(matched, explained, batch, wrote)

    def _names(self) -> list[str]:
        """The columns that are compared: the stream's."""
        types = {field.name: field.dataType for field in self.batch.schema.fields}
        theirs = {field.name: field.dataType for field in self.stream.schema.fields}
        for name in self.on:
            check_has("the stream", theirs, name, field="on")
        for name, type in theirs.items():
            check_has("the join", types, name, field="stream")
            if type.simpleString() != types[name].simpleString():
                raise ColumnError(
                    f"is {type.simpleString()} in the stream, and "
                    f"{types[name].simpleString()} in the join",
                    field="stream",
                    value=name,
                    way_out="Cast it to the join's type",
                )
            if not sortable(type):
                raise ColumnError(
                    f"is {type.simpleString()}, which can't be compared",
                    field="stream",
                    value=name,
                    way_out="Leave it out of the stream's columns",
                )
        return list(theirs)

    def _explained(
        self, names: list[str], keys: DataFrame, replaying: Replaying, spurious: bool
    ) -> tuple[JoinDifference, ...]:
        events = self._events()
        number = {(left, row["arrival"]): place for place, (left, row) in enumerate(events)}
        near = partial(of_keys, others=keys, keys=self.on, how="left_semi")
        details: dict[int, dict[str, Any]] = {}
        own: dict[str, KeyRows] = {}

        def of_key(row: Mapping[str, Any]) -> KeyRows:
            return own.setdefault(self._key(row), KeyRows(table=Counter()))

        for left, frame in ((True, self.left), (False, self.right)):
            needed = self._needed(left, names)
            for row in _rows(near(frame).where(~F.col(SKIPPED)).select(*map(column, needed))):
                at = number[left, tuple(row[name] for name in self.arrival)]
                details[at] = row
                of_key(row).events.append(at)
        for row in _rows(near(self.pairs)):
            pair = number.get((True, row[LEFT_EVENT])), number.get((False, row[RIGHT_EVENT]))
            of_key(row).batch.append(pair)
        values: dict[str, dict[str, Any]] = {}
        for ours, frame in ((True, self.batch), (False, self.stream)):
            for row in _rows(near(frame.select(*map(column, names)))):
                values[repr(row)] = row
                table = of_key(row).table if ours else of_key(row).stream
                assert table is not None
                table[repr(row)] += 1

        def row_of(pair: Pair) -> str:
            row = self._row(pair, details, names)
            values.setdefault(repr(row), row)
            return repr(row)

        made = [(left, self._event(place, row)) for place, (left, row) in enumerate(events)]
        counted = self._counted(events, number)
        arrivals = [(row["arrival"][: self.arrived], left, row["time"]) for left, row in events]
        replays = JoinReplays(
            [event for left, event in made if left],
            [event for left, event in made if not left],
            orders(arrivals, self.reach),
            replaying,
            counted.first,
            {place for place, (_, row) in enumerate(events) if row.get("unread")},
        )
        causes = JoinCauses(replays, row_of, spurious, counted)

        def time(pair: Pair | None) -> int | None:
            return None if pair is None else int(events[_first(pair)][1]["time"])

        return tuple(
            JoinDifference(
                row=values[difference.row],
                side="stream" if difference.streams else "batch",
                cause=difference.cause,
                time=time(difference.pair),
                proved=difference.proved and difference.cause != UNEXPLAINED,
            )
            for _, differences in sorted(causes.of(own).items())
            for difference in differences
        )

    def _needed(self, left: bool, names: Sequence[str]) -> list[str]:
        """The columns of a side that the compared ones come from, and that identify an event."""
        own = [self.columns[name][0 if left else 1] for name in names]
        return list(dict.fromkeys([*self.on, *self.arrival, *(name for name in own if name)]))

    def _counted(
        self,
        events: Sequence[tuple[bool, dict[str, Any]]],
        number: Mapping[tuple[bool, Any], int],
    ) -> Counted:
        """Which events the batch counts."""

        def expired(pair: Pair) -> bool:
            if self.expired is None:
                return False
            return bool(events[_first(pair)][1]["time"] < self.expired)

        first = {
            place: number[left, row["first"]]
            for place, (left, row) in enumerate(events)
            if row.get("first", row["arrival"]) != row["arrival"]
        }
        without = {place for place, (_, row) in enumerate(events) if row.get("without")}
        return Counted(first, without, self.filtered, expired)

    def _events(self) -> list[tuple[bool, dict[str, Any]]]:
        """All events in the order of arrival, and whether they are the left side's."""
        events: list[tuple[bool, dict[str, Any]]] = []
        also = {
            "partition": self.partition,
            "wall_clock": self.wall_clock,
            "batch": self.number,
            "watermark": self.watermark,
            "unread": self.unread,
        }
        for left, frame in ((True, self.left), (False, self.right)):
            own = {"without": WITHOUT, "first": FIRST}
            own = {new: name for new, name in own.items() if name in frame.columns}
            chosen = frame.select(
                F.struct(*map(column, self.on)).alias("key"),
                F.col(TIME).alias("time"),
                F.struct(*map(column, self.arrival)).alias("arrival"),
                *(column(name).alias(new) for new, name in {**also, **own}.items() if name),
                SKIPPED,
            )
            rows = _rows(chosen.limit(MOST_EVENTS + 1 - len(events)))
            events += [(left, row) for row in rows]
            if len(events) > MOST_EVENTS:
                raise ReplayError(
                    f"more than {MOST_EVENTS:,} events would have to be replayed to find out why "
                    "the stream has other rows",
                    field="left, right",
                    way_out="Compare a shorter time, or one partition, at a time",
                )
        _check_unique(events)
        try:
            return sorted(events, key=lambda one: (one[1]["arrival"], not one[0]))
        except TypeError:
            raise ReplayError(
                "can't be put in order: it is NULL for some events",
                field="arrival",
                value=list(self.arrival),
                way_out="Leave out events that the stream never received",
            ) from None

    def _event(self, place: int, row: dict[str, Any]) -> Event:
        key = tuple(
            repr(value) if isinstance(value, list | dict) else value for value in row["key"]
        )
        return Event(
            # The engine orders by the key's bytes, which a key of one column has.
            key=None if None in key else key[0] if len(key) == 1 else key,
            time=row["time"],
            arrival=place,
            value=None if row[SKIPPED] else {},
            partition=row.get("partition"),
            wall_clock=row.get("wall_clock"),
            batch=row.get("batch"),
            watermark=row.get("watermark"),
        )

    def _key(self, row: Mapping[str, Any]) -> str:
        values = (row[name] for name in self.on)
        # As Spark sees them, -0.0 and 0.0 are equal.
        return repr([value + 0.0 if isinstance(value, float) else value for value in values])

    def _row(
        self, pair: Pair, details: dict[int, dict[str, Any]], names: list[str]
    ) -> dict[str, Any]:
        """The values that the join gives for a pair."""
        one, other = ({} if event is None else details[event] for event in pair)

        def value(name: str) -> Any:
            left, right = self.columns[name]
            if one and left is not None:
                return one[left]
            return other[right] if other and right is not None else None

        return {name: value(name) for name in names}


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    table: pa.Table = frame.toArrow()
    rows: list[dict[str, Any]] = table.to_pylist()
    for field in table.schema:
        for row in rows:
            row[field.name] = comparable(row[field.name], field.type)
    return rows


def _first(pair: Pair) -> int:
    """The left event, or the only one."""
    return next(event for event in pair if event is not None)


def _check_unique(events: Sequence[tuple[bool, dict[str, Any]]]) -> None:
    seen = set()
    for left, row in events:
        place = (left, row["arrival"])
        if place in seen:
            raise ReplayError(
                f"has the same value in two events of the {LEFT if left else RIGHT} side",
                field="arrival",
                value=list(row["arrival"]),
                way_out="Name more columns, such as partition and offset",
            )
        seen.add(place)
