"""Rows get a table's types only where these hold every value."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from backfill.errors import TableError
from backfill.execution.published_types import as_published
from tests.rebuilt import job_of

pytestmark = pytest.mark.usefixtures("interpreted")


@pytest.mark.parametrize(
    ("table", "new", "held"),
    [
        ("bigint", "int", True),
        ("int", "bigint", False),
        ("bigint", "double", False),
        ("double", "float", True),
        ("double", "bigint", False),
        ("decimal(12,2)", "decimal(10,2)", True),
        ("decimal(12,2)", "decimal(10,3)", False),
        ("decimal(12,3)", "decimal(11,2)", True),
        ("decimal(12,3)", "decimal(12,2)", False),
        ("string", "string", True),
        ("string", "int", False),
        ("array<bigint>", "array<int>", True),
        ("array<bigint>", "array<double>", False),
        ("map<string,bigint>", "map<string,smallint>", True),
        ("map<string,bigint>", "map<int,bigint>", False),
        ("struct<a:bigint,b:string>", "struct<a:int,b:string>", True),
        ("struct<a:bigint,b:string>", "struct<b:bigint,a:string>", False),
    ],
)
def test_types(spark: SparkSession, table: str, new: str, held: bool) -> None:
    like, rows = (spark.createDataFrame([], f"a int, x {kind}") for kind in (table, new))
    if held:
        assert as_published(rows, like, "w").schema.simpleString() == like.schema.simpleString()
        return
    with pytest.raises(TableError, match=r"w, column x: is .* in the table, and would be"):
        as_published(rows, like, "w")


def test_a_column_of_the_source_has_another_type(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()

    def write(values: pa.Array) -> None:
        at = pa.array([1_767_225_600_000_000 + n * 86_400_000_000 for n in range(3)])
        columns = {"user": ["a"] * 3, "at": at.cast(pa.timestamp("us", "UTC")), "value": values}
        pq.write_table(pa.table(columns), tmp_path / "src" / "a.parquet")

    job = job_of(tmp_path, "path: src, format: parquet")
    write(pa.array([1, 2, 3], pa.int64()))
    job.run(spark)
    write(pa.array([1.5, 2.5, 3.5]))
    with pytest.raises(TableError, match=r"sessions, column total: is bigint .* double now"):
        job.run(spark, start="2026-01-01", end="2026-01-04")
    assert job.fetch("sessions").column("total").to_pylist() == [1, 2, 3]
    job.run(spark)
    assert job.fetch("sessions").column("total").to_pylist() == [1.5, 2.5, 3.5]
