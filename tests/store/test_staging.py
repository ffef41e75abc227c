"""What Spark leaves on disk: few sorted files, nothing else, and no changed settings."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from backfill.errors import ColumnError, TableError
from backfill.session_conf import session_conf
from backfill.store import APART, DeltaStore
from backfill.store.files.staging import is_apart
from tests.store.by_hand import publish_to
from tests.tables import paths_of, rows_of

OUTPUT = "spark.sql.parquet.outputTimestampType"


def test_many_dates_and_partitions_leave_one_sorted_file_a_date(
    spark: SparkSession, store: DeltaStore
) -> None:
    frame = spark.range(600).select(
        F.concat(F.lit("u"), (F.col("id") % 17).cast("string")).alias("user_id"),
        F.timestamp_micros(F.col("id") * 3_600_000_001 - 10**12).alias("window_start"),
        F.date_add(F.lit("2024-01-01").cast("date"), (F.col("id") % 30).cast("int")).alias("date"),
    )
    with session_conf(spark, {"spark.sql.shuffle.partitions": "40"}):
        staged = store.stage(
            "sessions",
            frame.repartition(40, "user_id"),
            run_id="r1",
            partition_by=("date",),
            sort_by=("user_id", "window_start"),
        )
    assert len(staged.files) == 30
    assert staged.rows == 600
    on_disk = {path for path in Path(store.root).rglob("*") if path.is_file()}
    assert len(on_disk) == 30, "no _SUCCESS, no checksums"
    for path in on_disk:
        rows = pq.ParquetFile(path).read(["user_id", "window_start"]).to_pylist()
        order = [(row["user_id"], row["window_start"]) for row in rows]
        assert order == sorted(order)
        assert pq.read_schema(path).field("window_start").type.unit == "us"


def test_a_big_date_is_split(spark: SparkSession, store: DeltaStore) -> None:
    frame = spark.range(0, 40_000, 1, 8).select(
        F.sha2(F.col("id").cast("string"), 256).alias("user_id"),
        F.when(F.col("id") < 39_000, "2024-01-01")
        .otherwise("2024-01-02")
        .cast("date")
        .alias("date"),
    )
    small = {
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "500k",
        "spark.sql.adaptive.coalescePartitions.minPartitionSize": "1k",
    }
    with session_conf(spark, small):
        staged = store.stage("t", frame, run_id="r1", partition_by=("date",), sort_by=("user_id",))
    by_date = [file.path.split("date=")[1][:10] for file in staged.files]
    assert by_date.count("2024-01-01") > 2
    assert by_date.count("2024-01-02") == 1
    assert staged.rows == 40_000


def test_rows_apart_have_files_of_their_own(spark: SparkSession, store: DeltaStore) -> None:
    frame = spark.range(60).select(
        F.col("id").alias("n"),
        F.date_add(F.lit("2024-01-01").cast("date"), (F.col("id") % 3).cast("int")).alias("date"),
        (F.col("id") % 10 == 0).alias(APART),
    )
    staged = store.stage(
        "t", frame.coalesce(1), run_id="r1", partition_by=("date",), sort_by=("n",)
    )
    assert [(file.path[:15], is_apart(file.path), file.rows) for file in staged.files] == [
        (f"date=2024-01-0{day}", apart, rows)
        for day in (1, 2, 3)
        for apart, rows in ((True, 2), (False, 18))
    ]
    publish_to(store, staged)
    rows = rows_of(store, spark, "t")
    assert rows.columns == ["n", "date"]
    assert sorted(row.n for row in rows.collect()) == list(range(60))
    apart = [file for file in paths_of(store, "t") if is_apart(file)]
    apart_rows = rows_of(store, spark, "t", files=apart).collect()
    assert sorted(row.n for row in apart_rows) == [0, 10, 20, 30, 40, 50]
    assert not list(Path(store.root).rglob(f"{APART}*"))


@pytest.mark.parametrize("before", [None, "TIMESTAMP_MILLIS"])
def test_the_session_is_left_as_it_was(
    spark: SparkSession, store: DeltaStore, before: str | None
) -> None:
    good = spark.sql("SELECT timestamp'1969-12-31 23:59:59.123457Z' AS t, date'2024-01-01' AS date")
    bad = good.withColumn("x", F.raise_error(F.lit("stop")).cast("int"))
    with session_conf(spark, {OUTPUT: before} if before else {}):
        staged = store.stage("t", good, run_id="r1", partition_by=("date",), sort_by=("t",))
        assert spark.conf.get(OUTPUT, None) == before
        with pytest.raises(Exception, match="stop"):
            store.stage("t", bad, run_id="r2", partition_by=("date",), sort_by=())
        assert spark.conf.get(OUTPUT, None) == before
    statistics = json.loads(staged.files[0].stats)
    assert statistics["minValues"] == {"t": "1969-12-31T23:59:59.123Z"}
    assert statistics["maxValues"] == {"t": "1969-12-31T23:59:59.124Z"}
    assert not list(Path(store.root).rglob("r2")), "what a failed run wrote is deleted"


def test_nan_leaves_no_bounds(spark: SparkSession, store: DeltaStore) -> None:
    frame = spark.sql("SELECT * FROM VALUES (1D, -1D), (double('NaN'), 2D) AS t(x, y)").coalesce(1)
    staged = store.stage("t", frame, run_id="r1", partition_by=(), sort_by=())
    statistics = json.loads(staged.files[0].stats)
    assert statistics["minValues"] == {"y": -1.0}
    assert statistics["maxValues"] == {"y": 2.0}


def test_old_dates_are_written_in_deltas_calendar(spark: SparkSession, store: DeltaStore) -> None:
    frame = spark.sql("SELECT timestamp'1500-03-01 00:00:00Z' AS t, date'1500-03-01' AS d")
    with session_conf(spark, {"spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY"}):
        staged = store.stage("t", frame, run_id="r1", partition_by=(), sort_by=())
    statistics = json.loads(staged.files[0].stats)
    assert statistics["minValues"] == {"t": "1500-03-01T00:00:00.000Z", "d": "1500-03-01"}


@pytest.mark.parametrize("partition_by", [(), ("date",)])
def test_an_empty_frame_stages_nothing(
    spark: SparkSession, store: DeltaStore, partition_by: tuple[str, ...]
) -> None:
    frame = spark.sql("SELECT 1L AS n, date'2024-01-01' AS date").where("n > 1")
    staged = store.stage("t", frame, run_id="r1", partition_by=partition_by, sort_by=("n",))
    assert staged.files == ()
    assert staged.rows == 0
    assert publish_to(store, staged) == 0
    assert rows_of(store, spark, "t").dtypes == [("n", "bigint"), ("date", "date")]
    assert rows_of(store, spark, "t").count() == 0


def test_a_run_stages_once(spark: SparkSession, store: DeltaStore) -> None:
    frame = spark.range(1)
    staged = store.stage("t", frame, run_id="r1", partition_by=(), sort_by=())
    with pytest.raises(TableError, match="t, run r1: the run has written files"):
        store.stage("t", frame, run_id="r1", partition_by=(), sort_by=())
    store.discard(staged)
    store.stage("t", frame, run_id="r1", partition_by=(), sort_by=())


def test_types_that_delta_cannot_hold_are_named(spark: SparkSession, store: DeltaStore) -> None:
    frame = spark.sql("SELECT named_struct('a', INTERVAL 1 DAY) AS state")
    with pytest.raises(ColumnError, match=r"state: a table cannot hold .* interval"):
        store.stage("t", frame, run_id="r1", partition_by=(), sort_by=())
    with pytest.raises(ColumnError, match="nothing: the frame to publish has no such column"):
        store.stage("t", spark.range(1), run_id="r1", partition_by=("nothing",), sort_by=())


@pytest.mark.parametrize(
    "root",
    [
        "http://bucket/out",
        "file:/tmp/x",
        "s3://bucket/a b",
        "s3://KEY:secret@bucket",
        "s3://KEY:sec/ret@bucket/out",
        "s3://bucket/./out",
        "s3://bucket/../out",
        "s3://bucket//out",
        "s3://bucket:9000/out",
        "s3://[bucket/out",
        "S3://bucket/out",
        "c:/out",
        "s3:///a",
        "/tmp/a%20b",
        "/tmp/a\\b",
    ],
)
def test_roots_that_cannot_serve_are_refused(root: str) -> None:
    with pytest.raises(TableError, match=r"tables\.path: ") as error:
        DeltaStore(root)
    assert "secret" not in str(error.value)
    assert "sec/ret" not in str(error.value)


@pytest.mark.parametrize("name", ["", "a/b", "..", "a b"])
def test_names_that_are_no_folders_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(TableError, match="table: may contain only letters"):
        DeltaStore(tmp_path).open(name)
