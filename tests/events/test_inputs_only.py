"""Some of a source's files: the same frame over fewer rows."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from backfill.errors import SourceError
from tests.inputs import LOG, check_parts, opened, write

pytestmark = pytest.mark.usefixtures("interpreted")


@pytest.mark.parametrize("format", ["parquet", "csv", "json"])
def test_files_in_folders(spark: SparkSession, tmp_path: Path, format: str) -> None:
    # By itself, each of the files would be read with other types.
    write(tmp_path, format, "n=1/day=2024-07-01/a b", [{"u": "x", "v": 1.0}])
    write(tmp_path, format, "n=x/day=2024-07-02/b+c%", [{"u": "y", "v": 2.5}, {"u": "z", "v": 3.0}])
    write(tmp_path, format, "n=2/day=2024-07-02/d", [{"u": "7", "v": 4.0}])
    source = opened(spark, format, tmp_path)
    assert [field.dataType.simpleString() for field in source.frame.schema][:4] == [
        "string", "double", "string", "date",
    ]  # fmt: skip
    check_parts(source)
    first = source.snapshot.inputs[0].path
    assert source.folders[first] == {"n": "1", "day": "2024-07-01"}


@pytest.mark.parametrize("format", ["parquet", "csv", "json"])
def test_a_given_schema(spark: SparkSession, tmp_path: Path, format: str) -> None:
    for number, day in enumerate(("2024-07-01", "2024-07-02")):
        write(tmp_path, format, f"day={day}/{number}", [{"u": str(number), "v": number}])
    source = opened(spark, format, tmp_path, schema="day string, u string, v bigint")
    assert source.frame.schema["day"].dataType.simpleString() == "string"
    check_parts(source)


def test_inferred_types_are_those_of_the_whole(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "csv", "a", [{"u": 1, "v": 1}])
    write(tmp_path, "csv", "b", [{"u": "x", "v": 1.5}])
    source = opened(spark, "csv", tmp_path)
    assert source.snapshot.schema == "u STRING,v DOUBLE"
    check_parts(source)
    (row,) = source.only([str(tmp_path / "a.csv")]).collect()
    assert (row.u, row.v) == ("1", 1.0)


def test_lines_are_numbered_in_each_file(spark: SparkSession, tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.log").write_text("".join(LOG.format(n, n) for n in range(1, 4)))
    source = opened(spark, "access_log", tmp_path)
    check_parts(source)
    rows = source.only([str(tmp_path / "b.log"), str(tmp_path / "c.log")]).collect()
    assert sorted((row.line, row.bytes) for row in rows) == [(n, n) for n in (1, 1, 2, 2, 3, 3)]


def test_delta(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "events")
    for n, place in enumerate(["x y", "é", None]):
        rows = pa.table(
            {"n": [n], "place": pa.array([place], pa.string()), "day": [date(2024, 7, 1)]}
        )
        write_deltalake(path, rows, partition_by=["place", "day"], mode="append")
    source = opened(spark, "delta", Path(path))
    check_parts(source)
    places = [source.folders[file.path] for file in source.snapshot.inputs]
    assert {folder["place"] for folder in places} == {"x y", "é", None}
    assert {folder["day"] for folder in places} == {"2024-07-01"}


def test_a_catalogs_table_has_no_parts(spark: SparkSession) -> None:
    spark.range(3).createOrReplaceTempView("numbers_of_events")
    source = opened(spark, "table", Path("numbers_of_events"))
    assert source.only(()).count() == 3
    assert source.only((), F.col("id") > 1).count() == 1


@pytest.mark.parametrize("format", ["parquet", "csv", "json", "access_log", "delta"])
def test_a_condition(spark: SparkSession, tmp_path: Path, format: str) -> None:
    if format == "delta":
        write_deltalake(str(tmp_path), pa.table({"bytes": [1, 2]}))
    elif format == "access_log":
        (tmp_path / "a.log").write_text(LOG.format(1, 1) + LOG.format(2, 2))
    else:
        write(tmp_path, format, "a", [{"bytes": 1}, {"bytes": 2}])
    source = opened(spark, format, tmp_path)
    for paths in ([file.path for file in source.snapshot.inputs], []):
        rows = source.only(paths, F.col("bytes") > 1).collect()
        assert [row.bytes for row in rows] == ([2] if paths else [])


@pytest.mark.parametrize("format", ["parquet", "csv", "json"])
def test_folders_of_two_forms_are_refused(spark: SparkSession, tmp_path: Path, format: str) -> None:
    # Spark reads the one in the folder, and skips the other silently.
    write(tmp_path, format, "day=2024-07-01/a", [{"u": "x"}])
    write(tmp_path, format, "b", [{"u": "y"}])
    with pytest.raises(SourceError, match=r"folders such as .* differ in name or depth from"):
        opened(spark, format, tmp_path)
