"""Statistics bound the values, whatever they are."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill.errors import TableError
from backfill.folders import LocalFolder
from backfill.store.files.stats import MAX_TEXT, file_statistics

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def stats(path: Path, array: pa.Array, kind: str, row_group_size: int = 2) -> dict[str, Any]:
    pq.write_table(pa.table({"x": array}), path, row_group_size=row_group_size)
    return json.loads(file_statistics(LocalFolder(path.parent), path.name, {"x": kind}).json)


def micros(text: str) -> int:
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return (moment - EPOCH) // timedelta(microseconds=1)


@given(st.lists(st.none() | st.integers(-(2**53), 2**53), min_size=1, max_size=7))
@settings(deadline=None, max_examples=60)
def test_timestamps_are_floored_and_raised_to_milliseconds(
    tmp_path_factory: pytest.TempPathFactory, values: list[int | None]
) -> None:
    path = tmp_path_factory.mktemp("stats") / "a.parquet"
    statistics = stats(path, pa.array(values, pa.timestamp("us", "UTC")), "timestamp")
    known = [value for value in values if value is not None]
    assert statistics["numRecords"] == len(values)
    assert statistics["nullCount"] == {"x": len(values) - len(known)}
    if not known:
        assert statistics["minValues"] == statistics["maxValues"] == {}
        return
    for name, value, bound in (
        ("minValues", min(known), lambda us: us // 1000 * 1000),
        ("maxValues", max(known), lambda us: -(-us // 1000) * 1000),
    ):
        if "x" in statistics[name]:
            assert micros(statistics[name]["x"]) == bound(value)
            assert statistics[name]["x"].endswith("Z")
        else:
            assert not -62135596800 * 10**6 <= bound(value) < 253402300800 * 10**6


@pytest.mark.parametrize(
    ("values", "kind", "smallest", "largest"),
    [
        (pa.array([3, None, -5, 7], pa.int64()), "long", -5, 7),
        (pa.array([3, -128], pa.int8()), "byte", -128, 3),
        (pa.array(["b", "é", None, "a"]), "string", "a", "é"),
        (pa.array(["", "\U0001f600", "￿"]), "string", "", "\U0001f600"),
        (pa.array([None, None], pa.string()), "string", None, None),
        (pa.array([date(1969, 12, 31), date(2024, 2, 29)]), "date", "1969-12-31", "2024-02-29"),
        (pa.array([1.5, -2.0]), "double", -2.0, 1.5),
        (pa.array([1.5, float("-inf"), 2.0]), "double", None, 2.0),
        (pa.array([1.5, float("inf"), 2.0]), "double", 1.5, None),
        (pa.array([True, False]), "boolean", False, True),
        (pa.array([None, True]), "boolean", True, True),
        (pa.array([b"a", b"b"]), "binary", None, None),
        (
            pa.array([Decimal("-1.10"), Decimal("12.30")], pa.decimal128(18, 2)),
            "decimal(18,2)",
            -1.1,
            12.3,
        ),
        (
            pa.array([Decimal("1.00"), Decimal("1234567890123456789012.01")], pa.decimal128(30, 2)),
            "decimal(30,2)",
            1.0,
            None,
        ),
        (
            pa.array([datetime(1969, 12, 31, 23, 59, 59, 1)], pa.timestamp("us")),
            "timestamp_ntz",
            "1969-12-31T23:59:59.000",
            "1969-12-31T23:59:59.001",
        ),
    ],
)
def test_bounds(tmp_path: Path, values: pa.Array, kind: str, smallest: Any, largest: Any) -> None:
    statistics = stats(tmp_path / "a.parquet", values, kind)
    assert statistics["minValues"].get("x") == smallest
    assert statistics["maxValues"].get("x") == largest
    assert statistics["nullCount"] == {"x": values.null_count}


def test_long_text_is_cut_below_and_left_out_above(tmp_path: Path) -> None:
    long = "x" * (MAX_TEXT + 1)
    statistics = stats(tmp_path / "a.parquet", pa.array([long, long + "y"]), "string")
    assert statistics["minValues"]["x"] == long[:-1]
    assert statistics["maxValues"] == {}


def test_text_that_is_not_utf_8_is_no_bound(tmp_path: Path) -> None:
    # Spark writes such bytes the same way.
    values = pa.array([b"a", b"\xff", b"b"]).view(pa.string())
    statistics = stats(tmp_path / "a.parquet", values, "string")
    assert statistics["minValues"] == {"x": "a"}
    assert statistics["maxValues"] == {}


def test_nested_columns_have_no_bounds(tmp_path: Path) -> None:
    table = pa.table({"x": [{"y": 1}], "a": [[1, 2]], "b.c": [1], "_events": [4]})
    pq.write_table(table, tmp_path / "a.parquet")
    columns = {"b.c": "long", "_events": "long", "date": "date"}
    statistics = json.loads(file_statistics(LocalFolder(tmp_path), "a.parquet", columns).json)
    assert statistics["minValues"] == statistics["maxValues"] == {"_events": 4}


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(TableError, match=r"a\.parquet: not a readable Parquet file"):
        file_statistics(LocalFolder(tmp_path), "a.parquet", {})
