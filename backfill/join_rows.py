"""From a job's events to the rows of a join's table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from backfill.columns import CHANGED, END, EVENTS, LEFT_TIME, OWN, RIGHT_TIME, START, TIME, quoted
from backfill.errors import WindowError
from backfill.join_window import LEFT, RIGHT, JoinWindow
from backfill.operators.binned import AT, INNER, binned
from backfill.operators.rule_inputs import sortable
from backfill.slices import ID

#: The id of a row's right event.
RIGHT_ID = "_right_id"
#: An event's number among those of its side with the same key and time.
_TIE = "_join_tie"
_IS_LEFT, _IS_RIGHT = "_join_is_left", "_join_is_right"
#: Names that no column of the events may have that a join looks at.
TAKEN = INNER | {TIME, ID, _TIE, _IS_LEFT, _IS_RIGHT}


def join_rows(
    events: DataFrame,
    window: JoinWindow,
    keys: Sequence[str],
    *,
    sides: tuple[str, str],
    columns: Mapping[str, str],
) -> DataFrame:
    """Computes the rows of a join, also those that are not published.

    Every event of a side has a row of its own, at its time: of a left event the first one of its
    rows, of others one that only a full join publishes, where the event has no partner. So what
    rows hold can be counted.

    Args:
        events: usable events, each once: key, TIME, perhaps ID, and what follows.
        window: which events are pairs.
        keys: the key columns.
        sides: the columns that say whether an event is on the left and on the right side.
        columns: those of what the window looks at, by its names.

    Returns:
        Key, START and END (the row's time, µs), EVENTS (how many events the row has), OWN (1 in an
        event's own row, or else 0), CHANGED (whether the row is published), LEFT_TIME, RIGHT_TIME
        (µs), ID and RIGHT_ID where events have an id, and the window's columns by their names.

    Raises:
        WindowError: the window's condition does not fit the events.
    """
    is_left, is_right = (F.col(each) for each in sides)
    ids = [ID] if ID in events.columns else []
    named = events.select(
        *keys,
        TIME,
        *ids,
        F.col(TIME).alias(AT),
        is_left.alias(_IS_LEFT),
        is_right.alias(_IS_RIGHT),
        *(F.col(inner).alias(name) for name, inner in columns.items()),
    )
    left = _numbered(named.where(_IS_LEFT), keys, ids, columns)
    right = named.where(_IS_RIGHT)

    def joined(own: DataFrame, other: DataFrame, how: str, names: tuple[str, str]) -> DataFrame:
        return binned(
            own,
            other,
            keys=keys,
            reach=window.within if names[0] == LEFT else window.within.reversed(),
            how=how,
            names=names,
            where=None if window.where is None else F.expr(window.where),
        )

    def row(
        has: Sequence[str], events: Column, own: Column, shown: Column, *also: str
    ) -> list[Column]:
        """The columns of a row that has an event of these sides, the first of which is its own."""

        def cell(side: str, name: str) -> Column:
            return _of(side, name) if side in has else F.lit(None).cast(types[name])

        at = _of(has[0], TIME)
        return [
            *(_of(has[0], each).alias(each) for each in keys),
            at.alias(START),
            at.alias(END),
            events.cast("bigint").alias(EVENTS),
            own.cast("bigint").alias(OWN),
            shown.alias(CHANGED),
            cell(LEFT, TIME).alias(LEFT_TIME),
            cell(RIGHT, TIME).alias(RIGHT_TIME),
            *(cell(LEFT, each).alias(ID) for each in ids),
            *(cell(RIGHT, each).alias(RIGHT_ID) for each in ids),
            *(cell(each.side, each.name).alias(name) for name, each in window.columns.items()),
            *(_of(LEFT, each).alias(each) for each in also),
        ]

    types = {field.name: field.dataType for field in named.schema.fields}
    one, nothing, both = F.lit(1), F.lit(0), (LEFT, RIGHT)
    yes, no = F.lit(True), F.lit(False)

    def rows() -> list[DataFrame]:
        if window.how in ("semi", "anti"):
            found = [
                joined(left, right, how, both).select(
                    *row([LEFT], one, one, yes if how == window.how else no)
                )
                for how in ("semi", "anti")
            ]
        else:
            met = _of(RIGHT, TIME).isNotNull()
            shown = met if window.how == "inner" else yes
            number = F.when(met, 2).otherwise(1)
            pairs = joined(left, right, "left", both)
            placed = pairs.select(*row(both, number, nothing, shown, _TIE))
            of_one = Over.partitionBy(*keys, LEFT_TIME, _TIE).orderBy(RIGHT_TIME)
            first = F.when(F.row_number().over(of_one) == 1, 1).otherwise(0).cast("bigint")
            found = [placed.withColumn(OWN, first).drop(_TIE)]
        not_left = F.when(_of(RIGHT, _IS_LEFT), 0).otherwise(1)
        others = right.alias(RIGHT)
        if window.how == "full":
            turned = (RIGHT, LEFT)
            alone = joined(right, left, "anti", turned)
            found.append(alone.select(*row([RIGHT], one, not_left, yes)))
            others = joined(right, left, "semi", turned)
        own = others.where(not_left == 1).select(*row([RIGHT], one, one, no))
        return [*found, own]

    return _fitting(window, lambda: reduce(DataFrame.unionByName, rows()))


def _of(side: str, name: str) -> Column:
    return F.col(f"{side}.{quoted(name)}")


def _numbered(
    events: DataFrame, keys: Sequence[str], ids: Sequence[str], columns: Mapping[str, str]
) -> DataFrame:
    """Events with numbers that tell those of equal times apart, also events that are alike."""
    types = {field.name: field.dataType for field in events.schema.fields}
    order = [F.col(quoted(each)) for each in (*ids, *columns) if sortable(types[each])]
    alike = Over.partitionBy(*keys, TIME).orderBy(*(order or [F.col(TIME)]))
    return events.withColumn(_TIE, F.row_number().over(alike))


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
