"""Events of one stream within another one's sessions, and sessions that overlap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.aggregates.base import Aggregate
from backfill.columns import TIME, names_of
from backfill.engines import engine as engine_named
from backfill.errors import WindowError
from backfill.frames.api import aggregate
from backfill.frames.arguments import check_window
from backfill.joins.latest import latest
from backfill.joins.sides import Sides, both_sides, naming, pair_of_times
from backfill.runtimes.differences import only_where
from backfill.windows import SessionWindow
from backfill.windows.arguments import choice
from backfill.windows.join_window import HOWS, LEFT, RIGHT
from backfill.windows.message_gaps import Messages

_START, _END, _ID = "session_start", "session_end", "session_id"
_PAIRED = "_paired"
_NONE: Mapping[str, Aggregate] = MappingProxyType({})


def session_join(
    left: DataFrame,
    right: DataFrame,
    *,
    on: str | Sequence[str],
    time: str | Sequence[str],
    window: SessionWindow,
    aggregates: Mapping[str, Aggregate] = _NONE,
    left_window: SessionWindow | None = None,
    left_aggregates: Mapping[str, Aggregate] = _NONE,
    how: str = "inner",
    time_format: str | None = None,
    timezone: str = "UTC",
    engine: str = "plain",
) -> DataFrame:
    """Returns left events with the right side's session of their key that holds them.

    A session holds an event that is between its start and its end as the engine reports them: up to
    and including its last event, or, for engines whose sessions end a gap later, before that end.
    With `left_window`, the left side's events are made into sessions as well, and a pair is two
    sessions of a key that overlap, so that some instant lies in both.

    Sessions of a key do not overlap each other, so an event is in at most one of them. Each pair
    comes once. A key that is NULL, in one of its columns or in all, equals no other.

    Args:
        left: any frame.
        right: any frame.
        on: the columns of the key, which both sides have in the same type; an empty list for no
            key.
        time: the column of the event time, as for `aggregate`; or a pair of columns, the left
            side's and the right's.
        window: the right side's sessions: a gap in time, without rules.
        aggregates: of the events of a right session, by name.
        left_window: the left side's sessions, which may have another gap.
        left_aggregates: of the events of a left session, by name; only with `left_window`.
        how: inner, left, full, semi or anti, as for `join`. A left event or session that is kept
            alone has NULL for the session; a right session that is kept alone has NULL for the
            left side's columns.
        time_format: of both sides' times, as for `aggregate`.
        timezone: for times without a zone.
        engine: the engine whose gap edge, session end and time resolution apply.

    Returns:
        The left side's columns, or, for its sessions, the key, `session_id`, `session_start`,
        `session_end` and the aggregates; then the same for the right side's sessions, without the
        key. If both sides have a column of some name, the right one's ends with `_right`. Rows
        whose key or time `aggregate` leaves out are in no session.

    Raises:
        ColumnError: a column is missing, has an unsuitable type, or has a name that the join uses.
        WindowError: a window has rules or a gap in messages, or `how` can't be used.
        AggregateError: an aggregate does not fit the events.
        JobFileError: there is no such time zone or engine.
        SetupError: as for `aggregate`.

    Example:
        >>> from backfill import SessionWindow, session_join
        >>> from backfill import aggregates as agg
        >>> visits = spark.sql(
        ...     "SELECT user, timestamp_seconds(s) AS at FROM VALUES"
        ...     "('a', 0), ('a', 600), ('a', 9000) AS t(user, s)"
        ... )
        >>> searches = spark.sql(
        ...     "SELECT user, timestamp_seconds(s) AS at, word FROM VALUES"
        ...     "('a', 300, 'hat'), ('a', 700, 'coat') AS t(user, s, word)"
        ... )
        >>> found = session_join(
        ...     searches, visits, on="user", time="at", window=SessionWindow(gap="30m"),
        ...     aggregates={"pages": agg.count()}, how="left",
        ... )
        >>> found.columns
        ['user', 'at', 'word', 'session_id', 'session_start', 'session_end', 'pages']
        >>> sorted((row.word, row.pages) for row in found.collect())
        [('coat', None), ('hat', 2)]
    """
    choice(how, HOWS, field="how")
    for side_window in (window, *([] if left_window is None else [left_window])):
        check_window(side_window, SessionWindow, example="SessionWindow(gap='30m')")
    if left_aggregates and left_window is None:
        raise WindowError(
            "has no meaning without left_window",
            field="left_aggregates",
            value=", ".join(left_aggregates),
            way_out="Give left_window, or leave it out",
        )
    keys = names_of(on, field="on")
    times = pair_of_times(time)
    system = engine_named(engine)

    def sessions(side: str, made: SessionWindow, values: Mapping[str, Aggregate]) -> DataFrame:
        if isinstance(made.gap, Messages) or made.has_rules:
            raise WindowError(
                "must have a gap in time, and no rules",
                field="window" if side == RIGHT else "left_window",
                value=str(made),
                way_out='Use SessionWindow(gap="30m")',
            )
        with naming(side):
            rows = aggregate(
                left if side == LEFT else right,
                made,
                key=keys,
                time=times[side == RIGHT],
                aggregates=values,
                time_format=time_format,
                timezone=timezone,
                engine=engine,
            )
        return rows.withColumnsRenamed({"window_start": _START, "window_end": _END})

    def sides(own: DataFrame, at: str, format: str | None) -> Sides:
        return both_sides(
            own,
            sessions(RIGHT, window, aggregates),
            on=keys,
            time=(at, _START),
            time_format=(format, None),
            timezone=timezone,
            tick_us=system.tick_us,
        )

    inclusive = system.rules_for(window).session_end == "last_event"
    if left_window is None:
        return _events(sides(left, times[0], time_format), how, inclusive)
    return _overlapping(
        sides(sessions(LEFT, left_window, left_aggregates), _START, None), how, inclusive
    )


def _events(sides: Sides, how: str, inclusive: bool) -> DataFrame:
    """Left events, each with the session that holds it."""
    rows = _held(sides, (LEFT, RIGHT), inclusive)
    matched = F.col(RIGHT).isNotNull()
    if how in ("semi", "anti"):
        return rows.where(matched if how == "semi" else ~matched).select(*sides.kept())
    if how == "inner":
        return rows.where(matched).select(*sides.both())
    if how == "left":
        return rows.select(*sides.both())
    return rows.select(*sides.both()).unionAll(_without(sides, RIGHT, rows))


def _overlapping(sides: Sides, how: str, inclusive: bool) -> DataFrame:
    """Pairs of sessions: the one that starts later starts within the other."""
    later = _held(sides, (LEFT, RIGHT), inclusive).where(F.col(RIGHT).isNotNull())
    earlier = _held(sides, (RIGHT, LEFT), inclusive).where(F.col(LEFT).isNotNull())
    pairs = later.unionByName(earlier)
    if how in ("semi", "anti"):
        kind = "left_semi" if how == "semi" else "left_anti"
        return _by_id(sides.left, LEFT, pairs, kind).select(*sides.kept())
    rows = pairs.select(*sides.both())
    if how in ("left", "full"):
        rows = rows.unionAll(_without(sides, LEFT, pairs))
    return rows.unionAll(_without(sides, RIGHT, pairs)) if how == "full" else rows


def _held(sides: Sides, names: tuple[str, str], inclusive: bool) -> DataFrame:
    """Rows of the side named first, with the other's session that holds their time, or NULL.

    A row of the right side that starts together with a session of the left is not held by it,
    because the left one is held by the right one.
    """
    own, other = names
    rows = latest(
        *((sides.left, sides.right) if own == LEFT else (sides.right, sides.left)),
        keys=sides.on,
        allow_exact=own == LEFT,
        names=names,
    )
    at, end = F.col(f"{own}.{TIME}"), F.unix_micros(f"{other}.{_END}")
    held = at <= end if inclusive else at < end
    return only_where(rows, other, held)


def _without(sides: Sides, side: str, pairs: DataFrame) -> DataFrame:
    """The sessions of a side that are in no pair."""
    frame = sides.left if side == LEFT else sides.right
    return _by_id(frame, side, pairs, "left_anti").select(*sides.only(side))


def _by_id(sessions: DataFrame, side: str, pairs: DataFrame, how: str) -> DataFrame:
    paired = pairs.select(F.col(f"{side}.{_ID}").alias(_PAIRED)).where(F.col(_PAIRED).isNotNull())
    same = F.col(f"{side}.{_ID}") == F.col(_PAIRED)
    return sessions.alias(side).join(paired, same, how)
