"""Pairs of events of two streams that have the same key and are close in time."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.columns import arrival_of, column
from backfill.errors import ColumnError, WindowError
from backfill.joins.relations import numbered, related
from backfill.joins.shared_windows import SharedWindows
from backfill.joins.sides import SHARED, both_sides, condition
from backfill.operators.pairing import by_count, in_time
from backfill.windows import HoppingWindow, TumblingWindow
from backfill.windows.arguments import choice, flag
from backfill.windows.join_window import HOWS, LEFT, RIGHT
from backfill.windows.within import Reach, read_within


def join(
    left: DataFrame,
    right: DataFrame,
    *,
    on: str | Sequence[str],
    within: object,
    time: str | Sequence[str],
    how: str = "inner",
    unique: bool = True,
    where: str | None = None,
    arrival: str | Sequence[str] | None = None,
    time_format: str | None = None,
    timezone: str = "UTC",
) -> DataFrame:
    """Returns the pairs of events that have the same key and are close in time.

    A pair is a left event at t and a right one in [t - before, t + after], both ends included, as
    for Kafka Streams' `JoinWindows`; or, within a number of events, an event and one of the last
    events, up to that number, of the other side before it, as in Samza.

    Each pair comes once, unless `unique` is false. Rows that are alike are different events. A key
    that is NULL, in one of its columns or in all, equals no other; a row whose time can't be used
    is close to no other.

    The result is lazy, like any DataFrame. Events are exchanged by key and by bin of time, so a
    key's events are never all paired with each other, and a hot key is spread over many tasks. The
    events of a key are sorted in one task only if `within` is a number, to number them.

    Args:
        left: any frame.
        right: any frame.
        on: the columns of the key, which both sides have in the same type; an empty list for no
            key.
        within: (before, after), such as ("5m", "30m"): how much earlier, and later, than the left
            event the right one may be. One duration counts for both. Or `messages(5)`: each event
            with the last five of the other side before it, in order of time, arrival, left before
            right, and then of all columns. Or a `TumblingWindow` or `HoppingWindow` of fixed sizes:
            events that lie together in one of its windows.
        time: the column of the event time, as for `aggregate`; or a pair of columns, the left
            side's and the right's.
        how: inner; or left or full, which also keep events of the left side, or of both sides,
            without a partner. semi gives the left events that have a partner, each once, and anti
            those that have none, both without the right side's columns.
        unique: whether a pair comes once, however many hopping windows hold both events; or once
            for each of them, with `window_start` and `window_end`, which are NULL in rows without a
            partner.
        where: a further condition on a pair, in Spark SQL, over `left.column` and `right.column`.
        arrival: columns that order events of equal times; both sides have them, in the same type.
            Only if `within` is a number of events.
        time_format: of both sides' times, as for `aggregate`.
        timezone: for times without a zone.

    Returns:
        The left side's columns, and those of the right side that are not in `on`. If both sides
        have a column of some name, the right one's ends with `_right`.

    Raises:
        ColumnError: a column is missing, has an unsuitable type, or has a name that the join uses.
        WindowError: `within`, `how`, `unique`, `where` or `arrival` can't be used.
        JobFileError: there is no such time zone.
        SetupError: as for `aggregate`.

    Example:
        >>> from backfill import join
        >>> clicks = spark.sql(
        ...     "SELECT user, timestamp_seconds(s) AS at, ad FROM VALUES"
        ...     "('a', 0, 'x'), ('a', 900, 'y'), ('b', 0, 'x') AS t(user, s, ad)"
        ... )
        >>> buys = spark.sql(
        ...     "SELECT user, timestamp_seconds(s) AS at, price FROM VALUES"
        ...     "('a', 1200, 9), ('a', 9999, 5) AS t(user, s, price)"
        ... )
        >>> found = join(clicks, buys, on="user", time="at", within=("0s", "30m"))
        >>> found.columns
        ['user', 'at', 'ad', 'at_right', 'price']
        >>> sorted((row.ad, row.price) for row in found.collect())
        [('x', 9), ('y', 9)]
        >>> unsold = join(clicks, buys, on="user", time="at", within=("0s", "30m"), how="anti")
        >>> [(row.user, row.ad) for row in unsold.collect()]
        [('b', 'x')]
    """
    shared = None
    if isinstance(within, TumblingWindow | HoppingWindow):
        shared = SharedWindows.of(within)
    reach = read_within(within) if shared is None else shared.reach
    choice(how, HOWS, field="how")
    _check_unique(flag(unique, field="unique"), shared, how)
    sides = both_sides(
        left,
        right,
        on=on,
        time=time,
        time_format=time_format,
        timezone=timezone,
    )
    arrived = arrival_of(arrival)
    if isinstance(reach, Reach):
        if arrived:
            raise WindowError(
                "has no meaning if within is not a number of events",
                field="arrival",
                value=list(arrived),
                way_out="Leave it out",
            )
        relations = in_time(reach)
    else:
        sides.check_order(arrived, LEFT, RIGHT)
        sides, relations = numbered(sides, arrived), by_count(reach.count)
    if shared is None:
        return condition(where, lambda given: related(sides, relations, how, given))
    held, starts = shared.hold_both(), None if unique else shared.starts()
    pairs = condition(
        where,
        lambda given: related(
            sides, relations, how, held if given is None else held & given, starts
        ),
    )
    return pairs if unique else _with_windows(pairs, shared)


def _check_unique(unique: bool, shared: SharedWindows | None, how: str) -> None:
    if unique or (shared is not None and how not in ("semi", "anti")):
        return
    raise WindowError(
        "pairs are repeated only for tumbling and hopping windows, not by semi and anti joins",
        field="unique",
        value=unique,
        way_out="Leave it out",
    )


def _with_windows(pairs: DataFrame, shared: SharedWindows) -> DataFrame:
    """Pairs with the start and the end of the window that each row belongs to."""
    start = F.col(SHARED)
    bounds = {"window_start": start, "window_end": start + shared.size}
    names = [name for name in pairs.columns if name != SHARED]
    for name in names:
        if name.lower() in bounds:
            raise ColumnError(
                "the result would have two columns of this name",
                field="unique",
                value=name,
                way_out="Rename it in the frames",
            )
    return pairs.select(
        *map(column, names),
        *(F.timestamp_micros(at).alias(name) for name, at in bounds.items()),
    )
