"""Which rows are events, why others are not, and what is kept of the others."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill.columns import REASON, TIME
from backfill.errors import ColumnError
from backfill.events import EventRules, normalise, quarantine_rows

DAY = 86_400_000_000


def events(spark: SparkSession, rows: list[tuple[Any, ...]], schema: str) -> DataFrame:
    return spark.createDataFrame(rows, schema)


def reasons(frame: DataFrame, rules: EventRules) -> list[tuple[int | None, str | None]]:
    rows = normalise(frame, rules).orderBy("n").select(TIME, REASON).collect()
    return [tuple(row) for row in rows]  # type: ignore[misc]


def test_reasons_in_order(spark: SparkSession) -> None:
    frame = events(
        spark,
        [
            (0, "a", "1", None),
            (1, None, None, "junk"),
            (2, None, None, None),
            (3, None, "x", None),
            (4, None, "1700000000000", None),
            (5, None, "-5", None),
            (6, "a", "-5", None),
            (7, "a", "1000", None),
            (8, "a", "61", None),
        ],
        "n int, k string, t string, _corrupt string",
    )
    rules = EventRules(
        key=("k",),
        time="t",
        time_format="epoch_s",
        before_epoch=False,
        now_us=60_000_000,
        max_future_us=1_000_000,
    )
    assert [reason for _, reason in reasons(frame, rules)] == [
        None,
        "unparsable_line",
        "no_time",
        "unreadable_time",
        "time_out_of_range",
        "no_key",
        "before_epoch",
        "future",
        None,
    ]


def test_times_are_floored_to_the_tick(spark: SparkSession) -> None:
    frame = events(spark, [(0, -1), (1, -1000), (2, 1999), (3, -1001)], "n int, t long")
    rules = EventRules(key=(), time="t", time_format="epoch_us", tick_us=1000)
    assert [time for time, _ in reasons(frame, rules)] == [-1000, -1000, 1000, -2000]


def test_keys(spark: SparkSession) -> None:
    rows = [(0, None, None, 1), (1, None, 2, 1), (2, "a", None, 1)]
    frame = events(spark, rows, "n int, `a.b c` string, `d``e` int, t long")
    both = EventRules(key=("a.b c", "d`e"), time="t", time_format="epoch_us")
    assert [reason for _, reason in reasons(frame, both)] == ["no_key", None, None]
    null = EventRules(key=("a.b c",), time="t", time_format="epoch_us", null_key=True)
    assert [reason for _, reason in reasons(frame, null)] == [None] * 3
    none = EventRules(key=(), time="t", time_format="epoch_us")
    assert [reason for _, reason in reasons(frame, none)] == [None] * 3


@pytest.mark.parametrize("type_", ["date", "string"])
def test_wrong_date(spark: SparkSession, type_: str) -> None:
    # 23:30 in UTC is the next day in Berlin.
    rows = [(0, DAY - 1_800_000_000, "1970-01-02"), (1, DAY - 1_800_000_000, "1970-01-01")]
    rows += [(2, -1, "1970-01-01"), (3, 5, None), (4, 5, "1970-01-01")]  # type: ignore[list-item]
    frame = events(spark, rows, "n int, t long, d string").withColumn("d", F.col("d").cast(type_))
    rules = EventRules(
        key=(), time="t", time_format="epoch_us", date_column="d", timezone="Europe/Berlin"
    )
    wrong = [None, "wrong_date", None, "wrong_date", None]
    assert [reason for _, reason in reasons(frame, rules)] == wrong


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"key": ("usr",)}, "key: there is no such column .*Did you mean 'user'"),
        ({"key": ("user",), "time": "tt"}, "time: there is no such column"),
        ({"key": ("user",), "id": "x"}, "id: "),
        ({"key": ("user",), "arrival": ("x",)}, "arrival: "),
        ({"key": ("user",), "date_column": "t"}, "date_column: .*timestamp"),
        ({"key": ("tags",)}, "key: column 'tags' is array<string>"),
        ({"key": ("user",), "id": "m"}, "id: column 'm' is map"),
    ],
)
def test_columns_that_cannot_serve(
    spark: SparkSession, rules: dict[str, Any], message: str
) -> None:
    frame = events(spark, [], "user string, t timestamp, tags array<string>, m map<string,int>")
    with pytest.raises(ColumnError, match=message):
        normalise(frame, EventRules(**{"time": "t", **rules}))


def test_quarantine_keeps_the_row(spark: SparkSession) -> None:
    frame = events(
        spark,
        [(1, None, "2024-01-01 00:00:00", None, "f1"), (2, "a", None, "li,ne", "f2")],
        "n int, k string, t string, _corrupt string, _source string",
    ).withColumn("t", F.to_timestamp_ntz("t"))
    frame = frame.withColumn("i", F.timestamp_micros(F.lit(-1)))
    rows = quarantine_rows(normalise(frame, EventRules(key=("k",), time="t"))).collect()
    by_source = {row.source: row for row in rows}
    assert by_source["f2"].reason == "unparsable_line"
    assert by_source["f2"].raw == "li,ne"
    assert by_source["f1"].reason == "no_key"
    assert json.loads(by_source["f1"].raw) == {
        "n": 1,
        "k": None,
        "t": "2024-01-01T00:00:00.000000",
        "i": "1969-12-31T23:59:59.999999Z",
    }


def test_a_users_frame_has_no_place(spark: SparkSession) -> None:
    frame = events(spark, [(None,)], "t timestamp")
    row = quarantine_rows(normalise(frame, EventRules(key=(), time="t"))).collect()
    assert [tuple(r) for r in row] == [("no_time", '{"t":null}', None)]
