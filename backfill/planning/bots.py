"""Bots in jobs: their events are not a person's, so they are quarantined instead of counted.

The rules judge a session, by their own gap, or a day of a key. So whether an event is a bot's
depends only on its key, its time, and the events of the same session and of the sessions of the
same day.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Protocol

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.columns import FIRST, LAST, REASON, TIME, column
from backfill.errors import TableError
from backfill.ledger.reader import events_of, events_within
from backfill.ledger.state import QUARANTINE, State
from backfill.operators.bots import with_bots
from backfill.planning.computed import computed_with
from backfill.planning.context import Context
from backfill.planning.replaced_windows import sent
from backfill.planning.time_spans import dates_between, dates_of_span
from backfill.planning.whole_sessions import (
    bots_key,
    dates_of_extents,
    key_and_time,
    whole_sessions,
)
from backfill.rows.compute import Key
from backfill.spec import JobSpec
from backfill.time.dates import ALL, Dates
from backfill.time.spans import EVERYTHING, Span, inside_span, within
from backfill.windows import SessionWindow

#: The column of a rule's name.
BOT = "_bot"


class _Read(Protocol):
    def __call__(self, dates: Dates, inside: Span = EVERYTHING, /) -> DataFrame: ...


@dataclass(frozen=True)
class People:
    """The events of a span without those of bots.

    Attributes:
        events: normalised and usable.
        bots: key (inner names), time and rule of what was left out; None: nothing was.
        span: the span, [low, high) in µs.
    """

    events: DataFrame
    bots: DataFrame | None
    span: Span


def judged(context: Context, rows: DataFrame, name: str = REASON) -> DataFrame:
    """The rows, with the rule's name as the reason of bots' events.

    Args:
        context: the run's context.
        rows: normalised; all rows of the sessions and days that they belong to, since these decide
            what is a bot's.
        name: another column for the rule's name, which is NULL if an event is a person's.
    """
    spec = context.spec
    if spec.bots is None:
        return rows
    marked = with_bots(
        rows,
        spec.bots,
        key=spec.key,
        zone=spec.timezone,
        rules=spec.engine.rules_for(SessionWindow(gap=spec.bots.gap)),
        id=spec.id,
        name=BOT,
    )
    if name != REASON:
        return marked.withColumnRenamed(BOT, name)
    return marked.withColumn(REASON, F.coalesce(REASON, BOT)).drop(BOT)


def people(
    context: Context,
    counted: Mapping[str, Dates],
    span: Span = EVERYTHING,
    wanted: tuple[Key, DataFrame] | None = None,
    known: People | None = None,
) -> People:
    """The events of a span, as `Reader.events` gives them, without those of bots.

    Args:
        context: the run's context.
        counted: the dates on which each input counts.
        span: [low, high), µs.
        wanted: only the events of these keys; bots' sessions have the same key, or a longer one.
        known: people of at least these keys, with the same `counted`: who is a bot in their span
            is not judged again.
    """

    def read(dates: Dates, inside: Span = EVERYTHING) -> DataFrame:
        events = context.reader.events(on_dates(counted, dates), inside)
        return events if wanted is None else events_of(events, *wanted)

    events = read(ALL, span)
    zone = context.spec.timezone
    dates = dates_of_span(span, zone)
    if context.spec.bots is None or not dates:
        return People(events, None, span)
    key = bots_key(context)
    if known is not None and within(span, known.span):
        if known.bots is None:
            return People(events, None, span)
        theirs = known.bots.where(inside_span(F.col(TIME), span))
        return People(without(events, theirs, key), theirs, span)
    rows = read(dates)
    low, high = context.reader.limits(list(context.inputs))
    possible = ALL if low is None or high is None else dates_between(low, high, zone)
    if possible - dates:
        rows = rows.unionByName(_beyond(context, read, dates))
    named = judged(context, rows, BOT)
    inside = F.col(BOT).isNotNull() & inside_span(F.col(TIME), span)
    bots, seen = computed_with(
        key_and_time(named.where(inside), key, F.col(BOT)).distinct(),
        F.count(F.lit(1)).alias("bots"),
    )
    if not seen["bots"]:
        return People(events, None, span)
    bots = sent(bots, seen["bots"])
    return People(without(events, bots, key), bots, span)


def people_within(
    context: Context,
    counted: Mapping[str, Dates],
    span: Span,
    key: Key,
    windows: DataFrame,
    known: People | None = None,
) -> DataFrame:
    """The events from the start to the end of some windows, without those of bots.

    Args:
        context: the run's context.
        counted: the dates on which each input counts.
        span: the span that the windows are in, [low, high) in µs.
        key: the windows' key.
        windows: the inner key columns, start and end, both inclusive.
        known: as for `people`.
    """
    if context.spec.bots is None:
        return events_within(context.reader.events(counted, span), key, windows)
    traffic = people(context, counted, span, (key, windows.select(*key.inner)), known)
    return events_within(traffic.events, key, windows)


def near_edges(context: Context, counted: Mapping[str, Dates], dates: Dates) -> Dates:
    """The dates of sessions that come near one of the edges of a range of dates, from outside.

    Args:
        context: the run's context.
        counted: the dates on which each input counts.
        dates: one range.
    """
    zone = context.spec.timezone

    def read(dates: Dates, inside: Span = EVERYTHING) -> DataFrame:
        return context.reader.events(on_dates(counted, dates), inside)

    assert context.spec.bots is not None
    gap = context.spec.bots.gap.us
    ((low, high),) = dates.spans(zone)
    assert low is not None
    assert high is not None
    near = read(ALL, (low - gap - 1, low)).unionByName(read(ALL, (high, high + gap + 1)))
    points = _points(near, bots_key(context))
    return dates_of_extents(whole_sessions(context, read, points, None), zone)


def _beyond(context: Context, read: _Read, dates: Dates) -> DataFrame:
    """The events outside some dates, of sessions that reach over the edges of these dates."""
    assert context.spec.bots is not None
    zone, gap, key = context.spec.timezone, context.spec.bots.gap.us, bots_key(context)
    ((low, high),) = dates.spans(zone)
    near = []
    if low is not None:
        near.append(read(dates, (low, low + gap + 1)))
    if high is not None:
        near.append(read(dates, (high - gap - 1, high)))
    points = _points(reduce(DataFrame.unionByName, near), key)
    extents = whole_sessions(context, read, points, dates)
    outside = dates_of_extents(extents, zone) - dates
    return events_within(read(outside), key, extents)


def _points(events: DataFrame, key: Key) -> DataFrame:
    """Key and time of events as spans."""
    at = F.col(TIME)
    return key_and_time(events, key, at.alias(FIRST), at.alias(LAST))


def without(events: DataFrame, bots: DataFrame, key: Key) -> DataFrame:
    """The events that are not among those of bots (key, under inner names, and time)."""
    return _joined(events, bots, key, "left_anti")


def named(events: DataFrame, bots: DataFrame, key: Key) -> DataFrame:
    """The events of bots among these, with the rule's name as their reason."""
    matches = _joined(events, bots, key, "inner")
    return matches.withColumn(REASON, F.col(f"_their{BOT}")).select(*map(column, events.columns))


def _joined(events: DataFrame, bots: DataFrame, key: Key, how: str) -> DataFrame:
    theirs = bots.select(*(F.col(name).alias(f"_their{name}") for name in bots.columns))
    same = [
        column(name).eqNullSafe(F.col(f"_their{inner}"))
        for name, inner in zip(key.names, key.inner, strict=True)
    ]
    return events.join(theirs, reduce(and_, same, F.col(TIME) == F.col(f"_their{TIME}")), how)


def reasons(spec: JobSpec) -> list[str]:
    """The reasons in the quarantine that are names of rules for bots: good rows, not wanted."""
    return [] if spec.bots is None else [rule.name for rule in spec.bots.rules]


def on_dates(counted: Mapping[str, Dates], dates: Dates) -> dict[str, Dates]:
    """The dates on which inputs count, restricted to these dates."""
    return {path: days & dates for path, days in counted.items()}


def mark(spec: JobSpec, records: Iterable[dict[str, object] | None]) -> str | None:
    """A digest of what the tables have counted, which the quarantine's bots must be in step with.

    Args:
        spec: the job.
        records: the records of the windows' tables, as they are stored.

    Returns:
        None for a job without rules for bots.
    """
    if spec.bots is None:
        return None
    known = [_counted(record) for record in records if record is not None]
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:32]


def _counted(record: dict[str, object]) -> object:
    inputs = record["inputs"]
    assert isinstance(inputs, dict)
    return [record["covered"], {path: (fields[2], fields[4]) for path, fields in inputs.items()}]


def in_step(context: Context) -> bool:
    """Whether the quarantine has the bots of what the tables have counted.

    It does not if a run was killed before it published the quarantine, the last of its tables, or
    if some tables were restored and others were not.
    """
    state = context.tables[QUARANTINE]
    known = None if state.record is None else state.record.bots
    return known == mark(context.spec, map(_record, tables_of(context)))


def tables_of(context: Context) -> list[State]:
    """The windows' tables."""
    return [context.tables[name] for name in context.spec.windows]


def _record(state: State) -> dict[str, object] | None:
    return None if state.table is None else state.table.record


def check_not_streamed(spec: JobSpec, what: str) -> None:
    """Refuses what would need to judge bots the way a stream does.

    Whether an event is a bot's can depend on events that come after it; a streaming operator has
    emitted windows with it by then.

    Args:
        spec: the job.
        what: what is asked for.

    Raises:
        TableError: the job has rules for bots.
    """
    if spec.bots is not None:
        raise TableError(
            f"rules for bots look at events that come later, so {what} is not possible with them",
            field="events.bots",
            way_out="Use runs (backfill run JOB, backfill recompute JOB), or a job file without "
            "events.bots",
        )
