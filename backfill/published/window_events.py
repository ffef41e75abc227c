"""The events of one published window, read from the job's source."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import and_
from typing import Any
from zoneinfo import ZoneInfo

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from backfill.columns import EVENT_TIME, HOLDS_FROM, REASON, TIME, column
from backfill.errors import ColumnError, JobFileError
from backfill.events.model import SOURCE
from backfill.frames.api import sessionize
from backfill.kinds import of_each_event, reach
from backfill.ledger.changed_inputs import counted_before
from backfill.operators.session import last_event
from backfill.planning.bots import people
from backfill.planning.context import Context
from backfill.time.dates import Dates
from backfill.time.instants import instant_us
from backfill.time.spans import Span, inside_span
from backfill.windows import (
    AnyWindow,
    JoinWindow,
    RollingWindow,
    SessionWindow,
    SlidingWindow,
    by_place,
    key_of,
)

_COPY = "_copy"


def events_in(context: Context, name: str, row: Mapping[str, Any]) -> DataFrame:
    """The events of a window, each once.

    Args:
        context: the job's context.
        name: the window's name.
        row: its key and times, as in the table.

    Returns:
        The source's rows, with the source's columns.

    Raises:
        JobFileError: in this kind of window, times do not determine the events.
        ColumnError: the row lacks a column.
    """
    spec = context.spec
    window = spec.windows[name].window
    _check_by_time(name, window)
    events = people(context, _counted(context, name)).events
    same = [column(key).eqNullSafe(F.lit(_given(row, key))) for key in key_of(window, spec.key)]
    own = _each_once(events.where(reduce(and_, same, F.lit(True))), context)
    if isinstance(window, SessionWindow) and window.has_rules:
        # Rules can cut between events of the same instant.
        sessions = sessionize(
            own.drop(REASON, TIME),
            window,
            key=spec.key,
            time=spec.time,
            arrival=context.rules.arrival,
            time_format=spec.time_format,
            timezone=spec.timezone,
            engine=spec.engine.name,
        )
        rows = sessions.where(F.col("session_id") == _given(row, "session_id"))
    else:
        low, high = _span(context, window, row)
        rows = own.where(inside_span(F.col(TIME), (low, high)))
    return rows.select(*map(column, context.source.frame.columns))


def _counted(context: Context, name: str) -> dict[str, Dates]:
    """The dates on which each input counts in a window's table; all if no bots are removed."""
    record = context.tables[name].record
    if context.spec.bots is None or record is None:
        return context.all_dates
    return {path: counted_before(record, path, file) for path, file in context.inputs.items()}


def _check_by_time(name: str, window: AnyWindow) -> None:
    why = None
    if isinstance(window, JoinWindow):
        why = "a join's row itself identifies its events, by their times and ids"
    elif by_place(window):
        why = "an event's place in the order, not its time, says which windows hold it"
    elif isinstance(window, SlidingWindow) and window.before:
        why = "the table does not say which events of the same instant came before"
    if why is not None:
        raise JobFileError(
            f"the events of such a window can't be looked up: {why}",
            field="window",
            value=name,
            way_out="Read the source by key, or use sessionize where windows are sessions",
        )


def _span(context: Context, window: AnyWindow, row: Mapping[str, Any]) -> Span:
    """The span of time of a window's events, [low, high), µs."""
    engine, zone = context.spec.engine, ZoneInfo(context.spec.timezone)
    rules = engine.rules_for(window)

    def at(name: str) -> int:
        return instant_us(_given(row, name), zone, option=name)

    if isinstance(window, RollingWindow):
        # Everything that any of the row's values covers.
        step = at(HOLDS_FROM)
        return step - window.longest_us, step
    if of_each_event(window):
        own = at(EVENT_TIME)
        return reach(window, engine).events((own, own + 1))
    start, end = at("window_start"), at("window_end")
    if isinstance(window, SessionWindow):
        return start, last_event(end, window, rules) + 1
    if isinstance(window, SlidingWindow):
        return start, end + 1
    return (start + 1, end + 1) if rules.closed == "right" else (start, end)


def _each_once(events: DataFrame, context: Context) -> DataFrame:
    """The events without copies: the copy that arrived first stays."""
    id = context.spec.id
    if id is None:
        return events
    same = map(column, dict.fromkeys([*context.spec.key, id]))
    copies = Over.partitionBy(*same, TIME).orderBy(*map(column, context.rules.arrival), SOURCE)
    first = events.withColumn(_COPY, F.row_number().over(copies))
    return first.where((F.col(_COPY) == 1) | column(id).isNull()).drop(_COPY)


def _given(row: Mapping[str, Any], name: str) -> Any:
    if name not in row:
        raise ColumnError("the row has no such column", field=name, value=", ".join(row))
    return row[name]
