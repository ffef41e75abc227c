"""Measures of a window's table: the rows that break each check, counted by date in one pass."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import chain
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from backfill.columns import END, EVENTS, FIRST_EVENT, LAST_EVENT, START, column
from backfill.engines import Engine
from backfill.kinds import Kind, kind_of, of_each_event
from backfill.kinds.standing import StepRows
from backfill.operators.aligned import layout
from backfill.operators.calendar import local_date
from backfill.operators.grids import floor_to
from backfill.operators.session import breaks
from backfill.operators.session_rules import long_enough
from backfill.rows.definition import Definition
from backfill.time.durations import Fixed
from backfill.windows import (
    CountWindow,
    JoinWindow,
    RollingWindow,
    SessionWindow,
    SlidingWindow,
    TableWindow,
    by_place,
)
from backfill.windows.join_window import LEFT, RIGHT

#: Checks that compare a row with the one before it: rows are sorted for them.
_UNIQUE, _GAP = "unique", "gap"
_START_BEFORE = "_start_before"
_END_BEFORE = "_end_before"
_ID_BEFORE = "_id_before"
#: The columns that identify the events of a join's row, as a struct.
_PAIR = "_pair"


@dataclass(frozen=True)
class Counts:
    """The rows of a date, counted.

    Attributes:
        rows: the number of windows.
        events: the sum of their numbers of events.
        held: the sum that must equal the number of events, each as often as it is counted.
    """

    rows: int
    events: int
    held: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.rows + other.rows, self.events + other.events, self.held + other.held)


@dataclass(frozen=True)
class Measured:
    """What one pass over a table's rows finds.

    Attributes:
        flagged: the rows with a column of truth values for each check, named after the check.
        broken: how many rows break each check, by its name.
        dates: the counts of each date.
    """

    flagged: DataFrame
    broken: Mapping[str, int]
    dates: Mapping[dt.date, Counts]

    @property
    def held(self) -> int:
        """How many events the windows hold, each as often as it is counted."""
        return sum(counts.held for counts in self.dates.values())


@dataclass(frozen=True)
class WindowRules:
    """The rules for the rows of a window's table.

    Attributes:
        definition: the window's definition.
        key: the key's columns.
        engine: the engine whose conventions the window's bounds follow.
        zone: the time zone of the dates.
        id: the column of the events' id, if the job has one.
    """

    definition: Definition
    key: tuple[str, ...]
    engine: Engine
    zone: str
    id: str | None = None

    @property
    def kind(self) -> Kind:
        """The kind of the window."""
        return kind_of(self.definition.window, self.engine, self.zone)

    @property
    def _identified(self) -> bool:
        """Whether several sessions of a key can have the same bounds; their ids differ."""
        window = self.definition.window
        return isinstance(window, SessionWindow) and (window.has_rules or by_place(window))

    @property
    def _pair(self) -> list[str]:
        """The columns that identify the events of a join's row; empty if events have no id."""
        window = self.definition.window
        if not isinstance(window, JoinWindow) or self.id is None or self.id in self.key:
            return []
        return list(window.own_columns(self.id))

    def flagged(self, rows: DataFrame) -> DataFrame:
        """Adds to the table's rows a boolean column for each check: whether they break it.

        The rows are sorted by key and start for this.
        """
        start, end = self.kind.bounds()
        before = {_START_BEFORE: START, _END_BEFORE: END}
        if self.id is not None and of_each_event(self.definition.window):
            # Events at the same time with the same id are one.
            before[_ID_BEFORE] = self.id
        elif self._pair:
            # Rows of one instant each have another pair of events.
            rows = rows.withColumn(_PAIR, F.struct(*map(column, self._pair)))
            before[_ID_BEFORE] = _PAIR
        elif self._identified:
            before[_ID_BEFORE] = "session_id"
        group = [*self.key]
        if isinstance(self.definition.window, CountWindow):
            # Several can end at one instant. Besides, no task then has all rows of the stream.
            group.append(LAST_EVENT)
        in_order = Over.partitionBy(*map(column, group)).orderBy(*map(column, before.values()))
        return (
            rows.withColumns({START: start, END: end})
            # Columns, not a struct of them: a struct would be carried through the sort as well.
            .withColumns(
                {name: F.lag(column(source)).over(in_order) for name, source in before.items()}
            )
            .withColumns(
                {_flag(name): F.coalesce(broken, F.lit(True)) for name, broken in self._flags()}
            )
        )

    def checks(self) -> list[str]:
        """The names of the checks."""
        return [name for name, _ in self._flags()]

    def examples(self, measured: Measured, check: str, most: int) -> list[dict[str, object]]:
        """Rows that break a check."""
        names = [name for name in measured.flagged.columns if not name.startswith("_")]
        rows = measured.flagged.where(_flag(check)).select(*map(column, [*names, EVENTS]))
        return [row.asDict(recursive=True) for row in rows.limit(most).collect()]

    def _flags(self) -> list[tuple[str, Column]]:
        """For each check whether a row breaks it; NULL, where that is unknown, counts as broken."""
        start, end = F.col(START), F.col(END)
        window = self.definition.window
        backwards = end <= start
        if isinstance(window, SessionWindow | CountWindow):
            backwards = F.col("window_end") < F.col("window_start")
        elif of_each_event(window) or isinstance(window, TableWindow):
            backwards = start.isNull()
        misplaced = local_date(start, self.zone) != F.col("date")
        bad = F.coalesce(backwards | misplaced, F.lit(True))
        again = F.coalesce(
            (F.col(_START_BEFORE) == start) & (F.col(_END_BEFORE) == end), F.lit(False)
        )
        if of_each_event(window):
            # Without an id column, or with a NULL id, equal events of one time have equal rows.
            known = F.lit(False) if self.id is None else column(self.id) == F.col(_ID_BEFORE)
            again = again & F.coalesce(known, F.lit(False))
        elif isinstance(window, JoinWindow):
            again = again & self._pair_again()
        elif self._identified:
            again = again & (F.col(_ID_BEFORE) == F.col("session_id"))
        if isinstance(window, SessionWindow) and not by_place(window):
            bad = bad | _beyond_limits(window, start, end)
        left_out = isinstance(window, SlidingWindow) and window.before
        least = 0 if left_out or isinstance(window, RollingWindow) else 1
        flags = [("bounds", bad), ("counts", F.col(EVENTS) < least), (_UNIQUE, again)]
        if isinstance(window, CountWindow):
            return [*flags, ("size", ~_has_its_numbers(window))]
        if isinstance(window, SessionWindow) and not by_place(window):
            rules = self.engine.rules_for(window)
            near = ~breaks(start, F.col(_END_BEFORE), window.gap.us, rules)
            if window.has_rules:
                # Rules cut where there is no gap, but sessions never overlap.
                near = F.coalesce(start < F.col(_END_BEFORE), F.lit(False))
            # A row that is there twice breaks one check, not two.
            return [*flags, (_GAP, near & ~again)]
        kind = self.kind
        if isinstance(kind, StepRows):
            return [*flags, ("size", ~kind.is_step(start))]
        if self.definition.of_events:
            return flags
        assert not isinstance(window, SessionWindow | SlidingWindow | TableWindow)
        where = layout(window, self.engine, self.zone)
        return [*flags, ("size", ~bad & ~where.is_one(start, end))]

    def _pair_again(self) -> Column:
        """Whether the row before is of the same events, as far as these have ids."""
        if not self._pair:
            return F.lit(False)
        window = self.definition.window
        assert isinstance(window, JoinWindow)
        given = {place: name for name, place in window.own_columns(self.id).items()}
        # A row without a partner has no time of it; an event without an id can be there twice.
        known = [F.lit(True)]
        for side in (LEFT, RIGHT):
            if (side, "id") in given:
                has_id = column(given[side, "id"]).isNotNull()
                time = given.get((side, "time"))
                known.append(has_id if time is None else has_id | column(time).isNull())
        return reduce(and_, known) & F.col(_ID_BEFORE).eqNullSafe(F.col(_PAIR))


def _has_its_numbers(window: CountWindow) -> Column:
    """Whether a count window has the events from its first to its last number, as it should."""
    first, last = F.col(FIRST_EVENT), F.col(LAST_EVENT)
    held = last - first + 1
    # A window up to a time also holds later events of that time.
    timed = isinstance(window.size, Fixed)
    right = (first >= 1) & (F.col(EVENTS) >= held if timed else F.col(EVENTS) == held)
    if isinstance(window.size, int) and isinstance(window.advance, int):
        end = -floor_to(-last, window.advance, 0)
        right &= first == F.greatest(end - window.size + 1, F.lit(1))
    return right


def _beyond_limits(window: SessionWindow, start: Column, end: Column) -> Column:
    """Whether a session is longer, or shorter, than its rules allow."""
    beyond = F.lit(False)
    if window.longest_us is not None:
        beyond |= end - start > window.longest_us
    if window.max_events is not None:
        beyond |= F.col(EVENTS) > window.max_events
    return beyond | ~long_enough(window)


@dataclass(frozen=True, kw_only=True)
class Look:
    """What to measure in a table.

    Attributes:
        rules: the rules for its rows.
        rows: the table's rows.
        beside: all rows of some keys: only these are compared with the row before them, which
            saves sorting all rows. None: all rows are.
    """

    rules: WindowRules
    rows: DataFrame
    beside: DataFrame | None = None

    @cached_property
    def flagged(self) -> DataFrame:
        """All rows, with the checks that they break."""
        return self.rules.flagged(self.rows)

    def counts(self, table: str) -> DataFrame:
        """By date, the number of rows, of their events, and of rows that break each check."""
        checks = self.rules.checks()
        total = F.count(F.lit(1)), F.sum(EVENTS), F.sum(self.rules.kind.held)
        if self.beside is None:
            return _counts(table, self.flagged, checks, *total)
        alone = [check for check in checks if check not in (_UNIQUE, _GAP)]
        paired = [check for check in checks if check in (_UNIQUE, _GAP)]
        none = [F.lit(0).cast("bigint")] * len(total)
        # If nothing asks for the row before, Spark sorts nothing.
        return _counts(table, self.flagged, alone, *total).unionByName(
            _counts(table, self.rules.flagged(self.beside), paired, *none)
        )


def measure(tables: Mapping[str, Look]) -> dict[str, Measured]:
    """Measures the rows of several tables at once."""
    if not tables:
        return {}
    totals = reduce(
        DataFrame.unionByName, [look.counts(name) for name, look in tables.items()]
    ).collect()
    measured = {}
    for name, look in tables.items():
        own = [row for row in totals if row["table"] == name]
        broken = dict.fromkeys(look.rules.checks(), 0)
        dates: dict[dt.date, Counts] = {}
        for row in own:
            counts = Counts(row["rows"], row["events"] or 0, row["held"] or 0)
            dates[row["date"]] = dates.get(row["date"], Counts(0, 0)) + counts
            for check, rows in row["broken"].items():
                broken[check] += rows
        measured[name] = Measured(look.flagged, broken, dates)
    return measured


def _counts(
    table: str,
    flagged: DataFrame,
    checks: Sequence[str],
    rows: Column,
    events: Column,
    held: Column,
) -> DataFrame:
    broken = [(F.lit(check), F.count_if(_flag(check))) for check in checks]
    return flagged.groupBy("date").agg(
        F.lit(table).alias("table"),
        rows.alias("rows"),
        events.alias("events"),
        held.alias("held"),
        F.create_map(*chain.from_iterable(broken)).alias("broken"),
    )


def _flag(check: str) -> str:
    return f"_breaks_{check}"
