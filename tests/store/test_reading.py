"""Spark reads exactly the live files; other readers see the same table."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from backfill.errors import TableError
from backfill.store import FILE, DeltaStore, StagedFiles
from tests.store.by_hand import publish_to
from tests.tables import commits_of, folder_of, paths_of, rows_of

Windows = Callable[..., DataFrame]
Stage = Callable[..., StagedFiles]

MONDAY = ("a", "2024-01-01", "2024-01-01 10:00:00.000001")
TUESDAY = ("a", "2024-01-02", "1969-12-31 23:59:59.999999")
LATER = ("ü b%41", "2024-01-02", "2024-01-02 11:00:00")


@pytest.mark.parametrize("folder", ["out", "a b%zz c", "{a,b}[c]*?", "ü#é=1", "date=2020-01-01"])
def test_two_runs_in_a_folder_of_any_name(
    spark: SparkSession, tmp_path: Path, windows: Windows, folder: str
) -> None:
    store = DeltaStore(tmp_path / folder)
    layout = {"partition_by": ("date",), "sort_by": ("user_id",)}
    first = store.stage("sessions", windows(MONDAY, TUESDAY), run_id="2024", **layout)
    publish_to(store, first)
    second = store.stage("sessions", windows(LATER), run_id="r2", **layout)
    publish_to(store, second, [])
    frame = rows_of(store, spark, "sessions")
    assert frame.columns == windows(MONDAY).columns
    assert dict(frame.dtypes) == dict(windows(MONDAY).dtypes)
    expected = windows(MONDAY, TUESDAY, LATER)
    assert sorted(map(tuple, frame.collect())) == sorted(map(tuple, expected.collect()))
    other = DeltaTable(folder_of(store, "sessions")).to_pyarrow_table().sort_by("window_start")
    assert other["user_id"].to_pylist() == ["a", "a", "ü b%41"]
    assert other["date"].to_pylist() == [date(2024, 1, 2), date(2024, 1, 1), date(2024, 1, 2)]


@pytest.mark.parametrize("partition_by", [(), ("date",), ("date", "user_id")])
def test_the_file_of_each_row(
    spark: SparkSession, tmp_path: Path, windows: Windows, partition_by: tuple[str, ...]
) -> None:
    store = DeltaStore(tmp_path)
    for number, rows in enumerate([(MONDAY, TUESDAY), (MONDAY,)]):
        layout = {"partition_by": partition_by, "sort_by": ("window_start",)}
        staged = store.stage("sessions", windows(*rows), run_id=f"r{number}", **layout)
        publish_to(store, staged, [])
    table = store.open("sessions")
    assert table is not None
    counts = table.read(spark, with_file=True).groupBy(FILE).count().collect()
    assert {row[FILE]: row["count"] for row in counts} == {
        file.path: file.rows for file in table.files
    }


def test_duckdb_and_polars_read_the_table(
    store: DeltaStore, windows: Windows, stage: Stage
) -> None:
    publish_to(store, stage(windows(MONDAY, TUESDAY), "r1"))
    publish_to(store, stage(windows(LATER), "r2"), [])
    starts = [
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=timezone.utc),
        datetime(2024, 1, 1, 10, 0, 0, 1, tzinfo=timezone.utc),
        datetime(2024, 1, 2, 11, tzinfo=timezone.utc),
    ]
    folder = str(folder_of(store, "sessions"))
    lazy = pl.scan_delta(folder)
    assert lazy.sort("window_start").collect()["window_start"].to_list() == starts
    # Statistics in milliseconds must not make a reader skip a file whose values are finer.
    for start in starts:
        matches = lazy.filter(pl.col("window_start") == start).collect()
        assert matches["window_start"].to_list() == [start]
    # DuckDB's own Delta reader is an extension that pip does not install.
    connection = duckdb.connect()
    connection.register("sessions", DeltaTable(folder).to_pyarrow_dataset())
    rows = connection.sql(
        "SELECT epoch_us(window_start), date FROM sessions "
        "WHERE date = DATE '2024-01-02' ORDER BY 1"
    ).fetchall()
    assert rows == [(-1, date(2024, 1, 2)), (1704193200000000, date(2024, 1, 2))]


def test_partitions_of_any_text(spark: SparkSession, store: DeltaStore) -> None:
    values = ["01", "x y", "a/b=c%41", "ü:é", "__x", None]
    frame = spark.createDataFrame([(i, v) for i, v in enumerate(values)], "n int, part string")
    staged = store.stage("t", frame, run_id="r1", partition_by=("part",), sort_by=("n",))
    publish_to(store, staged)
    assert [row.part for row in rows_of(store, spark, "t").orderBy("n").collect()] == values
    other = DeltaTable(folder_of(store, "t")).to_pyarrow_table().sort_by("n")
    assert other["part"].to_pylist() == values
    nothing = store.stage(
        "t", frame.where("n < 0"), run_id="r2", partition_by=("part",), sort_by=()
    )
    publish_to(store, nothing, paths_of(store, "t"))
    assert rows_of(store, spark, "t").count() == 0


def test_files_are_skipped_by_partition(
    spark: SparkSession, store: DeltaStore, windows: Windows, stage: Stage
) -> None:
    publish_to(store, stage(windows(MONDAY, TUESDAY), "r1"))
    publish_to(store, stage(windows(LATER), "r2"), [])
    frame = rows_of(store, spark, "sessions").where("date = DATE '2024-01-01'")
    # A file of another date is not even opened.
    for path in paths_of(store, "sessions"):
        if "date=2024-01-02" in path:
            (folder_of(store, "sessions") / path).write_bytes(b"not Parquet")
    assert [row.user_id for row in frame.collect()] == ["a"]


def test_files_that_another_writer_compacted(
    spark: SparkSession, store: DeltaStore, windows: Windows, stage: Stage
) -> None:
    publish_to(store, stage(windows(TUESDAY), "r1"))
    publish_to(store, stage(windows(LATER), "r2"), [])
    publish_to(store, stage(windows(MONDAY), "r3"), [])
    table = DeltaTable(folder_of(store, "sessions"))
    table.optimize.compact()
    assert len(paths_of(store, "sessions")) == 2
    assert commits_of(store, "sessions")[0].metadata == {}
    frame = rows_of(store, spark, "sessions")
    assert frame.columns == windows(MONDAY).columns
    assert sorted(str(row.date) for row in frame.collect()) == [
        "2024-01-01",
        "2024-01-02",
        "2024-01-02",
    ]
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert rows_of(store, spark, "sessions").count() == 3
    with pytest.raises(TableError, match="1 of the 1 files of version 0 are gone"):
        rows_of(store, spark, "sessions", version=0)


def test_four_hundred_dates_are_planned_fast(spark: SparkSession, store: DeltaStore) -> None:
    frame = spark.sql("SELECT 1L AS n, date'2024-01-01' AS date")
    one = store.stage("t", frame, run_id="r1", partition_by=("date",), sort_by=("n",))
    (file,) = one.files
    days = [date(2024, 1, 1) + timedelta(days=day) for day in range(400)]
    copies = []
    for day in days:
        path = file.path.replace("2024-01-01", str(day))
        copies.append(replace(file, path=path, place=path))
        copy = Path(one.folder) / copies[-1].path
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes((Path(one.folder) / file.path).read_bytes())
    publish_to(store, replace(one, files=tuple(copies)))
    begin = time.monotonic()
    read = rows_of(store, spark, "t")
    assert time.monotonic() - begin < 5
    assert read.where("date = DATE '2024-02-01'").collect() == [(1, date(2024, 2, 1))]
    assert [row.date for row in read.select("date").orderBy("date").collect()] == days


def test_a_missing_table_names_the_command(spark: SparkSession, store: DeltaStore) -> None:
    for call in (
        lambda: store.compact(spark, "sessions", run_id="c", sort_by=()),
        lambda: store.restore("sessions", 0, run_id="back", metadata={}),
    ):
        with pytest.raises(TableError, match=r"does not exist yet\. `backfill run` publishes it"):
            call()


def test_statistics_let_readers_skip(store: DeltaStore, windows: Windows, stage: Stage) -> None:
    publish_to(store, stage(windows(MONDAY, TUESDAY), "r1"))
    actions = pa.table(DeltaTable(folder_of(store, "sessions")).get_add_actions(flatten=True))
    assert actions["num_records"].to_pylist() == [1, 1]
    dates = actions["partition.date"].to_pylist()
    lowest = dict(zip(dates, actions["min.window_start"].to_pylist(), strict=True))
    highest = dict(zip(dates, actions["max.window_start"].to_pylist(), strict=True))
    old = date(2024, 1, 2)
    assert lowest[old] == datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=timezone.utc)
    assert highest[old] == datetime(1970, 1, 1, tzinfo=timezone.utc)
