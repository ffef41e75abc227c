"""Checks of events: each fails on events that break it, and only it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from backfill.aggregates import count
from backfill.columns import FIRST, LAST, TIME
from backfill.engines import ENGINES
from backfill.frames.cutting import slice_events
from backfill.quality import sample
from backfill.quality.events import Counted, measure_events, slice_checks
from backfill.rows.definition import Definition
from backfill.windows import SessionWindow
from tests.quality.published import MINUTE

pytestmark = pytest.mark.usefixtures("interpreted")

SESSIONS = Definition(SessionWindow(gap="30m"), {"n": count()})
ROWS = [
    ("a", 0, "1"),
    ("a", 0, "1"),
    ("a", 5 * MINUTE, None),
    ("a", 5 * MINUTE, None),
    ("b", 90 * MINUTE, "2"),
    (None, 7 * MINUTE, "3"),
]


@pytest.fixture(autouse=True, params=["few", "many"])
def every_key(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """All keys of few events are checked; of many events a sample, which has all keys here."""
    if request.param == "many":
        monkeypatch.setattr(sample, "FEW", 0)
        monkeypatch.setattr(sample, "SAMPLED", 1)


@cache
def counted(spark: SparkSession, *, deduplicate: bool = True, engine: str = "flink") -> Counted:
    """Five events and a copy, counted correctly or not; computed once for all tests."""
    events = spark.createDataFrame(ROWS, f"key string, {TIME} bigint, id string")
    sliced = slice_events(
        events,
        [SESSIONS],
        key=["key"],
        engine=ENGINES[engine],
        zone="UTC",
        id="id" if deduplicate else None,
        arrival=(),
    )
    sliced = replace(sliced, frame=sliced.frame.localCheckpoint())
    return looked_at(
        Counted(sliced=sliced, sums={}, events=events, id="id", read=10, quarantined=1)
    )


def looked_at(of: Counted, span: tuple[int | None, int | None] = (None, None)) -> Counted:
    """Adds the sums over its slices, whose events were read for a span."""
    (row,) = of.sliced.frame.agg(*slice_checks(of.sliced, span)).collect()
    return replace(of, sums=row.asDict())


def broken(of: Counted) -> dict[str, float]:
    metrics = measure_events(of)
    assert metrics.pop("quarantined_share") == 0.1
    return {name: number for name, number in metrics.items() if number}


def test_what_is_well(spark: SparkSession) -> None:
    assert broken(counted(spark)) == {}


def test_an_event_that_is_counted_twice(spark: SparkSession) -> None:
    assert broken(counted(spark, deduplicate=False)) == {"counted_once": 1}


@pytest.mark.parametrize(("few", "twice"), [(10, {"counted_once": 1}), (9, {})])
def test_some_keys_are_looked_at_of_many_events(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, few: int, twice: dict[str, float]
) -> None:
    monkeypatch.setattr(sample, "FEW", few)
    monkeypatch.setattr(sample, "SAMPLED", 1 << 40)  # none of these
    assert broken(counted(spark, deduplicate=False)) == twice


def test_keys_that_the_engine_does_not_take(spark: SparkSession) -> None:
    assert broken(counted(spark, engine="plain")) == {"key_present": 1}


def test_events_without_a_time(spark: SparkSession) -> None:
    right = counted(spark)
    empty = F.lit(None).cast("bigint")
    first = F.when(F.col("_key0") == "b", empty).otherwise(F.col(FIRST))
    frame = right.sliced.frame.withColumns({FIRST: first})
    timeless = replace(right, sliced=replace(right.sliced, frame=frame))
    assert broken(looked_at(timeless)) == {"time_present": 1}
    assert LAST in frame.columns


@pytest.mark.parametrize(
    ("span", "outside"),
    [
        ((0, 90 * MINUTE + 1), 0),
        ((0, 90 * MINUTE), 1),
        ((1, None), 3),  # the slice of the first event, with all its events
        ((None, None), 0),
    ],
)
def test_events_outside_of_their_range(
    spark: SparkSession, span: tuple[int | None, int | None], outside: int
) -> None:
    metrics = measure_events(looked_at(counted(spark), span))
    assert metrics["inside_range"] == outside


def test_how_old_the_latest_event_is(spark: SparkSession) -> None:
    right = counted(spark)
    assert "freshness" not in measure_events(right)
    assert measure_events(replace(right, until=100, latest=40))["freshness"] == 60
    assert measure_events(replace(right, until=100, latest=400))["freshness"] == 0


def test_zeros_of_both_signs_are_one_key(spark: SparkSession) -> None:
    rows = [(0.0, 0, "1"), (-0.0, 0, "1"), (-0.0, 5, "2")]
    events = spark.createDataFrame(rows, f"key double, {TIME} bigint, id string")
    sliced = slice_events(
        events,
        [SESSIONS],
        key=["key"],
        engine=ENGINES["plain"],
        zone="UTC",
        id="id",
        arrival=(),
    )
    metrics = measure_events(
        looked_at(Counted(sliced=sliced, sums={}, events=events, id="id", read=3, quarantined=0))
    )
    assert metrics["counted_once"] == 0
