"""Kafka's records: bytes of real ones, compaction, tombstones, formats, and hostile keys."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from backfill.errors import BackfillError, ColumnError, JobFileError, SourceError
from backfill.windows import HoppingWindow, SessionWindow, TumblingWindow
from tests.files import write_rows
from tests.on_sail import spark_only
from tests.reconcile.streams import (
    COUNT,
    RECORDED,
    final,
    in_base64,
    reasons,
    recorded,
    stream,
)

pytestmark = pytest.mark.usefixtures("interpreted")

SESSION = SessionWindow(gap="30s")
MINUTE = TumblingWindow(size="60s")
HOPS = HoppingWindow(size="60s", advance="20s")
RAW = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
    ]
)


def long(*numbers: int) -> bytes:
    return struct.pack(f">{len(numbers)}q", *numbers)


def record(key: bytes | None, value: Any, offset: int, partition: int = 0) -> dict[str, Any]:
    return {"key": key, "value": value, "partition": partition, "offset": offset}


def compacted(rows: list[dict[str, Any]], tail: int, size: int | None = None) -> dict[Any, Any]:
    """The last value of each windowed key, in plain Python; tombstones are left out."""
    last: dict[bytes, Any] = {}
    for row in sorted(rows, key=lambda row: (row["partition"], row["offset"])):
        last[bytes.fromhex(row["key"])] = row["value"]
    windows = {}
    for key, value in last.items():
        if value is None:
            continue
        if size is None:
            end, start = struct.unpack(">qq", key[-16:])
        else:
            (start,) = struct.unpack_from(">q", key, len(key) - tail)
            end = start + size
        windows[key[:-tail].decode(), start * 1000, end * 1000] = (int(value, 16),)
    return windows


@pytest.mark.parametrize(
    ("name", "window", "size"),
    [
        ("kafka-driver/session-10s", SESSION, None),
        ("kafka-broker/session-10s", SESSION, None),
        ("kafka-driver/hopping-0s", HOPS, 60_000),
        ("kafka-broker/tumbling-10s", MINUTE, 60_000),
    ],
)
def test_recorded_topics(
    spark: SparkSession, tmp_path: Path, name: str, window: Any, size: int | None
) -> None:
    counts = []
    for topic, tail in (("output", 8), ("changelog", 12)):
        rows = recorded(name, f"{topic}.jsonl.gz")
        expected = compacted(rows, 16 if size is None else tail, size)
        decoded = stream(
            spark,
            RECORDED / name / f"{topic}.jsonl.gz",
            "kafka-streams",
            window,
            bytes="hex",
            topic=topic,
        )
        assert final(decoded) == expected
        assert len(expected) > 100
        counted = decoded.counts()
        tombstones = sum(row["value"] is None for row in rows)
        assert (counted.rows, counted.tombstones, counted.undecoded) == (len(rows), tombstones, 0)
        assert counted.windows == counted.used == len(expected)
        assert counted.superseded == len(rows) - tombstones - len(expected)
        counts.append(counted)
    assert counts[0] == counts[1] or "broker" in name


@spark_only
def test_one_state_however_it_was_written(spark: SparkSession, tmp_path: Path) -> None:
    """Shuffled over two files as Parquet's bytes, and as base64 in CSV with other names."""
    rows = recorded("kafka-driver", "session-10s-sum", "output.jsonl.gz")
    expected = compacted(rows, 16)
    binary = [
        record(
            bytes.fromhex(row["key"]),
            None if row["value"] is None else bytes.fromhex(row["value"]),
            row["offset"],
        )
        for row in reversed(rows)
    ]
    write_rows(tmp_path / "raw" / "a.parquet", binary[1::2], RAW)
    write_rows(tmp_path / "raw" / "part-1", [{}]).unlink()
    (tmp_path / "raw" / "part-1").write_bytes(
        write_rows(tmp_path / "b.parquet", binary[::2], RAW).read_bytes()
    )
    text = [
        {
            "k": in_base64(row["key"]),
            "v": in_base64(row["value"]),
            "partition": 0,
            "offset": row["offset"],
        }
        for row in binary
    ]
    write_rows(tmp_path / "text" / "a.csv", text)
    total = {"total": T.LongType()}
    raw = stream(spark, tmp_path / "raw", "kafka-streams", SESSION, aggregates=total)
    assert final(raw) == expected
    renamed = {"k": "key", "v": "value"}
    csv = stream(
        spark,
        tmp_path / "text",
        "kafka-streams",
        SESSION,
        aggregates=total,
        bytes="base64",
        columns=renamed,
    )
    assert final(csv) == expected
    assert raw.counts() == csv.counts()


def test_compaction_and_tombstones_over_partitions(spark: SparkSession, tmp_path: Path) -> None:
    def session(key: str, start: int, end: int) -> bytes:
        return key.encode() + long(end, start)

    hostile = "a'\"`\n\\; DROP\x00 ünï🎈"
    rows = [
        record(session("a", 10, 20), long(1), 5, 0),
        record(session("a", 10, 20), long(3), 7, 0),
        record(session("a", 10, 20), long(2), 6, 0),
        record(session("b", 0, 0), long(1), 9, 1),  # a session of one event
        record(session("b", 0, 0), None, 10, 1),
        record(session("b", 0, 30), long(2), 11, 1),
        record(session("c", -5, -1), long(-7), 1, 2),
        record(session("c", 1, 2), None, 1, 3),  # never had a value
        record(session(hostile, 1, 2), long(4), 12, 3),
        record(session("", 1, 2), long(5), 13, 3),
        # What can't be decoded.
        record(b"\xff\xfe" + long(2, 1), long(1), 14, 3),
        record(b"short", long(1), 15, 3),
        record(None, long(1), 16, 3),
        record(session("d", 5, 4), long(1), 17, 3),
        record(session("d", 4, 2**62), long(1), 18, 3),
        record(session("d", 4, 5), b"\x01", 19, 3),
        {**record(session("d", 4, 5), long(1), 0), "offset": None},
        record(session("d", 4, 5), long(1), -1, 3),
    ]
    for partition in range(4):
        own = [row for row in rows if row["partition"] == partition]
        write_rows(tmp_path / "topic" / f"{partition}.parquet", own, RAW)
    decoded = stream(spark, tmp_path / "topic", "kafka-streams", SESSION, engine="spark")
    ms = 1000
    assert final(decoded) == {
        ("a", 10 * ms, 20 * ms): (3,),
        ("b", 0, 30 * ms): (2,),
        ("c", -5 * ms, -1 * ms): (-7,),
        (hostile, 1 * ms, 2 * ms): (4,),
        ("", 1 * ms, 2 * ms): (5,),
    }
    assert decoded.engine.name == "kafka-streams"
    assert decoded.order == "partition, offset"
    assert reasons(decoded) == {
        "the key is not UTF-8 (key_format)": 1,
        "the key is shorter than a window's 16 bytes": 1,
        "the key is NULL": 1,
        "the window ends before it begins": 1,
        "the window is not in the years 1 to 9999": 1,
        "the value is not a long of 8 bytes (value_format, bytes)": 1,
        "partition or offset is NULL or out of range": 2,
    }
    counts = decoded.counts()
    assert (counts.rows, counts.windows, counts.tombstones) == (len(rows), 5, 2)
    assert (counts.superseded, counts.undecoded) == (3, 8)
    written = {row["_key0"]: row["_written"] for row in decoded.frame.collect()}
    assert written["a"] == "partition 0, offset 7"


@spark_only
def test_formats_of_keys_and_values(spark: SparkSession, tmp_path: Path) -> None:
    window = long(20, 10)
    value = {"events": 3, "total`s": "1.50", "pages": ["a", "b'"]}
    types = {
        "events": T.LongType(),
        "total`s": T.DecimalType(10, 2),
        "pages": T.ArrayType(T.StringType()),
    }
    key = {"user": T.StringType(), "shop.id": T.IntegerType()}
    from decimal import Decimal

    wanted = {("ü", 7, 10_000, 20_000): (3, Decimal("1.50"), ["a", "b'"])}
    empty = {("z", 1, 10_000, 20_000): (None, None, None)}

    # JSON in bytes; a field that is no number, one object without fields of ours, no JSON at all.
    both = [
        record(
            json.dumps({"user": "ü", "shop.id": 7}).encode() + window, json.dumps(value).encode(), 1
        ),
        record(json.dumps({"user": "x", "shop.id": 1}).encode() + window, b'{"events": 3.5}', 2),
        record(json.dumps({"user": "x", "shop.id": 1}).encode() + window, b'{"other": 3}', 3),
        record(json.dumps({"user": "x", "shop.id": 2**40}).encode() + window, b'{"events": 3}', 4),
        record(b"user,1" + window, b'{"events": 3}', 5),
        # A window without values is still a window.
        record(
            json.dumps({"user": "z", "shop.id": 1}).encode() + window,
            b'{"events": null, "other": 1}',
            6,
        ),
    ]
    path = write_rows(tmp_path / "json.parquet", both, RAW)
    decoded = stream(
        spark,
        path,
        "kafka-streams",
        SESSION,
        key=key,
        aggregates=types,
        key_format="json",
        value_format="json",
    )
    assert final(decoded) == wanted | empty
    assert reasons(decoded) == {
        "events is not of type bigint": 1,
        "the value is not JSON with a field of events, total`s, pages (value_format, bytes)": 1,
        "shop.id is not of type int": 1,
        "the key is not JSON with a field of user, shop.id (key_format, bytes)": 1,
    }

    # The value as JSON in a text file, as an object and as text, beside a key in hex.
    data = (json.dumps({"user": "ü", "shop.id": 7}).encode() + window).hex()
    for name, json_value in (("object", value), ("text", json.dumps(value))):
        rows = [record(data, json_value, 1), record(data, None, 0)]  # type: ignore[arg-type]
        path = write_rows(tmp_path / f"{name}.json", rows)
        decoded = stream(
            spark,
            path,
            "kafka-streams",
            SESSION,
            key=key,
            aggregates=types,
            key_format="json",
            value_format="json",
            bytes="hex",
        )
        assert final(decoded) == wanted, name

    # Everything decoded already.
    schema = pa.schema(
        [
            (
                "key",
                pa.struct(
                    [
                        ("user", pa.string()),
                        ("shop.id", pa.int64()),
                        ("window", pa.struct([("start", pa.int64()), ("end", pa.int64())])),
                    ]
                ),
            ),
            (
                "value",
                pa.struct(
                    [
                        ("events", pa.int32()),
                        ("total`s", pa.float64()),
                        ("pages", pa.list_(pa.string())),
                    ]
                ),
            ),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
        ]
    )
    record_key = {"user": "ü", "shop.id": 7, "window": {"start": 10, "end": 20}}
    rows = [
        record(record_key, {**value, "total`s": 1.5}, 1),  # type: ignore[arg-type]
        record({**record_key, "user": "gone"}, {**value, "total`s": 1.5}, 2),  # type: ignore[arg-type]
        record({**record_key, "user": "gone"}, None, 3),  # type: ignore[arg-type]
    ]
    path = write_rows(tmp_path / "struct.parquet", rows, schema)
    decoded = stream(
        spark,
        path,
        "kafka-streams",
        SESSION,
        key=key,
        aggregates=types,
        key_format="struct",
        value_format="struct",
    )
    assert final(decoded) == wanted


@spark_only
def test_single_values(spark: SparkSession, tmp_path: Path) -> None:
    """Keys that are longs, and a single aggregate as double, text or a bare JSON value."""
    number = {"user": T.IntegerType()}
    for value_format, type_, good, expected, bad in (
        ("double", T.DoubleType(), struct.pack(">d", -1e-300), -1e-300, b"1.5"),
        ("string", T.DecimalType(5, 2), b"1.50", 1.5, b"\xff"),
        ("string", T.LongType(), b" 12 ", 12, b"12.5"),
        ("json", T.LongType(), b"12", 12, b"{}"),
        ("json", T.StringType(), b'"\\u00fc\\n"', "ü\n", b"null"),
        ("json", T.TimestampType(), b'"1970-01-01T00:00:01Z"', None, b'"soon"'),
    ):
        rows = [
            record(long(7, 60_000), good, 0),
            record(long(8, 60_000), bad, 1),
            record(long(2**40, 60_000), good, 2),
            record(b"7" + long(60_000), good, 3),
        ]
        path = write_rows(tmp_path / f"{value_format}.parquet", rows, RAW)
        decoded = stream(
            spark,
            path,
            "kafka-streams",
            MINUTE,
            key=number,
            aggregates={"x": type_},
            key_format="long",
            value_format=value_format,
        )
        ((place, (value,)),) = final(decoded).items()
        assert place == (7, 60_000_000, 120_000_000)
        if expected is None:
            assert value.timestamp() == 1
        else:
            assert value == expected
        problems = reasons(decoded)
        assert problems.pop("user is not of type int") == 1
        assert problems.pop("the key is not 8 bytes (key_format)") == 1
        assert list(problems.values()) == [1]


def test_a_window_cut_at_the_largest_long(spark: SparkSession, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.parquet", [record(b"a" + long(1), long(1), 0)], RAW)
    size = f"{2**63 - 1}us"
    window = TumblingWindow(size=size.replace("807us", "000us"))
    assert list(final(stream(spark, path, "kafka-streams", window))) == [("a", 1000, 2**63 - 1)]


def test_nothing_written(spark: SparkSession, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.parquet", [], RAW)
    decoded = stream(spark, path, "kafka-streams", SESSION)
    assert final(decoded) == {}
    assert decoded.counts().rows == 0
    (tmp_path / "none").mkdir()
    with pytest.raises(SourceError, match=r"stream\.path: there are no files here"):
        stream(spark, tmp_path / "none", "kafka-streams", SESSION)


@spark_only
def test_options_that_do_not_fit(spark: SparkSession, tmp_path: Path) -> None:
    output = RECORDED / "kafka-driver" / "tumbling-10s" / "output.jsonl.gz"
    changelog = output.with_name("changelog.jsonl.gz")
    two = {"events": T.LongType(), "total": T.LongType()}
    pair = {"user": T.StringType(), "shop": T.StringType()}
    cases: list[tuple[dict[str, Any], type[BackfillError], str]] = [
        (
            {"topic": "changelog"},
            SourceError,
            r"stream.path: none of .*; is it from the changelog",
        ),
        (
            {"value_format": "string"},
            SourceError,
            "mostly because events is not of type bigint.*value_format",
        ),
        ({"key_format": "long"}, SourceError, "the key is not 8 bytes .*Check .*key_format"),
        ({"key_format": "json"}, SourceError, "the key is not JSON with a field of user"),
        ({"bytes": "base64"}, SourceError, "none of"),
        ({"bytes": "raw"}, ColumnError, "key: is string, which can't hold bytes in raw.* hex or"),
        ({"aggregates": two}, JobFileError, "stream.value_format: .*has 2: events, total"),
        (
            {"key": pair},
            JobFileError,
            "stream.key_format: a single string can't be a key of 2 columns",
        ),
        ({"columns": {"ofset": "offset"}}, ColumnError, "stream.columns: .*Did you mean 'offset'"),
        ({"columns": {"offset": "place"}}, ColumnError, "offset: the stream has no such column"),
        ({"columns": {"offset": "key"}}, ColumnError, "two columns with this name"),
        ({"key_format": "struct"}, ColumnError, "window_start: the stream has no such column"),
    ]
    for options, kind, message in cases:
        with pytest.raises(kind, match=message):
            stream(spark, output, "kafka-streams", MINUTE, **{"bytes": "hex", **options})
    with pytest.raises(SourceError, match=r"none of .*is it from the output .topic.\?"):
        stream(spark, changelog, "kafka-streams", MINUTE, bytes="hex", aggregates=COUNT)
