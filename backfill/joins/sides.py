"""The two sides of a join: their columns, their events' times, and what the result calls them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill.columns import REASON, TIME, names_of, quoted, sortable
from backfill.errors import BackfillError, ColumnError, WindowError, did_you_mean
from backfill.events import EventRules, normalise
from backfill.frames.arguments import check_frame
from backfill.operators.binned import INNER
from backfill.operators.pairing import INDEX, SEEN
from backfill.printable import spark_reason
from backfill.windows.arguments import predicate_text
from backfill.windows.join_window import LEFT, RIGHT

#: Where a window that holds both events of a pair starts, µs.
SHARED = "_join_start"
#: Names that no column of a side may have.
RESERVED = INNER | {TIME, REASON, INDEX, SEEN, SHARED}
#: The ending of the name of a right side's column, if the left side has one of that name.
_SUFFIX = "_right"


@dataclass(frozen=True)
class Sides:
    """Two frames to be joined.

    Attributes:
        left, right: with TIME, in µs; NULL where there is none that can be read.
        on: the columns whose values must be equal.
        columns: the names and types of the columns of either side, in order.
    """

    left: DataFrame
    right: DataFrame
    on: tuple[str, ...]
    columns: tuple[dict[str, T.DataType], dict[str, T.DataType]]

    def kept(self) -> list[Column]:
        """The left side's columns of a joined frame."""
        return [self.of(LEFT, name) for name in self.columns[0]]

    def both(self) -> list[Column]:
        """The columns of both sides of a joined frame; those of `on` once, as the left has them."""
        return [*self.kept(), *(self.of(RIGHT, old).alias(new) for old, new in self.added())]

    def only(self, side: str) -> list[Column]:
        """The same for a frame of one side, whose partner is missing."""
        mine, theirs = self.columns
        if side == LEFT:
            nothing = (F.lit(None).cast(theirs[old]).alias(new) for old, new in self.added())
            return [*self.kept(), *nothing]
        return [
            *(
                self.of(RIGHT, name) if name in self.on else F.lit(None).cast(type).alias(name)
                for name, type in mine.items()
            ),
            *(self.of(RIGHT, old).alias(new) for old, new in self.added()),
        ]

    def check_order(self, arrival: Sequence[str], *sides: str) -> None:
        """Raises a ColumnError if sides can't be ordered by these columns, or not together."""
        for side in sides:
            has = self.columns[side == RIGHT]
            for name in arrival:
                check_has(f"the {side} side", has, name, field="arrival")
                if not sortable(has[name]):
                    raise ColumnError(
                        f"is {has[name].simpleString()}, which can't order events",
                        field="arrival",
                        value=name,
                        way_out="Use numbers, or times",
                    )
        for name in arrival if len(sides) > 1 else ():
            mine, theirs = (types[name].simpleString() for types in self.columns)
            if mine != theirs:
                raise ColumnError(
                    f"is {mine} and {theirs} on the two sides, but must order both together",
                    field="arrival",
                    value=name,
                    way_out="Cast it to one type on both sides",
                )

    def added(self) -> list[tuple[str, str]]:
        """The right side's columns except those of `on`, with their names in the result.

        Raises:
            ColumnError: a name that ends with `_right` is taken.
        """
        mine, theirs = self.columns
        # Spark does not tell small and capital letters of names apart.
        taken = {name.lower() for name in mine}
        others = [name for name in theirs if name not in self.on]
        plain = {name.lower() for name in others}
        names = []
        for name in others:
            new = name + _SUFFIX if name.lower() in taken else name
            if new != name and new.lower() in taken | plain:
                raise ColumnError(
                    "the result would have two columns of this name",
                    field="right",
                    value=new,
                    way_out=f"Rename {name!r} or {new!r} in one of the frames",
                )
            names.append((name, new))
        return names

    @staticmethod
    def of(side: str, name: str) -> Column:
        """A column of a side in a joined frame."""
        return F.col(f"{side}.{quoted(name)}")


def both_sides(
    left: DataFrame,
    right: DataFrame,
    *,
    on: str | Sequence[str],
    time: str | Sequence[str],
    time_format: str | tuple[str | None, str | None] | None,
    timezone: str,
    tick_us: int = 1,
) -> Sides:
    """Checks the frames' columns, and reads their times.

    Args:
        left: any frame.
        right: any frame.
        on: columns that both have.
        time: the column of the event time; or two, the left side's and the right's.
        time_format: of both, or of either.
        timezone: of both.
        tick_us: times are floored to it.

    Raises:
        ColumnError: a column is missing, has an unsuitable type or a reserved name.
        JobFileError: there is no such time zone, or the format of times is not valid.
    """
    for side, frame in ((LEFT, left), (RIGHT, right)):
        check_frame(frame, field=side)
    keys = names_of(on, field="on")
    times = pair_of_times(time)
    formats = time_format if isinstance(time_format, tuple) else (time_format, time_format)
    columns = (_columns(left, LEFT, keys), _columns(right, RIGHT, keys))
    for name in keys:
        types = [side_types[name].simpleString() for side_types in columns]
        if columns[0][name] != columns[1][name]:
            raise ColumnError(
                f"is {types[0]} on the left side and {types[1]} on the right",
                field="on",
                value=name,
                way_out="Cast one of the columns to the other's type",
            )

    def timed(frame: DataFrame, side: str) -> DataFrame:
        own, format = times[side == RIGHT], formats[side == RIGHT]
        rules = EventRules(
            key=keys,
            time=own,
            time_format=format,
            timezone=timezone,
            null_key=True,
            tick_us=tick_us,
            grouped=False,
        )
        with naming(side):
            return normalise(frame, rules).drop(REASON)

    return Sides(timed(left, LEFT), timed(right, RIGHT), keys, columns)


def check_has(whose: str, columns: Collection[str], name: str, *, field: str) -> None:
    """Raises a ColumnError if a column is missing."""
    if name not in columns:
        raise ColumnError(
            f"{whose} has no such column",
            field=field,
            value=name,
            way_out=did_you_mean(name, columns),
        )


def pair_of_times(time: str | Sequence[str]) -> tuple[str, str]:
    """The left side's column of time, and the right's.

    Raises:
        ColumnError: it is neither one column nor a pair.
    """
    times = (time, time) if isinstance(time, str) else time
    if not isinstance(times, Sequence) or len(times) != 2:
        raise ColumnError(
            "must be one column, or the left side's and the right side's",
            field="time",
            value=str(time),
            way_out='Write "event_time", or ("clicked_at", "bought_at")',
        )
    return times[0], times[1]


@contextmanager
def naming(side: str) -> Iterator[None]:
    """Says in an error which side it is about."""
    try:
        yield
    except BackfillError as error:
        raise error.within(side) from error


def _columns(frame: DataFrame, side: str, on: Sequence[str]) -> dict[str, T.DataType]:
    types = {field.name: field.dataType for field in frame.schema.fields}
    for name in on:
        check_has(f"the {side} side", types, name, field="on")
    lower = [name.lower() for name in frame.columns]
    for name in frame.columns:
        if name.lower() in RESERVED or lower.count(name.lower()) > 1:
            raise ColumnError(
                "is a name that the join itself uses"
                if name.lower() in RESERVED
                else "is the name of two columns",
                field=side,
                value=name,
                way_out="Rename the column",
            )
    return types


def condition(text: str | None, joined: Callable[[Column | None], DataFrame]) -> DataFrame:
    """The frame that a condition in Spark SQL gives.

    Args:
        text: over `left.column` and `right.column`; None for no condition.
        joined: makes the frame.

    Raises:
        WindowError: it is no text, does not fit the columns of both sides, or is not boolean.
    """
    read = predicate_text(text, field="where", example="right.amount > left.amount")
    try:
        frame = joined(None if read is None else F.expr(read))
        if read is not None:
            # Over Spark Connect, only this looks at the columns.
            frame.schema  # noqa: B018
    except AnalysisException as error:
        if read is None:
            raise
        raise WindowError(
            f"does not fit the two sides: {spark_reason(error)}",
            field="where",
            value=read,
            way_out="Name columns by their sides, such as right.amount > left.amount",
        ) from error
    return frame
