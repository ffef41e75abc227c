"""A join in batch compared with a stream's in Spark, and what differs replayed in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.columns import TIME, column
from backfill.errors import ColumnError, ReplayError
from backfill.join_window import LEFT, RIGHT
from backfill.joins.relations import in_time, related
from backfill.joins.sides import Sides, check_has
from backfill.operators.rule_inputs import sortable
from backfill.planning.replaced_windows import of_keys
from backfill.reconciliation.arrow_rows import comparable
from backfill.reconciliation.join_causes import JoinCauses, KeyRows, Pair
from backfill.reconciliation.join_result import JoinDifference, JoinReconciled
from backfill.replay import Event, JoinReplayed
from backfill.within import Reach

Replaying = Callable[[Sequence[Event], Sequence[Event]], JoinReplayed]

#: So many events are replayed at most: each is an object in this process.
MOST_EVENTS = 2_000_000
_OURS, _BATCH, _STREAM = "_join_ours", "_join_batch", "_join_stream"
#: Of an event: it is a record without a value, which is in no pair.
SKIPPED = "_join_skipped"


@dataclass(frozen=True)
class JoinComparison:
    """A join in batch and the rows that a stream wrote.

    Attributes:
        sides: the events, with SKIPPED.
        stream: the rows.
        arrival: columns that order the events of both sides.
        reach: how much later than the left event the right one may be.
        how: inner, left or full.
        partition, wall_clock: columns of both sides, if given.
    """

    sides: Sides
    stream: DataFrame
    arrival: tuple[str, ...]
    reach: Reach
    how: str
    partition: str | None
    wall_clock: str | None

    def result(self, replaying: Replaying, spurious: bool) -> JoinReconciled:
        """What differs, and why.

        Args:
            replaying: replays the join of a left and a right side's events.
            spurious: events are emitted alone before their partners come.
        """
        joined = self._joined()
        names = self._names(joined)
        ours, theirs = (each.select(*map(column, names)) for each in (joined, self.stream))
        both = ours.withColumn(_OURS, F.lit(True)).unionAll(theirs.withColumn(_OURS, F.lit(False)))
        rows = both.groupBy(*map(column, names)).agg(
            F.count_if(_OURS).alias(_BATCH), F.count_if(~F.col(_OURS)).alias(_STREAM)
        )
        sums = rows.agg(*map(F.sum, (_BATCH, _STREAM)), F.sum(F.least(_BATCH, _STREAM)))
        batch, wrote, matched = (each or 0 for each in sums.collect()[0])
        if matched == batch == wrote:
            return JoinReconciled(matched, (), batch, wrote)
        differing = rows.where(F.col(_BATCH) != F.col(_STREAM))
        keys = differing.select(*map(column, self.sides.on)).distinct().persist()
        try:
            explained = self._explained(joined, names, keys, replaying, spurious)
        finally:
            keys.unpersist()
        return JoinReconciled(matched, explained, batch, wrote)

    def _joined(self) -> DataFrame:
        """The join in batch, with all columns of both sides."""
        left, right = self._with_value()
        sides = replace(self.sides, left=left, right=right)
        return related(sides, in_time(self.reach), self.how, None)

    def _with_value(self) -> tuple[DataFrame, DataFrame]:
        """Both sides without what is skipped."""
        kept = ~F.col(SKIPPED)
        return self.sides.left.where(kept), self.sides.right.where(kept)

    def _names(self, joined: DataFrame) -> list[str]:
        """The columns that are compared: the stream's."""
        types = {field.name: field.dataType for field in joined.schema.fields}
        theirs = {field.name: field.dataType for field in self.stream.schema.fields}
        for name in self.sides.on:
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
        self,
        joined: DataFrame,
        names: list[str],
        keys: DataFrame,
        replaying: Replaying,
        spurious: bool,
    ) -> tuple[JoinDifference, ...]:
        events = self._events()
        number = {(left, row["arrival"]): place for place, (left, row) in enumerate(events)}
        near = partial(of_keys, others=keys, keys=self.sides.on, how="left_semi")
        details: dict[int, dict[str, Any]] = {}
        own: dict[str, KeyRows] = {}
        for left, frame in zip((True, False), self._with_value(), strict=True):
            for row in _rows(near(frame).select(*map(column, self._needed(left, names)))):
                at = number[left, self._arrival(row)]
                details[at] = row
                own.setdefault(self._key(row), KeyRows()).events.append(at)
        renamed = dict(self.sides.added())
        second = [renamed.get(each, each) for each in self.arrival]
        for row in _rows(near(joined)):
            pair = (
                number.get((True, self._arrival(row))),
                number.get((False, tuple(row[each] for each in second))),
            )
            own.setdefault(self._key(row), KeyRows()).batch.append(pair)
        values: dict[str, dict[str, Any]] = {}
        for row in _rows(near(self.stream)):
            wrote = {name: row[name] for name in names}
            values[repr(wrote)] = wrote
            own.setdefault(self._key(row), KeyRows()).stream[repr(wrote)] += 1

        def row_of(pair: Pair) -> str:
            row = self._row(pair, details, names)
            values.setdefault(repr(row), row)
            return repr(row)

        made = [(left, self._event(place, row)) for place, (left, row) in enumerate(events)]
        causes = JoinCauses(
            [event for left, event in made if left],
            [event for left, event in made if not left],
            replaying,
            row_of,
            spurious,
        )
        return tuple(
            JoinDifference(values[each.row], "stream" if each.streams else "batch", each.cause)
            for _, found in sorted(causes.of(own).items())
            for each in found
        )

    def _needed(self, left: bool, names: Sequence[str]) -> list[str]:
        """The columns of a side that the compared ones come from, and that identify an event."""
        kept = [(name, name) for name in self.sides.columns[0]] if left else self.sides.added()
        own = [old for old, new in kept if new in names]
        return list(dict.fromkeys([*self.sides.on, *self.arrival, *own]))

    def _events(self) -> list[tuple[bool, dict[str, Any]]]:
        """All events in the order of arrival, and whether they are the left side's."""
        found: list[tuple[bool, dict[str, Any]]] = []
        for left, frame in ((True, self.sides.left), (False, self.sides.right)):
            also = {"partition": self.partition, "wall_clock": self.wall_clock}
            chosen = frame.select(
                F.struct(*map(column, self.sides.on)).alias("key"),
                F.col(TIME).alias("time"),
                F.struct(*map(column, self.arrival)).alias("arrival"),
                *(column(name).alias(new) for new, name in also.items() if name is not None),
                SKIPPED,
            )
            rows = _rows(chosen.limit(MOST_EVENTS + 1 - len(found)))
            found += [(left, row) for row in rows]
            if len(found) > MOST_EVENTS:
                raise ReplayError(
                    f"more than {MOST_EVENTS:,} events would have to be replayed to find out why "
                    "the stream has other rows",
                    field="left, right",
                    way_out="Compare a shorter time, or one partition, at a time",
                )
        _check_unique(found)
        try:
            return sorted(found, key=lambda one: (one[1]["arrival"], not one[0]))
        except TypeError:
            raise ReplayError(
                "can't be put in order, as it is NULL somewhere",
                field="arrival",
                value=list(self.arrival),
                way_out="Leave out events that the stream never received",
            ) from None

    def _event(self, place: int, row: dict[str, Any]) -> Event:
        key = tuple(repr(each) if isinstance(each, list | dict) else each for each in row["key"])
        return Event(
            # The engine orders by the key's bytes, which one column has.
            key=None if None in key else key[0] if len(key) == 1 else key,
            time=row["time"],
            arrival=place,
            value=None if row[SKIPPED] else {},
            partition=row.get("partition"),
            wall_clock=row.get("wall_clock"),
        )

    def _arrival(self, row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row[each] for each in self.arrival)

    def _key(self, row: dict[str, Any]) -> str:
        values = (row[each] for each in self.sides.on)
        # As Spark sees them, -0.0 and 0.0 are equal.
        return repr([each + 0.0 if isinstance(each, float) else each for each in values])

    def _row(
        self, pair: Pair, details: dict[int, dict[str, Any]], names: list[str]
    ) -> dict[str, Any]:
        """The values that the join gives of a pair."""
        one, other = ({} if each is None else details[each] for each in pair)
        row = {name: one.get(name) for name in self.sides.columns[0]}
        row |= {new: other.get(old) for old, new in self.sides.added()}
        row |= {name: (one or other)[name] for name in self.sides.on}
        return {name: row[name] for name in names}


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    table: pa.Table = frame.toArrow()
    rows: list[dict[str, Any]] = table.to_pylist()
    for each in table.schema:
        for row in rows:
            row[each.name] = comparable(row[each.name], each.type)
    return rows


def _check_unique(events: Sequence[tuple[bool, dict[str, Any]]]) -> None:
    seen = set()
    for left, row in events:
        place = (left, row["arrival"])
        if place in seen:
            raise ReplayError(
                f"two events of the {LEFT if left else RIGHT} side have the same",
                field="arrival",
                value=list(row["arrival"]),
                way_out="Name more columns, such as partition and offset",
            )
        seen.add(place)
