"""Names of columns: quoting users' names, and the names that this library adds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill.errors import ColumnError

#: A name that users' own columns do not have: exports of Splunk or InfluxDB have a `_time`.
TIME = "_backfill_time"
REASON = "_backfill_reason"
FIRST = "_first"
LAST = "_last"
EVENTS = "_events"
START = "_start"
END = "_end"
#: In sessions with rules: no later event can join; how many earlier sessions have the same start.
CLOSED = "_closed"
ORDINAL = "_ordinal"

#: The time of the event that a sliding window belongs to.
EVENT_TIME = "event_time"
#: The step from which the values of a metric's row hold.
HOLDS_FROM = "at"
#: Columns that results and tables add to those of the key.
RESERVED = frozenset({"date", "event_time", "is_open", "session_id", "window_end", "window_start"})
ROWS = "_rows"
#: In a table of windows around single events or by number of events: how many events have this row
#: as their own; in a metric's table, how many events count from this row's step on.
OWN = "_own"
#: Whether a computed row is published: for a metric, if a value differs from the step before; for a
#: join, if its kind keeps the row.
CHANGED = "_changed"
#: In a join's rows: the times of the left and the right event, NULL if there is none; in µs until
#: they are published.
LEFT_TIME, RIGHT_TIME = "left_time", "right_time"
#: In count windows: the least event time, µs; START and END are the largest.
BEGIN = "_begin"
#: In count windows: the numbers of the first and last event, from 1.
FIRST_EVENT, LAST_EVENT = "first_event", "last_event"
#: The event's time, µs, if TIME is its number or its offset.
INSTANT = "_instant"

#: Types whose values have no order; geometry and geography are new in Spark 4.1.
_UNSORTABLE = frozenset({"map", "variant", "interval", "geometry", "geography"})


def quoted(name: str) -> str:
    """The name as an identifier in Spark SQL, whatever characters it holds."""
    return "`" + name.replace("`", "``") + "`"


def column(name: str) -> Column:
    """The column of exactly this name: dots and backticks in it are part of the name."""
    return F.col(quoted(name))


def named_twice(names: Sequence[str]) -> str | None:
    """The first name that another one equals except for case, which Spark ignores."""
    lower = [name.lower() for name in names]
    return next((name for name in names if lower.count(name.lower()) > 1), None)


def names_of(columns: str | Sequence[str], *, field: str) -> tuple[str, ...]:
    """The names of columns, whether one or several are given.

    Raises:
        ColumnError: it is something else.
    """
    if isinstance(columns, str):
        return (columns,)
    if not isinstance(columns, Sequence) or not all(isinstance(name, str) for name in columns):
        raise ColumnError(
            "must be the name of a column, or a list of names", field=field, value=str(columns)
        )
    return tuple(columns)


def arrival_of(columns: str | Sequence[str] | None) -> tuple[str, ...]:
    """The names of the columns that give the order of arrival; none if it is not given."""
    return () if columns is None else names_of(columns, field="arrival")


def sortable(type: T.DataType) -> bool:
    """Whether Spark can order values of this type."""
    return not any(part.typeName() in _UNSORTABLE for part in _parts(type))


def is_collated(type: T.DataType) -> bool:
    """Whether different values can be equal by a collation, which their hashes are not."""
    return any(isinstance(part, T.StringType) and part != T.StringType() for part in _parts(type))


def has_floats(type: T.DataType) -> bool:
    """Whether values of this type are floating-point numbers, or hold some."""
    return any(isinstance(part, T.FloatType | T.DoubleType) for part in _parts(type))


def with_parts(
    value: Column, type: T.DataType, change: Callable[[Column, T.DataType], Column]
) -> Column:
    """An array with each element changed, or a struct with each field.

    Args:
        value: the array or struct.
        type: its type.
        change: from an element or field, and its type, makes what stands in its place.
    """
    if isinstance(type, T.ArrayType):
        return F.transform(value, lambda element: change(element, type.elementType))
    assert isinstance(type, T.StructType)
    fields = (change(value[field.name], field.dataType).alias(field.name) for field in type.fields)
    return F.when(value.isNotNull(), F.struct(*fields))


def _parts(type: T.DataType) -> Iterator[T.DataType]:
    """The type, and those of what it holds."""
    yield type
    if isinstance(type, T.ArrayType):
        yield from _parts(type.elementType)
    elif isinstance(type, T.StructType):
        for field in type.fields:
            yield from _parts(field.dataType)


def key_name(index: int) -> str:
    """What a key column is called between reading and publishing, whatever its name."""
    return f"_key{index}"


def set_aside(names: Sequence[str]) -> dict[str, str]:
    """New names for users' columns, to avoid helper columns, which all begin with an underscore.

    Args:
        names: the names of all columns.

    Returns:
        A name for each column; TIME and REASON keep theirs.
    """
    taken = set(map(str.lower, names))
    new_names = {}
    for name in names:
        new_names[name] = name
        if name.startswith("_") and name not in (TIME, REASON):
            other = f"own{name}"
            while other.lower() in taken:
                other += "_"
            taken.add(other.lower())
            new_names[name] = other
    return new_names


def any_given(columns: Sequence[str]) -> Column:
    """Whether any of these columns is not NULL; true if there are no columns."""
    return reduce(or_, [F.col(name).isNotNull() for name in columns]) if columns else F.lit(True)
