"""What every store does: Delta's, Iceberg's, and the one in memory that tests use.

Also for tables that Spark's own Delta Lake has made; it then reads what was published.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from backfill.errors import TableError
from backfill.store import APART, FILE, Store, Table
from tests.jvm_delta import create, read
from tests.lake import SERVED, store_in
from tests.memory_store import MemoryStore
from tests.spark_sql import SparkSql, with_jars

MONDAY, TUESDAY = (
    ("a", "2024-01-01", "2024-01-01 10:00:00"),
    ("a", "2024-01-02", "2024-01-02 09:00:00"),
)
OTHER = ("b", "2024-01-02", "2024-01-02 12:00:00")
Windows = Callable[..., DataFrame]
#: As `windows` gives them.
COLUMNS = (
    "user_id STRING, window_start TIMESTAMP, window_end TIMESTAMP, events BIGINT, "
    "is_open BOOLEAN, _state STRUCT<n: BIGINT>, date DATE"
)


@pytest.fixture(
    params=["delta", "lake", "hadoop", *SERVED, "memory", pytest.param("jvm", marks=with_jars)]
)
def any_store(
    request: pytest.FixtureRequest, tmp_path: Path, reach: Callable[[str], None]
) -> Iterator[Store]:
    reach(request.param)
    store = MemoryStore() if request.param == "memory" else store_in(tmp_path / request.param)
    if request.param != "jvm":
        yield store
        return
    spark_sql: SparkSql = request.getfixturevalue("spark_sql")
    spark_sql.delta(create(tmp_path / "jvm" / "t", COLUMNS))
    yield store
    [theirs] = spark_sql.delta(read(tmp_path / "jvm" / "t"))
    ours = store.dataset("t").to_table(columns=["user_id", "date"]).to_pylist()
    assert sorted(theirs) == sorted(f"{row['user_id']}|{row['date']}" for row in ours)


def publish(store: Store, frame: DataFrame | StructType, run: str, **options: Any) -> int:
    staged = store.stage(
        "t", frame, run_id=run, partition_by=("date",), sort_by=("user_id", "window_start")
    )
    table = store.open("t")
    return store.publish(
        "t",
        staged,
        **{
            "replace": [],
            "base": None if table is None else table.version,
            "dates": [],
            "metadata": {"kind": "test"},
            "record": lambda before: {"runs": [*(before or {}).get("runs", []), run]},
            **options,
        },
    )


def opened(store: Store, version: int | None = None) -> Table:
    table = store.open("t", version)
    assert table is not None
    return table


def begun(store: Store) -> int:
    """The version before the first run, which has no rows; -1 where there is no table."""
    table = store.open("t")
    assert table is None or not table.files
    return -1 if table is None else table.version


def runs(table: Table) -> list[str]:
    return [commit.metadata["run_id"] for commit in table.commits if commit.metadata]


def keys(table: Table, spark: SparkSession, **options: Any) -> list[str]:
    rows = table.read(spark, **options).collect()
    return sorted(f"{row['user_id']} {row['date']}" for row in rows)


def day(number: int) -> list[tuple[dt.date, dt.date]]:
    return [(dt.date(2024, 1, number), dt.date(2024, 1, number + 1))]


def test_what_is_staged_is_seen_when_it_is_published(
    any_store: Store, spark: SparkSession, windows: Windows
) -> None:
    frame = windows(MONDAY, TUESDAY, OTHER, events="3L")
    staged = any_store.stage("t", frame, run_id="r", partition_by=("date",), sort_by=("user_id",))
    before = begun(any_store)
    assert (staged.rows, staged.sum_of("events")) == (3, 9)
    assert staged.count_by("user_id") == {"a": 2, "b": 1}
    assert any_store.read_staged(spark, staged).schema.names == frame.schema.names
    assert any_store.read_staged(spark, staged).count() == 3
    any_store.discard(staged)
    assert publish(any_store, frame, "r1") == before + 1
    table = opened(any_store)
    assert (table.name, table.version, table.record) == ("t", before + 1, {"runs": ["r1"]})
    assert keys(table, spark) == ["a 2024-01-01", "a 2024-01-02", "b 2024-01-02"]
    assert runs(table) == ["r1"]
    assert table.commits[0].metadata["kind"] == "test"
    assert table.sum_of("events", [file.path for file in table.files]) == 9


def test_where_there_are_no_rows_columns_are_staged(
    any_store: Store, spark: SparkSession, windows: Windows
) -> None:
    frame = windows(MONDAY)
    first = publish(any_store, frame, "r1")
    staged = any_store.stage("t", frame.schema, run_id="r", partition_by=("date",), sort_by=())
    assert (staged.rows, staged.sum_of("events"), staged.count_by("user_id")) == (0, 0, {})
    assert any_store.read_staged(spark, staged).schema.names == frame.schema.names
    paths = [file.path for file in opened(any_store).files]
    assert publish(any_store, frame.schema, "r2", replace=paths) == first + 1
    assert keys(opened(any_store), spark) == []
    any_store.discard(staged)


def test_files_have_bounds_and_can_be_read_alone(
    any_store: Store, spark: SparkSession, windows: Windows
) -> None:
    publish(any_store, windows(MONDAY, TUESDAY), "r1")
    table = opened(any_store)
    days = {file.minimum["date"]: file for file in table.files}
    assert sorted(days) == [dt.date(2024, 1, 1), dt.date(2024, 1, 2)]
    monday = days[dt.date(2024, 1, 1)]
    start = 1_704_103_200_000_000  # 10:00
    assert monday.minimum["window_start"] <= start <= monday.maximum["window_start"]
    assert (monday.rows, keys(table, spark, files=[monday.path])) == (1, ["a 2024-01-01"])
    rows = table.read(spark, [monday.path], with_file=True).collect()
    assert [row[FILE] for row in rows] == [monday.path]
    assert table.read(spark, []).count() == 0


def test_rows_apart_have_files_of_their_own(
    any_store: Store, spark: SparkSession, windows: Windows
) -> None:
    frame = windows(TUESDAY, OTHER)
    publish(any_store, frame.withColumn(APART, frame.user_id == "b"), "r1")
    table = opened(any_store)
    assert [file.rows for file in table.files] == [1, 1]
    assert APART not in table.read(spark).columns


def test_a_commit_replaces_files_or_everything_and_older_versions_stay(
    any_store: Store, spark: SparkSession, windows: Windows
) -> None:
    first = publish(any_store, windows(MONDAY, TUESDAY), "r1")
    old = opened(any_store)
    gone = [file.path for file in old.files if file.minimum["date"] == dt.date(2024, 1, 2)]
    publish(any_store, windows(OTHER), "r2", replace=gone, dates=day(2))
    assert keys(opened(any_store), spark) == ["a 2024-01-01", "b 2024-01-02"]
    publish(any_store, windows(TUESDAY), "r3", replace="all", dates=None)
    now = opened(any_store)
    assert (keys(now, spark), now.version) == (["a 2024-01-02"], first + 2)
    assert now.record == {"runs": ["r1", "r2", "r3"]}
    assert runs(now) == ["r3", "r2", "r1"]
    assert keys(opened(any_store, first), spark) == keys(old, spark)


def test_of_two_runs_that_meet_one_publishes(
    any_store: Store, spark: SparkSession, windows: Windows
) -> None:
    base = publish(any_store, windows(MONDAY), "r0")
    assert publish(any_store, windows(TUESDAY), "r1", dates=day(2)) == base + 1
    # Both began from one version: separate dates go on top, dates that meet do not.
    assert publish(any_store, windows(MONDAY), "r2", base=base, dates=day(1)) == base + 2
    for run, dates in (("r3", day(2)), ("r4", None)):
        replace = "all" if dates is None else []
        with pytest.raises(TableError, match="meanwhile"):
            publish(any_store, windows(OTHER), run, base=base, dates=dates, replace=replace)
    assert opened(any_store).record == {"runs": ["r0", "r1", "r2"]}


def test_a_table_goes_back_with_its_record(
    any_store: Store, spark: SparkSession, windows: Windows
) -> None:
    first = publish(any_store, windows(MONDAY), "r1")
    publish(any_store, windows(TUESDAY), "r2")
    back = any_store.restore("t", first, run_id="r3", metadata={"kind": "restore"})
    assert back == first + 2
    table = opened(any_store)
    assert (keys(table, spark), table.record) == (["a 2024-01-01"], {"runs": ["r1"]})
    assert table.commits[0].metadata["kind"] == "restore"
    assert any_store.restore("t", back, run_id="r4", metadata={}) == back
