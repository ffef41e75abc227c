"""What a window's table is measured by: which rows break a check, counted in one pass by date."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from backfill.columns import END, EVENTS, START, column
from backfill.compute import Definition, bounds
from backfill.engines import Engine
from backfill.operators.aligned import layout
from backfill.operators.calendar import local_date
from backfill.operators.session import breaks
from backfill.windows import SessionWindow

_BEFORE = "_before"


@dataclass(frozen=True)
class Counts:
    """Rows of a date.

    Attributes:
        rows: windows.
        events: the sum of their numbers of events.
    """

    rows: int
    events: int

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.rows + other.rows, self.events + other.events)


@dataclass(frozen=True)
class Measured:
    """What one pass over a table's rows tells.

    Attributes:
        flagged: the rows with a column of truth values for each check, named as the check.
        broken: how many rows break each check, by its name.
        dates: what is there of each date.
    """

    flagged: DataFrame
    broken: Mapping[str, int]
    dates: Mapping[dt.date, Counts]

    @property
    def events(self) -> int:
        """The sum of the windows' numbers of events."""
        return sum(each.events for each in self.dates.values())


@dataclass(frozen=True)
class WindowRules:
    """What the rows of a window's table have to be like.

    Attributes:
        definition: of the window.
        key: the key's columns.
        engine: whose conventions its bounds follow.
        zone: of its dates.
    """

    definition: Definition
    key: tuple[str, ...]
    engine: Engine
    zone: str

    def flagged(self, rows: DataFrame) -> DataFrame:
        """Rows of the table with a column of truth values for each check: whether they break it.

        They are sorted by key and start for it.
        """
        start, end = bounds(self.definition, self.engine)
        in_order = Over.partitionBy(*map(column, self.key)).orderBy(START, END)
        return (
            rows.withColumns({START: start, END: end})
            .withColumn(_BEFORE, F.lag(F.struct(START, END)).over(in_order))
            .withColumns(
                {_flag(name): F.coalesce(each, F.lit(True)) for name, each in self._flags()}
            )
        )

    def checks(self) -> list[str]:
        """The names of the checks."""
        return [name for name, _ in self._flags()]

    def examples(self, measured: Measured, check: str, most: int) -> list[dict[str, object]]:
        """Rows that break a check."""
        names = [each for each in measured.flagged.columns if not each.startswith("_")]
        rows = measured.flagged.where(_flag(check)).select(*map(column, [*names, EVENTS]))
        return [row.asDict(recursive=True) for row in rows.limit(most).collect()]

    def _flags(self) -> list[tuple[str, Column]]:
        """For each check whether a row breaks it; NULL where that can't be told, so it does."""
        start, end, before = F.col(START), F.col(END), F.col(_BEFORE)
        window = self.definition.window
        backwards = (
            F.col("window_end") < F.col("window_start")
            if isinstance(window, SessionWindow)
            else end <= start
        )
        misplaced = local_date(start, self.zone) != F.col("date")
        bad = F.coalesce(backwards | misplaced, F.lit(True))
        again = F.coalesce(
            reduce(and_, [before[each] == F.col(each) for each in (START, END)]), F.lit(False)
        )
        flags = [("bounds", bad), ("counts", F.col(EVENTS) < 1), ("unique", again)]
        if isinstance(window, SessionWindow):
            rules = self.engine.rules_for(window)
            near = ~breaks(start, before[END], window.gap.us, rules)
            # A row that is there twice breaks one check, not two.
            return [*flags, ("gap", near & ~again)]
        where = layout(window, self.engine, self.zone)
        return [*flags, ("size", ~bad & ~where.is_one(start, end))]


def measure(tables: Mapping[str, tuple[WindowRules, DataFrame]]) -> dict[str, Measured]:
    """Looks at rows of several tables, at once."""
    if not tables:
        return {}
    flagged = {name: rules.flagged(rows) for name, (rules, rows) in tables.items()}
    parts = [
        flagged[name]
        .groupBy("date")
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.sum(EVENTS).alias("events"),
            F.array(*(F.count_if(_flag(each)) for each in rules.checks())).alias("broken"),
        )
        .withColumn("table", F.lit(name))
        for name, (rules, _) in tables.items()
    ]
    found = reduce(DataFrame.unionByName, parts).collect()
    measured = {}
    for name, (rules, _) in tables.items():
        own = [row for row in found if row["table"] == name]
        broken = {
            each: sum(row["broken"][i] for row in own) for i, each in enumerate(rules.checks())
        }
        dates = {row["date"]: Counts(row["rows"], row["events"] or 0) for row in own}
        measured[name] = Measured(flagged[name], broken, dates)
    return measured


def _flag(check: str) -> str:
    return f"_breaks_{check}"
