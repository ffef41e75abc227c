"""Event times and reasons: which rows are events, and why the others are not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    NumericType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from backfill.columns import REASON, TIME, column, is_collated
from backfill.errors import ColumnError, did_you_mean
from backfill.events.model import CORRUPT
from backfill.events.times import read_time
from backfill.runtimes.differences import floats_need_spark
from backfill.time.durations import DAY_US
from backfill.time.zones import to_local

REASONS = (
    "unparsable_line",
    "no_time",
    "time_out_of_range",
    "unreadable_time",
    "no_key",
    "before_epoch",
    "future",
    "wrong_date",
)
"""Where several hold for a row, the first of them is its reason."""

#: An event time as it was read, before it is judged.
_RAW = "_raw_time"
_PLAIN = (
    StringType,
    NumericType,
    BooleanType,
    DateType,
    TimestampType,
    TimestampNTZType,
    BinaryType,
)


@dataclass(frozen=True, kw_only=True)
class EventRules:
    """How rows become events: what the job file's `events:` says, and what the engine says.

    Attributes:
        key: columns of the key; () is one group for all events.
        time: column of the event time.
        time_format: None for timestamps and dates, else as in `time_column`.
        timezone: the zone of times without a zone, and of dates.
        id: column of the event's id, if it has one.
        arrival: columns that give the order of arrival.
        max_future_us: how much later than `now_us` a time may be, µs; None: any.
        now_us: the run's one now, µs since the epoch.
        date_column: a column that must be the event's date in `timezone`.
        tick_us: the engine's resolution of time, µs; times are floored to it.
        null_key: whether a NULL key is an ordinary group.
        before_epoch: whether events before 1970 are used.
        grouped: whether rows of one key or id become one row, which has its value.
    """

    key: tuple[str, ...]
    time: str
    time_format: str | None = None
    timezone: str = "UTC"
    id: str | None = None
    arrival: tuple[str, ...] = ()
    max_future_us: int | None = None
    now_us: int | None = None
    date_column: str | None = None
    tick_us: int = 1
    null_key: bool = False
    before_epoch: bool = True
    grouped: bool = True


def normalise(frame: DataFrame, rules: EventRules) -> DataFrame:
    """Add `TIME` and `REASON` to events.

    Args:
        frame: rows of a source, or any frame.
        rules: what is an event.

    Returns:
        The frame with `TIME` (bigint, µs since the epoch, floored to the tick; NULL if it cannot
        be read) and `REASON` (NULL if the row is an event, else the first of REASONS that holds).
        A key is missing if all its columns are NULL.

    Raises:
        ColumnError: a column is missing, or its type cannot serve.
        JobFileError: the zone or the pattern of times is not valid.
        SetupError: the key, id or arrival is a floating-point number, and the runtime is not
            Spark.
    """
    _check_columns(frame, rules)
    reading = read_time(frame, rules.time, rules.time_format, rules.timezone)
    if reading.cheap:
        raw, read = reading.raw, frame
    else:
        # Spark repeats an expression wherever it is used, in filters too; what comes out of an
        # array is computed once per row.
        read = frame.select("*", F.inline(F.array(F.struct(reading.raw.alias(_RAW)))))
        raw = F.col(_RAW)
    time, out_of_range = reading.judged(raw)
    if rules.tick_us > 1:
        # pmod is never negative, so this floors before 1970 too.
        time = time - F.pmod(time, F.lit(rules.tick_us).cast("bigint"))
    timed = read.withColumn(TIME, time)
    tests = [
        ("no_time", column(rules.time).isNull()),
        ("time_out_of_range", out_of_range),
        *([] if reading.always else [("unreadable_time", F.col(TIME).isNull())]),
        *_tests(timed, rules),
    ]
    if CORRUPT in frame.columns:
        tests.insert(0, ("unparsable_line", F.col(CORRUPT).isNotNull()))
    reason = reduce(
        lambda chain, test: chain.when(test[1], test[0]),
        tests[1:],
        F.when(tests[0][1], tests[0][0]),
    )
    return timed.withColumn(REASON, reason).drop(_RAW)


def _tests(timed: DataFrame, rules: EventRules) -> Iterable[tuple[str, Column]]:
    """What can be wrong with a row that has a time."""
    time = F.col(TIME)
    if rules.key and not rules.null_key:
        yield "no_key", reduce(and_, [column(name).isNull() for name in rules.key])
    if not rules.before_epoch:
        yield "before_epoch", time < 0
    if rules.max_future_us is not None and rules.now_us is not None:
        yield "future", time > rules.now_us + rules.max_future_us
    if rules.date_column is not None:
        local = to_local(time, rules.timezone)
        midnight = local - F.pmod(local, F.lit(DAY_US))
        given = F.unix_date(column(rules.date_column).try_cast("date")).cast("bigint")
        yield "wrong_date", ~(given * DAY_US).eqNullSafe(midnight)


def _check_columns(frame: DataFrame, rules: EventRules) -> None:
    used = {"key": rules.key, "time": (rules.time,), "arrival": rules.arrival}
    used["id"] = (rules.id,) if rules.id is not None else ()
    used["date_column"] = (rules.date_column,) if rules.date_column is not None else ()
    for field, columns in used.items():
        for name in columns:
            check_column(frame, field, name, grouped=rules.grouped)
            if field in ("key", "id", "arrival"):
                floats_need_spark(frame, name, field)


def check_column(frame: DataFrame, field: str, name: str, *, grouped: bool = True) -> None:
    """Raises ColumnError if there is no such column, or two, or it can't serve as the field."""
    if not isinstance(name, str):
        raise ColumnError("must be the name of a column", field=field, value=str(name))
    names = frame.columns
    if name not in names:
        raise ColumnError(
            "there is no such column",
            field=field,
            value=name,
            way_out=did_you_mean(name, (n for n in names if not n.startswith("_"))),
        )
    if names.count(name) > 1:
        raise ColumnError("two columns have this name", field=field, value=name)
    type_ = frame.schema[name].dataType
    _check_type(field, name, type_)
    if grouped and field in ("key", "id", "by"):
        _check_collation(field, name, type_)


def _check_collation(field: str, name: str, type_: DataType) -> None:
    """Refuses texts of which different ones are equal: which one stands for all would be chance.

    Nor do they have the same hash, from which session ids are made; and tables can't have
    collations.
    """
    if is_collated(type_):
        raise ColumnError(
            f"column {name!r} is {type_.simpleString()}, which treats different texts as equal",
            field=field,
            way_out=f"Make them the same text, as lower({name}) does, or compare their bytes: "
            f"collate({name}, 'UTF8_BINARY')",
        )


def _check_type(field: str, name: str, type_: DataType) -> None:
    if field == "time":
        return  # types of times are told apart where times are read
    allowed = (DateType, StringType) if field == "date_column" else _PLAIN
    if not isinstance(type_, allowed):
        wanted = (
            "a date, or text such as 2026-01-31"
            if field == "date_column"
            else "text, numbers, booleans, dates, timestamps or binary"
        )
        raise ColumnError(
            f"column {name!r} is {type_.simpleString()}, which cannot serve as {field}",
            field=field,
            way_out=f"Allowed: {wanted}",
        )
