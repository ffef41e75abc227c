"""Bytes against Python's own struct, base64 and codecs."""

from __future__ import annotations

import math
import random
import struct

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from backfill.reconciliation.output.decoders.binary import (
    double,
    from_base64,
    from_hex,
    long_at,
    utf8,
)
from backfill.reconciliation.output.files import Steps
from backfill.runtimes.differences import runtime_of


def test_longs_and_doubles_to_the_bit(spark: SparkSession) -> None:
    random.seed(5)
    whole = [0, 1, -1, 2**63 - 1, -(2**63), *(random.getrandbits(64) - 2**63 for _ in range(200))]
    fractions = [0, 1, (1 << 52) - 1, 0x5555555555555, random.getrandbits(52)]
    bits = [sign << 63 | e << 52 | f for sign in (0, 1) for e in range(2048) for f in fractions]
    data = [struct.pack(">q", n) for n in whole] + [struct.pack(">Q", n) for n in bits]
    frame = spark.createDataFrame([(bytearray(b"key" + raw),) for raw in data], "data binary")
    steps = Steps(frame)
    number = steps.once(long_at(F.col("data"), 8, steps.runtime))
    value = double(number, steps.once)
    # Back to bits in Python: collecting keeps the sign of zero and every digit.
    rows = steps.frame.select("data", number.alias("n"), value.alias("d")).collect()
    assert len(rows) == len(data)
    for row in rows:
        packed = bytes(row.data)[3:]
        assert row.n == struct.unpack(">q", packed)[0]
        (expected,) = struct.unpack(">d", packed)
        if math.isnan(expected):
            assert math.isnan(row.d)
        else:
            assert struct.pack(">d", row.d) == packed


def test_text_of_bytes(spark: SparkSession) -> None:
    cases = {
        "00ffAb": (b"\x00\xff\xab", b"\xd3G\xdf\x01"[:0] or None),
        "": (b"", b""),
        "abc": (None, b"i\xb7"),
        "zz": (None, b"\xcf"),
        "YWI=": (None, b"ab"),
        "YWI": (None, b"ab"),
        "YWJj": (None, b"abc"),
        "Y!I=": (None, None),
        "a" * 40_001: (None, None),
        "6" * 40_000: (b"f" * 20_000, None),
    }
    # What is also base64 is decoded by Python.
    import base64

    expected = {
        text: (
            hexed,
            based
            if based is not None or "!" in text or len(text) % 4 == 1
            else base64.b64decode(text + "=" * (-len(text) % 4)),
        )
        for text, (hexed, based) in cases.items()
    }
    frame = spark.createDataFrame([(text,) for text in cases], "text string")
    rows = frame.select("text", from_hex(F.col("text")), from_base64(F.col("text"))).collect()
    assert {row[0]: (row[1], row[2]) for row in rows} == expected


def test_what_is_no_utf8_is_null(spark: SparkSession) -> None:
    texts = [b"", "müß 'x'\n\x00🎈".encode(), b"\xff", b"a\xc3", b"\xed\xa0\x80", None]
    rows = [(i, None if text is None else bytearray(text)) for i, text in enumerate(texts)]
    frame = spark.createDataFrame(rows, "i int, data binary")
    decoded = [
        row.text
        for row in sorted(
            frame.select("i", utf8(F.col("data"), runtime_of(spark)).alias("text")).collect()
        )
    ]
    assert decoded == ["", "müß 'x'\n\x00🎈", None, None, None, None]
