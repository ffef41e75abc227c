"""Looking windows up, without Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from backfill.errors import ColumnError, TableError
from backfill.store import DeltaStore, look_up
from tests.lake import store_in
from tests.store.by_hand import publish_to
from tests.tables import files_of, folder_of, paths_of, rows_of

SECOND = 1_000_000
DAY = 86_400 * SECOND


@pytest.fixture
def table(spark: SparkSession, store: DeltaStore) -> ds.Dataset:
    """Windows of one minute, (day, key) for key 1 to 3 and days -1 to 2 since the epoch."""
    frame = spark.sql(
        """
        SELECT key, named_struct('n', key) AS _state, CAST(key + 0.5 AS decimal(8, 2)) AS price,
               array(key) AS list, timestamp_micros(day * 86400000000 + key) AS window_start,
               timestamp_micros(day * 86400000000 + key + 60000000) AS window_end, 1L AS events,
               timestamp_ntz'2024-01-01 00:00:00' AS local, date_add(date'1970-01-01', day) AS date
        FROM (SELECT explode(sequence(-1, 2)) AS day), (SELECT explode(sequence(1, 3)) AS key)
        """
    )
    staged = store.stage(
        "hourly", frame, run_id="r1", partition_by=("date",), sort_by=("key", "window_start")
    )
    publish_to(store, staged)
    return store.dataset("hourly")


def found(*arguments: Any, **options: Any) -> list[tuple[int, int]]:
    """The windows as (day, key)."""
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    rows = look_up(*arguments, **options).to_pylist()
    return [((row["window_start"] - epoch).days, row["key"]) for row in rows]


def test_public_columns_in_order_of_time(table: ds.Dataset) -> None:
    result = look_up(table)
    assert result.column_names == [
        *("key", "price", "list", "window_start", "window_end", "events", "local")
    ]
    assert str(result.schema.field("window_start").type) == "timestamp[us, tz=UTC]"
    assert found(table) == [(day, key) for day in range(-1, 3) for key in range(1, 4)]


def test_by_key(table: ds.Dataset) -> None:
    assert found(table, key={"key": "2"}) == [(day, 2) for day in range(-1, 3)]
    assert found(table, key={"key": "2", "price": "2.5"}) == [(day, 2) for day in range(-1, 3)]
    assert found(table, key={"key": "2", "price": "3.50"}) == []
    assert found(table, key={"window_start": "1969-12-31T00:00:00.000001Z"}) == [(-1, 1)]
    assert len(found(table, key={"local": "2024-01-01T00:00:00"})) == 12


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ({"key": "x"}, r"key: the value is not of type int32 \(got 'x'\)"),
        ({"key": "99999999999"}, "key: the value is not of type int32"),
        ({"local": "yesterday"}, "local: the value is not of type timestamp"),
        ({"kee": "1"}, "kee: the table has no such column. Did you mean 'key'?"),
        ({"_state": "1"}, "_state: the table has no such column"),
        ({"date": "1970-01-01"}, "date: the table has no such column"),
        ({"list": "1"}, "list: the value is not of type list"),
    ],
)
def test_keys_that_cannot_be(table: ds.Dataset, key: dict[str, str], message: str) -> None:
    with pytest.raises(ColumnError, match=message):
        look_up(table, key=key)


def test_ranges_are_half_open(table: ds.Dataset) -> None:
    start = DAY + 2
    assert found(table, start_us=start, end_us=start + 1) == [(1, 1), (1, 2)]
    assert found(table, start_us=start, end_us=start) == [(1, 1)]
    end = start + 60 * SECOND
    assert found(table, start_us=end, end_us=2 * DAY) == [(1, 3)]
    assert found(table, start_us=end, end_us=2 * DAY, end_inclusive=True) == [(1, 2), (1, 3)]
    assert found(table, end_us=-DAY + 3) == [(-1, 1), (-1, 2)]
    assert found(table, start_us=2 * DAY + 60 * SECOND + 2) == [(2, 3)]


def test_a_table_without_times() -> None:
    """The quarantine is one: `show --run` shows its rows."""
    rows = ds.dataset(pa.table({"reason": ["b", "a"], "raw": ["1", "2"], "_x": [0, 0]}))
    assert look_up(rows).to_pylist() == [{"reason": "a", "raw": "2"}, {"reason": "b", "raw": "1"}]
    for bounds in ({"start_us": 0}, {"end_us": 0}, {"starts": (None, 0)}, {"ends": (0, None)}):
        with pytest.raises(ColumnError, match="the table has no times"):
            look_up(rows, **bounds)


def test_windows_without_length(spark: SparkSession, store: DeltaStore) -> None:
    frame = spark.sql(
        "SELECT 1 AS key, timestamp_micros(5) AS window_start, timestamp_micros(5) AS window_end"
    )
    staged = store.stage("t", frame, run_id="r1", partition_by=(), sort_by=())
    publish_to(store, staged)
    rows = store.dataset("t")
    assert found(rows, start_us=5, end_us=6) == [(0, 1)]
    assert found(rows, start_us=6) == []
    assert found(rows, end_us=5) == []


def test_limit_and_order(table: ds.Dataset) -> None:
    assert found(table, limit=2) == [(-1, 1), (-1, 2)]
    assert found(table, limit=0) == []
    assert found(table, limit=2, order_by=[("window_start", "descending")]) == [(2, 3), (2, 2)]
    assert found(table, limit=5, order_by=[("events", "descending"), ("key", "descending")]) == [
        *((day, 3) for day in range(-1, 3)),
        (-1, 2),
    ]
    with pytest.raises(ColumnError, match="Did you mean 'events'"):
        look_up(table, order_by=[("event", "ascending")])
    with pytest.raises(ColumnError, match="list: lists and structs can't be used for ordering"):
        look_up(table, order_by=[("list", "ascending")])


def test_files_that_cannot_matter_are_not_opened(table: ds.Dataset, store: DeltaStore) -> None:
    for path in paths_of(store, "hourly"):
        if "date=1970-01-02" not in path:
            (folder_of(store, "hourly") / path).write_bytes(b"not Parquet")
    assert found(table, start_us=DAY, end_us=2 * DAY) == [(1, 1), (1, 2), (1, 3)]
    assert found(table, key={"key": "4"}) == []
    with pytest.raises(TableError, match="cannot be read"):
        look_up(table)


def test_empty_and_missing_tables(
    spark: SparkSession, store: DeltaStore, table: ds.Dataset
) -> None:
    empty = rows_of(store, spark, "hourly").where("key > 3")
    staged = store.stage("hourly", empty, run_id="r2", partition_by=("date",), sort_by=())
    publish_to(store, staged)
    for limit in (None, 3):
        result = look_up(store.dataset("hourly"), limit=limit)
        assert result.num_rows == 0
        assert "window_start" in result.column_names
    with pytest.raises(TableError, match="`backfill run` publishes it"):
        store.dataset("daily")


@pytest.mark.usefixtures("table")
def test_no_java_is_started(store: DeltaStore) -> None:
    code = (
        "import sys; from backfill.store import DeltaStore, look_up; "
        "print(look_up(DeltaStore(sys.argv[1]).dataset('hourly')).num_rows)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, store.root],
        env={**os.environ, "PATH": "", "JAVA_HOME": "", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stdout == "12\n", result.stderr


@pytest.mark.parametrize("place", ["out", "lake"])
def test_values_whose_bounds_are_left_out(spark: SparkSession, tmp_path: Path, place: str) -> None:
    """Delta's log has no bounds for long texts, infinite numbers or long decimals."""
    store = store_in(tmp_path / place)
    frame = spark.sql(
        """
        SELECT *, timestamp_micros(n) AS window_start, timestamp_micros(n) AS window_end
        FROM VALUES (1, 'a', 1D, 1BD), (2, repeat('z', 70), double('inf'), 0.1234567890123456789BD),
                    (3, 'b', -0D, 2BD), (4, NULL, double('nan'), NULL) AS t(n, text, number, price)
        """
    )
    publish_to(store, store.stage("t", frame.coalesce(1), run_id="r1", partition_by=(), sort_by=()))
    rows = store.dataset("t")
    assert len(files_of(store, "t")) == 1
    for row in frame.collect():
        for name in ("text", "number", "price"):
            held = look_up(rows, key={name: row[name]})["n"].to_pylist()
            assert held == [row.n], (name, row[name])
    assert look_up(rows, key={"text": "c"}).num_rows == 0
