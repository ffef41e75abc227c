"""For each event of one stream, the latest event of another one before it."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.columns import TIME, arrival_of
from backfill.joins.latest import latest
from backfill.joins.sides import both_sides
from backfill.runtimes.differences import only_where
from backfill.time.durations import fixed
from backfill.windows.arguments import flag, positive
from backfill.windows.join_window import LEFT, RIGHT


def as_of(
    left: DataFrame,
    right: DataFrame,
    *,
    on: str | Sequence[str],
    time: str | Sequence[str],
    tolerance: object = None,
    allow_exact: bool = True,
    arrival: str | Sequence[str] | None = None,
    time_format: str | None = None,
    timezone: str = "UTC",
) -> DataFrame:
    """Returns each left event once, with the latest right event of its key that is not after it.

    If several right events have the latest time, the last of them by `arrival`, then by their other
    columns, counts; so equal input gives an equal result, whatever the order of its rows. A key
    that is NULL, in one of its columns or in all, equals no other; a row whose time can't be used
    has no event before it.

    The result is lazy, like any DataFrame. The events of a key are sorted together, in one task.

    Args:
        left: any frame.
        right: any frame.
        on: the columns of the key, which both sides have in the same type; an empty list for no
            key.
        time: the column of the event time, as for `aggregate`; or a pair of columns, the left
            side's and the right's.
        tolerance: a right event that is earlier by more than this does not count.
        allow_exact: whether a right event of the same time counts.
        arrival: columns of the right side that order its events of equal times.
        time_format: of both sides' times, as for `aggregate`.
        timezone: for times without a zone.

    Returns:
        The left side's columns, and those of the right side that are not in `on`, NULL if there is
        no event before. If both sides have a column of some name, the right one's ends with
        `_right`.

    Raises:
        ColumnError: a column is missing, has an unsuitable type, or has a name that the join uses.
        WindowError: `tolerance` or `allow_exact` can't be used.
        JobFileError: there is no such time zone.
        SetupError: as for `aggregate`.

    Example:
        >>> from backfill import as_of
        >>> trades = spark.sql(
        ...     "SELECT share, timestamp_seconds(s) AS at, shares FROM VALUES"
        ...     "('a', 5, 10), ('a', 60, 20), ('b', 5, 30) AS t(share, s, shares)"
        ... )
        >>> prices = spark.sql(
        ...     "SELECT share, timestamp_seconds(s) AS at, price FROM VALUES"
        ...     "('a', 1, 7), ('a', 5, 8), ('a', 6, 9) AS t(share, s, price)"
        ... )
        >>> found = as_of(trades, prices, on="share", time="at", tolerance="30s")
        >>> sorted((row.shares, row.price) for row in found.collect())
        [(10, 8), (20, None), (30, None)]
    """
    limit = None
    if tolerance is not None:
        limit = positive(fixed(tolerance, field="tolerance"), field="tolerance").us
    sides = both_sides(left, right, on=on, time=time, time_format=time_format, timezone=timezone)
    arrived = arrival_of(arrival)
    sides.check_order(arrived, RIGHT)
    rows = latest(
        sides.left,
        sides.right,
        keys=sides.on,
        arrival=arrived,
        allow_exact=flag(allow_exact, field="allow_exact"),
        names=(LEFT, RIGHT),
    )
    if limit is not None:
        near = F.col(f"{LEFT}.{TIME}") - F.col(f"{RIGHT}.{TIME}") <= limit
        rows = only_where(rows, RIGHT, near)
    return rows.select(*sides.both())
