"""What became of each window between two versions of its table."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import takewhile
from operator import and_
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.window import Window as Over

from backfill.columns import (
    EVENT_TIME,
    HOLDS_FROM,
    LAST,
    LAST_EVENT,
    START,
    column,
    key_name,
    with_parts,
)
from backfill.engines import Rules
from backfill.errors import ColumnError
from backfill.kinds import of_each_event, times_of
from backfill.operators.grids import floor_to
from backfill.operators.session import last_event
from backfill.runtimes.differences import observed, optional, stacked
from backfill.windows import AnyWindow, CountWindow, JoinWindow, SessionWindow, by_place

#: The values of `change`.
KINDS = ("inserted", "updated", "deleted", "merged", "split")

_OLD, _NEW = "_old", "_new"
_IS_NEW = "_is_new"
_ID, _BIN, _ROW, _FIRST, _NUMBER = "_id", "_bin", "_row", "_first", "_number"
#: The width of bins, in bits of what rows start with: times (2.4 hours), or numbers of events.
_TIME_BITS, _NUMBER_BITS = 33, 13
_OLD_BEFORE, _NEW_BEFORE, _NEXT = "_old_before", "_new_before", "_next"


def changes(
    old: DataFrame,
    new: DataFrame,
    *,
    key: Sequence[str],
    window: AnyWindow,
    rules: Rules,
    id: str | None = None,
) -> DataFrame:
    """Compares two versions of a window's table.

    Aligned windows, and the distinct windows that events share, are the same window if key, start
    and end are equal. Count windows are the same if they have the same place in the order of their
    key's windows, or belong to the same period; sessions by messages, if their ids are equal. Rows
    of single events are the same row if key, time and id are equal; without an id, if they have
    the same place among the rows of that time, in the order of their values. Rows of joins are the
    same if key, times and ids of their events are equal.
    Other sessions can't be matched like this, since a late event can move their start and with it
    their id: an old and a new session of one key are linked if their spans, from the first to the
    last event, meet. There is one row for each link that shows a difference, and one for each
    window without a link:

    - `inserted`, `deleted`: linked to nothing; `old` or `new` is NULL.
    - `updated`: linked to each other and to nothing else, and something visible differs, such as
      the id if the start moved.
    - `merged`: the new session is linked to several old ones; a row for each of these.
    - `split`: the old session is linked to several new ones; a row for each of these.

    If a session was cut and its parts joined others, a link is `merged` if its new session is
    linked to several old ones, whatever else happened to the old one, and `split` otherwise.

    Values are compared as Spark orders them: NULL equals NULL, NaN equals NaN, -0.0 equals 0.0. A
    column that only one version has, or has in another type, counts as changed.

    Args:
        old: the rows of a published table that only the old version has, or more of its rows.
        new: the same for the new version. Rows that are in both are no change.
        key: the key's columns.
        window: the definition; whether it is a session decides how windows are linked.
        rules: the engine's rules for this window.
        id: the column of the events' id.

    Returns:
        `change`; `key`, a struct of the key columns; `old` and `new`, structs of what else can be
        seen of the window in its table, or NULL: [session_id,] window_start, window_end (or
        event_time, [id]; of a metric at), the aggregates, is_open; `changed`, the names of the
        columns that differ between the two, empty if one is NULL. Structs, since an aggregate or
        a key may have any name.

    Raises:
        ColumnError: the key, or the kind of window, is not the same in both versions.
    """
    keys = [key_name(i) for i in range(len(key))]
    ids = ["session_id"] if "session_id" in {*old.columns, *new.columns} else []
    own = [id] if id is not None and of_each_event(window) else []
    if isinstance(window, JoinWindow):
        own = list(window.own_columns(None if id in key else id))
    number = [LAST_EVENT] if isinstance(window, CountWindow) else []
    _check_same(old, new, [*key, *ids, *times_of(window), *own, *number, *_key_of(old, window)])
    before = _side(old, _OLD, key, window, rules)
    after = _side(new, _NEW, key, window, rules)
    if isinstance(window, SessionWindow) and by_place(window):
        # Sessions in several partitions can meet, so they are identified by their ids.
        linked = _paired(before, after, keys, [], ids)
    elif isinstance(window, SessionWindow):
        linked = _linked(stacked(before, after), keys)
    else:
        own = [name for name in own if name not in key]
        bits = None
        if isinstance(window, CountWindow):
            # If the other version has another advance, several can be in one place.
            bits = _NUMBER_BITS if isinstance(window.advance, int) else _TIME_BITS
        elif of_each_event(window) or isinstance(window, JoinWindow):
            bits = _TIME_BITS
        linked = _paired(before, after, keys, [START, LAST], own, bits=bits)
    names = dict.fromkeys([*_values(old, key), *_values(new, key)])
    both = F.col(_OLD).isNotNull() & F.col(_NEW).isNotNull()
    differing = F.array_compact(
        F.array(*(F.when(~_equal(name, old, new), F.lit(name)) for name in names))
    )
    named = [F.col(mine).alias(own) for mine, own in zip(keys, key, strict=True)]
    return linked.select(
        "change",
        F.struct(*named).alias("key"),
        F.col(_OLD).alias("old"),
        F.col(_NEW).alias("new"),
        F.when(both, differing).otherwise(F.array().cast("array<string>")).alias("changed"),
    ).where((F.col("change") != "updated") | (F.size("changed") > 0))


def first_changes(changed: DataFrame, limit: int) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """The first changes in order of key and start, and how many there are of each kind.

    Args:
        changed: what `changes` gives; it is computed once.
        limit: the most changes to return.

    Returns:
        The rows as nested dicts, instants with their zone, and the number of rows by kind.
    """
    kinds = (F.count_if(F.col("change") == kind).alias(kind) for kind in KINDS)
    watched, counted = observed(changed, *kinds, hold=True)
    fields = changed.select("new.*").columns
    at = next(name for name in ("window_start", EVENT_TIME, HOLDS_FROM) if name in fields)
    start = F.coalesce(F.col(f"new.{at}"), F.col(f"old.{at}"))
    first = watched.orderBy("key", start, f"old.{at}").limit(limit)
    rows = first.toArrow().to_pylist(maps_as_pydicts="strict")
    # Spark may observe nothing of a frame that it finds to be empty.
    return rows, dict(counted()) if rows else dict.fromkeys(KINDS, 0)


def _key_of(rows: DataFrame, window: AnyWindow) -> list[str]:
    """The key columns of a table, which come before the times; they may be others now."""
    after = ("session_id", *times_of(window))
    return list(takewhile(lambda name: name not in after, rows.columns))


def _check_same(old: DataFrame, new: DataFrame, names: Sequence[str]) -> None:
    before, after = _types(old), _types(new)
    for name in names:
        if name not in before or before[name] != after.get(name):
            raise ColumnError(
                "differs between the two versions of the table, so their windows can't be compared",
                field=name,
                way_out="Choose a run after that change (--since)",
            )


def _types(frame: DataFrame) -> dict[str, T.DataType]:
    return {field.name: field.dataType for field in frame.schema.fields}


def _values(frame: DataFrame, key: Sequence[str]) -> list[str]:
    """The visible columns of a window, except its date, which follows from its start."""
    own = {*key, "date"}
    return [name for name in frame.columns if name not in own and not name.startswith("_")]


def _side(
    frame: DataFrame, name: str, key: Sequence[str], window: AnyWindow, rules: Rules
) -> DataFrame:
    """A version's rows: key, whether it is the new one, span in µs, the values as `name`."""
    start, last = map(F.unix_micros, times_of(window))
    if isinstance(window, CountWindow):
        start = last = _number(window, rules, last)
    elif isinstance(window, SessionWindow) and not by_place(window):
        # An older version may have had a smaller gap than is taken off here.
        last = F.greatest(start, last_event(last, window, rules))
    if isinstance(window, SessionWindow) and window.has_rules:
        # A rule can cut between events of one instant; spans of one side must not meet there.
        sessions = Over.partitionBy(*map(column, key)).orderBy(start, last, "session_id")
        meets = F.coalesce(F.lag(last).over(sessions) == start, F.lit(False))
        start = start + meets.cast("bigint")
        last = F.greatest(start, last)
    return frame.select(
        *(column(key_column).alias(key_name(i)) for i, key_column in enumerate(key)),
        F.lit(name == _NEW).alias(_IS_NEW),
        start.alias(START),
        last.alias(LAST),
        F.struct(*(column(value_column) for value_column in _values(frame, key))).alias(name),
    )


def _number(window: CountWindow, rules: Rules, last: Column) -> Column:
    """The number of the last event before the window's own; or the window's period, µs."""
    advance = window.advance
    if isinstance(advance, int):
        return floor_to(F.col(LAST_EVENT) - 1, advance, 0)
    return floor_to(last - int(rules.closed == "right"), advance.us, 0)


def _paired(
    old: DataFrame,
    new: DataFrame,
    keys: Sequence[str],
    place: Sequence[str],
    own: Sequence[str],
    *,
    bits: int | None = None,
) -> DataFrame:
    """Links the rows of the two versions that are in the same place.

    Args:
        old: the rows of the old version.
        new: the rows of the new version.
        keys: the key columns.
        place: columns that identify a row within a key.
        own: fields of the values that also do so.
        bits: if a version can have several rows in one place, the width of the bins in which these
            are numbered.

    Returns:
        The same as `_linked`.
    """
    ids = [f"{_ID}{i}" for i in range(len(own))]
    known_by = [*keys, *place, *ids]

    def placed(rows: DataFrame, side: str) -> DataFrame:
        values = (F.col(side)[name].alias(id) for id, name in zip(ids, own, strict=True))
        with_ids = rows.select("*", *values)
        if bits is not None:
            with_ids = _numbered(with_ids, side, keys, [*place, *ids], bits)
        return optional(with_ids.select(*(F.col(name).alias(side + name) for name in names), side))

    names = known_by if bits is None else [*known_by, _NUMBER]
    same = (F.col(_OLD + name).eqNullSafe(F.col(_NEW + name)) for name in names)
    both = placed(old, _OLD).join(placed(new, _NEW), reduce(and_, same), "full")
    change = (
        F.when(F.col(_OLD).isNull(), F.lit("inserted"))
        .when(F.col(_NEW).isNull(), F.lit("deleted"))
        .otherwise(F.lit("updated"))
    )
    found_keys = (F.coalesce(_OLD + key, _NEW + key).alias(key) for key in keys)
    return both.select(*found_keys, change.alias("change"), _OLD, _NEW)


def _numbered(
    rows: DataFrame, side: str, keys: Sequence[str], place: Sequence[str], bits: int
) -> DataFrame:
    """Rows with their numbers among those in the same place, in order of their values."""
    values = [F.col(side)[name] for name in _sorted_by(rows, side)]
    # Bins spread a hot key over several tasks, and leave few groups of only a row or two.
    binned = rows.withColumn(_BIN, F.shiftright(START, bits))
    in_order = Over.partitionBy(*keys, _BIN).orderBy(*place, *values)
    same = reduce(and_, (F.lag(name).over(in_order).eqNullSafe(F.col(name)) for name in place))
    row = F.row_number().over(in_order)
    counted = binned.withColumns({_ROW: row, _FIRST: F.when(~same, row)})
    so_far = in_order.rowsBetween(Over.unboundedPreceding, Over.currentRow)
    return counted.withColumn(_NUMBER, F.col(_ROW) - F.max(_FIRST).over(so_far))


def _sorted_by(rows: DataFrame, side: str) -> list[str]:
    """The fields that Spark can sort by."""
    kind = rows.schema[side].dataType
    assert isinstance(kind, T.StructType)
    return [field.name for field in kind.fields if "map<" not in field.dataType.simpleString()]


def _linked(rows: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Links the rows of the two sides whose spans meet, within a key.

    The spans of one side are disjoint. So of all rows of the other side that start before or with
    a row, only the last can reach it, and each link is found once, at the later of its two rows.
    Whether one of the two has a further link follows from the row before and the row after. One
    sort is enough, however many windows a key has.

    Returns:
        A row for each link and each row without one: `change`, and what is linked.
    """
    # If two start together, the old one comes first.
    in_time = Over.partitionBy(*keys).orderBy(START, _IS_NEW)
    before = in_time.rowsBetween(Over.unboundedPreceding, -1)
    is_new = F.col(_IS_NEW)

    def latest(side: str, wanted: Column) -> Column:
        return F.last(F.when(wanted, F.struct(START, LAST, side)), ignorenulls=True).over(before)

    placed = rows.select(
        "*",
        latest(_OLD, ~is_new).alias(_OLD_BEFORE),
        latest(_NEW, is_new).alias(_NEW_BEFORE),
        F.lead(F.struct(_IS_NEW, START)).over(in_time).alias(_NEXT),
    )
    old_before, new_before, next_ = F.col(_OLD_BEFORE), F.col(_NEW_BEFORE), F.col(_NEXT)
    start, last = F.col(START), F.col(LAST)

    def other(field: str) -> Column:
        return F.when(is_new, old_before[field]).otherwise(new_before[field])

    fellow_last = F.when(is_new, new_before[LAST]).otherwise(old_before[LAST])
    next_is_fellow = next_[_IS_NEW] == is_new
    linked = _true(other(LAST) >= start)
    # This row has a link to a later one.
    leads = _true(~next_is_fellow & (next_[START] <= last))
    # The row that this one is linked to has another link, to the row before or after on this side.
    shared = _true(fellow_last >= other(START)) | _true(
        next_is_fellow & (next_[START] <= other(LAST))
    )
    several_old = F.when(is_new, leads).otherwise(shared)
    several_new = F.when(is_new, shared).otherwise(leads)
    alone = F.when(is_new, F.lit("inserted")).otherwise(F.lit("deleted"))
    change = (
        F.when(~linked, F.when(~leads, alone))
        .when(several_old, F.lit("merged"))
        .when(several_new, F.lit("split"))
        .otherwise(F.lit("updated"))
    )
    return placed.withColumns(
        {
            "change": change,
            _OLD: F.when(~is_new, F.col(_OLD)).when(linked, old_before[_OLD]),
            _NEW: F.when(is_new, F.col(_NEW)).when(linked, new_before[_NEW]),
        }
    ).where(F.col("change").isNotNull())


def _true(condition: Column) -> Column:
    """Whether the condition holds; NULL, which means that there is no such row, is false."""
    return F.coalesce(condition, F.lit(False))


def _equal(name: str, old: DataFrame, new: DataFrame) -> Column:
    kind = _types(new).get(name)
    if kind is None or _types(old).get(name) != kind:
        return F.lit(False)
    return _comparable(F.col(_OLD)[name], kind).eqNullSafe(_comparable(F.col(_NEW)[name], kind))


def _comparable(value: Column, kind: T.DataType) -> Column:
    """The value with each map in it as its sorted entries, since Spark does not compare maps."""
    if "map<" not in kind.simpleString():
        return value
    if isinstance(kind, T.MapType):
        values = F.transform_values(
            value, lambda _, map_value: _comparable(map_value, kind.valueType)
        )
        return F.array_sort(F.map_entries(values))
    return with_parts(value, kind, _comparable)
