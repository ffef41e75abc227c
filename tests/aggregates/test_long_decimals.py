"""Sums and means of long decimals, where windows are put together from parts of each other."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import pytest
from pyspark.errors import ArithmeticException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill import (
    CountWindow,
    HoppingWindow,
    Metric,
    SlidingWindow,
    aggregate,
    metrics,
    metrics_at,
)
from backfill import aggregates as agg
from backfill.errors import AggregateError
from backfill.windows import AnyWindow
from tests.on_sail import ON_SAIL, spark_only

pytestmark = pytest.mark.usefixtures("interpreted")

MINUTE = 60_000_000
NAMES: Any = {"key": "key", "time": "time", "time_format": "epoch_us"}
_SIZES = [(18, 9), (27, 10), (28, 6), (28, 7), (28, 10)]
#: Without an error, Sail's sums may have more digits than the type can have.
_LONG = [(32, 10), (38, 6), (38, 7), (38, 18)]
#: The digits of each column's type, in total and after the point.
TYPES = {f"of_{p}_{s}": (p, s) for p, s in (_SIZES if ON_SAIL else [*_SIZES, *_LONG])}
AGGREGATES = {
    f"{kind}_{name}": getattr(agg, kind)(name) for name in TYPES for kind in ("sum", "mean")
}
METRICS = [
    Metric(name, aggregated, by=["key"], windows=["45m"], step="5m")
    for name, aggregated in AGGREGATES.items()
]
Windows = dict[tuple[str, int], dict[str, Decimal | None]]


def _values(drawn: random.Random, precision: int, scale: int) -> Decimal | None:
    digits = drawn.choice([1, 2, scale, scale + 1, min(precision, 34)])
    value = drawn.choice([None, 0, drawn.randint(-(10**digits) + 1, 10**digits - 1)])
    with localcontext(prec=60):
        return None if value is None else Decimal(value).scaleb(-scale)


@pytest.fixture(scope="module")
def rows() -> list[tuple[str, int, dict[str, Decimal | None]]]:
    """Key, minute and values of each event; no two events of a key are in the same minute."""
    drawn = random.Random(3)
    event_rows = []
    for key in (f"key {n}" for n in range(12)):
        for minute in sorted(drawn.sample(range(0, 240, 5), 14)):
            event_rows.append(
                (key, minute, {n: _values(drawn, *size) for n, size in TYPES.items()})
            )
    return event_rows


@pytest.fixture(scope="module")
def events(spark: SparkSession, rows: list[Any]) -> DataFrame:
    types = ", ".join(f"{name} decimal({p}, {s})" for name, (p, s) in TYPES.items())
    values = [(key, minute * MINUTE, *own.values()) for key, minute, own in rows]
    return spark.createDataFrame(values, f"key string, time bigint, {types}")


def _in(window: AnyWindow, place: str) -> Callable[[DataFrame], DataFrame]:
    def computed(events: DataFrame) -> DataFrame:
        windows = aggregate(events, window, aggregates=AGGREGATES, **NAMES)
        return windows.withColumn("at", F.unix_micros(place))

    return computed


def _at_steps(events: DataFrame) -> DataFrame:
    frame = metrics(events, METRICS, time="time", time_format="epoch_us")
    return frame.withColumn("at", F.unix_micros("valid_from"))


def _as_of_each(events: DataFrame) -> DataFrame:
    frame = metrics_at(events, METRICS, time="time", time_format="epoch_us")
    return frame.select(
        "key", *(F.col(f"{name}_45m").alias(name) for name in AGGREGATES), F.col("time").alias("at")
    )


#: How they are computed, and which of a key's minutes the row at a given minute covers.
KINDS: dict[str, tuple[Callable[[DataFrame], DataFrame], Callable[[list[int], int], list[int]]]] = {
    "hopping": (
        _in(HoppingWindow(size="45m", advance="15m"), "window_start"),
        lambda own, at: [minute for minute in own if at <= minute < at + 45],
    ),
    "sliding": (
        _in(SlidingWindow(size="45m"), "event_time"),
        lambda own, at: [minute for minute in own if at - 45 <= minute <= at],
    ),
    "before": (
        _in(SlidingWindow(size="45m", before=True), "event_time"),
        lambda own, at: [minute for minute in own if at - 45 <= minute < at],
    ),
    "counts": (
        _in(CountWindow(size=4, advance=1, order="time"), "window_end"),
        lambda own, at: own[max(0, own.index(at) - 3) : own.index(at) + 1],
    ),
    "metrics": (_at_steps, lambda own, at: [minute for minute in own if at - 45 <= minute < at]),
    "metrics_at": (
        _as_of_each,
        lambda own, at: [minute for minute in own if at - 45 <= minute <= at],
    ),
}


def _expected(values: list[Decimal], name: str) -> Decimal | None:
    kind, _, column = name.partition("_")
    if not values:
        return None
    precision, scale = TYPES[column]
    with localcontext(prec=100):
        total = sum(values, Decimal(0))
        if kind == "sum":
            return total
        last = Decimal(1).scaleb(-scale - min(4, max(37 - precision, 0)))
        return (total / len(values)).quantize(last, ROUND_HALF_UP)


@spark_only
def test_decimals_without_a_digit_before_the_point_are_not_added_up(spark: SparkSession) -> None:
    events = spark.createDataFrame([], "key string, time bigint, value decimal(38, 38)")
    total = {"total": agg.sum("value")}
    with pytest.raises(AggregateError, match="with fewer than 38 digits after the point"):
        aggregate(events, SlidingWindow(size="45m"), aggregates=total, **NAMES)
    whole = aggregate(events, HoppingWindow(size="2h", advance="1h"), aggregates=total, **NAMES)
    assert whole.collect() == []


@spark_only
def test_more_digits_than_can_be_added_up_are_refused(spark: SparkSession) -> None:
    rows = [("a", minute * MINUTE, Decimal("9" * 20 + ".5")) for minute in (0, 30, 60)]
    events = spark.createDataFrame(rows, "key string, time bigint, value decimal(38, 18)")
    windows = aggregate(
        events,
        SlidingWindow(size="45m"),
        aggregates={"total": agg.sum("value")},
        **NAMES,
    )
    with pytest.raises(ArithmeticException, match="cannot be represented"):
        windows.collect()


@pytest.mark.parametrize("kind", KINDS)
def test_no_digit_is_lost(events: DataFrame, rows: list[Any], kind: str) -> None:
    compute, within = KINDS[kind]
    times: dict[str, list[int]] = {}
    for key, minute, _ in rows:
        times.setdefault(key, []).append(minute)
    given = {(key, minute): values for key, minute, values in rows}
    windows = compute(events).collect()
    assert len(windows) > 100
    for row in windows:
        held = within(times[row["key"]], row["at"] // MINUTE)
        for name in AGGREGATES:
            column = name.partition("_")[2]
            of_window = [given[row["key"], minute][column] for minute in held]
            values = [value for value in of_window if value is not None]
            assert row[name] == _expected(values, name), (kind, name, row["key"], row["at"])
