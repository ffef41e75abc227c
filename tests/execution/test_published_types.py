"""Rows get a table's types only if these can hold every value."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill.errors import TableError
from backfill.execution.published_types import as_published
from backfill.time.epoch import moment_of
from tests.execution.world import at
from tests.files import write_rows
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
    with pytest.raises(TableError, match=r"w, column x: is .* in the table, but would be"):
        as_published(rows, like, "w")


def test_a_column_of_the_source_has_another_type(spark: SparkSession, tmp_path: Path) -> None:
    def write(values: list[float]) -> None:
        rows = [
            {"user": "a", "at": moment_of(at(day)), "value": value}
            for day, value in enumerate(values)
        ]
        write_rows(tmp_path / "src" / "a.parquet", rows)

    job = job_of(tmp_path, "path: src, format: parquet")
    write([1, 2, 3])
    job.run(spark)
    write([1.5, 2.5, 3.5])
    with pytest.raises(TableError, match=r"sessions, column total: is bigint .* double now"):
        job.run(spark, start="2026-01-01", end="2026-01-04")
    assert job.fetch("sessions").column("total").to_pylist() == [1, 2, 3]
    job.run(spark)
    assert job.fetch("sessions").column("total").to_pylist() == [1.5, 2.5, 3.5]
