"""How often events and slices are exchanged and sorted: read from Spark's own plan."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill import (
    CountWindow,
    CumulatingWindow,
    HoppingWindow,
    Metric,
    SessionWindow,
    SlidingWindow,
    TumblingWindow,
    aggregate,
    metrics,
    metrics_at,
    sessionize,
    updates,
)
from backfill import aggregates as agg
from backfill.aggregates.base import Aggregate
from backfill.columns import REASON, TIME
from backfill.engines import PLAIN
from backfill.events import EventRules, normalise
from backfill.frames.cutting import slice_events
from backfill.rows.definition import Definition
from backfill.windows import Window
from tests.plans import exchanged, explained, nodes, scanned

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
    """A Parquet source, so that plans show scans and what they read."""
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
    operators = nodes(aggregate(events, window, aggregates=aggregates, **COMMON, **more))
    # No plan may hand rows to Python or multiply events.
    assert not [
        operator
        for operator in operators
        if "Python" in operator or "Arrow" in operator or "Pandas" in operator
    ]
    assert operators["Expand"] == 0
    assert operators["FileScan"] == 1
    return operators


def test_sessions_exchange_slices_twice_and_sort_them_once(events: DataFrame) -> None:
    operators = plan(events, SessionWindow(gap="30m"), FIXED_WIDTH)
    # Slices (combined on the map side), then slices by key; events are neither sent nor sorted.
    assert (operators["Exchange"], operators["Sort"], operators["SortAggregate"]) == (2, 1, 0)
    # Combined on the map side: one aggregate below the first exchange.
    assert operators["HashAggregate"] >= 3


def test_many_overlapping_windows_sort_slices_up_and_down(events: DataFrame) -> None:
    operators = plan(events, HoppingWindow(size="24h", advance="5m"), FIXED_WIDTH)
    assert (operators["Exchange"], operators["Sort"], operators["SortAggregate"]) == (2, 2, 0)


@pytest.mark.parametrize(
    "window", [TumblingWindow(size="1h"), HoppingWindow(size="1h", advance="5m")], ids=str
)
def test_tumbling_and_few_overlapping_windows_exchange_once(
    events: DataFrame, window: Window
) -> None:
    operators = plan(events, window, {"n": agg.count(), "total": agg.sum("amount")})
    assert (operators["Exchange"], operators["Sort"], operators["SortAggregate"]) == (1, 0, 0)
    # Combined on the map side by Spark itself.
    assert operators["HashAggregate"] == 2


@pytest.mark.parametrize("id", [None, "id"])
def test_what_is_not_combined_is_exchanged_once(events: DataFrame, id: str | None) -> None:
    operators = plan(
        events, SessionWindow(gap="30m"), {"total": agg.sum("amount")}, id=id, combine=False
    )
    assert (operators["Exchange"], operators["Sort"], operators["SortAggregate"]) == (1, 1, 0)


def test_states_of_groups_alone_are_combined_in_any_case(events: DataFrame) -> None:
    operators = plan(events, SessionWindow(gap="30m"), {"x": agg.variance("amount")}, combine=False)
    assert operators["Exchange"] == 2


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
    operators = plan(events, window, FIXED_WIDTH)
    assert operators["Exchange"] <= 2
    assert (operators["Sort"], operators["SortAggregate"]) == (0, 0)


@pytest.mark.parametrize(
    ("aggregate", "sorts"),
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
def test_states_of_variable_width(events: DataFrame, aggregate: Aggregate, sorts: bool) -> None:
    operators = plan(events, SessionWindow(gap="30m"), {"x": aggregate})
    assert operators["Exchange"] == 2
    assert (operators["SortAggregate"] > 0) == sorts
    if not sorts:
        assert operators["Sort"] == 1


def test_duplicates_cost_no_second_exchange_of_events(events: DataFrame) -> None:
    operators = plan(events, SessionWindow(gap="30m"), {"total": agg.sum("amount")}, id="id")
    # Events by key and slice, then slices by key.
    assert (operators["Exchange"], operators["Sort"], operators["SortAggregate"]) == (2, 1, 0)


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
    for definition in definitions:
        built = replace(sliced, frame=kept).build(definition)
        of_slices, relation, _ = explained(built.frame).partition("InMemoryRelation")
        assert relation
        assert "Exchange" not in of_slices
        assert "Sort" not in of_slices
    kept.unpersist()


def test_sessions_of_several_gaps_share_slices_and_sort(events: DataFrame) -> None:
    gaps = ("10m", "30m", "2h")
    definitions = [Definition(SessionWindow(gap=gap), FIXED_WIDTH) for gap in gaps]
    timed = events.withColumn(TIME, F.unix_micros("at"))
    sliced = slice_events(
        timed, definitions, key=["user"], engine=PLAIN, zone="UTC", id=None, arrival=[]
    ).by_key()
    # One grid, of the smallest gap, and one sort of its slices.
    assert [word for word in explained(sliced.frame).split() if word.startswith("_grid1")] == []
    operators = nodes(sliced.frame)
    assert (operators["Exchange"], operators["Sort"], operators["FileScan"]) == (2, 1, 1)
    kept = sliced.frame.persist()
    assert kept.count()
    for definition in definitions:
        of_slices = explained(replace(sliced, frame=kept).build(definition).frame)
        of_slices, relation, _ = of_slices.partition("InMemoryRelation")
        assert relation
        assert "Exchange" not in of_slices
        assert "Sort" not in of_slices
    kept.unpersist()


def test_rules_take_events_only_where_slices_leave_a_doubt(events: DataFrame) -> None:
    counts = {"n": agg.count(), "total": agg.sum("amount")}
    ruled = SessionWindow(gap="30m", max_duration="4h", new_when="page", split="midnight")
    operators = nodes(aggregate(events, ruled, aggregates=counts, **COMMON))
    assert not [
        operator
        for operator in operators
        if "Python" in operator or "Arrow" in operator or "Pandas" in operator
    ]
    # The slices, which also show what is doubtful, and a join with the events of that.
    assert operators["BroadcastHashJoin"] + operators["SortMergeJoin"] >= 1
    # Without a rule that cuts, nothing can be doubtful.
    short = SessionWindow(gap="30m", min_events=2)
    assert nodes(aggregate(events, short, aggregates=counts, **COMMON))["FileScan"] == 1


def test_what_is_doubtful_is_found_once(events: DataFrame) -> None:
    ruled = SessionWindow(gap="30m", max_duration="2m", new_when="page")
    result = aggregate(events, ruled, aggregates={"total": agg.sum("amount")}, **COMMON)
    # Without the limit, each of the 20 keys would have one session.
    assert len(result.collect()) == 1000
    _, _, executed = explained(result).partition("Final Plan")
    executed, _, _ = executed.partition("Initial Plan")
    exchanges = [
        line for line in executed.splitlines() if "Exchange hashpartitioning(_wanted" in line
    ]
    # Events join it, to find where limits cut and to be cut there, and are filtered by it.
    assert len([line for line in exchanges if "ReusedExchange" not in line]) == 1


def test_only_what_is_needed_is_read(events: DataFrame) -> None:
    result = aggregate(events, SessionWindow(gap="30m"), aggregates={"n": agg.count()}, **COMMON)
    assert scanned(result) == {"user", "at"}


def test_sessionize_exchanges_events_once(events: DataFrame) -> None:
    operators = nodes(sessionize(events, SessionWindow(gap="30m"), **COMMON))
    assert operators["Exchange"] == 1
    assert operators["Sort"] == 2


@pytest.mark.parametrize(
    ("written", "time_format", "zone", "once"),
    [
        ("cast(at AS timestamp_ntz)", None, "UTC", " div "),
        ("cast(at AS timestamp_ntz)", None, "America/St_Johns", " div "),
        ("date_format(at, 'yyyy-MM-dd HH:mm:ss')", "iso", "America/St_Johns", r"^\d{4}-"),
        ("date_format(at, 'dd/MM/yyyy HH:mm')", "dd/MM/yyyy HH:mm", "UTC", "unix_micros("),
        ("cast(unix_micros(at) AS string)", "epoch_us", "UTC", "as decimal(38,18)"),
    ],
)
def test_a_time_is_read_once(
    spark: SparkSession,
    events: DataFrame,
    tmp_path: Path,
    written: str,
    time_format: str | None,
    zone: str,
    once: str,
) -> None:
    path = str(tmp_path / "written")
    events.withColumn("at", F.expr(written)).write.parquet(path)
    rules = EventRules(
        key=("user",),
        time="at",
        time_format=time_format,
        timezone=zone,
        max_future_us=1,
        now_us=1,
        before_epoch=False,
        tick_us=1_000,
    )
    # Spark writes an expression out wherever it is used, in each filter too.
    usable = normalise(spark.read.parquet(path), rules).where(F.col(REASON).isNull())
    text = explained(usable.select("user", TIME, "amount"))
    assert text.count(once) == 1
    assert scanned(usable.select("user", TIME, "amount")) == {"user", "at", "amount"}
    # Decimals take four times as long as whole numbers.
    assert time_format == "epoch_us" or "decimal" not in text


def test_sliding_windows_exchange_events_once(events: DataFrame) -> None:
    """Events once; slices, combined before that, twice. Events are sorted forward and backward."""
    operators = nodes(
        aggregate(
            events,
            SlidingWindow(size="1h"),
            aggregates={**FIXED_WIDTH, "sd": agg.stddev("amount")},
            **COMMON,
        )
    )
    assert (operators["Exchange"], operators["Sort"], operators["Window"]) == (3, 3, 3)
    assert not [operator for operator in operators if "Python" in operator or "Arrow" in operator]


def test_sliding_windows_of_a_job_share_events_and_what_follows_each_of_them(
    events: DataFrame,
) -> None:
    """Each exchanges only its own rows, because events leave each window at another time."""
    counts = {"n": agg.count(), "pages": agg.count_distinct("page")}
    definitions = [Definition(SlidingWindow(size=size), counts) for size in ("1h", "24h", "7d")]
    timed = events.withColumn(TIME, F.unix_micros("at"))
    kept: list[Counter[str]] = []

    def keep(frame: DataFrame) -> DataFrame:
        kept.append(nodes(frame))
        return frame.localCheckpoint()

    sliced = slice_events(
        timed, definitions, key=["user"], engine=PLAIN, zone="UTC", id=None, arrival=[], keep=keep
    )
    # By key and value, once for all windows.
    [operators] = kept
    assert (operators["Exchange"], operators["Sort"], operators["FileScan"]) == (1, 1, 1)
    for definition in definitions:
        of_window = exchanged(sliced.build(definition).frame)
        assert of_window["Generate"] == 1
        assert "Scan" not in of_window


@pytest.mark.parametrize(
    "window",
    [
        CountWindow(size=5, per="stream", order="time"),
        CountWindow(size=500, per="stream", order="time"),
        CountWindow(size=100, advance=100, per="stream", order="time"),
        CountWindow(size=24, advance=2, per="stream", order="time"),
        CountWindow(size=None, per="stream", order="time"),
    ],
    ids=str,
)
def test_no_task_goes_through_the_whole_stream(events: DataFrame, window: CountWindow) -> None:
    """Only counts of blocks are in one task and, without a size, the states of slices."""
    result = aggregate(events, window, aggregates=FIXED_WIDTH, **COMMON)
    assert set(exchanged(result, "SinglePartition")) == {"HashAggregate"}


def test_count_windows_exchange_events_once(events: DataFrame) -> None:
    """They are exchanged to be numbered; besides them only counts and states of windows are."""
    window = CountWindow(size=100, advance=100, order="time")
    result = aggregate(events, window, aggregates=FIXED_WIDTH, **COMMON)
    assert exchanged(result, "SinglePartition") == {}
    operators = exchanged(result)
    # Events of keys with few events, and of keys with many.
    assert operators.pop("BroadcastHashJoin") == 2
    assert set(operators) == {"HashAggregate"}
    assert not [
        operator for operator in nodes(result) if "Python" in operator or "Arrow" in operator
    ]


def test_step_functions_sort_slices_up_and_down_however_many_windows(events: DataFrame) -> None:
    def found(windows: list[str], more: dict[str, Aggregate]) -> Counter[str]:
        own = [
            Metric(name, value, by=["user"], windows=windows, step="5m")
            for name, value in (FIXED_WIDTH | more).items()
        ]
        return nodes(metrics(events, own, time="at"))

    for windows in (["1h"], ["1h", "1d", "7d", "30d", "90d"]):
        plan = found(windows, {})
        # Slices, combined on the map side, then slices by key; events are neither sent nor sorted.
        assert (plan["Exchange"], plan["Sort"], plan["FileScan"]) == (2, 2, 1)
        assert plan["Expand"] == 0
        # Distinct values: each once, by value, counted for each slice; sorted by value, but
        # not a third time in windows.
        distinct = found(windows, {"d": agg.count_distinct("page")})
        assert (distinct["Exchange"], distinct["Sort"]) == (5, 3)


def test_histories_of_updates_exchange_events_once_for_all_that_read_the_clocks(
    events: DataFrame, spark: SparkSession
) -> None:
    sent = updates(
        events.withColumn("arrived", F.unix_micros("at") + F.col("units")),
        TumblingWindow(size="1h"),
        arrival="arrived",
        aggregates={"n": agg.count(), "total": agg.sum("amount")},
        engine="flink",
        watermark_delay="1m",
        **COMMON,
    )
    # Only without adaptive execution is it known before a run which exchanges are the same.
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        plan = explained(sent.select("user", "n", "total"))
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")
    assert len(re.findall(r"- Exchange hashpartitioning\(_block", plan)) == 1
    assert len(re.findall(r"ReusedExchange .*Exchange hashpartitioning\(_block", plan)) == 1


@pytest.mark.parametrize(
    ("aggregates", "windows", "sorts"),
    [
        # By time.
        ({"n": agg.count(), "units": agg.sum("units")}, 5, 1),
        # By value and by time.
        ({"n": agg.count(), "pages": agg.count_distinct("page")}, 5, 2),
        # By time, and in blocks of each window backward and forward.
        ({"total": agg.sum("amount"), "most": agg.max("units")}, 1, 3),
        # The same, and once more for 7 days, which do not divide 30.
        ({"total": agg.sum("amount"), "most": agg.max("units")}, 5, 5),
    ],
)
@pytest.mark.parametrize("before", [False, True])
def test_values_as_of_events_exchange_them_once_and_join_nothing(
    events: DataFrame, aggregates: dict[str, Aggregate], windows: int, sorts: int, before: bool
) -> None:
    own = [
        Metric(
            name, value, by=["user"], windows=["1h", "1d", "7d", "30d", "90d"][:windows], step="5m"
        )
        for name, value in aggregates.items()
    ]
    operators = nodes(metrics_at(events, own, time="at", before=before))
    assert (operators["Exchange"], operators["Sort"], operators["FileScan"]) == (1, sorts, 1)
    assert not [operator for operator in operators if "Join" in operator or "Aggregate" in operator]
    labels = events.select("user", "at", "unused")
    operators = nodes(metrics_at(events, own, time="at", at=labels, before=before))
    assert (operators["Exchange"], operators["Sort"], operators["FileScan"]) == (1, sorts, 2)
    assert not [operator for operator in operators if "Join" in operator or "Aggregate" in operator]
