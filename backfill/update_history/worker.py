"""What Spark's workers do: they replay keys, and find the times that each key waits for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, localcontext
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow as pa

from backfill.columns import END, START, TIME
from backfill.errors import AggregateError
from backfill.replay import Aggregated, Event, replay
from backfill.replay.apart import Apart
from backfill.replay.forms import hashable
from backfill.replay.replaying import without_collection
from backfill.update_history.arrivals import (
    AFTER,
    BY,
    CLOCK,
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

#: About how many rows are replayed at once; they are of whole keys.
_ROWS = 50_000


def value_name(index: int) -> str:
    """What an aggregate's column is called between workers and the result."""
    return f"_value{index}"


class _Key(NamedTuple):
    """`same` is what rows of a key have in common, `own` its values as they are."""

    same: Any
    own: tuple[Any, ...]


#: An event, or a moment at which the clocks moved: its key, what it is sorted by, and the event
#: itself.
_Row = tuple[_Key, Any, Event]


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
        """Turns PARTITION, keys, TIME and any WALL of events into PARTITION, keys, DUE and BY."""
        tick = self.apart.engine.tick_us
        dues = self.apart.dues() if self.apart.ticks else lambda time: ()
        delays = self.apart.delays()
        for batch in batches:
            given = _columns(batch)
            at: dict[tuple[Any, ...], int] = {}
            keys = list(_keys(given, self.keys))
            for place, (key, time) in enumerate(zip(keys, given[TIME], strict=True)):
                for due in dues(time - time % tick):
                    at.setdefault((key.same, AFTER, due), place)
            for delay in delays:
                for place, (key, wall) in enumerate(zip(keys, given[WALL], strict=True)):
                    at.setdefault((key.same, WALL, wall - wall % tick + delay), place)
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
        fields: the fields that the aggregates are over.
        batches: the batches, if events come in batches.
    """

    apart: Apart
    settings: Mapping[str, Any]
    aggregates: Mapping[str, Aggregated]
    keys: tuple[str, ...]
    fields: tuple[str, ...]
    batches: Batches | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Turns rows in order of PARTITION, key and arrival into results, in order within a key."""
        parts = self._parts(batches)
        while True:
            # Otherwise the collector would repeatedly scan these many long-lived rows.
            with without_collection():
                part = next(parts, None)
            if part is None:
                return
            yield part

    def _parts(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: list[list[_Row]] = []
        count, schema = 0, None
        last: _Key | None = None
        own: list[_Row] = []
        for batch in batches:
            schema = batch.schema
            for row in self._rows(batch):
                key = row[0]
                if key is not last:
                    if last is None or key.same != last.same:
                        if count >= _ROWS:
                            yield self._replayed(held, schema)
                            held, count = [], 0
                        held.append(own := [])
                    last = key
                own.append(row)
                count += 1
        if schema is not None and held:
            yield self._replayed(held, schema)

    def _replayed(self, held: Sequence[Sequence[_Row]], schema: pa.Schema) -> pa.RecordBatch:
        parts = [held] if self.batches is None else [[group] for group in held]
        rows = [row for part in parts for row in self._results(part)]
        types = [
            *(schema.field(name).type for name in self.keys),
            *(pa.int64(), pa.int64(), pa.int64(), pa.int64(), pa.string(), pa.bool_()),
            *(schema.field(value_name(i)).type for i in range(len(self.aggregates))),
        ]
        names = [
            *self.keys,
            *(START, END, PLACE, NUMBER, OP, TAKES_BACK),
            *(value_name(i) for i in range(len(self.aggregates))),
        ]
        columns = list(zip(*rows, strict=True)) or [()] * len(types)
        own = {value_name(i): f"aggregates.{name}" for i, name in enumerate(self.aggregates)}
        return pa.RecordBatch.from_arrays(
            [
                _column(column, type, own.get(name, name))
                for column, type, name in zip(columns, types, names, strict=True)
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
        own = {key.same: key.own for (key, _, _), *_ in held}
        numbers = dict.fromkeys(own, 0)
        sent: dict[tuple[Any, int, int], tuple[Any, ...]] = {}
        for emission in made.emissions:
            numbers[emission.key] += 1
            place = emission.key, emission.start, emission.end
            takes_back = emission.values is None
            if emission.values is not None:
                sent[place] = tuple(emission.values[name] for name in self.aggregates)
            values = sent.get(place, (None,) * len(self.aggregates))
            result = emission.arrival, numbers[emission.key], emission.op, takes_back
            yield (*own[emission.key], emission.start, emission.end, *result, *values)

    def _events(self, held: Sequence[Sequence[_Row]]) -> tuple[list[Event], int | None]:
        if self.batches is not None:
            (rows,) = held
            return self._with_batches([event for _, _, event in rows], self.batches)
        rows = sorted((row for own in held for row in own), key=itemgetter(1))
        return [event for _, _, event in rows], None

    def _rows(self, batch: pa.RecordBatch) -> Iterable[_Row]:
        columns, count = _columns(batch), batch.num_rows
        passes = columns[PASSES]
        placed: Iterable[tuple[Any, int | None, int | None, int | None]]
        if self.batches is None:
            clocks = columns[CLOCK]
            if not self.apart.clocked:
                moved = zip(clocks, passes, strict=True)
                clocks = [clock if passed else None for clock, passed in moved]
            none = [None] * count
            placed = zip(columns[PARTITION], clocks, columns.get(WALL, none), none, strict=True)
        else:
            # A batch's number is twice its place, which leaves room for its end after it.
            places = [self.batches.place_of(batch_number) for batch_number in columns[BATCH]]
            before = self.batches.before
            placed = ((0, before[place], None, 2 * place) for place in places)
        values = _fields(columns, self.fields) or [{} for _ in range(count)]
        orders = columns[ORDER]
        if self.batches is None:
            # Numbers are compared faster than tuples.
            orders = [2 * order + passed for order, passed in zip(orders, passes, strict=True)]
        for key, order, time, arrival, passed, (partition, clock, wall, number), value in zip(
            _keys(columns, self.keys),
            orders,
            columns[TIME],
            columns[PLACE],
            passes,
            placed,
            values,
            strict=True,
        ):
            event = Event(
                key=key.same,
                time=time,
                arrival=arrival,
                value=value,
                partition=partition,
                batch=number,
                clock=clock,
                wall_clock=wall,
                passes=passed,
            )
            yield key, order, event

    def _with_batches(
        self, events: list[Event], batches: Batches
    ) -> tuple[list[Event], int | None]:
        """A key's events and the ends of batches at which something can happen to it."""
        key, dues, tick = events[0].key, self.apart.dues(), self.apart.engine.tick_us
        ended: set[int] = set()
        gone: set[int] = set()
        for event in events:
            assert event.batch is not None
            assert event.time is not None
            ended.add(event.batch)
            for due in dues(event.time - event.time % tick):
                reached = batches.reaching(due)
                if reached is not None:
                    gone.add(2 * reached)
        ends = [
            Event(
                key=key,
                time=None,
                arrival=batches.ends[number // 2],
                batch=number,
                clock=level,
                passes=True,
            )
            for number, level in [
                *((number, None) for number in ended),
                *((number + 1, batches.after[number // 2]) for number in gone),
            ]
        ]
        # They will be sorted by arrival again; those of equal arrival stay in this order.
        together = sorted([*events, *ends], key=lambda event: (event.batch or 0, event.passes))
        return together, batches.last


def _columns(batch: pa.RecordBatch) -> dict[str, list[Any]]:
    """Values as Python has them; times in UTC, since in a zone different ones can be equal."""
    return {
        name: (
            column.cast(pa.timestamp("us", "UTC")) if _is_instant(column.type) else column
        ).to_pylist()
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }


def _fields(columns: Mapping[str, Sequence[Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    """The values of each row by name; an empty list without columns."""
    if len(names) == 1:
        (name,) = names
        return [{name: value} for value in columns[name]]
    rows = zip(*(columns[field] for field in names), strict=True)
    return [dict(zip(names, values, strict=True)) for values in rows]


def _keys(columns: Mapping[str, Sequence[Any]], keys: Sequence[str]) -> Iterable[_Key]:
    """The key of each row."""
    known: dict[Any, _Key] = {}
    for values in zip(columns[PARTITION], *(columns[name] for name in keys), strict=True):
        try:
            key = known.get(values)
        except TypeError:  # a list or a struct
            key = None
        if key is None:
            same = (values[0], *(hashable(value) for value in values[1:]))
            key = known.setdefault(same, _Key(same, values[1:]))
        yield key


def _is_instant(type: pa.DataType) -> bool:
    return pa.types.is_timestamp(type) and type.tz is not None


def _column(values: Iterable[Any], type: pa.DataType, name: str) -> pa.Array:
    try:
        return pa.array([_fitting(value, type) for value in values], type)
    except (OverflowError, pa.ArrowInvalid) as error:
        raise AggregateError(
            f"a value is too large for the type {type}",
            field=name,
            way_out="Cast to a wider type first, such as decimal(38, 0)",
        ) from error


def _fitting(value: Any, type: pa.DataType) -> Any:
    """Decimals rounded as Spark rounds them."""
    if not isinstance(value, Decimal) or not pa.types.is_decimal(type):
        return value
    with localcontext() as context:
        context.prec = 2 * type.precision
        return value.quantize(Decimal(1).scaleb(-type.scale), ROUND_HALF_UP)
