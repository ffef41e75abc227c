"""Who is a bot once further events count: among these, and among events counted before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill.columns import END, FIRST, LAST, REASON, START, TIME
from backfill.ledger.reader import events_of, events_within
from backfill.operators.calendar import Clock, day_number
from backfill.planning.bots import BOT, judged, on_dates
from backfill.planning.computed import computed_with
from backfill.planning.context import Context
from backfill.planning.whole_sessions import (
    bots_key,
    dates_of_extents,
    key_and_time,
    whole_sessions,
)
from backfill.time.dates import Dates
from backfill.time.durations import Calendar

_COUNTED, _BEFORE, _NOW, _ON = "_counted", "_before", "_now", "_on"


@dataclass(frozen=True)
class JudgedAnew:
    """The new events, and the events counted before that they cause to be judged differently.

    Attributes:
        frame: rows as they were read, whether they were counted before, and the rules by which they
            were and are bots'; NULL if they are a person's.
        late: how many rows are new.
        late_bots: how many of these are of bots.
        became: how many rows that were counted before are of bots now, but were not then.
        ceased: how many were of bots then, but are not now.
        gone: how many rows cannot stay in the quarantine as they are.
        first: the least time of a new event, µs; None if there is none.
        last: the largest one.
    """

    frame: DataFrame
    late: int
    late_bots: int
    became: int
    ceased: int
    gone: int
    first: int | None
    last: int | None

    @property
    def went(self) -> DataFrame:
        """Events that were counted in windows, and are of bots now."""
        return self._rows(_became())

    @property
    def came(self) -> DataFrame:
        """Events that were of bots, and are counted in windows now."""
        return self._rows(_ceased())

    @property
    def moved(self) -> DataFrame:
        """Both of these: events that were counted before, and that windows gain or lose."""
        return self._rows(_became() | _ceased())

    @property
    def leaving(self) -> DataFrame:
        """Rows that cannot stay in the quarantine as they are."""
        return self._rows(_otherwise())

    @property
    def coming(self) -> DataFrame:
        """Rows that the quarantine lacks, with the rule as their reason."""
        new = (~F.col(_COUNTED) | _otherwise()) & F.col(_NOW).isNotNull()
        rows = self.frame.where(new).withColumn(REASON, F.col(_NOW))
        return rows.drop(_COUNTED, _BEFORE, _NOW)

    def bots(self, context: Context) -> DataFrame:
        """Key (inner names), time and rule of what is a bot's now."""
        rows = self.frame.where(F.col(_NOW).isNotNull())
        return key_and_time(rows, bots_key(context), F.col(_NOW).alias(BOT)).distinct()

    @property
    def late_rows(self) -> DataFrame:
        """The new rows of bots, with the rule as their reason."""
        new = ~F.col(_COUNTED) & F.col(_NOW).isNotNull()
        return self.frame.where(new).withColumn(REASON, F.col(_NOW))

    def _rows(self, which: Column) -> DataFrame:
        return self.frame.where(which).drop(_COUNTED, _BEFORE, _NOW)


def judged_anew(
    context: Context, before: Mapping[str, Dates], new: Mapping[str, Dates]
) -> JudgedAnew:
    """Judges the sessions that new events belong to, and their days if a rule removes days.

    Nothing else can be judged differently than before: a session without a new event is what it
    was, and a day is judged by the sessions that have events on it.

    Args:
        context: the run's context.
        before: the dates on which each input counted before.
        new: the further dates on which it counts now.
    """
    spec, key = context.spec, bots_key(context)
    assert spec.bots is not None

    def read(dates: Dates) -> DataFrame:
        known = context.reader.events(on_dates(before, dates))
        others = context.reader.events(on_dates(new, dates))
        return known.withColumn(_COUNTED, F.lit(True)).unionByName(
            others.withColumn(_COUNTED, F.lit(False))
        )

    at = F.col(TIME)
    points = key_and_time(context.reader.events(new), key, at.alias(FIRST), at.alias(LAST))
    touched = whole_sessions(context, read, points, None)
    extents = touched
    by_day = any(rule.remove == "day" for rule in spec.bots.rules)
    if by_day:
        # All sessions of these days.
        clock = Clock(Calendar(1, "day"), spec.timezone)
        first = clock.start(clock.cut(F.col(START)))
        last = clock.start(clock.cut(F.col(END)) + 1) - 1
        days = touched.select(*key.inner, first.alias(FIRST), last.alias(LAST))
        extents = whole_sessions(context, read, days, None)
    rows = events_within(read(dates_of_extents(extents, spec.timezone)), key, extents)
    now = judged(context, rows, _NOW)
    were = judged(context, now.where(_COUNTED), _BEFORE)
    every = were.unionByName(
        now.where(~F.col(_COUNTED)).withColumn(_BEFORE, F.lit(None).cast("string"))
    )
    changed = every.where(~F.col(_COUNTED) | _otherwise())
    if by_day:
        # Other events of such a session were read, but the rest of their days was not.
        on = (day_number(F.col(name), spec.timezone).alias(name) for name in (START, END))
        inside = F.col(_ON).between(F.col(f"_wanted{START}"), F.col(f"_wanted{END}"))
        placed = changed.withColumn(_ON, day_number(F.col(TIME), spec.timezone))
        changed = events_of(placed, key, touched.select(*key.inner, *on), inside).drop(_ON)
    frame, seen = computed_with(
        changed,
        F.count_if(~F.col(_COUNTED)).alias("late"),
        F.count_if(~F.col(_COUNTED) & F.col(_NOW).isNotNull()).alias("late_bots"),
        F.count_if(_became()).alias("became"),
        F.count_if(_ceased()).alias("ceased"),
        F.count_if(_otherwise()).alias("gone"),
        F.min(F.when(~F.col(_COUNTED), F.col(TIME))).alias("first"),
        F.max(F.when(~F.col(_COUNTED), F.col(TIME))).alias("last"),
    )
    times = {name: seen[name] for name in ("first", "last")}
    numbers = {name: value or 0 for name, value in seen.items() if name not in times}
    return JudgedAnew(frame, **numbers, **times)


def _otherwise() -> Column:
    return F.col(_COUNTED) & ~F.col(_BEFORE).eqNullSafe(F.col(_NOW))


def _became() -> Column:
    return F.col(_COUNTED) & F.col(_BEFORE).isNull() & F.col(_NOW).isNotNull()


def _ceased() -> Column:
    return F.col(_COUNTED) & F.col(_BEFORE).isNotNull() & F.col(_NOW).isNull()
