"""What Spark's workers do: they replay keys, and say which times each key has to wait for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any, NamedTuple

import pyarrow as pa

from backfill.columns import END, START, TIME
from backfill.replay import Aggregated, Event, replay
from backfill.replay.apart import Apart
from backfill.replay.forms import hashable
from backfill.update_history.arrivals import (
    AFTER,
    BEFORE,
    BY,
    DUE,
    ORDER,
    PARTITION,
    PLACE,
    WALL,
)
from backfill.update_history.batches import Batches

#: A row that is not an event of its key, but moves the clocks.
PASSES = "_passes"
BATCH = "_batch"
#: Of results: the number within the key, what it is, and whether it takes one back.
NUMBER, OP, TAKES_BACK = "_number", "_op", "_takes_back"

#: So many rows are replayed at once, if they are of whole keys.
_ROWS = 50_000


def value_name(index: int) -> str:
    """What an aggregate's column is called between workers and the result."""
    return f"_value{index}"


class _Row(NamedTuple):
    """An event, or a moment at which the clocks moved.

    `key` is what rows of a key have in common, `own` its values as they are.
    """

    key: Any
    own: tuple[Any, ...]
    given: dict[str, Any]


@dataclass(frozen=True)
class Dues:
    """Finds the times that keys wait for; can be pickled.

    Attributes:
        apart: the operator.
        keys: the columns of the key.
    """

    apart: Apart
    keys: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """PARTITION, keys, TIME and WALL of events to PARTITION, keys, DUE and BY."""
        tick = self.apart.engine.tick_us
        dues = self.apart.dues() if self.apart.ticks else lambda time: ()
        delays = self.apart.delays()
        for batch in batches:
            at: dict[tuple[Any, ...], int] = {}
            for place, row in enumerate(_rows(batch, self.keys)):
                time, wall = row.given[TIME], row.given[WALL]
                for due in dues(time - time % tick):
                    at.setdefault((row.key, AFTER, due), place)
                for delay in delays:
                    at.setdefault((row.key, WALL, wall - wall % tick + delay), place)
            kept = batch.select([PARTITION, *self.keys]).take(pa.array(at.values(), pa.int64()))
            columns = [
                *kept.columns,
                pa.array([due for _, _, due in at], pa.int64()),
                pa.array([by for _, by, _ in at], pa.string()),
            ]
            yield pa.RecordBatch.from_arrays(columns, [*kept.schema.names, DUE, BY])


@dataclass(frozen=True)
class Replaying:
    """Replays keys; can be pickled.

    Attributes:
        apart: the operator.
        settings: the arguments of `replay`.
        aggregates: by name, over fields of the events.
        keys: the columns of the key.
        fields: what the aggregates are over.
        batches: where events come in batches.
    """

    apart: Apart
    settings: Mapping[str, Any]
    aggregates: Mapping[str, Aggregated]
    keys: tuple[str, ...]
    fields: tuple[str, ...]
    batches: Batches | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows in order of PARTITION, key and arrival to results, those of a key in order."""
        held: list[list[_Row]] = []
        count, schema = 0, None
        for batch in batches:
            schema = batch.schema
            for row in _rows(batch, self.keys):
                if not held or held[-1][0].key != row.key:
                    if count >= _ROWS:
                        yield self._replayed(held, schema)
                        held, count = [], 0
                    held.append([])
                held[-1].append(row)
                count += 1
        if schema is not None and held:
            yield self._replayed(held, schema)

    def _replayed(self, held: Sequence[Sequence[_Row]], schema: pa.Schema) -> pa.RecordBatch:
        parts = [held] if self.batches is None else [[each] for each in held]
        rows = [row for part in parts for row in self._results(part)]
        types = [
            *(schema.field(each).type for each in self.keys),
            *(pa.int64(), pa.int64(), pa.int64(), pa.int64(), pa.string(), pa.bool_()),
            *(schema.field(value_name(i)).type for i in range(len(self.aggregates))),
        ]
        names = [
            *self.keys,
            *(START, END, PLACE, NUMBER, OP, TAKES_BACK),
            *(value_name(i) for i in range(len(self.aggregates))),
        ]
        columns = list(zip(*rows, strict=True)) or [()] * len(types)
        return pa.RecordBatch.from_arrays(
            [
                pa.array([_fitting(value, type) for value in column], type)
                for column, type in zip(columns, types, strict=True)
            ],
            names,
        )

    def _results(self, held: Sequence[Sequence[_Row]]) -> Iterable[tuple[Any, ...]]:
        """The results of these keys."""
        events, end = self._events(held)
        made = replay(
            events,
            self.apart.window,
            engine=self.apart.engine,
            aggregates=self.aggregates,
            timezone=self.apart.zone,
            end_clock=end,
            **self.settings,
        )
        own = {rows[0].key: rows[0].own for rows in held}
        numbers = dict.fromkeys(own, 0)
        sent: dict[tuple[Any, int, int], tuple[Any, ...]] = {}
        for each in made.emissions:
            numbers[each.key] += 1
            place = each.key, each.start, each.end
            takes_back = each.values is None
            if each.values is not None:
                sent[place] = tuple(each.values[name] for name in self.aggregates)
            values = sent.get(place, (None,) * len(self.aggregates))
            result = each.arrival, numbers[each.key], each.op, takes_back
            yield (*own[each.key], each.start, each.end, *result, *values)

    def _events(self, held: Sequence[Sequence[_Row]]) -> tuple[list[Event], int | None]:
        if self.batches is not None:
            (rows,) = held
            return self._in_batches(rows, self.batches)
        rows = sorted(
            (row for own in held for row in own),
            key=lambda row: (row.given[ORDER], row.given[PASSES]),
        )
        return [self._event(row) for row in rows], None

    def _event(self, row: _Row) -> Event:
        given = row.given
        passes = given[PASSES]
        clocked = passes or self.apart.clocked
        return Event(
            key=row.key,
            time=given[TIME],
            arrival=given[PLACE],
            value={} if passes else {name: given[name] for name in self.fields},
            partition=given[PARTITION],
            clock=given[AFTER if passes else BEFORE] if clocked else None,
            wall_clock=given[WALL],
            passes=passes,
        )

    def _in_batches(self, rows: Sequence[_Row], batches: Batches) -> tuple[list[Event], int | None]:
        """A batch has twice its place as its number; after it there is room for its end."""
        key, dues, tick = rows[0].key, self.apart.dues(), self.apart.engine.tick_us
        events: list[Event] = []
        ended: set[int] = set()
        gone: set[int] = set()
        for row in rows:
            place = batches.place_of(row.given[BATCH])
            ended.add(place)
            time = row.given[TIME]
            for due in dues(time - time % tick):
                reached = batches.reaching(due)
                if reached is not None:
                    gone.add(reached)
            events.append(
                Event(
                    key=key,
                    time=time,
                    arrival=row.given[PLACE],
                    value={name: row.given[name] for name in self.fields},
                    batch=2 * place,
                    clock=batches.before[place],
                )
            )
        for place, level in [
            *((2 * each, None) for each in ended),
            *((2 * each + 1, batches.after[each]) for each in gone),
        ]:
            events.append(
                Event(
                    key=key,
                    time=None,
                    arrival=batches.ends[place // 2],
                    batch=place,
                    clock=level,
                    passes=True,
                )
            )
        # Sorted by arrival again, so those that are equal in it stay in this order.
        return sorted(events, key=lambda each: (each.batch or 0, each.passes)), batches.last


def _rows(batch: pa.RecordBatch, keys: Sequence[str]) -> Iterable[_Row]:
    """Rows as Python has them; times in UTC, since in a zone some compare as equal."""
    names = batch.schema.names
    columns = [
        (column.cast(pa.timestamp("us", "UTC")) if _is_instant(column.type) else column).to_pylist()
        for column in batch.columns
    ]
    own = [names.index(each) for each in keys]
    partition = names.index(PARTITION)
    for values in zip(*columns, strict=True):
        values_of_key = tuple(values[i] for i in own)
        key = (values[partition], *(hashable(each) for each in values_of_key))
        yield _Row(key, values_of_key, dict(zip(names, values, strict=True)))


def _is_instant(type: pa.DataType) -> bool:
    return pa.types.is_timestamp(type) and type.tz is not None


def _fitting(value: Any, type: pa.DataType) -> Any:
    """Decimals rounded as Spark rounds them."""
    if not isinstance(value, Decimal) or not pa.types.is_decimal(type):
        return value
    with localcontext() as context:
        context.prec = 2 * type.precision
        return value.quantize(Decimal(1).scaleb(-type.scale), ROUND_HALF_UP)
