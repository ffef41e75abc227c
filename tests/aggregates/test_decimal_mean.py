"""Means of decimals have one type and the right digits, however they are added up."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, localcontext

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill import (
    CountWindow,
    HoppingWindow,
    Metric,
    SessionWindow,
    SlidingWindow,
    TumblingWindow,
    aggregate,
    metrics,
    metrics_at,
)
from backfill import aggregates as agg
from backfill.windows import AnyWindow
from tests.on_sail import ON_SAIL

pytestmark = pytest.mark.usefixtures("interpreted")

#: Numbers of events, of which a mean can lie between two numbers of the type: 1/32 = 0.03125.
SIZES = (1, 2, 3, 7, 19, 32)
TYPES = [
    *((1, 0), (5, 2), (10, 2), (12, 2), (9, 9), (18, 4), (20, 2), (20, 12)),
    *((28, 0), (28, 10), (28, 18), (28, 20), (28, 22), (28, 28)),
]
#: Without an error, Sail's sums may have more digits than the type can have.
LONG = [
    *((33, 3), (36, 18), (37, 6), (38, 2), (38, 18), (38, 30)),
    *((33, 33), (36, 36), (37, 37), (38, 34), (38, 36), (38, 37)),
]
#: A column of each type, by its name, so that one plan computes the means of all.
COLUMNS = {f"of_{p}_{s}": (p, s) for p, s in (TYPES if ON_SAIL else [*TYPES, *LONG])}
_MEANS = {"n": agg.count(), **{name: agg.mean(name) for name in COLUMNS}}
_METRICS = [
    Metric(name, mean, by=["key"], windows=["1h"], step="1h") for name, mean in _MEANS.items()
]


def _in(window: AnyWindow) -> Callable[[DataFrame], DataFrame]:
    return lambda events: aggregate(
        events,
        window,
        key="key",
        time="time",
        time_format="epoch_us",
        aggregates=_MEANS,
    )


def _at_steps(events: DataFrame) -> DataFrame:
    return metrics(events, _METRICS, time="time", time_format="epoch_us")


def _as_of_each(events: DataFrame) -> DataFrame:
    frame = metrics_at(events, _METRICS, time="time", time_format="epoch_us")
    return frame.select("key", *(F.col(f"{name}_1h").alias(name) for name in _MEANS))


KINDS = {
    "sessions": _in(SessionWindow(gap="10s")),
    "tumbling": _in(TumblingWindow(size="1h")),
    "hopping": _in(HoppingWindow(size="1h", advance="30m")),
    "sliding": _in(SlidingWindow(size="1h")),
    "distinct": _in(SlidingWindow(size="1h", distinct=True)),
    "counts": _in(CountWindow(size=max(SIZES), advance=1, order="time")),
    "metrics": _at_steps,
    "metrics_at": _as_of_each,
}


def _mean(values: list[Decimal], scale: int) -> Decimal:
    with localcontext(prec=100):
        exact = sum(values, Decimal(0)) / len(values)
        return exact.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)


def _drawn(precision: int, scale: int) -> dict[str, list[Decimal]]:
    """Values by key, among them the largest ones, and others that differ in the last digit."""
    drawn = random.Random(precision * 100 + scale)
    # The sum of all has at most 37 digits. Spark's quotients have at most 32 before the point.
    most = 10 ** min(precision, 35, 32 + scale) - 1
    whole: dict[str, list[int]] = {}
    for size in SIZES:
        kinds = {
            "few": [1] + [0] * (size - 1),
            "negative": [-1] + [0] * (size - 1),
            "largest": [most] * size,
            "smallest": [-most] * size,
            "close": [min(most, 7) - drawn.randint(0, 1) for _ in range(size)],
            **{f"any{i}": [drawn.randint(-most, most) for _ in range(size)] for i in range(5)},
            **{
                f"short{i}": [drawn.randint(0, min(most, 10**10)) for _ in range(size)]
                for i in range(5)
            },
        }
        whole |= {f"{name}-{size}": values for name, values in kinds.items()}
    with localcontext(prec=100):
        return {key: [Decimal(n).scaleb(-scale) for n in own] for key, own in whole.items()}


@pytest.fixture(scope="module")
def given() -> dict[str, dict[str, list[Decimal]]]:
    """The values in order, by column and key."""
    return {name: _drawn(*size) for name, size in COLUMNS.items()}


@pytest.fixture(scope="module")
def events(spark: SparkSession, given: dict[str, dict[str, list[Decimal]]]) -> DataFrame:
    rows = [
        (key, place * 1_000_000, *(own[key][place] for own in given.values()))
        for key, values in next(iter(given.values())).items()
        for place in range(len(values))
    ]
    types = ", ".join(f"{name} decimal({p}, {s})" for name, (p, s) in COLUMNS.items())
    return spark.createDataFrame(rows, f"key string, time bigint, {types}")


@pytest.mark.parametrize("kind", KINDS)
def test_means_of_decimals(
    events: DataFrame, given: dict[str, dict[str, list[Decimal]]], kind: str
) -> None:
    frame = KINDS[kind](events)
    # Windows that hold all events of a key.
    rows = [row for row in frame.collect() if row["n"] == int(row["key"].split("-")[1])]
    for name, (precision, scale) in COLUMNS.items():
        more = min(4, max(37 - precision, 0))
        assert frame.schema[name].dataType == T.DecimalType(precision + more, scale + more)
        means = {key: _mean(values, scale + more) for key, values in given[name].items()}
        assert {row["key"]: row[name] for row in rows} == means, name
