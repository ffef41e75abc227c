"""Pairs of events of two streams that have the same key and are close in time."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame

from backfill.columns import TIME
from backfill.joins.binned import AT, binned
from backfill.joins.sides import HOWS, LEFT, RIGHT, Sides, both_sides, condition
from backfill.joins.within import Reach, read_within
from backfill.window_arguments import choice


def join(
    left: DataFrame,
    right: DataFrame,
    *,
    on: str | Sequence[str],
    within: object,
    time: str | Sequence[str],
    how: str = "inner",
    where: str | None = None,
    time_format: str | None = None,
    timezone: str = "UTC",
) -> DataFrame:
    """Returns the pairs of events that have the same key and are close in time.

    A pair is a left event at t and a right one in [t - before, t + after], both ends included, as
    for Kafka Streams' `JoinWindows`. Each pair comes once. Rows that are alike are different
    events. A key that is NULL, in one of its columns or in all, is equal to none; a row with a
    time that can't be used is close to none.

    The result is lazy, as any DataFrame. Events are exchanged by key and by bin of time, so a key's
    events are never all paired with each other, and a hot key is spread over many tasks.

    Args:
        left: any frame.
        right: any frame.
        on: the columns of the key, which both sides have in the same type; an empty list for no
            key.
        within: (before, after), such as ("5m", "30m"): how much earlier, and later, than the left
            event the right one may be. One duration counts for both.
        time: the column of the event time, as for `aggregate`; or a pair of columns, the left
            side's and the right's.
        how: inner, or which events without a partner are kept besides: left, full (of both
            sides). semi gives the left events that have a partner, each once, and anti those that
            have none, both without the right side's columns.
        where: a further condition on a pair, in Spark SQL, over `left.column` and `right.column`.
        time_format: of both sides' times, as for `aggregate`.
        timezone: for times without a zone.

    Returns:
        The left side's columns, and those of the right side that are not in `on`. If both sides
        have a column of some name, the right one's ends with `_right`.

    Raises:
        ColumnError: a column is missing, has an unsuitable type, or has a name that the join uses.
        WindowError: `within`, `how` or `where` can't be used.
        JobFileError: there is no such time zone.

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
    reach = read_within(within)
    choice(how, HOWS, field="how")
    sides = both_sides(
        left,
        right,
        on=on,
        time=time,
        time_format=time_format,
        timezone=timezone,
    )
    assert isinstance(reach, Reach)
    return condition(where, lambda given: _joined(sides, reach, how, given))


def _joined(sides: Sides, reach: Reach, how: str, where: Column | None) -> DataFrame:
    placed = [side.withColumnRenamed(TIME, AT) for side in (sides.left, sides.right)]

    def one(kind: str) -> DataFrame:
        return binned(
            *placed, keys=sides.on, reach=reach, how=kind, names=(LEFT, RIGHT), where=where
        )

    if how in ("semi", "anti"):
        return one(how).select(*sides.kept())
    found = one("inner" if how == "inner" else "left").select(*sides.both())
    if how != "full":
        return found
    alone = binned(
        *reversed(placed),
        keys=sides.on,
        reach=reach.reversed(),
        how="anti",
        names=(RIGHT, LEFT),
        where=where,
    )
    return found.unionAll(alone.select(*sides.only(RIGHT)))
