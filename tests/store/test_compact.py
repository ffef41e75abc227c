"""Dates in many small files become one file each, with the same rows and the same record."""

from __future__ import annotations

import json
from collections.abc import Callable

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill.errors import TableError
from backfill.session_conf import session_conf
from backfill.store import APART, DeltaStore, StagedFiles
from backfill.store.files import compact
from backfill.store.files.staging import is_apart
from tests.store.by_hand import by_hand, content, day
from tests.tables import commits_of, files_of, folder_of, paths_of, record_of, rows_of, version_of

Windows = Callable[..., DataFrame]
Stage = Callable[..., StagedFiles]
Publish = Callable[..., int]

SORT = ("user_id", "window_start")


def test_small_dates_are_joined(
    spark: SparkSession, store: DeltaStore, windows: Windows, stage: Stage, publish: Publish
) -> None:
    rows = [
        ("b", "2024-01-01", "2024-01-01 10:00:00.000001"),
        ("a", "2024-01-01", "2024-01-01 11:00:00"),
        ("c", "2024-01-02", "2024-01-02 11:00:00"),
        ("ü", "1969-12-31", "1969-12-31 23:59:59.999999"),
        ("ö", "1969-12-31", "1969-12-31 23:59:59.999998"),
        ("a", "2024-01-01", "2024-01-01 09:00:00"),
    ]
    for number, row in enumerate(rows):
        publish(stage(windows(row), f"r{number}"), [])
    before = sorted(map(tuple, rows_of(store, spark, "sessions").collect()))
    assert store.compact(spark, "sessions", run_id="c1", sort_by=SORT) == 6
    files = files_of(store, "sessions")
    assert [file.rows for file in files] == [2, 3, 1]
    assert sorted(map(tuple, rows_of(store, spark, "sessions").collect())) == before
    keys = pq.ParquetFile(folder_of(store, "sessions") / files[1].path).read(["user_id"])
    assert keys["user_id"].to_pylist() == ["a", "a", "b"]
    assert files[1].minimum["user_id"] == "a"
    assert record_of(store, "sessions") == {"runs": [f"r{number}" for number in range(6)]}
    assert commits_of(store, "sessions")[0].metadata == {
        "kind": "compact",
        "run_id": "c1",
        "closure": "[]",
        "record": "r5",
    }
    log = folder_of(store, "sessions") / "_delta_log" / f"{6:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    changed = [a[kind]["dataChange"] for a in actions for kind in ("add", "remove") if kind in a]
    assert changed == [False] * 7
    assert store.compact(spark, "sessions", run_id="c2", sort_by=SORT) is None
    assert version_of(store, "sessions") == 6


def test_columns_that_the_table_has_not_order_nothing(
    spark: SparkSession, store: DeltaStore, windows: Windows, stage: Stage, publish: Publish
) -> None:
    """The job file names such columns if the table is stale."""
    for number, key in enumerate("ba"):
        publish(stage(windows((key, "2024-01-01", "2024-01-01 10:00:00")), f"r{number}"), [])
    assert store.compact(spark, "sessions", run_id="c1", sort_by=("other", "user_id")) == 2
    (file,) = files_of(store, "sessions")
    keys = pq.ParquetFile(folder_of(store, "sessions") / file.path).read(["user_id"])
    assert keys["user_id"].to_pylist() == ["a", "b"]


def test_rows_apart_stay_apart(
    spark: SparkSession, store: DeltaStore, windows: Windows, stage: Stage, publish: Publish
) -> None:
    def some(run: str, *starts: tuple[str, bool]) -> None:
        rows = windows(*(("a", "2024-01-01", f"2024-01-01 {at}") for at, _ in starts))
        apart = [f"2024-01-01T{at}Z" for at, apart in starts if apart]
        marked = F.col("window_start").isin([F.lit(start).cast("timestamp") for start in apart])
        publish(stage(rows.withColumn(APART, marked), run), [])

    some("r1", ("00:00:01", True), ("11:00:00", False))
    some("r2", ("12:00:00", False))
    some("r3", ("23:59:59", True))
    assert store.compact(spark, "sessions", run_id="c1", sort_by=SORT) == 3
    files = files_of(store, "sessions")
    assert [(is_apart(file.path), file.rows) for file in files] == [(True, 2), (False, 2)]
    (apart, inside) = (
        rows_of(store, spark, "sessions", files=[file.path]).collect() for file in files
    )
    assert {row.window_start.second for row in apart} == {1, 59}
    assert {row.window_start.second for row in inside} == {0}
    assert store.compact(spark, "sessions", run_id="c2", sort_by=SORT) is None
    # A file of one kind is not joined with one of the other.
    some("r4", ("13:00:00", False))
    store.compact(spark, "sessions", run_id="c3", sort_by=SORT)
    assert [file.rows for file in files_of(store, "sessions")] == [2, 3]
    assert files[0].path in paths_of(store, "sessions")


def test_big_dates_stay(
    spark: SparkSession, store: DeltaStore, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        publish(by_hand(store, f"r{number}", "2024-01-01", "2024-01-02", piece=number), [])
    publish(by_hand(store, "r3", "2024-01-01"), [])
    size = sum(file.size for file in files_of(store, "sessions")[:4])
    monkeypatch.setattr(compact, "_SMALL", size)
    store.compact(spark, "sessions", run_id="c1", sort_by=SORT)
    assert [file.rows for file in files_of(store, "sessions")] == [1, 1, 1, 1, 3]


def test_one_file_even_where_spark_would_write_several(
    spark: SparkSession, store: DeltaStore, publish: Publish
) -> None:
    frame = spark.range(0, 20_000, 1, 4).selectExpr("sha2(string(id), 256) AS user_id")
    small = {
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "100k",
        "spark.sql.adaptive.coalescePartitions.minPartitionSize": "1k",
    }
    with session_conf(spark, small):
        staged = store.stage("t", frame, run_id="r1", partition_by=(), sort_by=("user_id",))
        publish(staged)
        assert len(files_of(store, "t")) > 1
        assert store.compact(spark, "t", run_id="c1", sort_by=("user_id",)) == 1
    assert [file.rows for file in files_of(store, "t")] == [20_000]


def test_runs_that_touch_the_same_files_win(
    spark: SparkSession, store: DeltaStore, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        publish(by_hand(store, f"r{number}", "2024-01-01", "2024-01-02", piece=number), [])
    write = compact.write_files
    others = [(by_hand(store, "disjoint", "2024-01-03"), [], day("2024-01-03"))]

    def write_then_lose(*arguments: object, **named: object) -> StagedFiles:
        staged = write(*arguments, **named)
        other, replace, dates = others.pop()
        publish(other, replace, dates=dates)
        return staged

    monkeypatch.setattr(compact, "write_files", write_then_lose)
    assert store.compact(spark, "sessions", run_id="c1", sort_by=SORT) == 4
    assert record_of(store, "sessions") == {"runs": ["r0", "r1", "r2", "disjoint"]}
    assert [file.rows for file in files_of(store, "sessions")] == [3, 3, 1]

    publish(by_hand(store, "r4", "2024-01-01"), [])
    before = content(store)
    monday = paths_of(store, "sessions")[0]
    others.append((by_hand(store, "same", "2024-01-01"), [monday], day("2024-01-01")))
    with pytest.raises(TableError, match=r"run same published version 6 .* both replace the file"):
        store.compact(spark, "sessions", run_id="c2", sort_by=SORT)
    assert content(store) != before
    assert not (folder_of(store, "sessions") / "_staging" / "c2").exists()


def test_a_run_that_began_before_stands_on_it(
    spark: SparkSession, store: DeltaStore, publish: Publish
) -> None:
    for number in range(2):
        publish(by_hand(store, f"r{number}", "2024-01-01", "2024-01-02", piece=number), [])
    old = paths_of(store, "sessions")
    store.compact(spark, "sessions", run_id="c1", sort_by=SORT)
    assert publish(by_hand(store, "r2", "2024-01-03"), [], dates=day("2024-01-03"), base=1) == 3
    with pytest.raises(TableError, match="run c1 published version 2 meanwhile, and both replace"):
        publish(by_hand(store, "r3", "2024-01-01"), old[:1], dates=day("2024-01-01"), base=1)
    assert publish(by_hand(store, "r4", "2024-01-09"), base=3) == 4
    assert content(store) == ["r4 2024-01-09"]
