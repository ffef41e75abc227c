"""A join in batch compared with what a streaming join wrote: what differs, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill.causes import UNEXPLAINED, check_acceptable
from backfill.columns import TIME, column, names_of
from backfill.engines import ENGINES
from backfill.errors import ColumnError, ReplayError, WindowError, did_you_mean
from backfill.joins.relations import in_time, related
from backfill.joins.sides import LEFT, RIGHT, Sides, both_sides
from backfill.planning.replaced_windows import of_keys
from backfill.reconciliation.arrow_rows import comparable
from backfill.reconciliation.join_causes import JoinCauses, KeyRows, Pair
from backfill.replay import Event, JoinReplayed, replay_join
from backfill.window_arguments import choice, predicate_text
from backfill.within import Reach, read_within

Replaying = Callable[[Sequence[Event], Sequence[Event]], JoinReplayed]

#: So many events are replayed at most: each is an object in this process.
MOST_EVENTS = 2_000_000
_HOWS = ("inner", "left", "full")
_ROWS, _SKIPPED = "_join_rows", "_skipped"


@dataclass(frozen=True)
class JoinDifference:
    """A row that only one side has.

    Attributes:
        row: its values, by the stream's columns.
        side: "batch" or "stream", which has it.
        cause: of those that `reconcile` has, and `spurious`; `unexplained` where replaying the
            operator does not give the stream's rows of the key. All others are proved: it does.
    """

    row: dict[str, Any]
    side: str
    cause: str


@dataclass(frozen=True)
class JoinReconciled:
    """A join in batch compared with a stream's.

    Attributes:
        matched: rows that both have.
        differences: all others.
        batch, stream: the numbers of rows of both.
    """

    matched: int
    differences: tuple[JoinDifference, ...]
    batch: int
    stream: int

    @property
    def causes(self) -> dict[str, int]:
        """How many differences have each cause, most frequent first."""
        return dict(Counter(each.cause for each in self.differences).most_common())

    @property
    def unexplained(self) -> int:
        """How many have no cause."""
        return self.causes.get(UNEXPLAINED, 0)

    def ok(self, accept: Collection[str] = ()) -> bool:
        """Whether nothing differs but for accepted causes.

        Raises:
            JobFileError: there is no such cause.
        """
        check_acceptable(accept)
        return set(self.causes) <= set(accept)


def reconcile_join(
    left: DataFrame,
    right: DataFrame,
    stream: DataFrame,
    *,
    on: str | Sequence[str],
    within: object,
    time: str | Sequence[str],
    arrival: str | Sequence[str],
    how: str = "inner",
    engine: str = "kafka-streams",
    partition: str | None = None,
    wall_clock: str | None = None,
    skipped: str | None = None,
    time_format: str | None = None,
    timezone: str = "UTC",
    grace: object = None,
    spurious: bool | None = None,
    emit_interval: object = None,
    store: str | None = None,
    watermark_delay: object = None,
) -> JoinReconciled:
    """Compares the join of two streams in batch with what a streaming join wrote.

    Both are compared in Spark. If they differ, the streaming join is replayed over all events, as
    `backfill.replay.replay_join` does it: whether a partner is still there depends on events of
    other keys, too. A cause is proved: the replay gives the stream's rows of the key, with all
    events, or without those of which the stream has no row (`missing_in_stream`).

    Args:
        left: the left stream's events.
        right: the right stream's.
        stream: the rows that went downstream, all of them: the columns of `on` and some of those
            that `join` gives, in the same types.
        on: the columns of the key, as for `join`.
        within: (before, after), as for `join`; whole milliseconds.
        time: the column of the event time, or a pair of columns, as for `join`.
        arrival: columns that both sides have: in their order the operator received the events of
            both. Of equal ones, left events come first; events of a side differ in them.
        how: inner, left or full, as the stream's join.
        engine: kafka-streams, or flink (inner joins only).
        partition: a column of both sides: the partition that an event came by. By default there is
            one.
        wall_clock: a column of both sides: when the operator processed the event, in µs. By default
            that is the event's own time.
        skipped: a predicate in Spark SQL over a side's columns: records without a value. The batch
            leaves them out, and Kafka Streams takes only their time.
        time_format: as for `join`.
        timezone: as for `join`.
        grace: of the operator, as for `replay_join`.
        spurious: the same.
        emit_interval: the same.
        store: the same.
        watermark_delay: the same.

    Returns:
        What differs, and why.

    Raises:
        ColumnError: a column is missing or has an unsuitable type.
        WindowError: `within`, `how` or `skipped` can't be used.
        ReplayError: the engine has no such join or setting; arrivals are not unique; or something
            differs, and there are more than 2,000,000 events.

    Example:
        >>> from backfill import reconcile_join
        >>> clicks = spark.sql(
        ...     "SELECT user, timestamp_seconds(s) AS at, n, ad FROM VALUES"
        ...     "('a', 0, 0, 'x'), ('b', 60, 2, 'y') AS t(user, s, n, ad)"
        ... )
        >>> buys = spark.sql(
        ...     "SELECT user, timestamp_seconds(s) AS at, n, price FROM VALUES"
        ...     "('a', 5, 1, 9), ('a', 9, 3, 8) AS t(user, s, n, price)"
        ... )
        >>> wrote = spark.sql("SELECT 'a' AS user, 'x' AS ad, 9 AS price")
        >>> found = reconcile_join(
        ...     clicks, buys, wrote, on="user", time="at", arrival="n", within=("0s", "10s")
        ... )
        >>> found.matched, found.causes
        (1, {'late': 1})
        >>> found.differences[0].row
        {'user': 'a', 'ad': 'x', 'price': 8}
    """
    reach = read_within(within)
    if not isinstance(reach, Reach):
        raise WindowError(
            "a stream's join is compared where it pairs events by time",
            field="within",
            value=str(within),
            way_out='Write it like ("5m", "30m")',
        )
    choice(how, _HOWS, field="how")

    def replaying(left: Sequence[Event], right: Sequence[Event]) -> JoinReplayed:
        return replay_join(
            left,
            right,
            within=within,
            engine=engine,
            how=how,
            grace=grace,
            spurious=spurious,
            emit_interval=emit_interval,
            store=store,
            watermark_delay=watermark_delay,
        )

    # Whatever is wrong with the settings is said before anything is computed.
    replaying([], [])
    sides = both_sides(
        left,
        right,
        on=on,
        time=time,
        time_format=time_format,
        timezone=timezone,
        tick_us=ENGINES[engine].tick_us,
    )
    arrived = names_of(arrival)
    sides.check_order(arrived, LEFT, RIGHT)
    also = [each for each in (partition, wall_clock) if each is not None]
    for index, side in enumerate((LEFT, RIGHT)):
        _check_has(side, sides.columns[index], also)
    if engine == "flink":
        if skipped is not None:
            raise ReplayError(
                "the engine flink joins records without a value like others",
                field="skipped",
                value=skipped,
                way_out="Leave it out",
            )
        # It fails at an event without a key, so the stream had none.
        sides = replace(sides, left=_with_key(sides, LEFT), right=_with_key(sides, RIGHT))
    given = _Given(sides, stream, arrived, reach, how, partition, wall_clock, skipped)
    return given.compared(replaying, bool(spurious))


@dataclass(frozen=True)
class _Given:
    """What is compared."""

    sides: Sides
    stream: DataFrame
    arrival: tuple[str, ...]
    reach: Reach
    how: str
    partition: str | None
    wall_clock: str | None
    skipped: str | None

    def compared(self, replaying: Replaying, spurious: bool) -> JoinReconciled:
        joined = self._joined()
        names = self._names(joined)
        ours, theirs = (each.select(*map(column, names)) for each in (joined, self.stream))
        signed = ours.withColumn(_ROWS, F.lit(1)).unionAll(theirs.withColumn(_ROWS, F.lit(-1)))
        rows = signed.groupBy(*map(column, names)).agg(F.sum(_ROWS).alias(_ROWS))
        differing = rows.where(F.col(_ROWS) != 0).persist()
        try:
            batch, wrote = ours.count(), theirs.count()
            more = differing.agg(F.sum(F.greatest(_ROWS, F.lit(0)))).collect()[0][0] or 0
            if batch == wrote and not more:
                return JoinReconciled(batch, (), batch, wrote)
            keys = differing.select(*map(column, self.sides.on)).distinct()
            explained = self._explained(joined, names, keys, replaying, spurious)
            return JoinReconciled(batch - more, explained, batch, wrote)
        finally:
            differing.unpersist()

    def _joined(self) -> DataFrame:
        """The join in batch, with all columns of both sides."""
        left, right = (frame.where(~_skips(self.skipped)) for frame in self._frames())
        sides = replace(self.sides, left=left, right=right)
        return related(sides, in_time(self.reach), self.how, None)

    def _frames(self) -> tuple[DataFrame, DataFrame]:
        return self.sides.left, self.sides.right

    def _names(self, joined: DataFrame) -> list[str]:
        """The columns that are compared: the stream's."""
        types = {field.name: field.dataType for field in joined.schema.fields}
        theirs = {field.name: field.dataType for field in self.stream.schema.fields}
        for name in self.sides.on:
            if name not in theirs:
                raise ColumnError(
                    "the stream has no such column",
                    field="on",
                    value=name,
                    way_out=did_you_mean(name, theirs),
                )
        for name, type in theirs.items():
            if name not in types:
                raise ColumnError(
                    "the join has no such column",
                    field="stream",
                    value=name,
                    way_out=did_you_mean(name, types),
                )
            if type != types[name]:
                raise ColumnError(
                    f"is {type.simpleString()} in the stream, and "
                    f"{types[name].simpleString()} in the join",
                    field="stream",
                    value=name,
                    way_out="Cast it to the join's type",
                )
            if _has_no_equality(type):
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
        for left, frame in zip((True, False), self._frames(), strict=True):
            held = near(frame.where(~_skips(self.skipped)))
            for row in _rows(held.select(*map(column, self.sides.columns[not left]))):
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

    def _events(self) -> list[tuple[bool, dict[str, Any]]]:
        """All events in the order of arrival, and whether they are the left side's."""
        found: list[tuple[bool, dict[str, Any]]] = []
        for left, frame in zip((True, False), self._frames(), strict=True):
            also = {"partition": self.partition, "wall_clock": self.wall_clock}
            chosen = frame.select(
                F.struct(*map(column, self.sides.on)).alias("key"),
                F.col(TIME).alias("time"),
                F.struct(*map(column, self.arrival)).alias("arrival"),
                *(column(name).alias(new) for new, name in also.items() if name is not None),
                _skips(self.skipped).alias(_SKIPPED),
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
            value=None if row[_SKIPPED] else {},
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
        row = {new: other.get(old) for old, new in self.sides.added()}
        row |= {name: one.get(name) for name in self.sides.columns[0]}
        row |= {name: (one or other)[name] for name in self.sides.on}
        return {name: row[name] for name in names}


def _with_key(sides: Sides, side: str) -> DataFrame:
    frame = sides.left if side == LEFT else sides.right
    for name in sides.on:
        frame = frame.where(column(name).isNotNull())
    return frame


def _skips(predicate: str | None) -> Any:
    """Whether a row is a record without a value; never NULL."""
    read = predicate_text(predicate, field="skipped", example="payload IS NULL")
    return F.lit(False) if read is None else F.coalesce(F.expr(read), F.lit(False))


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    table: pa.Table = frame.toArrow()
    rows: list[dict[str, Any]] = table.to_pylist()
    for each in table.schema:
        for row in rows:
            row[each.name] = comparable(row[each.name], each.type)
    return rows


def _has_no_equality(type: T.DataType) -> bool:
    return "map<" in type.simpleString() or "variant" in type.simpleString()


def _check_has(side: str, columns: Collection[str], wanted: Sequence[str]) -> None:
    for name in wanted:
        if name not in columns:
            raise ColumnError(
                f"the {side} side has no such column",
                field="partition, wall_clock",
                value=name,
                way_out=did_you_mean(name, columns),
            )


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
