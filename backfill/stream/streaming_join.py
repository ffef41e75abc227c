"""A join of a job as Spark's join of two streams, with a watermark on each side."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill.columns import EVENT_TIME, TIME, column, key_name, quoted
from backfill.errors import WindowError
from backfill.operators.binned import AT
from backfill.operators.rule_inputs import predicate
from backfill.rows.fitting import check_looked_at
from backfill.rows.slices import ID
from backfill.windows import by_place
from backfill.windows.join_window import LEFT, RIGHT, JoinWindow

#: Spark's names for the kinds of joins of two streams that it has.
_HOWS = {"inner": "inner", "left": "left_outer", "full": "full_outer", "semi": "left_semi"}
#: The column by which two streams without a key are joined.
_ONE_GROUP = "_join_group"


def check_joined(name: str, window: JoinWindow) -> None:
    """Refuses a join that Structured Streaming does not have.

    Args:
        name: the join's, for the message.
        window: its definition.

    Raises:
        WindowError: it is an anti join, or its pairs are by number of messages.
    """
    batch = "or compute it in batch: backfill run"
    if by_place(window):
        raise WindowError(
            "Structured Streaming joins streams in time, not by number of messages",
            field=f"joins.{name}.within",
            value=str(window.within),
            way_out=f"Use durations, {batch}",
        )
    if window.how not in _HOWS:
        raise WindowError(
            f"Structured Streaming has no {window.how} join of two streams",
            field=f"joins.{name}.how",
            value=window.how,
            way_out=f"Use {', '.join(_HOWS)}; a left join's rows without a partner are those of an "
            f"anti join; {batch}",
        )


def joined(
    events: tuple[DataFrame, DataFrame],
    window: JoinWindow,
    *,
    key: Sequence[str],
    id: str | None,
    delays_us: tuple[int, int],
) -> DataFrame:
    """Joins two streams of events.

    Args:
        events: the left and the right stream, of usable events with TIME.
        window: which events are pairs.
        key: the key's columns; none for one group.
        id: the column of the events' id, if they have one.
        delays_us: how far the watermark of each side stays behind its largest event time.

    Returns:
        What the join's table has for a pair: the key, `event_time`, what identifies the events, and
        the window's columns. A pair comes with the later of its events; a row without a partner
        comes once the watermark, the smaller one of both sides', has come so far that no partner
        can come.

    Raises:
        ColumnError: the events lack a column that the join looks at.
        WindowError: a predicate, or the condition, does not fit the events.
    """
    for frame in events:
        check_looked_at(frame, window)
    id = None if id in key else id
    left, right = (
        _side(rows, text, side, window, key, id, delay)
        for rows, text, side, delay in zip(
            events, (window.left, window.right), (LEFT, RIGHT), delays_us, strict=True
        )
    )
    at, other = F.col(f"{LEFT}.{AT}"), F.col(f"{RIGHT}.{AT}")
    reach = window.in_time
    inner = [key_name(i) for i in range(len(key))] or [_ONE_GROUP]
    met = [F.col(f"{LEFT}.{name}") == F.col(f"{RIGHT}.{name}") for name in inner]
    # Only inequalities of this form tell Spark when an event is no longer of use.
    met += [other >= at - _interval(-reach.low), other <= at + _interval(reach.high)]
    if window.how == "full":
        # Among the events that it keeps, a full join treats keys that are NULL as equal.
        met += [F.col(f"{LEFT}.{name}") >= F.col(f"{RIGHT}.{name}") for name in inner]
    if window.where is not None:
        met.append(F.expr(window.where))
    pairs = left.alias(LEFT).join(right.alias(RIGHT), reduce(and_, met), _HOWS[window.how])
    return pairs.select(*_result(window, key, id))


def _side(
    events: DataFrame,
    text: str,
    side: str,
    window: JoinWindow,
    key: Sequence[str],
    id: str | None,
    delay_us: int,
) -> DataFrame:
    """The events of a side, with the columns that the join looks at, and the side's watermark."""
    own = events.where(predicate(events, side, text)).select(
        *(column(name).alias(key_name(i)) for i, name in enumerate(key)),
        # A constant would be optimised away, and with it what two streams can be joined by.
        *([] if key else [(F.col(TIME) * 0).alias(_ONE_GROUP)]),
        F.timestamp_micros(TIME).alias(AT),
        *([] if id is None else [column(id).alias(ID)]),
        *(column(name).alias(name) for name in window.looked_at),
    )
    return own.withWatermark(AT, f"{delay_us} microseconds")


def _result(window: JoinWindow, key: Sequence[str], id: str | None) -> list[Column]:
    """The columns of a join's table that a stream has."""
    sides = (LEFT, RIGHT) if window.how == "full" else (LEFT,)

    def first(name: str) -> Column:
        return F.coalesce(*(F.col(f"{side}.{name}") for side in sides))

    given = {"time": AT, "id": ID}
    return [
        *(first(key_name(i)).alias(name) for i, name in enumerate(key)),
        first(AT).alias(EVENT_TIME),
        *(
            F.col(f"{side}.{given[what]}").alias(name)
            for name, (side, what) in window.own_columns(id).items()
        ),
        *(
            F.col(f"{side_column.side}.{quoted(side_column.name)}").alias(name)
            for name, side_column in window.columns.items()
        ),
    ]


def _interval(us: int) -> Column:
    return F.expr(f"INTERVAL {us} MICROSECONDS")
