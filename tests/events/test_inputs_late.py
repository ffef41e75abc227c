"""Paths of late events are read as the source is, each file once; missing ones are an error."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from backfill.errors import SourceError
from backfill.events import spark_errors
from tests.inputs import LOG, check_parts, opened, write

pytestmark = pytest.mark.usefixtures("interpreted")

FORMATS = ["parquet", "csv", "json"]


@pytest.mark.parametrize("format", FORMATS)
def test_a_file_and_a_folder(spark: SparkSession, tmp_path: Path, format: str) -> None:
    write(tmp_path, format, "events/a", [{"u": "a", "v": 1.5}])
    one = write(tmp_path, format, "late/one", [{"u": "b", "v": 2.5}])
    write(tmp_path, format, "later/here/x", [{"u": "c", "v": 3.5}])
    write(tmp_path, format, "later/y", [{"u": "d", "v": 4.5}])
    source = opened(spark, format, tmp_path / "events", (one, tmp_path / "later"))
    assert sorted((row.u, row.v) for row in source.frame.collect()) == [
        ("a", 1.5), ("b", 2.5), ("c", 3.5), ("d", 4.5),
    ]  # fmt: skip
    paths = [file.path for file in source.snapshot.inputs]
    assert paths == sorted(paths)
    assert len(paths) == 4
    assert source.frame.schema == opened(spark, format, tmp_path / "events").frame.schema
    check_parts(source)


@pytest.mark.parametrize("format", FORMATS)
def test_folders_are_columns_there_too(spark: SparkSession, tmp_path: Path, format: str) -> None:
    write(tmp_path, format, "events/day=2024-07-01/a", [{"u": "a"}])
    file = write(tmp_path, format, "late/day=2024-07-02/b", [{"u": "b"}])
    write(tmp_path, format, "more/day=2024-07-03/c", [{"u": "c"}])
    write(tmp_path, format, "more/day=2024-07-04/d", [{"u": "d"}])
    plain = write(tmp_path, format, "plain/e", [{"u": "e"}])
    late = (file, tmp_path / "more", plain)
    source = opened(spark, format, tmp_path / "events", late)
    days = {row.u: row.day for row in source.frame.collect()}
    assert days == {u: date(2024, 7, n) for n, u in enumerate("abcd", 1)} | {"e": None}
    assert source.folders[str(file)] == {"day": "2024-07-02"}
    check_parts(source)
    with pytest.raises(SourceError, match=r"late: late events of this source must be in folders"):
        opened(spark, format, tmp_path / "events", late, date_column="day")


def test_a_folders_column_that_a_late_file_holds(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "parquet", "events/day=2024-07-01/a", [{"u": "a"}])
    file = write(tmp_path, "parquet", "late", [{"day": date(2024, 7, 2), "u": "b"}])
    rows = opened(spark, "parquet", tmp_path / "events", (file,)).frame.collect()
    assert sorted((row.u, row.day.day) for row in rows) == [("a", 1), ("b", 2)]


@pytest.mark.parametrize("format", FORMATS)
def test_files_are_read_once(spark: SparkSession, tmp_path: Path, format: str) -> None:
    own = write(tmp_path, format, "events/2024/a", [{"u": "a"}])
    outside = write(tmp_path, format, "late/b", [{"u": "b"}])
    (tmp_path / "link").symlink_to(tmp_path / "events")
    late = (
        own,
        own.parent,
        tmp_path / "link",
        outside,
        outside.parent,
        outside.parent / ".." / "late",
    )
    source = opened(spark, format, tmp_path / "events", late)
    assert sorted(row.u for row in source.frame.collect()) == ["a", "b"]
    assert [file.path for file in source.snapshot.inputs] == [str(own), str(outside)]


def test_a_late_path_is_the_same_input_however_it_is_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path, "json", "events/a", [{"u": "a"}])
    late = write(tmp_path, "json", "late/b", [{"u": "b"}])
    for path in (str(late), f"{tmp_path}/events/../late//b.json", f"file://{late}"):
        source = opened(spark, "json", tmp_path / "events", (path,))  # type: ignore[arg-type]
        assert source.snapshot.inputs[1].path == str(late)
        assert {row._source for row in source.frame.collect()} >= {str(late)}


def test_access_logs(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("events", "late/day=1"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "x.log").write_text("".join(LOG.format(n, n) for n in range(1, 4)))
    source = opened(spark, "access_log", tmp_path / "events", (tmp_path / "late",))
    assert sorted(row.line for row in source.frame.collect()) == [1, 1, 2, 2, 3, 3]
    check_parts(source)


@pytest.mark.parametrize("format", FORMATS)
def test_missing(spark: SparkSession, tmp_path: Path, format: str) -> None:
    write(tmp_path, format, "events/a", [{"u": "a"}])
    (tmp_path / "empty").mkdir()
    (tmp_path / "_file").write_text("x")
    for name, problem in (
        ("gone", "nothing is there"),
        ("empty", "there are no files here"),
        ("_file", "has the name of a hidden file, which Spark does not read"),
    ):
        with pytest.raises(SourceError, match=f"late: {problem}, where late events") as e:
            opened(spark, format, tmp_path / "events", (tmp_path / name,))
        assert str(tmp_path / name) in str(e.value)
        assert "\n" not in str(e.value)


@pytest.mark.parametrize("format", ["delta", "table"])
def test_formats_that_have_no_files_of_their_own(
    spark: SparkSession, tmp_path: Path, format: str
) -> None:
    write_deltalake(str(tmp_path / "events"), pa.table({"n": [1]}))
    with pytest.raises(
        SourceError, match=f"late: late events of a source of format {format} are added"
    ):
        opened(spark, format, tmp_path / "events", (tmp_path / "late",))


def test_late_files_must_fit(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "parquet", "events/a", [{"u": "a"}])
    late = write(tmp_path, "parquet", "late", [{"u": 1}])
    with pytest.raises(SourceError, match=r"column 'u' is"):
        opened(spark, "parquet", tmp_path / "events", (late,))
    write(tmp_path, "csv", "logs/a", [{"u": "a", "v": 1}])
    late = write(tmp_path, "csv", "late", [{"v": 1, "u": "b"}])
    source = opened(spark, "csv", tmp_path / "logs", (late,))
    with (
        pytest.raises(SourceError, match=r"late\.csv: the header of this CSV file"),
        spark_errors(source.snapshot),
    ):
        source.frame.collect()


def test_late_values_do_not_change_the_schema(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "json", "events/a", [{"u": "a", "v": 1}])
    late = write(tmp_path, "json", "late", [{"u": "b", "v": "x"}, {"u": "c", "v": 2, "w": 3}])
    source = opened(spark, "json", tmp_path / "events", (late,))
    assert source.snapshot.schema == "u STRING,v BIGINT"
    rows = sorted((row.v, row._corrupt is None) for row in source.frame.where("v > 0").collect())
    assert rows == [(1, True), (2, True)]
    assert source.frame.where("_corrupt IS NOT NULL").count() == 1


def test_folders_whose_values_do_not_fit(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "parquet", "events/day=2024-07-01/a", [{"u": "a"}])
    write(tmp_path, "parquet", "late/day=july/b", [{"u": "b"}])
    with pytest.raises(SourceError, match="the folder day=july is not of type DATE"):
        opened(spark, "parquet", tmp_path / "events", (tmp_path / "late",))
