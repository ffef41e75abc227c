"""What became of rows of single events, which have no bounds to tell them apart."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession

from backfill import CountWindow, SlidingWindow
from backfill.engines import engine
from backfill.errors import ColumnError
from backfill.ledger.changes import changes, first_changes
from tests.event_frames import from_rows
from tests.reference import instant

WINDOW = SlidingWindow(size="1h")
RULES = engine("plain").rules


class Row(NamedTuple):
    key: str | None
    time: int
    id: str | None
    n: int


def table(spark: SparkSession, rows: Sequence[Row]) -> DataFrame:
    frame = spark.createDataFrame(list(rows), "key string, time bigint, id string, n bigint")
    return frame.selectExpr(
        "key", "timestamp_micros(time) event_time", "id", "n", "false is_open", "n _events",
        "1 _own", "date'2026-01-01' date",
    )  # fmt: skip


def expected(old: Iterable[Row], new: Iterable[Row]) -> Counter[Any]:
    sides: dict[Any, tuple[list[int], list[int]]] = {}
    for side, rows in enumerate((old, new)):
        for row in rows:
            sides.setdefault(row[:3], ([], []))[side].append(row.n)
    tally: Counter[Any] = Counter()
    for place, (before, after) in sides.items():
        for a, b in zip_longest(sorted(before), sorted(after)):
            if a != b:
                kind = "inserted" if a is None else "deleted" if b is None else "updated"
                tally[(kind, *place, a, b)] += 1
    return tally


def counted(found: DataFrame) -> Counter[Any]:
    rows: Counter[Any] = Counter()
    for row in found.toArrow().to_pylist():
        old, new = row["old"], row["new"]
        one = new or old
        assert row["changed"] == (["n"] if old and new else [])
        place = row["key"]["key"], one["event_time"], one["id"]
        rows[(row["change"], *place, old and old["n"], new and new["n"])] += 1
    return rows


@pytest.mark.parametrize("id", ["id", None])
def test_rows_are_told_by_key_time_and_id(spark: SparkSession, id: str | None) -> None:
    drawn = random.Random(7)

    def rows() -> list[Row]:
        events = [
            Row(drawn.choice(["a", "b", None]), drawn.randrange(-3, 3),
                drawn.choice(["x", "y", None]) if id else None, drawn.randrange(3))
            for _ in range(60)
        ]  # fmt: skip
        # An event with an id has one row.
        return list(
            {event[:3] if event.id else i: event for i, event in enumerate(events)}.values()
        )

    old, new = rows(), rows()
    comparison = changes(
        table(spark, old), table(spark, new), key=["key"], window=WINDOW, rules=RULES, id=id
    )
    wanted = Counter(
        {
            (k, key, instant(time), *rest): n
            for (k, key, time, *rest), n in expected(old, new).items()
        }
    )
    assert counted(comparison) == wanted
    first, counts = first_changes(comparison, 3)
    assert sum(counts.values()) == sum(wanted.values())
    assert first[0]["key"] == {"key": None}


def test_count_windows_after_their_advance_was_changed(spark: SparkSession) -> None:
    def of(rows: list[tuple[str, int, int]]) -> DataFrame:
        return from_rows(spark, rows, "key string, last bigint, n bigint").selectExpr(
            "key",
            "timestamp_micros(last) AS window_start",
            "timestamp_micros(last) AS window_end",
            "last - n + 1 AS first_event",
            "last AS last_event",
            "n",
            "false AS is_open",
        )

    each = [("a", last, 5) for last in range(1, 8)]
    fifth = [("a", 5, 5), ("a", 7, 2)]
    window = CountWindow(size=5, advance=5)
    comparison = changes(of(each), of(fifth), key=["key"], window=window, rules=RULES)
    tally = Counter(
        (row.change, row.old and row.old.last_event, row.new and row.new.last_event)
        for row in comparison.collect()
    )
    # Rows in the same place are paired from the first on.
    assert tally == Counter(
        [
            ("updated", 1, 5),
            *(("deleted", last, None) for last in (2, 3, 4, 5)),
            ("updated", 6, 7),
            ("deleted", 7, None),
        ]
    )


def test_a_table_of_other_windows_cannot_be_compared(spark: SparkSession) -> None:
    rows = table(spark, [Row("a", 0, "x", 1)])
    other = rows.withColumnRenamed("event_time", "window_start")
    with pytest.raises(ColumnError, match="event_time: differs between the two versions"):
        changes(other, rows, key=["key"], window=WINDOW, rules=RULES)
