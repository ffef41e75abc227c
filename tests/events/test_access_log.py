"""Access logs: fields, odd lines, line numbers."""

from __future__ import annotations

import gzip
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from backfill import columns
from backfill.events import EventRules, SourceOptions, normalise, open_source, quarantine_rows

TIME = "[17/May/2015:10:05:03 +0200]"
COMBINED = f'1.2.3.4 - bob {TIME} "GET /a?b=c HTTP/1.1" 200 203 "http://x/" "Mozilla/5.0 (X)"'


def log(spark: SparkSession, path: Path, lines: list[str]) -> list[Row]:
    path.write_text("\n".join(lines) + "\n")
    source = open_source(spark, SourceOptions(format="access_log", path=str(path)))
    assert source.arrival == ("_file", "line")
    return source.frame.withColumn("us", F.unix_micros("time")).orderBy("line").collect()


def test_fields(spark: SparkSession, tmp_path: Path) -> None:
    row, common = log(spark, tmp_path / "a.log", [COMBINED, f'::1 - - {TIME} "-" 408 -'])
    moment = datetime(2015, 5, 17, 8, 5, 3, tzinfo=timezone.utc)
    assert row.us == int(moment.timestamp()) * 1_000_000
    assert (row.host, row.ident, row.user) == ("1.2.3.4", None, "bob")
    assert (row.method, row.path, row.protocol) == ("GET", "/a?b=c", "HTTP/1.1")
    assert (row.status, row.bytes, row.line) == (200, 203, 1)
    assert (row.referer, row.agent) == ("http://x/", "Mozilla/5.0 (X)")
    assert (row._corrupt, row._source) == (None, f"{tmp_path}/a.log:1")
    assert (common.method, common.path, common.status, common.bytes) == (None, None, 408, None)
    assert (common.referer, common.agent, common._corrupt) == (None, None, None)


@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        ('"GET /" 200 1', {"method": "GET", "path": "/", "protocol": None}),
        ('"GET /a b HTTP/1.0" 200 1', {"path": "/a b", "protocol": "HTTP/1.0"}),
        (r'"\x16\x03\x01 \x00" 400 1', {"method": None, "path": r"\x16\x03\x01 \x00"}),
        ('"" 400 1', {"method": None, "path": "", "status": 400}),
        (r'"GET /\" 200 5 HTTP/1.1" 404 7', {"path": r"/\" 200 5", "status": 404}),
        (r'"GET /a\\" 200 5', {"path": "/a\\\\", "status": 200}),
        ('"GET /a"b HTTP/1.1" 200 5 "-" "-"', {"path": '/a"b', "referer": None, "agent": None}),
        (r'"GET / HTTP/1.1" 200 5 "r\"s" "a\"b"', {"referer": r"r\"s", "agent": r"a\"b"}),
        ('"GET / HTTP/1.1" 200 5 "r" "a "b" c"', {"referer": "r", "agent": 'a "b" c'}),
        ('"GET / HTTP/1.1" 200 5 "" ""', {"referer": "", "agent": ""}),
        ('"GET / HTTP/1.1" 200 5 "r" "cut off', {"referer": "r", "agent": "cut off"}),
        ('"GET / HTTP/1.1" - - \r', {"status": None, "bytes": None}),
        (
            '"GET /\u2028q HTTP/1.1" 200 1 "r\x85" "a\u2029b\u2028"',
            {
                "path": "/\u2028q",
                "protocol": "HTTP/1.1",
                "referer": "r\x85",
                "agent": "a\u2029b\u2028",
            },
        ),
    ],
)
def test_odd_lines_are_read(
    spark: SparkSession, tmp_path: Path, tail: str, expected: dict[str, Any]
) -> None:
    (row,) = log(spark, tmp_path / "a.log", [f"h - a b {TIME} {tail}"])
    assert row._corrupt is None
    assert row.user == "a b"
    assert {name: row[name] for name in expected} == expected


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        f'h - - {TIME} "GET / HTTP/1.1" 200',
        f'h - - {TIME} "GET / HTTP/1.1" 200 99999999999999999999',
        'h - - [99/Foo/2015:10:05:03 +0200] "GET / HTTP/1.1" 200 1',
        'h - - [31/Feb/2015:10:05:03 +0200] "GET / HTTP/1.1" 200 1',
        f'vhost:80 h - - {TIME} "GET / HTTP/1.1" 200 1',
        f'{COMBINED} "1.2.3.4"',
        '"' * 5000,
        f'h - - {TIME} "' + '\\" ' * 20_000,
    ],
)
def test_lines_that_do_not_parse_are_kept(spark: SparkSession, tmp_path: Path, line: str) -> None:
    (row,) = log(spark, tmp_path / "a.log", [line])
    assert row._corrupt == line
    own = row.asDict()
    assert all(own[name] is None for name in own if name[0] != "_" and name != "line")


def test_lines_are_counted_per_file_across_splits(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    lines = [COMBINED.replace("203", str(number)) for number in range(1, 3001)]
    lines[1000] = "  "
    (tmp_path / "in" / "a b+c%.log").write_text("\n".join(lines))
    with gzip.open(tmp_path / "in" / "z.log.gz", "wt") as stream:
        stream.write("\n".join(lines[:500]))
    before = spark.conf.get("spark.sql.files.maxPartitionBytes")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "20000")
    try:
        options = SourceOptions(format="access_log", path=str(tmp_path / "in"))
        frame = open_source(spark, options).frame
        rows = frame.select("_file", "line", "bytes").collect()
        parts = frame.select(F.spark_partition_id().alias("p"), "bytes").select("p").distinct()
        assert parts.count() > 10
    finally:
        spark.conf.set("spark.sql.files.maxPartitionBytes", before)
    assert len(rows) == 3499
    assert all(row.line == row.bytes for row in rows)
    assert {row._file for row in rows} == {
        str(tmp_path / "in" / "a b+c%.log"),
        str(tmp_path / "in" / "z.log.gz"),
    }


def test_lines_are_not_counted_for_nothing(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.log").write_text(COMBINED + "\n")
    source = open_source(spark, SourceOptions(format="access_log", path=str(tmp_path)))
    rows = normalise(source.frame, EventRules(key=("host",), time="time"))
    usable = rows.filter(F.col(columns.REASON).isNull())
    usable.groupBy("host").agg(F.sum("bytes"), F.min(columns.TIME)).explain()
    assert "Window" not in capsys.readouterr().out
    quarantine_rows(rows).explain()
    assert "Window" in capsys.readouterr().out
