"""From slices of events to windows, in the same way for `aggregate` and every job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill.aggregates.base import Aggregate
from backfill.aggregates.bound import Bound, running
from backfill.columns import (
    CHANGED,
    CLOSED,
    EVENTS,
    FIRST,
    LAST,
    LEFT_TIME,
    ORDINAL,
    RIGHT_TIME,
    START,
    TIME,
    any_given,
    column,
    key_name,
    sortable,
)
from backfill.engines import Engine
from backfill.kinds import Kind, kind_of, of_each_event
from backfill.operators.aligned import aligned, layout, takes_events
from backfill.operators.calendar import local_date
from backfill.operators.ruled_slices import ruled_slices, sessions_of
from backfill.operators.session import session_id, sessions
from backfill.operators.session_rules import Cutter, long_enough, rule_columns
from backfill.rows import slices as slicing
from backfill.rows.count_rows import count_rows
from backfill.rows.definition import Definition
from backfill.rows.event_rows import event_rows, with_own
from backfill.rows.join_rows import RIGHT_ID, join_rows
from backfill.rows.message_rows import message_rows
from backfill.rows.step_rows import metric_rows, slice_rows
from backfill.time.spans import EVERYTHING, Span
from backfill.windows import (
    AnyWindow,
    CountWindow,
    EventWindow,
    JoinWindow,
    MetricSlices,
    RollingWindow,
    SessionWindow,
    SlidingWindow,
    TableWindow,
    by_place,
    key_of,
)
from backfill.windows.join_window import LEFT, RIGHT
from backfill.windows.message_gaps import Messages


@dataclass(frozen=True)
class Key:
    """The key's columns, and their types."""

    names: tuple[str, ...]
    types: tuple[T.DataType, ...]

    @property
    def inner(self) -> list[str]:
        """The names of the columns between reading and publishing."""
        return [key_name(i) for i in range(len(self.names))]

    def named(self) -> list[Column]:
        """The key columns under their own names."""
        return [F.col(mine).alias(own) for mine, own in zip(self.inner, self.names, strict=True)]

    def session_id(self, start: Column, ordinal: Column | None = None) -> Column:
        """The id of the session of this key that starts there (µs).

        Args:
            start: its first event.
            ordinal: the number of sessions of the key before it that start there as well; None
                if there can be none.
        """
        values = [F.col(name) for name in self.inner]
        return session_id(list(zip(values, self.types, strict=True)), start, ordinal)


@dataclass(frozen=True)
class Sliced:
    """The slices of a job's events, and what is needed to build its windows from them.

    Attributes:
        last: the column of a slice's last event.
        events: the events themselves, each once, for windows around single events, by number and
            by offset; None where there are no such windows.
        id: the name of the events' id.
        arrival: the columns of `events` that give the order of arrival.
        count: how many events there are; None if they have not been counted.
        dimensions: the columns of `events` that hold dimensions of metrics, and what joins look at,
            by their names.
        sides: the columns of `events` that say whether an event is on a join's side, by predicate.
        singles: the single events for each session with rules: the columns of slices, those of the
            rules, and the aggregates' inputs. Lazy, and read only when such a session is built.
    """

    frame: DataFrame
    key: Key
    engine: Engine
    zone: str
    bound: Mapping[Aggregate, Bound]
    last: str = LAST
    events: DataFrame | None = None
    id: str | None = None
    arrival: tuple[str, ...] = ()
    count: int | None = None
    dimensions: Mapping[str, str] = field(default_factory=dict)
    sides: Mapping[str, str] = field(default_factory=dict)
    singles: Mapping[AnyWindow, DataFrame] = field(default_factory=dict)

    def of(self, definition: Definition) -> Sliced:
        """The same slices, with the key that the rows of a definition have.

        For a metric, only with the events that have one of its dimensions; for a join, only with
        those that are on one of its sides.
        """
        if isinstance(definition.window, RollingWindow):
            return self._by_dimensions(definition.window.by)
        if isinstance(definition.window, JoinWindow):
            assert self.events is not None
            events = self.events.where(self.usable(definition.window))
            return replace(self, events=events, count=None)
        names = key_of(definition.window, self.key.names)
        return replace(self, key=Key(names, self.key.types[: len(names)]))

    def usable(self, window: TableWindow) -> Column:
        """Whether an event has one of a metric's dimensions, or is on a side of a join.

        If there are no dimensions, this is true of every event.
        """
        if isinstance(window, JoinWindow):
            return F.col(self.sides[window.left]) | F.col(self.sides[window.right])
        return any_given([self._inner[dimension] for dimension in window.by])

    @property
    def _inner(self) -> dict[str, str]:
        """The columns of `events` that hold the key and dimensions."""
        return {**dict(zip(self.key.names, self.key.inner, strict=True)), **self.dimensions}

    def _by_dimensions(self, by: tuple[str, ...]) -> Sliced:
        assert self.events is not None
        own = [self._inner[dimension] for dimension in by]
        kept = [name for name in self.events.columns if name not in self._inner.values()]
        events = self.events.where(any_given(own)).select(
            *(F.col(name).alias(key_name(i)) for i, name in enumerate(own)), *kept
        )
        key = Key(by, tuple(events.schema[key_name(i)].dataType for i in range(len(by))))
        return replace(self, key=key, events=events, count=None, dimensions={})

    def by_key(self) -> Sliced:
        """The same slices, each key in one partition in order of time, once for all windows.

        Sessions then exchange and sort nothing. Groups of ordered rows come out in order, so they
        are sorted in little time when they are written.
        """
        keyed = slicing.together(self.frame, self.key.inner)
        return replace(self, frame=keyed.sortWithinPartitions(*self.key.inner, FIRST))

    def joined(self, others: Iterable[Sliced]) -> Sliced:
        """These slices and others of the same job, as one."""
        frame, singles = self.frame, dict(self.singles)
        for other in others:
            frame = frame.unionByName(other.frame.select(*self.frame.columns))
            for window in singles:
                singles[window] = singles[window].unionByName(other.singles[window])
        return replace(self, frame=frame, singles=singles)

    def takes_events(self, definition: Definition) -> bool:
        """Whether its windows can be built just as well from slices of single events."""
        own, window = self._bound(definition), definition.window
        if isinstance(window, EventWindow | TableWindow) or running(own) is None:
            return False
        if definition.of_events:
            return False
        if isinstance(window, SessionWindow):
            return True
        return takes_events(layout(window, self.engine, self.zone), own)

    def build(
        self, definition: Definition, wanted: Span = EVERYTHING, kept: DataFrame | None = None
    ) -> Built:
        """Merges the slices into one definition's windows, or computes its rows from events.

        Args:
            definition: the definition of the windows.
            wanted: where the wanted rows are, µs, which saves work for metrics. There can be other
                rows.
            kept: published slices of further events, for a metric: the key, END, and the states.
        """
        window = definition.window
        own = self._bound(definition)
        if isinstance(window, RollingWindow):
            return self._metric(window, definition, own, wanted, kept)
        if isinstance(window, JoinWindow):
            return self._join(window, definition)
        if isinstance(window, SlidingWindow):
            merged = self._rows(window, own)
        elif isinstance(window, CountWindow) or by_place(window):
            return self._placed(definition, own)
        elif isinstance(window, SessionWindow) and window.has_rules:
            singles = self.singles[window]
            cut = ruled_slices(singles, window, self.key.inner, own, self.zone)
            merged = sessions_of(cut, singles, self._cutter(window, singles), own)
        elif isinstance(window, SessionWindow):
            rules = self.engine.rules_for(window)
            merged = sessions(self.frame, window, rules, self.key.inner, own, last=self.last)
        else:
            where = layout(window, self.engine, self.zone)
            merged = aligned(self.frame, where, self.key.inner, own)
        return Built(merged, definition, self)

    def _placed(self, definition: Definition, aggregates: list[Bound]) -> Built:
        assert self.events is not None
        window, sliced = definition.window, self.of(definition)
        keys = sliced.key.inner
        if isinstance(window, SessionWindow):
            assert isinstance(window.gap, Messages)
            events, gap = self.events, window.gap
            rows = message_rows(events, gap, keys, aggregates, arrival=self.arrival)
            return Built(rows, definition, sliced)
        assert isinstance(window, CountWindow)
        rows = count_rows(
            self.events,
            window,
            keys,
            aggregates,
            arrival=self.arrival,
            ties=ties(self.key, self.id),
            engine=self.engine,
            count=self.count,
        )
        return Built(rows, definition, sliced)

    def _metric(
        self,
        window: RollingWindow,
        definition: Definition,
        aggregates: list[Bound],
        wanted: Span,
        kept: DataFrame | None,
    ) -> Built:
        # A single aggregate, for all windows.
        [aggregate] = aggregates
        sliced, names = self.of(definition), list(definition.aggregates)
        assert sliced.events is not None
        keys = sliced.key.inner
        inputs = [] if aggregate.input is None else [aggregate.input]
        events = sliced.events.select(*keys, TIME, *self.arrival, *inputs)
        if isinstance(window, MetricSlices):
            [name] = names
            rows = slice_rows(events, window, name, keys, aggregate, arrival=self.arrival)
        else:
            rows = metric_rows(
                events,
                window,
                names,
                keys,
                aggregate,
                arrival=self.arrival,
                wanted=wanted,
                kept=kept,
            )
        return Built(rows, definition, sliced)

    def _join(self, window: JoinWindow, definition: Definition) -> Built:
        sliced = self.of(definition)
        assert sliced.events is not None
        rows = join_rows(
            sliced.events,
            window,
            sliced.key.inner,
            sides=(self.sides[window.left], self.sides[window.right]),
            columns={name: self._inner[name] for name in window.looked_at},
            arrival=self.arrival,
        )
        return Built(rows, definition, sliced)

    def _rows(self, window: SlidingWindow, aggregates: list[Bound]) -> DataFrame:
        assert self.events is not None
        keys = self.key.inner
        rows = event_rows(
            self.events,
            window,
            keys,
            aggregates,
            arrival=self.arrival,
            also=[slicing.ID] if self.id is not None and of_each_event(window) else [],
            engine=self.engine,
        )
        return with_own(rows, self.events, window, keys, self.engine)

    def bound_for(self, definition: Definition) -> dict[Aggregate, Bound]:
        """The definition's aggregates, as its window computes them."""
        bindings = {
            aggregate: self.bound[aggregate] for aggregate in definition.aggregates.values()
        }
        if isinstance(definition.window, SlidingWindow | RollingWindow):
            return {aggregate: binding.sliding() for aggregate, binding in bindings.items()}
        return bindings

    def _cutter(self, window: SessionWindow, singles: DataFrame) -> Cutter:
        fields = singles.schema.fields
        # Events that are alike to the rules are ordered by the aggregates' inputs.
        ties = [
            struct_field.name for struct_field in fields if struct_field.name.startswith("_arrival")
        ]
        ties += rule_columns(window)
        ties += [
            struct_field.name
            for struct_field in fields
            if struct_field.name[:3] == "_in" and sortable(struct_field.dataType)
        ]
        rules = self.engine.rules_for(window)
        return Cutter(window, rules, self.key.inner, self.zone, [F.col(tie) for tie in ties])

    def _bound(self, definition: Definition) -> list[Bound]:
        return list(self.bound_for(definition).values())


@dataclass(frozen=True)
class Built:
    """One definition's windows: key, start, end, number of events and merged states."""

    frame: DataFrame
    definition: Definition
    sliced: Sliced

    @property
    def kind(self) -> Kind:
        """The kind of the windows."""
        return kind_of(self.definition.window, self.sliced.engine, self.sliced.zone)

    def result(self) -> DataFrame:
        """Key, [session_id,] columns that say when the window is, [id,] the aggregates by name."""
        return self.published().select(*self._result_columns())

    def published(self) -> DataFrame:
        """The windows without those that a rule drops, and without rows that are only computed."""
        window = self.definition.window
        if isinstance(window, SessionWindow) and window.drops:
            return self.frame.where(long_enough(window))
        return self.frame.where(CHANGED) if self.definition.blanks else self.frame

    def table(self, horizon: int) -> DataFrame:
        """The rows of a table: the result, is_open, `_events`, kept states, the date.

        Args:
            horizon: the largest event time in the snapshot, in µs.
        """
        # Rows that are computed from events are never merged.
        merged = not self.definition.of_events
        kept = [
            state
            for name, aggregate in (self.definition.aggregates.items() if merged else ())
            for state in self.sliced.bound[aggregate].kept(name)
        ]
        return self.published().select(
            *self._result_columns(),
            self.kind.is_open(horizon).alias("is_open"),
            *dict.fromkeys([EVENTS, self.kind.held]),
            *kept,
            *([F.col(CLOSED)] if CLOSED in self.frame.columns else []),
            local_date(F.col(START), self.sliced.zone).alias("date"),
        )

    def _result_columns(self) -> list[Column]:
        window, id = self.definition.window, self.sliced.id
        if isinstance(window, JoinWindow):
            return [*self.sliced.key.named(), *self._of_pair(window)]
        bound = self.sliced.bound_for(self.definition)
        ids = []
        if isinstance(window, SessionWindow) and self.definition.of_events:
            ids = [F.col("session_id")]
        elif isinstance(window, SessionWindow):
            ordinal = F.col(ORDINAL) if window.has_rules else None
            ids = [self.sliced.key.session_id(F.col(START), ordinal).alias("session_id")]
        own = []
        if id is not None and id not in self.sliced.key.names and of_each_event(window):
            own = [F.col(slicing.ID).alias(id)]
        aggregates = self.definition.aggregates
        values = [bound[aggregate].finish(name) for name, aggregate in aggregates.items()]
        if self.definition.steps:
            # The states of several windows would get in each other's way.
            values = [column(name) for name in aggregates]
        return [*self.sliced.key.named(), *ids, *self.kind.reported(), *own, *values]

    def _of_pair(self, window: JoinWindow) -> list[Column]:
        """The columns of a join's row besides the key."""
        id = self.sliced.id
        given = {
            (LEFT, "time"): F.timestamp_micros(LEFT_TIME),
            (RIGHT, "time"): F.timestamp_micros(RIGHT_TIME),
            (LEFT, "id"): F.col(slicing.ID),
            (RIGHT, "id"): F.col(RIGHT_ID),
        }
        own = window.own_columns(None if id in self.sliced.key.names else id)
        return [
            *self.kind.reported(),
            *(given[origin].alias(name) for name, origin in own.items()),
            *map(column, window.columns),
        ]


def ties(key: Key, id: str | None) -> list[str]:
    """The columns that order events of equal times and arrivals, for windows by number."""
    return [*key.inner, *([] if id is None else [slicing.ID])]
