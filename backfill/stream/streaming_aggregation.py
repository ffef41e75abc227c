"""A window definition as one streaming aggregation, by Spark's own window functions."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill.aggregates.bound import bind
from backfill.columns import EVENTS, TIME, column, key_name
from backfill.engines import ENGINES
from backfill.errors import WindowError
from backfill.rows.definition import Definition
from backfill.stream.streaming_join import check_joined
from backfill.time.durations import Fixed
from backfill.windows import (
    AnyWindow,
    CumulatingWindow,
    EventWindow,
    HoppingWindow,
    JoinWindow,
    RollingWindow,
    SessionWindow,
    TumblingWindow,
    by_place,
)

SPARK = ENGINES["spark"]
_AT = "_at"
_WINDOW = "_window"
_ONE_GROUP = "_one_group"


def check_streamed(name: str, window: AnyWindow) -> None:
    """Refuses a window or a join that Structured Streaming does not have.

    Args:
        name: the window's, for the message.
        window: its definition.

    Raises:
        WindowError: it follows a calendar; it is cumulating, around single events, or by number of
            events or messages; Spark's function would refuse it; or for the reasons of
            `check_joined`.
    """
    if isinstance(window, JoinWindow):
        check_joined(name, window)
        return
    place, batch = f"windows.{name}", "compute it in batch: backfill run"
    if by_place(window):
        raise WindowError(
            "Structured Streaming has no windows by number of events or of messages",
            field=place,
            value=str(window),
            way_out=batch.capitalize(),
        )
    if isinstance(window, RollingWindow):
        raise WindowError(
            "Structured Streaming has no metrics that change at steps",
            field=f"metrics ({name})",
            value=str(window),
            way_out=batch.capitalize(),
        )
    if isinstance(window, EventWindow):
        raise WindowError(
            "Structured Streaming has no windows around single events",
            field=place,
            value=str(window),
            way_out=batch.capitalize(),
        )
    try:
        SPARK.rules_for(window)
    except WindowError as error:
        raise error.within(place) from None
    if isinstance(window, SessionWindow) and window.has_rules:
        raise WindowError(
            "Structured Streaming has no rules that cut or drop sessions",
            field=place,
            value=str(window),
            way_out=f"Use a gap only, or {batch}",
        )
    if not SPARK.has(window):
        kind = "cumulating" if isinstance(window, CumulatingWindow) else "calendar"
        raise WindowError(
            f"Structured Streaming does not support {kind} windows",
            field=place,
            value=str(window),
            way_out=f"Write fixed spans such as 24h, or {batch}",
        )


def windowed(
    events: DataFrame,
    definition: Definition,
    *,
    key: Sequence[str],
    arrival: Sequence[str],
    delay_us: int,
) -> DataFrame:
    """Groups a stream of events into windows.

    Args:
        events: usable events, with `TIME`.
        definition: the window and its aggregates.
        key: the key's columns; none for one group.
        arrival: columns that give the order of arrival.
        delay_us: how far the watermark stays behind the largest event time.

    Returns:
        Key, `window_start`, `window_end`, the aggregates by name: once per window, when the
        watermark has reached its end.

    Raises:
        AggregateError: an aggregate does not fit the events.
    """
    stamped = events.withColumn(_AT, F.timestamp_micros(TIME)).withWatermark(
        _AT, _interval(delay_us)
    )
    keys = [column(name).alias(key_name(i)) for i, name in enumerate(key)]
    # Sessions need a key, and a constant would be optimised away.
    keys = keys or [(F.col(TIME) * 0).alias(_ONE_GROUP)]
    arrivals = [column(name).alias(f"_arrival{i}") for i, name in enumerate(arrival)]
    columns = [*keys, F.col(TIME), F.col(_AT), *arrivals]
    frame, bound = bind(stamped, columns, definition.aggregates.values(), len(arrival))
    inner = [key_name(i) for i in range(len(key))]
    states = [state for binding in bound.values() for state in binding.partial()]
    grouped = frame.groupBy(*(inner or [_ONE_GROUP]), _of(definition.window).alias(_WINDOW))
    return grouped.agg(F.count(F.lit(1)).alias(EVENTS), *states).select(
        *(F.col(mine).alias(own) for mine, own in zip(inner, key, strict=True)),
        F.col(_WINDOW)["start"].alias("window_start"),
        F.col(_WINDOW)["end"].alias("window_end"),
        *(bound[aggregate].finish(name) for name, aggregate in definition.aggregates.items()),
    )


def _of(window: AnyWindow) -> Column:
    if isinstance(window, SessionWindow):
        return F.session_window(_AT, _interval(window.gap.us))
    if isinstance(window, TumblingWindow | HoppingWindow):
        size = window.size
        slide = window.advance if isinstance(window, HoppingWindow) else size
        if isinstance(size, Fixed) and isinstance(slide, Fixed):
            # Spark wants the offset to be less than the slide; whole slides change nothing.
            offset = window.offset.us % slide.us
            return F.window(_AT, _interval(size.us), _interval(slide.us), _interval(offset))
    raise AssertionError(f"{window} was checked before")


def _interval(us: int) -> str:
    return f"{us} microseconds"
