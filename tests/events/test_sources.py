"""Every format of source: what is read, what is refused, and that a run's input stays the same."""

from __future__ import annotations

import gzip
import json
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from backfill.errors import SourceError
from backfill.events import Source, SourceOptions, open_source, spark_errors, time_column
from tests.on_sail import spark_only


def opened(spark: SparkSession, format: str, path: Path | str, **more: Any) -> Source:
    return open_source(spark, SourceOptions(format=format, path=str(path), **more))


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def table(**columns: Any) -> pa.Table:
    return pa.table(columns)


MOMENT = datetime(2024, 7, 1, 12, tzinfo=timezone.utc)


@spark_only
def test_parquet_in_folders(spark: SparkSession, tmp_path: Path) -> None:
    for day in (1, 2):
        folder = tmp_path / "ev ents" / f"day=2024-07-0{day}"
        folder.mkdir(parents=True)
        pq.write_table(table(a=[day]), folder / "x+y%.parquet")
    write(tmp_path / "ev ents" / "_SUCCESS", "x")
    write(tmp_path / "ev ents" / ".hidden" / "y.parquet", "x")
    write(tmp_path / "ev ents" / "y.parquet._COPYING_", "x")
    source = opened(spark, "parquet", tmp_path / "ev ents")
    rows = source.frame.orderBy("a").collect()
    assert [(row.a, row.day, row._corrupt) for row in rows] == [
        (1, date(2024, 7, 1), None),
        (2, date(2024, 7, 2), None),
    ]
    assert [row._source for row in rows] == [file.path for file in source.snapshot.inputs]
    assert all(file.size > 0 and file.modified_ms > 0 for file in source.snapshot.inputs)
    assert source.snapshot.schema == "a BIGINT,day DATE"
    by_glob = opened(spark, "parquet", tmp_path / "ev ents" / "day=*" / "*.parquet").frame
    assert by_glob.columns == ["a", "day", "_corrupt", "_source"]
    assert by_glob.count() == 2


@pytest.mark.parametrize(
    "format",
    ["parquet", *(pytest.param(name, marks=spark_only) for name in ("csv", "json", "access_log"))],
)
def test_a_source_that_grows_does_not_change_the_run(
    spark: SparkSession, tmp_path: Path, format: str
) -> None:
    def add(name: str) -> None:
        if format == "parquet":
            pq.write_table(table(a=[1, 2]), tmp_path / f"{name}.parquet")
        elif format == "csv":
            write(tmp_path / f"{name}.csv", "a\n1\n2\n")
        elif format == "json":
            write(tmp_path / f"{name}.json", '{"a":1}\n{"a":2}\n')
        else:
            line = 'h - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1\n'
            write(tmp_path / f"{name}.log", line * 2)

    add("one")
    source = opened(spark, format, tmp_path)
    add("two")
    assert source.frame.count() == 2
    assert len(source.snapshot.inputs) == 1
    assert opened(spark, format, tmp_path).frame.count() == 4


@pytest.mark.parametrize("stored", ["int96", "us", "ms", "ntz"])
def test_times_in_parquet(spark: SparkSession, tmp_path: Path, stored: str) -> None:
    unit = "ms" if stored == "ms" else "us"
    type_ = pa.timestamp(unit, None if stored == "ntz" else "UTC")
    column = pa.array([MOMENT.replace(tzinfo=None) if stored == "ntz" else MOMENT], type_)
    path = tmp_path / "x.parquet"
    pq.write_table(table(t=column), path, use_deprecated_int96_timestamps=stored == "int96")
    frame = opened(spark, "parquet", path).frame
    zone = "Europe/Berlin" if stored == "ntz" else "UTC"
    (row,) = frame.select(time_column(frame, "t", None, zone).alias("t")).collect()
    hours = 10 if stored == "ntz" else 12
    assert row.t == int(MOMENT.replace(hour=hours).timestamp()) * 1_000_000


def test_parquet_that_cannot_be_read(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(table(a=[1]), tmp_path / "a.parquet")
    write(tmp_path / "b.parquet", "this is none")
    with pytest.raises(SourceError, match=r"b\.parquet: not a readable Parquet file"):
        opened(spark, "parquet", tmp_path)
    nanos = pa.array([MOMENT], pa.timestamp("ns", "UTC"))
    pq.write_table(table(t=nanos), tmp_path / "b.parquet")
    with pytest.raises(SourceError, match=r"b\.parquet: column 't' has times in nanoseconds"):
        opened(spark, "parquet", tmp_path)


@spark_only
def test_parquet_files_that_differ(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(table(a=[1]), tmp_path / "a.parquet")
    pq.write_table(table(a=[2], b=["x"]), tmp_path / "b.parquet")
    with pytest.raises(SourceError, match=r"b\.parquet: column 'b' is String here and absent in"):
        opened(spark, "parquet", tmp_path)
    rows = opened(spark, "parquet", tmp_path, schema="a long, b string").frame.orderBy("a")
    assert [(row.a, row.b) for row in rows.collect()] == [(1, None), (2, "x")]
    with pytest.raises(SourceError, match=r"no file has this column .*Did you mean 'a'"):
        opened(spark, "parquet", tmp_path, schema="aa long")
    wrong = opened(spark, "parquet", tmp_path, schema="a long, b int")
    with (
        pytest.raises(SourceError, match=r"b\.parquet: column b has another type"),
        spark_errors(wrong.snapshot),
    ):
        wrong.frame.collect()


@spark_only
def test_csv_types_are_inferred_once(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "a.csv", "u,n,d,t,z\nx,1,2024-07-01,2024-07-01 10:00:00,\n")
    write(tmp_path / "b.csv.gz", "u,n,d,t,z\ny,2.5,2024-07-02,2024-07-01T10:00:00Z,\n")
    source = opened(spark, "csv", tmp_path)
    assert source.snapshot.schema == "u STRING,n DOUBLE,d DATE,t STRING,z STRING"
    rows = source.frame.orderBy("u").collect()
    assert [(r.u, r.n, r.d, r.t, r._corrupt) for r in rows] == [
        ("x", 1.0, date(2024, 7, 1), "2024-07-01 10:00:00", None),
        ("y", 2.5, date(2024, 7, 2), "2024-07-01T10:00:00Z", None),
    ]
    assert rows[1]._source == str(tmp_path / "b.csv.gz")


@spark_only
@pytest.mark.parametrize("used", [["u"], ["n"], ["u", "n"], []])
def test_csv_rows_that_do_not_parse_whatever_is_used(
    spark: SparkSession, tmp_path: Path, used: list[str]
) -> None:
    lines = ["u,n,m", "a,1,1", "b,x,1", "c,1", "d,1,1,1", "", "e,,"]
    path = write(tmp_path / "a.csv", "\n".join(lines))
    frame = opened(spark, "csv", path, schema="u string, n int, m int").frame
    rows = frame.select(*used, "_corrupt").collect()
    assert len(rows) == 5
    assert sorted(r._corrupt for r in rows if r._corrupt) == ["b,x,1", "c,1", "d,1,1,1"]
    assert frame.filter("_corrupt IS NOT NULL").count() == 3
    assert frame.filter("_corrupt IS NULL AND u = 'a'").count() == 1


@spark_only
def test_json_rows_that_do_not_parse(spark: SparkSession, tmp_path: Path) -> None:
    bad = ['{"u":"b","n":"x"}', '{"u":', "17", '{"u":"c","n":1.5}']
    path = write(tmp_path / "a.json", "\n".join(['{"u":"a","n":1}', *bad, "", '{"n":null}']))
    frame = opened(spark, "json", path, schema="u string, n long").frame
    assert {r._corrupt for r in frame.select("_corrupt").collect()} == {None, *bad}
    assert {r._corrupt for r in frame.select("u", "_corrupt").collect()} == {None, *bad}
    assert frame.filter("_corrupt IS NULL AND u = 'a'").count() == 1
    inferred = opened(spark, "json", path)
    assert inferred.snapshot.schema == "n STRING,u STRING"
    write(path, "nothing\n")
    with pytest.raises(SourceError, match="none of its lines is a JSON object"):
        opened(spark, "json", path)


@spark_only
def test_json_with_a_name_twice(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"u": 1, "u": 2}\n')
    with pytest.raises(
        SourceError, match=r"source\.schema: two columns of the source have this name"
    ):
        opened(spark, "json", str(tmp_path))


@spark_only
def test_json_times_stay_text(spark: SparkSession, tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", '{"t":"2024-07-01T10:00:00","s":{"a b":1}}\n')
    assert opened(spark, "json", path).snapshot.schema == "s STRUCT<`a b`: BIGINT>,t STRING"


@spark_only
def test_csv_timestamps_of_a_given_schema_are_in_the_jobs_zone(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = write(tmp_path / "a.csv", "t\n2024-07-01 12:00:00\n")
    frame = opened(spark, "csv", path, schema="t timestamp", timezone="Europe/Berlin").frame
    (row,) = frame.select(F.unix_micros("t").alias("t")).collect()
    assert row.t == int(MOMENT.replace(hour=10).timestamp()) * 1_000_000


@spark_only
def test_csv_headers_must_agree(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "a.csv", "u,n\na,1\n")
    write(tmp_path / "b.csv", "n,u\n1,a\n")
    source = opened(spark, "csv", tmp_path, schema="u string, n int")
    with (
        pytest.raises(SourceError, match=r"b\.csv: the header of this CSV file"),
        spark_errors(source.snapshot),
    ):
        source.frame.collect()
    with pytest.raises(SourceError, match="CSV file without a header"):
        opened(spark, "csv", tmp_path, options={"header": "false"})


@spark_only
def test_csv_options(spark: SparkSession, tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "1;x\n2;y\n")
    options = {"sep": ";", "header": "false"}
    frame = opened(spark, "csv", path, schema="n int, u string", options=options).frame
    assert sorted((row.n, row.u) for row in frame.collect()) == [(1, "x"), (2, "y")]


@pytest.mark.parametrize(
    ("format", "option"),
    [
        ("csv", "mode"),
        ("json", "columnNameOfCorruptRecord"),
        ("csv", "EnforceSchema"),
        ("csv", "samplingRatio"),
        ("parquet", "ignoreCorruptFiles"),
        ("parquet", "mergeSchema"),
        ("csv", "timeZone"),
        ("access_log", "wholetext"),
        ("delta", "versionAsOf"),
        ("table", "x"),
    ],
)
def test_options_that_would_break_what_is_promised(
    spark: SparkSession, tmp_path: Path, format: str, option: str
) -> None:
    write(tmp_path / "a", "a\n1\n")
    with pytest.raises(SourceError, match=f"source.options.{option}: ") as raised:
        opened(spark, format, tmp_path / "a", options={option: "s3cret"}, schema=None)
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize("format", ["parquet", "csv", "json", "access_log"])
def test_nothing_to_read(spark: SparkSession, tmp_path: Path, format: str) -> None:
    with pytest.raises(SourceError, match=r"source.path: nothing is there"):
        opened(spark, format, tmp_path / "absent")
    with pytest.raises(SourceError, match=r"source.path: nothing is there"):
        opened(spark, format, tmp_path / "*.csv")
    with pytest.raises(SourceError, match=r"source.path: there are no files here"):
        opened(spark, format, tmp_path)
    write(tmp_path / "_hidden", "x")
    with pytest.raises(SourceError, match=r"source.path: has the name of a hidden file"):
        opened(spark, format, tmp_path / "_hidden")
    write(tmp_path / "empty", "")
    with pytest.raises(SourceError, match=r"source.path: every file here is empty"):
        opened(spark, format, tmp_path)


def test_other_refusals(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"source.format: .*Did you mean 'parquet'"):
        opened(spark, "parket", tmp_path)
    with pytest.raises(SourceError, match=r"source.schema: Spark cannot read this"):
        opened(spark, "csv", write(tmp_path / "a.csv", "a\n1\n"), schema="a, b,")
    with pytest.raises(SourceError, match="name of a column is reserved"):
        opened(spark, "json", write(tmp_path / "b.json", '{"_corrupt":1}\n'))
    with pytest.raises(SourceError, match="cannot be listed") as raised:
        opened(spark, "csv", "nofs://user:s3cret@host/x")
    assert "s3cret" not in str(raised.value)


def test_gzip_by_name_and_by_content(spark: SparkSession, tmp_path: Path) -> None:
    plain = write(tmp_path / "a.csv.gz", "a\n1\n")
    plain.rename(tmp_path / "b.csv")
    with pytest.raises(
        SourceError, match=r"b\.csv: the file is a gzip file, but its name does not"
    ):
        opened(spark, "csv", tmp_path / "b.csv")
    (tmp_path / "c.json.gz").write_text('{"a":1}\n')
    with pytest.raises(SourceError, match=r"c\.json\.gz: the file is not a gzip file"):
        opened(spark, "json", tmp_path / "c.json.gz")


@spark_only
@pytest.mark.parametrize("harm", ["cut", "trailer", "flip"])
def test_corrupt_gzip(spark: SparkSession, tmp_path: Path, harm: str) -> None:
    path = write(tmp_path / "x.log.gz", "".join(f"{n * 7919 % 10007}\n" for n in range(50_000)))
    whole = path.read_bytes()
    half = len(whole) // 2
    harmed = {"cut": whole[:half], "trailer": whole[:-4], "flip": b""}
    harmed["flip"] = whole[:half] + b"\xff\xff\xff\xff" + whole[half + 4 :]
    path.write_bytes(harmed[harm])
    source = opened(spark, "access_log", path)
    with (
        pytest.raises(SourceError, match=r"x\.log\.gz: the file cannot be decompressed"),
        spark_errors(source.snapshot),
    ):
        source.frame.agg(F.count("host"), F.max("line")).collect()


@spark_only
def test_a_file_that_goes(spark: SparkSession, tmp_path: Path) -> None:
    path = write(tmp_path / "a b.csv", "a\n1\n")
    source = opened(spark, "csv", path)
    path.unlink()
    with (
        pytest.raises(SourceError, match=r"a b\.csv: a file of the source was removed after"),
        spark_errors(source.snapshot),
    ):
        source.frame.collect()


@spark_only
def test_a_catalogs_table(spark: SparkSession) -> None:
    spark.range(3).createOrReplaceTempView("some_events")
    source = opened(spark, "table", "some_events")
    assert [r._source for r in source.frame.collect()] == ["some_events"] * 3
    assert (source.snapshot.inputs, source.snapshot.schema) == ((), "id BIGINT NOT NULL")
    with pytest.raises(SourceError, match=r"no such table .*got 'lake.nothing'"):
        opened(spark, "table", "lake.nothing")


def test_delta(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "events")
    places = ["x y", "a/b:c%+=", None, "é", "00"]
    days = [date(2024, 7, n) for n in range(1, 6)]
    flags = [True, False, None, True, True]
    rows = table(n=[1, 2, 3, 4, 5], place=places, day=days, flag=flags, size=[1, 2, None, 4, -5])
    write_deltalake(path, rows, partition_by=["place", "day", "flag", "size"])
    write_deltalake(path, rows.slice(0, 1), mode="append")
    DeltaTable(path).delete("n = 2")
    source = opened(spark, "delta", path)
    write_deltalake(path, rows, mode="append")
    got = sorted(tuple(row)[:5] for row in source.frame.collect())
    expected = zip([1, 2, 3, 4, 5], places, days, flags, [1, 2, None, 4, -5], strict=True)
    assert got == sorted([*(row for row in expected if row[0] != 2), got[0]])
    assert source.snapshot.version == 2
    assert source.frame.columns == ["n", "place", "day", "flag", "size", "_corrupt", "_source"]
    assert {r._source for r in source.frame.collect()} == {f.path for f in source.snapshot.inputs}


def test_delta_columns_that_came_later(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "events")
    write_deltalake(path, table(n=[1]))
    write_deltalake(path, table(n=[2], more=["x"]), mode="append", schema_mode="merge")
    rows = opened(spark, "delta", path).frame.orderBy("n").collect()
    assert [(row.n, row.more) for row in rows] == [(1, None), (2, "x")]


@pytest.mark.parametrize(
    ("feature", "configuration"),
    [
        ("columnMapping", {"delta.columnMapping.mode": "name"}),
        ("typeWidening", {}),
        ("newerThanUs", {}),
    ],
)
def test_delta_features_that_are_not_applied(
    spark: SparkSession, tmp_path: Path, feature: str, configuration: dict[str, str]
) -> None:
    path = tmp_path / "events"
    write_deltalake(str(path), table(n=[1]))
    log = path / "_delta_log" / "00000000000000000000.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "protocol" in action:
            features = [feature]
            action["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7}
            action["protocol"] |= {"readerFeatures": features, "writerFeatures": features}
        if "metaData" in action:
            action["metaData"]["configuration"] = configuration
    log.write_text("\n".join(json.dumps(action) for action in actions))
    with pytest.raises(SourceError, match=feature) as raised:
        opened(spark, "delta", path)
    assert "\n" not in str(raised.value)


def test_no_delta_table(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="there is no readable Delta table"):
        opened(spark, "delta", tmp_path)
    with pytest.raises(SourceError, match="there is no readable Delta table"):
        opened(spark, "delta", tmp_path / "absent")
