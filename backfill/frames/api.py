"""The functions for notebooks: DataFrame in, DataFrame out.

In the examples, `spark` is a session such as `backfill.spark.session()`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from backfill.aggregates.base import Aggregate
from backfill.bot_rules import BotRule, Bots
from backfill.columns import (
    END,
    EVENTS,
    FIRST,
    ORDINAL,
    REASON,
    START,
    TIME,
    arrival_of,
    column,
    key_name,
    names_of,
    set_aside,
    sortable,
)
from backfill.engines import Engine, Rules
from backfill.engines import engine as engine_named
from backfill.errors import ColumnError, WindowError
from backfill.events import EventRules, normalise
from backfill.frames.arguments import check_frame, check_window, given_aggregates
from backfill.frames.count_windows import count
from backfill.frames.cutting import slice_events
from backfill.frames.event_windows import slide
from backfill.frames.message_sessions import message_sessions
from backfill.operators.bots import with_bots
from backfill.operators.rule_inputs import rule_inputs
from backfill.operators.session import reported_end
from backfill.operators.session_rules import ROW, SESSION, Cutter, long_enough, rule_columns
from backfill.rows.compute import Key
from backfill.rows.definition import Definition
from backfill.rows.fitting import check_distinct_columns
from backfill.windows import CountWindow, EventWindow, SessionWindow, Window
from backfill.windows.message_gaps import Messages

_ADDED = (
    "session_id",
    "session_start",
    "session_end",
    "session_seq",
    "event_seq",
    "is_entry",
    "is_exit",
    "seconds_to_next",
    "session_share",
    "seq_from_end",
)
_KEPT = "_kept"
_BOT = "bot"


def aggregate(
    events: DataFrame,
    window: Window | EventWindow,
    *,
    key: str | Sequence[str],
    time: str,
    aggregates: Mapping[str, Aggregate | str],
    id: str | None = None,
    arrival: str | Sequence[str] | None = None,
    time_format: str | None = None,
    timezone: str = "UTC",
    engine: str = "plain",
    combine: bool | None = None,
) -> DataFrame:
    """Returns one row for each key and window that contains an event.

    For a sliding window that is one row for each event, for a count window one row for every
    `advance` events.

    The result is lazy, like any DataFrame. Rows with an unusable key or time are left out (a job
    quarantines them).

    Args:
        events: any DataFrame.
        window: such as `SessionWindow(gap="30m")`.
        key: one or more columns; an empty list for one group of all events.
        time: the event time: a timestamp with or without zone, a date, or with `time_format` a
            string or a number.
        aggregates: the result's columns by name, from `backfill.aggregates`, or as a job file has
            them: "sum(amount) where paid".
        id: rows with equal key, time and id are one event and count once; rows with a NULL id are
            never duplicates. If copies differ, the smallest by arrival, then by the aggregates'
            inputs, counts.
        arrival: the column or columns that order events with equal times.
        time_format: iso, epoch_s, epoch_ms, epoch_us, or a Spark pattern.
        timezone: for times without a zone and for calendar windows.
        engine: the engine whose conventions apply: plain, kafka-streams, spark, flink, beam, storm
            or samza.
        combine: whether nearby events of a key are combined before the shuffle (a combiner, as in
            MapReduce; Flink's two-phase aggregation). This changes the running time, never the
            result. The default is to combine where the window benefits, as sessions do. False
            helps if sessions have about one event each, fewer than 1.5 per gap length: it takes
            0.6 times as long at 1 event, the same at 2, and 1.5 times as long at 5; a key with
            half of all events then becomes one large task. The data is not sampled here; a job
            takes a sample. Aggregates whose state is not a plain sum, minimum or maximum
            (variance, lists, sketches) are always combined. Not allowed for sliding and count
            windows, nor for sessions with rules.

    Returns:
        The key columns, for sessions `session_id`, then `window_start` and `window_end`
        (timestamps), and the aggregates by name. For a sliding window the key columns,
        `event_time`, the id if there is one, and the aggregates; if its windows are `distinct`,
        the key columns, `window_start`, `window_end` and the aggregates. For a count window the key
        columns (none for windows over the whole stream), `window_start` and `window_end` (the least
        and the largest event time in it), `first_event` and `last_event` (the numbers of its first
        and last event, from 1) and the aggregates.

    Raises:
        ColumnError: if a column is missing or has an unsuitable type, or two columns of the result
            would have the same name.
        AggregateError: if an aggregate does not fit the events.
        WindowError: if the engine does not allow the window.
        JobFileError: if the time zone or the engine does not exist.
        SetupError: if the session's runtime is not Spark, and may not compute this exactly.

    Example:
        >>> from backfill import SessionWindow, aggregates as agg
        >>> clicks = spark.sql(
        ...     "SELECT * FROM VALUES ('a', '2026-01-10T10:00:00Z', 2),"
        ...     "('a', '2026-01-10T10:20:00Z', 3), ('a', '2026-01-10T12:00:00Z', 4)"
        ...     "AS t(user, at, amount)"
        ... )
        >>> sessions = aggregate(
        ...     clicks,
        ...     SessionWindow(gap="30m"),
        ...     key="user",
        ...     time="at",
        ...     time_format="iso",
        ...     aggregates={"events": agg.count(), "revenue": agg.sum("amount")},
        ... )
        >>> sorted((row.user, row.events, row.revenue) for row in sessions.collect())
        [('a', 1, 4), ('a', 2, 5)]
    """
    check_frame(events)
    check_window(window, example="SessionWindow(gap='30m')")
    aggregates = given_aggregates(aggregates)
    rules = engine_named(engine)
    names = names_of(key, field="key")
    arrived = arrival_of(arrival)
    usable = _normalised(
        events, rules, names, time, time_format, timezone, id=id, arrival=arrived
    ).where(F.col(REASON).isNull())
    definition = Definition(window, aggregates)
    if combine is not None and (definition.ruled or isinstance(window, EventWindow)):
        what = "sliding windows and count windows"
        if definition.ruled:
            what = "sessions with rules, which look at single events"
        raise WindowError(
            f"has no meaning for {what}",
            field="combine",
            value=combine,
            way_out="Leave it out",
        )
    if isinstance(window, CountWindow):
        made = count(usable, window, aggregates, key=names, engine=rules, id=id, arrival=arrived)
    elif isinstance(window, EventWindow):
        made = slide(usable, window, aggregates, key=names, engine=rules, id=id, arrival=arrived)
    elif isinstance(window, SessionWindow) and isinstance(window.gap, Messages):
        made = message_sessions(usable, window, aggregates, key=names, id=id, arrival=arrived)
    else:
        sliced = slice_events(
            usable,
            [definition],
            key=names,
            engine=rules,
            zone=timezone,
            id=id,
            arrival=arrived,
            combine=combine,
        )
        made = sliced.build(definition).result()
    check_distinct_columns(made, names, id)
    return made


def sessionize(
    events: DataFrame,
    window: SessionWindow,
    *,
    key: str | Sequence[str],
    time: str,
    arrival: str | Sequence[str] | None = None,
    time_format: str | None = None,
    timezone: str = "UTC",
    engine: str = "plain",
) -> DataFrame:
    """Returns every event once, with the session that it belongs to.

    Events of a key are ordered by time, arrival, what the window's rules look at, and then all
    other columns, so equal input gives equal numbers regardless of row order and partitions.

    Args:
        events: any DataFrame; all its columns and rows are kept.
        window: the session window, such as `SessionWindow(gap="30m")`.
        key: one or more columns, or an empty list.
        time: the event time, as for `aggregate`.
        arrival: the column or columns that order events with equal times.
        time_format: as for `aggregate`.
        timezone: for times without a zone.
        engine: the engine whose gap edge, session end and time resolution apply.

    Returns:
        The events with these columns, all NULL in rows with an unusable key or time, and in those
        of sessions that a rule drops:

        - `session_id`, `session_start`, `session_end` (as the engine reports it);
        - `session_seq`, the session's number within its key, and `event_seq`, the event's number
          within its session, both from 1 within this DataFrame; `seq_from_end`, the same counted
          back from the last event;
        - `is_entry`, `is_exit`: whether it is the first, and the last, event of its session;
        - `seconds_to_next`: to the next event of the session, a double; NULL for the last one;
        - `session_share`: the share of the session's duration, from its first to its last event,
          that passes until the next event, 0 for the last one; NULL if the duration is zero.

    Raises:
        ColumnError: if a column is missing, has an unsuitable type, or already has one of these
            names.
        WindowError, JobFileError, SetupError: as for `aggregate`.

    Example:
        >>> from backfill import SessionWindow
        >>> clicks = spark.sql(
        ...     "SELECT 'a' AS user, timestamp_seconds(s) AS at FROM VALUES (0), (60), (7200) t(s)"
        ... )
        >>> found = sessionize(clicks, SessionWindow(gap="30m"), key="user", time="at")
        >>> sorted((row.session_seq, row.event_seq) for row in found.collect())
        [(1, 1), (1, 2), (2, 1)]
    """
    check_frame(events)
    check_window(window, SessionWindow, example="SessionWindow(gap='30m')")
    taken = [name for name in events.columns if name in _ADDED]
    if taken:
        raise ColumnError(
            "the events already have a column with this name",
            field="events",
            value=taken[0],
            way_out="Drop or rename it",
        )
    system = engine_named(engine)
    names, arrived = names_of(key, field="key"), arrival_of(arrival)
    rules = system.rules_for(window)
    placed = _normalised(
        events, system, names, time, time_format, timezone, id=None, arrival=arrived
    )
    types = {field.name: field.dataType for field in events.schema.fields}
    keys = Key(tuple(names), tuple(types[name] for name in names))
    usable = F.col("_usable")
    # Rows that can't be used sort into partitions of their own, so they start no session.
    by_key = ["_usable", *keys.inner]
    theirs = set_aside(events.columns)
    ties = [theirs[name] for name, type in types.items() if sortable(type)]
    order = [
        *(column(theirs[name]) for name in arrived),
        *map(F.col, rule_columns(window)),
        *map(column, ties),
    ]
    cutter = Cutter(window, rules, by_key, timezone, order)
    numbered = cutter.numbered(
        placed.select(
            *(column(name).alias(theirs[name]) for name in events.columns),
            *rule_inputs(placed, window),
            *(column(name).alias(key_name(i)) for i, name in enumerate(names)),
            F.col(REASON).isNull().alias("_usable"),
            F.col(TIME).alias(FIRST),
        )
    )
    added = _of_sessions(numbered, keys, window, rules, by_key)
    return added.select(
        *(column(theirs[name]).alias(name) for name in events.columns),
        *(F.when(usable & F.col(_KEPT), F.col(f"_{name}")).alias(name) for name in _ADDED),
    )


def bots(
    events: DataFrame,
    rules: Sequence[BotRule],
    *,
    gap: object,
    key: str | Sequence[str],
    time: str,
    id: str | None = None,
    time_format: str | None = None,
    timezone: str = "UTC",
    engine: str = "plain",
) -> DataFrame:
    """Returns every event once, with the rule that makes it a bot's.

    Keep the people's events with `.where("bot IS NULL")`, and pass these to `aggregate` or
    `sessionize`.

    Args:
        events: any DataFrame; all its columns and rows are kept.
        rules: what a bot does. Where several hold for an event, the first of them is named.
        gap: the gap of the sessions that rules look at, such as "30m".
        key: one or more columns, or an empty list.
        time: the event time, as for `aggregate`.
        id: rows with equal key, time and id are one event, and count once.
        time_format: as for `aggregate`.
        timezone: for times without a zone, and for days.
        engine: the engine whose gap edge and time resolution apply.

    Returns:
        The events with `bot`, the rule's name; NULL where none holds, and in rows with an unusable
        key or time.

    Raises:
        ColumnError: if a column is missing, has an unsuitable type, or is called `bot`.
        WindowError: if there is no rule, two have the same name, the gap is not positive, or a
            predicate does not fit the events.
        JobFileError: as for `aggregate`.

    Example:
        >>> from backfill import BotRule
        >>> clicks = spark.sql(
        ...     "SELECT user, timestamp_seconds(n * step) AS at FROM range(4) AS r(n)"
        ...     "CROSS JOIN VALUES ('a', 1), ('b', 60) AS u(user, step)"
        ... )
        >>> quick = BotRule(name="quick", events=3, no_pause_longer_than="2s")
        >>> found = bots(clicks, [quick], gap="30m", key="user", time="at")
        >>> sorted({(row.user, row.bot) for row in found.collect()})
        [('a', 'quick'), ('b', None)]
    """
    check_frame(events)
    if _BOT in events.columns:
        raise ColumnError(
            "the events already have a column with this name",
            field="events",
            value=_BOT,
            way_out="Drop or rename it",
        )
    system, names, bot_rules = engine_named(engine), names_of(key, field="key"), Bots.of(gap, rules)
    placed = _normalised(events, system, names, time, time_format, timezone, id=id, arrival=())
    marked = with_bots(
        placed,
        bot_rules,
        key=names,
        zone=timezone,
        rules=system.rules_for(SessionWindow(gap=bot_rules.gap)),
        id=id,
        name=_BOT,
    )
    return marked.select(*(column(name) for name in events.columns), _BOT)


def _of_sessions(
    numbered: DataFrame,
    keys: Key,
    window: SessionWindow,
    rules: Rules,
    by_key: Sequence[str],
) -> DataFrame:
    """Adds the columns of `_ADDED`, each under its name after an underscore."""
    whole = Over.partitionBy(*by_key, SESSION)
    in_order = whole.orderBy(ROW)
    first, last = F.col(START), F.col(END)
    # The sort for `in_order` serves this, too.
    of_key = Over.partitionBy(*by_key).orderBy(SESSION, ROW)
    so_far = of_key.rowsBetween(Over.unboundedPreceding, Over.currentRow)
    place, count = F.col("_event_seq"), F.col(EVENTS)
    begun = (F.col(_KEPT) & (place == 1)).cast("long")
    ordinal = F.col(ORDINAL) if window.has_rules else None
    to_next = F.coalesce(F.lead(FIRST).over(in_order) - F.col(FIRST), F.lit(0))
    return (
        numbered.withColumns(
            {
                "_event_seq": F.row_number().over(in_order).cast("long"),
                "_to_next": to_next,
                END: F.max(FIRST).over(whole),
                EVENTS: F.count(F.lit(1)).over(whole),
            }
        )
        .withColumn(_KEPT, long_enough(window))
        .withColumns(
            {
                "_session_id": keys.session_id(first, ordinal),
                "_session_start": F.timestamp_micros(first),
                "_session_end": F.timestamp_micros(reported_end(last, window, rules)),
                "_session_seq": F.sum(begun).over(so_far) if window.drops else F.col(SESSION),
                "_is_entry": place == 1,
                "_is_exit": place == count,
                "_seconds_to_next": F.when(place < count, F.col("_to_next") / 1_000_000),
                "_session_share": F.when(last > first, F.col("_to_next") / (last - first)),
                "_seq_from_end": count - place + 1,
            }
        )
    )


def _normalised(
    events: DataFrame,
    system: Engine,
    key: tuple[str, ...],
    time: str,
    time_format: str | None,
    timezone: str,
    *,
    id: str | None,
    arrival: tuple[str, ...],
) -> DataFrame:
    rules = EventRules(
        key=key,
        time=time,
        time_format=time_format,
        timezone=timezone,
        id=id,
        arrival=arrival,
        tick_us=system.tick_us,
        null_key=system.null_key,
        before_epoch=system.before_epoch,
    )
    return normalise(events, rules)
