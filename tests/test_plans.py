"""How often events and slices are exchanged and sorted: read from Spark's own plan."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill import (
    CumulatingWindow,
    HoppingWindow,
    SessionWindow,
    TumblingWindow,
    aggregate,
    sessionize,
)
from backfill import aggregates as agg
from backfill.aggregates.base import Aggregate
from backfill.columns import TIME
from backfill.compute import Definition, slice_events
from backfill.engines import PLAIN
from backfill.windows import Window
from tests.plans import explained, nodes, scanned

COMMON = {"key": "user", "time": "at"}
FIXED_WIDTH = {
    "n": agg.count(),
    "buys": agg.count(where="page = '/buy'"),
    "total": agg.sum("amount"),
    "units": agg.sum("units"),
    "least": agg.min("amount"),
    "most": agg.max("units"),
    "mean": agg.mean("amount"),
}


@pytest.fixture(scope="module")
def events(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """A Parquet source, so that scans and what they read are seen."""
    path = str(tmp_path_factory.mktemp("plans") / "events")
    rows = spark.range(1000).selectExpr(
        "concat('u', id % 20) user",
        "timestamp_seconds(id * 17) at",
        "cast(id as string) id",
        "'/' page",
        "cast(id as double) amount",
        "id units",
        "'wide' unused",
    )
    rows.write.parquet(path)
    return spark.read.parquet(path)


def plan(
    events: DataFrame, window: Window, aggregates: dict[str, Aggregate], **more: Any
) -> Counter[str]:
    found = nodes(aggregate(events, window, aggregates=aggregates, **COMMON, **more))
    # What no plan may hold: rows handed to Python, events multiplied.
    assert not [each for each in found if "Python" in each or "Arrow" in each or "Pandas" in each]
    assert found["Expand"] == 0
    assert found["FileScan"] == 1
    return found


def test_sessions_exchange_slices_twice_and_sort_them_once(events: DataFrame) -> None:
    found = plan(events, SessionWindow(gap="30m"), FIXED_WIDTH)
    # Slices (combined on the map side), then slices by key; events are neither sent nor sorted.
    assert (found["Exchange"], found["Sort"], found["SortAggregate"]) == (2, 1, 0)
    # Combined on the map side: one aggregate below the first exchange.
    assert found["HashAggregate"] >= 3


def test_many_overlapping_windows_sort_slices_up_and_down(events: DataFrame) -> None:
    found = plan(events, HoppingWindow(size="24h", advance="5m"), FIXED_WIDTH)
    assert (found["Exchange"], found["Sort"], found["SortAggregate"]) == (2, 2, 0)


@pytest.mark.parametrize(
    "window", [TumblingWindow(size="1h"), HoppingWindow(size="1h", advance="5m")], ids=str
)
def test_tumbling_and_few_overlapping_windows_exchange_once(
    events: DataFrame, window: Window
) -> None:
    found = plan(events, window, {"n": agg.count(), "total": agg.sum("amount")})
    assert (found["Exchange"], found["Sort"], found["SortAggregate"]) == (1, 0, 0)
    # Combined on the map side by Spark itself.
    assert found["HashAggregate"] == 2


@pytest.mark.parametrize("id", [None, "id"])
def test_what_is_not_combined_is_exchanged_once(events: DataFrame, id: str | None) -> None:
    found = plan(
        events, SessionWindow(gap="30m"), {"total": agg.sum("amount")}, id=id, combine=False
    )
    assert (found["Exchange"], found["Sort"], found["SortAggregate"]) == (1, 1, 0)


def test_states_of_groups_alone_are_combined_in_any_case(events: DataFrame) -> None:
    found = plan(events, SessionWindow(gap="30m"), {"x": agg.variance("amount")}, combine=False)
    assert found["Exchange"] == 2


@pytest.mark.parametrize(
    "window",
    [
        TumblingWindow(size="1 month"),
        HoppingWindow(size="3h", advance="1h"),
        CumulatingWindow(size="24h", step="1h"),
    ],
    ids=str,
)
def test_aligned_windows_exchange_slices_and_sort_nothing(
    events: DataFrame, window: Window
) -> None:
    found = plan(events, window, FIXED_WIDTH)
    assert found["Exchange"] <= 2
    assert (found["Sort"], found["SortAggregate"]) == (0, 0)


@pytest.mark.parametrize(
    ("each", "sorts"),
    [
        (agg.variance("amount"), False),
        (agg.collect_list("amount"), False),
        (agg.count_distinct("page"), False),
        (agg.count_distinct("page", approximate=True), False),
        (agg.quantile("amount", 0.5), False),
        (agg.first("amount"), True),
        (agg.last("page"), True),
        (agg.min("page"), True),
    ],
    ids=str,
)
def test_states_of_variable_width(events: DataFrame, each: Aggregate, sorts: bool) -> None:
    found = plan(events, SessionWindow(gap="30m"), {"x": each})
    assert found["Exchange"] == 2
    assert (found["SortAggregate"] > 0) == sorts
    if not sorts:
        assert found["Sort"] == 1


def test_duplicates_cost_no_second_exchange_of_events(events: DataFrame) -> None:
    found = plan(events, SessionWindow(gap="30m"), {"total": agg.sum("amount")}, id="id")
    # Events by key and slice, then slices by key.
    assert (found["Exchange"], found["Sort"], found["SortAggregate"]) == (2, 1, 0)


def test_windows_of_a_job_exchange_and_sort_their_slices_once(events: DataFrame) -> None:
    definitions = [
        Definition(window, FIXED_WIDTH)
        for window in (SessionWindow(gap="30m"), TumblingWindow(size="1h"))
    ]
    timed = events.withColumn(TIME, F.unix_micros("at"))
    sliced = slice_events(
        timed, definitions, key=["user"], engine=PLAIN, zone="UTC", id=None, arrival=[]
    ).by_key()
    kept = sliced.frame.persist()
    assert kept.count()
    for each in definitions:
        built = replace(sliced, frame=kept).build(each)
        of_slices, relation, _ = explained(built.frame).partition("InMemoryRelation")
        assert relation
        assert "Exchange" not in of_slices
        assert "Sort" not in of_slices
    kept.unpersist()


def test_only_what_is_needed_is_read(events: DataFrame) -> None:
    result = aggregate(events, SessionWindow(gap="30m"), aggregates={"n": agg.count()}, **COMMON)
    assert scanned(result) == {"user", "at"}


def test_sessionize_exchanges_events_once(events: DataFrame) -> None:
    found = nodes(sessionize(events, SessionWindow(gap="30m"), **COMMON))
    assert found["Exchange"] == 1
    assert found["Sort"] == 2


@pytest.mark.parametrize("zone", ["UTC", "America/St_Johns"])
def test_a_time_without_a_zone_is_converted_once(
    events: DataFrame, spark: SparkSession, tmp_path: Path, zone: str
) -> None:
    path = str(tmp_path / "local")
    events.withColumn("at", F.col("at").cast("timestamp_ntz")).write.parquet(path)
    found = aggregate(
        spark.read.parquet(path),
        SessionWindow(gap="30m"),
        key="user",
        time="at",
        timezone=zone,
        aggregates={"n": agg.count()},
    )
    text = explained(found)
    converted = [line for line in text.splitlines() if "unix_date(" in line]
    # Spark writes an expression out wherever it is used: only the projection may use this one,
    # and in a zone the test of the calendar's first and last days, which hardly a row needs.
    most = 1 if zone == "UTC" else 3
    assert 1 <= sum(line.count("unix_date(") for line in converted if "Filter" not in line) <= most
    assert "decimal" not in text
