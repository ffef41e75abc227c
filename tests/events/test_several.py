"""Several sources of files as one: their columns, their files, and what is refused."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from backfill import Job
from backfill.errors import ColumnError, SourceError
from backfill.events import SourceOptions, open_source
from tests.execution.joined import MINUTE
from tests.on_sail import ON_SAIL, spark_only

pytestmark = pytest.mark.usefixtures("interpreted")

_CSV = '{path: buys, format: csv, schema: "user string, at timestamp, price int, id string"}'
JOB = (
    f"""\
sources:
  clicks: {{path: clicks, format: parquet}}
  buys: {"{path: buys, format: parquet}" if ON_SAIL else _CSV}
"""
    + """\
events: {key: user, time: at, id: id}
windows:
  daily: {tumbling: {size: 1 day}, aggregates: {n: count, clicks: count where source = 'clicks'}}
joins:
  sold: {left: clicks, right: buys, within: [5m, 30m], how: full,
         columns: {ad: left.ad, price: right.price}}
tables: {path: out}
checks: {builtin: {quarantined_share: off}}
"""
)


def write(spark: SparkSession, folder: Path, number: int, clicks: str, buys: str) -> None:
    """Writes a file for each source; an event is user, minute of the hour, value and id."""

    def events(text: str) -> list[list[str]]:
        return [event.split(":") for event in text.split()]

    rows = [
        (user, f"2026-01-01 12:{at}:00", int(value), id) for user, at, value, id in events(clicks)
    ]
    frame = spark.createDataFrame(rows, "user string, at string, ad int, id string")
    frame.selectExpr("user", "at::timestamp at", "ad", "id").coalesce(1).write.mode(
        "append"
    ).parquet(str(folder / "clicks"))
    if ON_SAIL:
        bought = [
            {
                "user": user or None,
                "at": dt.datetime.fromisoformat(f"2026-01-01T12:{at}:00+00:00"),
                "price": int(value),
                "id": id,
            }
            for user, at, value, id in events(buys)
        ]
        types = [pa.string(), pa.timestamp("us", "UTC"), pa.int32(), pa.string()]
        schema = pa.schema(list(zip(("user", "at", "price", "id"), types, strict=True)))
        (folder / "buys").mkdir(exist_ok=True)
        pq.write_table(
            pa.Table.from_pylist(bought, schema=schema), folder / "buys" / f"{number}.parquet"
        )
        return
    lines = [
        f"{user},2026-01-01T12:{at}:00-03:30,{value},{id}" for user, at, value, id in events(buys)
    ]
    (folder / "buys").mkdir(exist_ok=True)
    text = "\n".join(["user,at,price,id", *lines, ""])
    (folder / "buys" / f"{number}.csv").write_text(text, encoding="utf-8")


def sold(job: Job, spark: SparkSession) -> list[tuple[Any, ...]]:
    """User, ids, ad and price, and how many minutes after the left event the right one was."""
    table = job.table("sold", spark)
    later = f"(unix_micros(right_time) - unix_micros(left_time)) / {MINUTE} later"
    frame = table.selectExpr("user", "id", "id_right", "ad", "price", later)
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def test_a_job_of_two_sources(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB, encoding="utf-8")
    job = Job.load(tmp_path / "job.yaml")
    write(spark, tmp_path, 0, "a:10:1:c1 b:50:2:c2", "a:15:7:b1 :20:8:b2")
    result = job.run(spark)
    assert (result.read, result.accepted, dict(result.quarantined)) == (4, 3, {"no_key": 1})
    assert sold(job, spark) == [
        ("a", "c1", "b1", 1, 7, 5.0),
        ("b", "c2", None, 2, None, None),
    ]
    # Events of both sides come late, and an event of each is delivered again.
    write(spark, tmp_path, 1, "a:20:3:c3 a:10:1:c1", "a:41:9:b3 b:59:6:b4 a:15:7:b1")
    recomputed = job.recompute(spark)
    assert recomputed is not None
    assert (recomputed.accepted, recomputed.duplicates) == (3, 2)
    assert sold(job, spark) == [
        ("a", "c1", "b1", 1, 7, 5.0),
        ("a", "c3", "b1", 3, 7, -5.0),
        ("a", "c3", "b3", 3, 9, 21.0),
        ("b", "c2", "b4", 2, 6, 9.0),
    ]
    daily = job.table("daily", spark).orderBy("user").collect()
    assert [(row.user, row.n, row.clicks) for row in daily] == [("a", 4, 2), ("b", 2, 1)]
    again = Job.load(tmp_path / "job.yaml")
    assert again.recompute(spark) is None
    assert all(outcome.success for outcome in again.validate(spark=spark))


@spark_only
def test_a_job_that_had_one_source(spark: SparkSession, tmp_path: Path) -> None:
    """Its late files are no longer inputs, and a full run begins anew."""
    write(spark, tmp_path, 0, "a:10:1:c1", "a:15:7:b1")
    write(spark, tmp_path / "other", 1, "a:20:2:late", "")
    one = JOB.split("windows:")[1].split("joins:")[0].replace("source = 'clicks'", "ad > 0")
    path = tmp_path / "job.yaml"
    events, tables = JOB.split("\n")[3], "tables: {path: out}\n"
    source = "source: {path: clicks, format: parquet}"
    path.write_text(f"{source}\n{events}\nwindows:{one}{tables}", encoding="utf-8")
    job = Job.load(path)
    job.run(spark)
    assert job.recompute(spark, late=tmp_path / "other" / "clicks") is not None
    path.write_text(JOB, encoding="utf-8")
    Job.load(path).run(spark)
    [row] = Job.load(path).table("daily", spark).collect()
    assert (row.n, row.clicks) == (2, 1)
    assert Job.load(path).recompute(spark) is None


def two(tmp_path: Path, spark: SparkSession, one: str, other: str) -> SourceOptions:
    parts = {}
    for name, columns in (("one", one), ("other", other)):
        path = str(tmp_path / name)
        spark.range(1).selectExpr(*columns.split(", ")).write.parquet(path)
        parts[name] = SourceOptions(format="parquet", path=path)
    return SourceOptions(format="several", path="both", parts=parts)


@spark_only
def test_columns_of_either(spark: SparkSession, tmp_path: Path) -> None:
    source = open_source(spark, two(tmp_path, spark, "id k, 1 a", "id k, 'x' `b.c`"))
    assert source.frame.columns == ["k", "a", "b.c", "source", "_corrupt", "_source"]
    rows = [tuple(row[:4]) for row in source.frame.orderBy("source").collect()]
    assert rows == [(0, 1, None, "one"), (0, None, "x", "other")]
    assert source.snapshot.schema == "k BIGINT,a INT,`b.c` STRING,source STRING"
    paths = [file.path for file in source.snapshot.inputs if "/other/" in file.path]
    (row,) = source.only(paths).collect()
    assert row[:4] == (0, None, "x", "other")


@pytest.mark.parametrize(
    ("one", "other", "problem"),
    [
        ("id k", "string(id) k", "sources: is bigint in one and string in other"),
        ("id k", "id K", "sources.other: is k in one, and Spark can't tell the two apart"),
        ("id k", "id k, 1 Source", "sources.other: is the name of the column that says which"),
    ],
)
def test_columns_that_do_not_fit(
    spark: SparkSession, tmp_path: Path, one: str, other: str, problem: str
) -> None:
    with pytest.raises(ColumnError, match=problem):
        open_source(spark, two(tmp_path, spark, one, other))


@spark_only
def test_what_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    source = two(tmp_path, spark, "id k", "id k")
    with pytest.raises(SourceError, match="late: can't be given to a job with several sources"):
        open_source(spark, source, late=[str(tmp_path / "late")])
    same = dict.fromkeys(("one", "again"), source.parts["one"])
    with pytest.raises(SourceError, match="sources: is in two sources, one and again"):
        open_source(spark, SourceOptions(format="several", path="one", parts=same))
    (tmp_path / "job.yaml").write_text(
        "sources:\n"
        "  one: {path: one, format: parquet}\n"
        "  other: {path: other, format: parquet, options: {cleanSource: delete}}\n"
        "events: {key: k, time: at, time_format: epoch_s}\n"
        "joins: {both: {left: one, right: other, within: 1m}}\n"
        "tables: {path: out}\n",
        encoding="utf-8",
    )
    with pytest.raises(ColumnError, match=r"sources.one: there is no such column \(got 'at'\)"):
        Job.load(tmp_path / "job.yaml").run(spark)
    refused = r"sources\.other\.source\.options\.cleanSource: this option can't be used"
    with pytest.raises(SourceError, match=refused):
        Job.load(tmp_path / "job.yaml").stream(spark, to=tmp_path / "streamed")
    gone = {"gone": SourceOptions(format="parquet", path=str(tmp_path / "gone"))}
    with pytest.raises(SourceError, match=r"sources\.gone\.source"):
        open_source(spark, SourceOptions(format="several", path="gone", parts=gone))
