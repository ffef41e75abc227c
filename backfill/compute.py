"""From usable events to windows: the one way that `aggregate` and every job take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill import slices as slicing
from backfill.aggregates.base import Aggregate
from backfill.aggregates.bound import Bound, bind, running
from backfill.columns import END, EVENTS, FIRST, LAST, RESERVED, START, TIME, column, key_name
from backfill.engines import Engine
from backfill.errors import AggregateError
from backfill.operators.aligned import aligned, layout, takes_events
from backfill.operators.calendar import local_date
from backfill.operators.grids import Cutting, Grid, fewest
from backfill.operators.session import (
    last_event,
    reported_end,
    session_id,
    session_is_open,
    sessions,
)
from backfill.windows import SessionWindow, Window


@dataclass(frozen=True)
class Definition:
    """A window of a job, and its aggregates by the names of their columns."""

    window: Window
    aggregates: Mapping[str, Aggregate]

    @property
    def mergeable(self) -> bool:
        """Late events can be merged into published windows without the events of these."""
        return all(each.mergeable for each in self.aggregates.values())


@dataclass(frozen=True)
class Key:
    """The key's columns, and their types."""

    names: tuple[str, ...]
    types: tuple[T.DataType, ...]

    @property
    def inner(self) -> list[str]:
        """The names that they go by between reading and publishing."""
        return [key_name(i) for i in range(len(self.names))]

    def named(self) -> list[Column]:
        """The key columns under their own names."""
        return [F.col(mine).alias(own) for mine, own in zip(self.inner, self.names, strict=True)]

    def session_id(self, start: Column) -> Column:
        """The id of the session of this key that starts there (µs)."""
        values = [F.col(each) for each in self.inner]
        return session_id(list(zip(values, self.types, strict=True)), start)


@dataclass(frozen=True)
class Sliced:
    """The slices of a job's events, and what is needed to build its windows from them.

    Attributes:
        last: the column of a slice's last event.
    """

    frame: DataFrame
    key: Key
    engine: Engine
    zone: str
    bound: Mapping[Aggregate, Bound]
    last: str = LAST

    def by_key(self) -> Sliced:
        """The same, each key in one partition and in order of time, once for all windows.

        Sessions then exchange and sort nothing; and groups of rows in order come out in order,
        which are sorted in little time when they are written.
        """
        keyed = slicing.together(self.frame, self.key.inner)
        return replace(self, frame=keyed.sortWithinPartitions(*self.key.inner, FIRST))

    def takes_events(self, definition: Definition) -> bool:
        """Whether its windows are built from single events as well as from slices of more."""
        own = self._bound(definition)
        return running(own) is not None and (
            isinstance(definition.window, SessionWindow)
            or _takes_events(definition.window, self.engine, self.zone, own)
        )

    def build(self, definition: Definition) -> Built:
        """Merges the slices into one definition's windows."""
        window = definition.window
        own = self._bound(definition)
        if isinstance(window, SessionWindow):
            rules = self.engine.rules_for(window)
            merged = sessions(self.frame, window, rules, self.key.inner, own, last=self.last)
        else:
            where = layout(window, self.engine, self.zone)
            merged = aligned(self.frame, where, self.key.inner, own)
        return Built(merged, definition, self)

    def _bound(self, definition: Definition) -> list[Bound]:
        return [self.bound[each] for each in dict.fromkeys(definition.aggregates.values())]


@dataclass(frozen=True)
class Built:
    """One definition's windows: key, start, end, number of events and merged states."""

    frame: DataFrame
    definition: Definition
    sliced: Sliced

    def result(self) -> DataFrame:
        """Key, [session_id,] window_start, window_end, and the aggregates by name."""
        return self.frame.select(*self._result_columns())

    def table(self, horizon: int) -> DataFrame:
        """What a table holds: the result, is_open, `_events`, states that are kept, the date.

        Args:
            horizon: the largest event time in the snapshot, in µs.
        """
        kept = [
            state
            for name, each in self.definition.aggregates.items()
            for state in self.sliced.bound[each].kept(name)
        ]
        return self.frame.select(
            *self._result_columns(),
            self._is_open(horizon).alias("is_open"),
            F.col(EVENTS),
            *kept,
            local_date(F.col(START), self.sliced.zone).alias("date"),
        )

    def _result_columns(self) -> list[Column]:
        window, end = self.definition.window, F.col(END)
        ids = []
        if isinstance(window, SessionWindow):
            end = reported_end(end, window, self.sliced.engine.rules_for(window))
            ids = [self.sliced.key.session_id(F.col(START)).alias("session_id")]
        return [
            *self.sliced.key.named(),
            *ids,
            F.timestamp_micros(START).alias("window_start"),
            F.timestamp_micros(end).alias("window_end"),
            *(
                self.sliced.bound[each].finish(name)
                for name, each in self.definition.aggregates.items()
            ),
        ]

    def _is_open(self, horizon: int) -> Column:
        window, engine = self.definition.window, self.sliced.engine
        if isinstance(window, SessionWindow):
            return session_is_open(F.col(END), window, engine.rules_for(window), horizon)
        return layout(window, engine, self.sliced.zone).is_open(F.col(END), horizon)


def bounds(window: Window, engine: Engine) -> tuple[Column, Column]:
    """The start, and the last event of a session or the end of an aligned window; µs."""
    start, end = F.unix_micros("window_start"), F.unix_micros("window_end")
    if isinstance(window, SessionWindow):
        end = last_event(end, window, engine.rules_for(window))
    return start, end


def slice_events(
    events: DataFrame,
    definitions: Sequence[Definition],
    *,
    key: Sequence[str],
    engine: Engine,
    zone: str,
    id: str | None,
    arrival: Sequence[str],
    combine: bool | None = True,
) -> Sliced:
    """Cuts usable events into the slices that all the definitions are built from.

    Args:
        events: normalised events (with `_time`), without those that can't be used.
        definitions: the windows of one job.
        key: the key's columns; none for one group.
        engine: whose rules hold.
        zone: for calendar windows and dates.
        id: rows with equal key, time and id are one event.
        arrival: columns that give the order of arrival.
        combine: put the events of a slice together first; if not, each is a slice by itself,
            where all aggregates have states of a single event; None: as the only window asks.

    Raises:
        AggregateError: if an aggregate does not fit the events, or its name is taken.
        WindowError: if the engine refuses a window.
    """
    for each in definitions:
        check_names(each.aggregates, key)
    columns = [
        *(column(name).alias(key_name(i)) for i, name in enumerate(key)),
        F.col(TIME),
        *([column(id).alias(slicing.ID)] if id else []),
        *(column(name).alias(f"_arrival{i}") for i, name in enumerate(arrival)),
    ]
    wanted = [each for definition in definitions for each in definition.aggregates.values()]
    frame, bound = bind(events, columns, wanted, len(arrival))
    types = {field.name: field.dataType for field in frame.schema.fields}
    keys = Key(tuple(key), tuple(types[key_name(i)] for i in range(len(key))))
    aggregates = list(bound.values())
    if combine is None:
        combine = id is not None or not _takes_events(
            definitions[0].window, engine, zone, aggregates
        )
    if not combine and running(aggregates) is not None:
        states = [state for each in aggregates for state in each.lift()]
        single = slicing.apart(frame, keys=keys.inner, states=states, deduplicate=id is not None)
        return Sliced(single, keys, engine, zone, bound, last=FIRST)
    sliced = slicing.cut(
        frame,
        keys=keys.inner,
        cuttings=cuttings(definitions, engine, zone),
        aggregates=aggregates,
        deduplicate=id is not None,
    )
    return Sliced(sliced, keys, engine, zone, bound)


def _takes_events(window: Window, engine: Engine, zone: str, aggregates: Sequence[Bound]) -> bool:
    if isinstance(window, SessionWindow):
        return False
    return takes_events(layout(window, engine, zone), aggregates)


def cuttings(definitions: Sequence[Definition], engine: Engine, zone: str) -> list[Cutting]:
    """The fewest grids that serve all the definitions."""
    every = [
        layout(each.window, engine, zone).cutting()
        for each in definitions
        if not isinstance(each.window, SessionWindow)
    ]
    gaps = [each.window.gap.us for each in definitions if isinstance(each.window, SessionWindow)]
    grids = fewest((each for each in every if isinstance(each, Grid)), gaps)
    return [*grids, *(each for each in every if not isinstance(each, Grid))]


def check_names(aggregates: Iterable[str], key: Sequence[str]) -> None:
    """Raises AggregateError where a result would have two columns of one name."""
    for name in aggregates:
        if name in RESERVED or name in key or name.startswith("_"):
            raise AggregateError(
                "the name is reserved for the result's own columns",
                field="aggregates",
                value=name,
                way_out="Choose another name, not beginning with an underscore",
            )
