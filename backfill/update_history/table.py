"""The table that a stream's results made, as it was at some moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from backfill.columns import column, names_of, quoted
from backfill.errors import AggregateError, ColumnError, did_you_mean
from backfill.frames.arguments import check_frame
from backfill.runtimes.differences import needs_spark

_BOUNDS = ("window_start", "window_end")
_HOWS = {"sum": F.sum, "min": F.min, "max": F.max}
_LAST = "_last"


def table_as_of(
    updates: DataFrame,
    arrival: Any = None,
    *,
    key: str | Sequence[str],
    deltas: Mapping[str, str] | None = None,
) -> DataFrame:
    """Returns the table as it was when the event of an arrival had been seen.

    It has each window as it was last sent, without those that were taken back since. This is what a
    reader of the stream had then: sessions that were merged into others stay in it, if nothing took
    them back. (`as_of` alone is a join that finds the latest event before.)

    Args:
        updates: what `updates` returned, or a part of it that has whole keys.
        arrival: a value of the column `arrival`, which has been seen, or a Column; None for the
            table when the input had ended.
        key: the key columns.
        deltas: if panes are discarding, how the results of a window are combined, for each
            aggregate: sum, min or max.

    Returns:
        A row for each window, with the columns of `updates`, as in the last result that counts.

    Raises:
        ColumnError: if a column is missing.
        AggregateError: if `deltas` names something other than an aggregate, leaves one out, or
            gives no valid way to combine them.

    Example:
        >>> from backfill import TumblingWindow, aggregates as agg, table_as_of, updates
        >>> clicks = spark.sql(
        ...     "SELECT user, timestamp_seconds(s) AS at, n FROM VALUES"
        ...     "('a', 0, 1), ('a', 5, 2), ('a', 70, 3), ('a', 6, 4) t(user, s, n)"
        ... )
        >>> sent = updates(
        ...     clicks,
        ...     TumblingWindow(size="1m"),
        ...     key="user",
        ...     time="at",
        ...     arrival="n",
        ...     aggregates={"events": agg.count()},
        ...     engine="kafka-streams",
        ...     grace="1h",
        ... )
        >>> for seen in (2, 3, 4):
        ...     print(sorted(row.events for row in table_as_of(sent, seen, key="user").collect()))
        [2]
        [1, 2]
        [1, 3]
    """
    check_frame(updates, field="updates")
    needs_spark(updates, "the history of updates is computed")
    keys = names_of(key, field="key")
    for name in (*keys, *_BOUNDS, "arrival", "number", "is_retraction"):
        if name not in updates.columns:
            raise ColumnError(
                "no such column in the updates",
                field="updates",
                value=name,
                way_out=did_you_mean(name, updates.columns),
            )
    seen = updates
    if arrival is not None:
        seen = _seen(updates, arrival)
    of_window = Over.partitionBy(*map(column, (*keys, *_BOUNDS)))
    placed = seen.withColumn(_LAST, F.max("number").over(of_window))
    standing = (F.col("number") == F.col(_LAST)) & ~F.col("is_retraction")
    if deltas is None:
        return placed.where(standing).drop(_LAST)
    own = updates.columns[updates.columns.index("is_retraction") + 1 :]
    _check_deltas(deltas, own)
    summed = placed.withColumns(
        {name: _HOWS[how](column(name)).over(of_window) for name, how in deltas.items()}
    )
    return summed.where(standing).select(*map(quoted, updates.columns))


def _seen(updates: DataFrame, arrival: Any) -> DataFrame:
    try:
        rows = updates.where(F.col("arrival") <= arrival)
        # Over Spark Connect, only this looks at the types.
        rows.schema  # noqa: B018
    except AnalysisException as error:
        type = updates.schema["arrival"].dataType
        raise ColumnError(
            f"can't be compared to the column arrival, which is {type.simpleString()}",
            field="arrival",
            value=str(arrival),
            way_out="Give a value of that type",
        ) from error
    return rows


def _check_deltas(deltas: Mapping[str, str], aggregates: Sequence[str]) -> None:
    for name in (*deltas, *aggregates):
        if name not in aggregates or name not in deltas:
            raise AggregateError(
                "is not an aggregate of the updates"
                if name in deltas
                else "is missing: say how its deltas are combined",
                field=f"deltas.{name}",
                way_out="Name each of " + ", ".join(aggregates),
            )
        if deltas[name] not in _HOWS:
            raise AggregateError(
                "deltas can't be combined this way",
                field=f"deltas.{name}",
                value=deltas[name],
                way_out="Allowed: " + ", ".join(_HOWS),
            )
