"""The sessions that rules for bots look at, followed until each is whole."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill.columns import END, EVENTS, FIRST, LAST, START, TIME, column, key_name
from backfill.ledger.reader import events_of
from backfill.operators.calendar import day_number
from backfill.operators.session import sessions
from backfill.planning.computed import computed_with
from backfill.planning.context import Context
from backfill.rows.compute import Key
from backfill.runtimes.differences import computed_once, stacked
from backfill.time.dates import DAY, Dates, date_of
from backfill.windows import SessionWindow

_EPOCH = dt.date(1970, 1, 1)
_OURS, _FROM, _TO, _WANTED_FROM, _WANTED_TO = "_ours", "_from", "_to", "_low", "_high"
_UNTIL, _SINCE, _ON = "_until", "_since", "_on"
#: No date has such a number.
_FAR = 1 << 40

_LONGS = "array<bigint>"

#: Reads the events of some dates.
ReadDates = Callable[[Dates], DataFrame]


def bots_key(context: Context) -> Key:
    """The key of the sessions that rules for bots look at."""
    types = {field.name: field.dataType for field in context.source.frame.schema.fields}
    names = tuple(context.spec.key)
    return Key(names, tuple(types[name] for name in names))


def whole_sessions(
    context: Context, read: ReadDates, spans: DataFrame, known: Dates | None
) -> DataFrame:
    """Follows sessions outward, by their keys, until no event beyond can belong to them.

    Only the days that a session is open to are read, and on these only its own key.

    Args:
        context: the run's context.
        read: reads all events of some dates.
        spans: key, FIRST and LAST (µs) of what must come out whole.
        known: one range of dates, for which `spans` has all that sessions beyond it can depend on;
            None: nothing else is known.

    Returns:
        Key, first and last event (START, END) of each session.
    """
    spec = context.spec
    assert spec.bots is not None
    window = SessionWindow(gap=spec.bots.gap)
    rules, key = spec.engine.rules_for(window), bots_key(context)
    keys, gap = key.inner, spec.bots.gap.us
    zone = spec.timezone
    least, most = (
        None if limit is None else _number(date_of(limit, zone))
        for limit in context.reader.limits(list(context.inputs))
    )
    low = day_number(F.col(START) - gap - 1, zone)
    high = day_number(F.col(END) + gap + 1, zone)
    wanted = {
        _WANTED_FROM: low if least is None else F.greatest(low, _long(least)),
        _WANTED_TO: high if most is None else F.least(high, _long(most)),
    }
    first, last = (_FAR, -_FAR) if known is None else _ends(known)
    open_ = spans.select(*keys, FIRST, LAST, _long(first).alias(_FROM), _long(last).alias(_TO))
    whole: list[DataFrame] = []
    points: list[DataFrame] = []
    further = 0
    while True:
        rows = open_.withColumn(_OURS, F.lit(1))
        for frame in points:
            rows = stacked(rows, frame)
        joined = sessions(
            rows.withColumn(EVENTS, F.lit(0).cast("bigint")),
            window,
            rules,
            keys,
            [],
            overlapping=True,
            also=[
                F.max(_OURS).alias(_OURS),
                F.min(_FROM).alias(_FROM),
                F.max(_TO).alias(_TO),
            ],
        )
        is_open = (F.col(_WANTED_FROM) < F.col(_FROM)) | (F.col(_WANTED_TO) > F.col(_TO))
        # Without `further`, a session of months would be followed one day at a time.
        before = F.least(F.col(_FROM), F.col(_WANTED_FROM) - further)
        after = F.greatest(F.col(_TO), F.col(_WANTED_TO) + further)
        until, since = F.least(F.col(_FROM) - 1, after), F.greatest(F.col(_TO) + 1, before)
        days = F.when(is_open, _days((before, until), (since, after)))
        ours, seen = computed_with(
            joined.where(F.col(_OURS) == 1)
            .select(*keys, START, END, _FROM, _TO)
            .withColumns(wanted),
            F.collect_set(days).alias("days"),
        )
        whole.append(ours.where(~is_open).select(*keys, START, END))
        dates = dates_of_numbers(day for numbers in seen["days"] for day in numbers)
        if not dates:
            return reduce(DataFrame.unionByName, whole)
        still = ours.where(is_open).select(
            *keys,
            F.col(START).alias(FIRST),
            F.col(END).alias(LAST),
            before.alias(_FROM),
            until.alias(_UNTIL),
            since.alias(_SINCE),
            after.alias(_TO),
        )
        events = key_and_time(read(dates), key, day_number(F.col(TIME), zone).alias(_ON))
        there = F.col(_ON).between(_wanted(_FROM), _wanted(_UNTIL)) | F.col(_ON).between(
            _wanted(_SINCE), _wanted(_TO)
        )
        sides = still.select(*keys, _FROM, _UNTIL, _SINCE, _TO)
        near = events_of(events, Key(tuple(keys), key.types), sides, there)
        at = F.col(TIME)
        points.append(computed_once(near.select(*keys, at.alias(FIRST), at.alias(LAST))))
        open_ = still.select(*keys, FIRST, LAST, _FROM, _TO)
        further = 2 * further + 1


def key_and_time(events: DataFrame, key: Key, *others: Column) -> DataFrame:
    """The key (inner names) and time of events."""
    own = (column(name).alias(key_name(i)) for i, name in enumerate(key.names))
    return events.select(*own, TIME, *others)


def dates_of_extents(extents: DataFrame, zone: str) -> Dates:
    """The dates that extents (START, END) reach over."""
    low, high = (day_number(F.col(name), zone) for name in (START, END))
    rows = extents.select(F.explode(F.sequence(low, high))).distinct().collect()
    return dates_of_numbers(row[0] for row in rows)


def _days(*spans: tuple[Column, Column]) -> Column:
    """All days that lie in spans, both ends inclusive."""
    none = F.array().cast(_LONGS)
    return F.concat(*(F.when(a <= b, F.sequence(a, b)).otherwise(none) for a, b in spans))


def _long(number: int) -> Column:
    return F.lit(number).cast("bigint")


def _wanted(name: str) -> Column:
    """The column as `events_of` calls it."""
    return F.col(f"_wanted{name}")


def dates_of_numbers(numbers: Iterable[int]) -> Dates:
    """The dates that have these day numbers, counted from 1970."""
    days = [_EPOCH + dt.timedelta(days=number) for number in numbers]
    return Dates.of((day, day + DAY) for day in days)


def _number(date: dt.date) -> int:
    return (date - _EPOCH).days


def _ends(dates: Dates) -> tuple[int, int]:
    """The first and the last day of one range; for a side without a bound, a number far off."""
    ((low, high),) = dates.ranges
    return (
        -_FAR if low == dt.date.min else _number(low),
        _FAR if high == dt.date.max else _number(high) - 1,
    )
