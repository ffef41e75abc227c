"""From a job's events to the rows of a join's table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from backfill.columns import (
    CHANGED,
    CLOSED,
    END,
    EVENTS,
    LEFT_TIME,
    OWN,
    RIGHT_TIME,
    START,
    TIME,
    quoted,
    sortable,
)
from backfill.errors import WindowError
from backfill.operators.binned import INNER
from backfill.operators.pairing import INDEX, SEEN, Pairing, by_count, in_time
from backfill.rows.slices import ID
from backfill.windows.join_window import LEFT, RIGHT, JoinWindow
from backfill.windows.message_gaps import Messages

#: The id of a row's right event.
RIGHT_ID = "_right_id"
#: An event's number among those of its side with the same key and time.
_TIE = "_join_tie"
_IS_LEFT, _IS_RIGHT = "_join_is_left", "_join_is_right"
#: Names that are not allowed for columns of the events that a join looks at.
TAKEN = INNER | {TIME, ID, INDEX, SEEN, CLOSED, _TIE, _IS_LEFT, _IS_RIGHT}


def join_rows(
    events: DataFrame,
    window: JoinWindow,
    keys: Sequence[str],
    *,
    sides: tuple[str, str],
    columns: Mapping[str, str],
    arrival: Sequence[str] = (),
) -> DataFrame:
    """Computes the rows of a join, including those that are not published.

    Every event of a side has one row of its own, at its time, so the events in rows can be counted.
    For a left event it is the first of its rows; for any other event it is a row that only a full
    join publishes, if the event has no partner.

    Args:
        events: usable events, each once: key, TIME, perhaps ID, and the columns named below.
        window: which events are pairs.
        keys: the key columns.
        sides: the columns that say whether an event is on the left and on the right side.
        columns: the columns that the window looks at, by the window's names for them.
        arrival: the columns of the order of arrival, for pairs by number of events.

    Returns:
        Key, START and END (the row's time, µs), EVENTS (how many events the row has), OWN (1 in an
        event's own row, else 0), CHANGED (whether the row is published), LEFT_TIME, RIGHT_TIME
        (µs), ID and RIGHT_ID where events have an id, and the window's columns by their names. For
        pairs by number also CLOSED: the next event of the other side can't be the row's partner.

    Raises:
        WindowError: if the window's condition does not fit the events.
    """
    is_left, is_right = (F.col(side) for side in sides)
    ids = [ID] if ID in events.columns else []
    counted = window.within if isinstance(window.within, Messages) else None
    named = events.select(
        *keys,
        TIME,
        *ids,
        *(arrival if counted else ()),
        is_left.alias(_IS_LEFT),
        is_right.alias(_IS_RIGHT),
        *(F.col(inner).alias(name) for name, inner in columns.items()),
    )
    where = None if window.where is None else F.expr(window.where)
    alike = [*ids, *columns]
    if counted is None:
        left = _numbered(named.where(_IS_LEFT), keys, alike)
        frames = {LEFT: left, RIGHT: named.where(_IS_RIGHT)}
        pairing = Pairing(frames, keys, in_time(window.in_time), where)
    else:
        frames = _placed(named, keys, [TIME, *arrival], alike, counted.count)
        pairing = Pairing(frames, keys, by_count(counted.count), where)

    def row(
        has: Sequence[str], events: Column, own: Column, shown: Column, *also: str
    ) -> list[Column]:
        """The columns of a row with an event of each of these sides, the first being its own."""

        def cell(side: str, name: str) -> Column:
            return _of(side, name) if side in has else F.lit(None).cast(types[name])

        at = _of(has[0], TIME)
        return [
            *(_of(has[0], key).alias(key) for key in keys),
            at.alias(START),
            at.alias(END),
            events.cast("bigint").alias(EVENTS),
            own.cast("bigint").alias(OWN),
            shown.alias(CHANGED),
            cell(LEFT, TIME).alias(LEFT_TIME),
            cell(RIGHT, TIME).alias(RIGHT_TIME),
            *(cell(LEFT, name).alias(ID) for name in ids),
            *(cell(RIGHT, name).alias(RIGHT_ID) for name in ids),
            *(
                cell(column.side, column.name).alias(name)
                for name, column in window.columns.items()
            ),
            *([_of(has[0], CLOSED).alias(CLOSED)] if counted else []),
            *(_of(LEFT, name).alias(name) for name in also),
        ]

    types = {field.name: field.dataType for field in named.schema.fields}
    one, nothing, both = F.lit(1), F.lit(0), (LEFT, RIGHT)
    yes, no = F.lit(True), F.lit(False)

    def rows() -> list[DataFrame]:
        if window.how in ("semi", "anti"):
            shown = {kind: yes if kind == window.how else no for kind in ("semi", "anti")}
            parts = [
                frame.select(*row([LEFT], one, one, shown["semi"]))
                for frame in pairing.having(LEFT)
            ]
            parts.append(pairing.without(LEFT).select(*row([LEFT], one, one, shown["anti"])))
        else:
            parts = [_first(pairs(), keys)]
        not_left = F.when(_of(RIGHT, _IS_LEFT), 0).otherwise(1)
        others = [frames[RIGHT].alias(RIGHT)]
        if window.how == "full":
            parts.append(pairing.without(RIGHT).select(*row([RIGHT], one, not_left, yes)))
            others = pairing.having(RIGHT)
        own = [frame.where(not_left == 1).select(*row([RIGHT], one, one, no)) for frame in others]
        return [*parts, *own]

    def pairs() -> DataFrame:
        """The pairs of each left event, or one row if it has none."""
        alone = no if window.how == "inner" else yes
        if counted is None:
            # With a single relation, a left join also finds the events without a partner.
            [relation] = pairing.relations
            met = _of(RIGHT, TIME).isNotNull()
            shown, number = F.when(met, yes).otherwise(alone), F.when(met, 2).otherwise(1)
            joined = pairing.joined(LEFT, relation, "left")
            return joined.select(*row(both, number, nothing, shown, _TIE))
        parts = [
            pairing.joined(LEFT, each, "inner").select(*row(both, F.lit(2), nothing, yes, _TIE))
            for each in pairing.relations
        ]
        parts.append(pairing.without(LEFT).select(*row([LEFT], one, nothing, alone, _TIE)))
        return reduce(DataFrame.unionByName, parts)

    return _fitting(window, lambda: reduce(DataFrame.unionByName, rows()))


def _of(side: str, name: str) -> Column:
    return F.col(f"{side}.{quoted(name)}")


def _first(pairs: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Adds OWN to the rows of left events: 1 in exactly one row of each event."""
    of_one = Over.partitionBy(*keys, LEFT_TIME, _TIE).orderBy(RIGHT_TIME)
    first = F.when(F.row_number().over(of_one) == 1, 1).otherwise(0).cast("bigint")
    return pairs.withColumn(OWN, first).drop(_TIE)


def _numbered(events: DataFrame, keys: Sequence[str], alike: Sequence[str]) -> DataFrame:
    """Numbers events so that those of equal times can be told apart, even if they are alike."""
    order = _sortable(events, alike)
    own = Over.partitionBy(*keys, TIME).orderBy(*(order or [F.col(TIME)]))
    return events.withColumn(_TIE, F.row_number().over(own))


def _placed(
    events: DataFrame, keys: Sequence[str], order: Sequence[str], alike: Sequence[str], count: int
) -> dict[str, DataFrame]:
    """The events of each side with INDEX, SEEN, CLOSED and, as a tie, INDEX again.

    Events are in this order, then left before right, and then by the columns that the join looks
    at. An event on both sides is in two places.
    """
    sides = {LEFT: F.col(_IS_LEFT).cast("int"), RIGHT: F.col(_IS_RIGHT).cast("int")}
    in_order = Over.partitionBy(*keys).orderBy(*order, *_sortable(events, alike))
    number = in_order.rowsBetween(Over.unboundedPreceding, Over.currentRow)
    # These include all events that are equal in the order, as a place among the other side needs.
    so_far, equal = Over.partitionBy(*keys).orderBy(*order), Over.partitionBy(*keys, *order)
    seen = {
        LEFT: F.sum(sides[RIGHT]).over(so_far) - F.sum(sides[RIGHT]).over(equal),
        RIGHT: F.sum(sides[LEFT]).over(so_far),
    }
    frames = {}
    for side, mine in sides.items():
        index, every = F.sum(mine).over(number), F.sum(mine).over(Over.partitionBy(*keys))
        placed = {INDEX: index, SEEN: seen[side], CLOSED: every - index >= count, _TIE: index}
        frames[side] = events.withColumns(placed).where(mine == 1)
    return frames


def _sortable(events: DataFrame, names: Sequence[str]) -> list[Column]:
    types = {field.name: field.dataType for field in events.schema.fields}
    return [F.col(quoted(name)) for name in names if sortable(types[name])]


def _fitting(window: JoinWindow, made: Callable[[], DataFrame]) -> DataFrame:
    try:
        frame = made()
        if window.where is not None:
            # Over Spark Connect, only this looks at the columns.
            frame.schema  # noqa: B018
    except AnalysisException as error:
        if window.where is None:
            raise
        raise WindowError(
            f"does not fit the events: {str(error).splitlines()[0]}",
            field="where",
            value=window.where,
            way_out="Name columns by their sides, such as right.amount > left.amount",
        ) from error
    return frame
