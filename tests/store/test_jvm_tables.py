"""What Spark's own Delta Lake can make of a table: runs use it as it is, or refuse it by name."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from backfill.errors import TableError
from backfill.store.files.store import FileStore
from tests.jvm_delta import COLUMNS, create, insert, read, table_in
from tests.lake import options, store_in
from tests.spark_sql import SparkSql, with_jars
from tests.store.by_hand import by_hand, content, day, publish_to
from tests.tables import paths_of, record_of, rows_of

pytestmark = with_jars
Windows = Callable[..., DataFrame]

MONDAY, TUESDAY = "2024-01-01", "2024-01-02"
START = f"{MONDAY} 10:00:00"
#: The beginning of Monday, µs.
START_US = 1_704_067_200_000_000
#: Properties of a table that is used as it is, and columns that a full run replaces by its own.
PROPERTIES = (
    "'delta.enableDeletionVectors' = 'true', 'delta.enableChangeDataFeed' = 'true', "
    "'delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '1', "
    "'delta.feature.columnMapping' = 'supported', 'delta.autoOptimize.autoCompact' = 'true'"
)
OTHERS = COLUMNS.replace("BIGINT", "BIGINT NOT NULL COMMENT 'of the window'").replace(
    "date DATE", "date DATE GENERATED ALWAYS AS (CAST(window_start AS DATE))"
)
#: Tables that runs can't commit to, and what the error names.
REFUSED = {
    "append only": ("'delta.appendOnly' = 'true'", COLUMNS, "can only be added .*delta.appendOnly"),
    "row tracking": (
        "'delta.enableRowTracking' = 'true'",
        COLUMNS,
        "'domainMetadata, rowTracking'",
    ),
    "commit timestamps": (
        "'delta.enableInCommitTimestamps' = 'true'",
        COLUMNS,
        "do not support .*'inCommitTimestamp'",
    ),
    "identity": ("", f"n BIGINT GENERATED ALWAYS AS IDENTITY, {COLUMNS}", "'identityColumns'"),
    "identity of old": (
        "'delta.minReaderVersion' = '1', 'delta.minWriterVersion' = '6'",
        COLUMNS,
        "'identityColumns'",
    ),
    "defaults": (
        "'delta.feature.allowColumnDefaults' = 'supported'",
        COLUMNS.replace("BIGINT", "BIGINT DEFAULT 3"),
        "'allowColumnDefaults'",
    ),
    "renames": ("'delta.columnMapping.mode' = 'name'", COLUMNS, "not supported .*'columnMapping'"),
    "wider types": (
        "'delta.enableTypeWidening' = 'true'",
        COLUMNS,
        "not supported .*'typeWidening'",
    ),
}


def test_tables_that_are_used(spark: SparkSession, spark_sql: SparkSql, tmp_path: Path) -> None:
    """A full run, one of a date, a compaction and a deletion by Spark, and another run."""
    folders = [tmp_path / str(number) / "sessions" for number in range(2)]
    spark_sql.delta(create(folders[0], COLUMNS, PROPERTIES), create(folders[1], OTHERS))
    for folder in folders:
        store = store_in(folder.parent)
        publish_to(store, by_hand(store, "r1", MONDAY, TUESDAY))
        publish_to(store, by_hand(store, "r2", TUESDAY), [], dates=day(TUESDAY))
    tables = list(map(table_in, folders))
    spark_sql.delta(
        *(f"OPTIMIZE {table}" for table in tables),
        *(f"DELETE FROM {table} WHERE date = '{MONDAY}'" for table in tables),
    )
    for folder in folders:
        store = store_in(folder.parent)
        publish_to(store, by_hand(store, "r3", MONDAY), [], dates=day(MONDAY))
        keys = rows_of(store, spark, "sessions").select("user_id").collect()
        assert sorted(row.user_id for row in keys) == ["r1", "r2", "r3"]
        assert record_of(store, "sessions") == {"runs": ["r1", "r2", "r3"]}
    rows, changes = spark_sql.delta(
        read(*folders),
        "SELECT DISTINCT _change_type, user_id FROM "
        f"table_changes_by_path('{folders[0]}', 0) ORDER BY ALL",
    )
    assert sorted(rows) == sorted([f"r1|{TUESDAY}", f"r2|{TUESDAY}", f"r3|{MONDAY}"] * 2)
    assert changes == ["delete|r1", "insert|r1", "insert|r2", "insert|r3"]
    # The library has read the table from these checkpoints, which Spark wrote.
    assert list((folders[0] / "_delta_log" / "_sidecars").iterdir())


def begin(store: FileStore) -> None:
    """Begins as a run does."""
    table = store.open("sessions")
    assert table is not None
    table.check_writable()


def test_tables_that_are_refused(spark_sql: SparkSql, tmp_path: Path) -> None:
    """Before anything is computed for them, in one sentence each; the tables stay as they are."""
    folders = {name: tmp_path / str(n) / "sessions" for n, name in enumerate(REFUSED)}
    spark_sql.delta(*(create(folders[name], *REFUSED[name][1::-1]) for name in REFUSED))
    for name, folder in folders.items():
        store = store_in(folder.parent)
        with pytest.raises(TableError, match=REFUSED[name][2]) as caught:
            begin(store)
        assert "publish into another folder" in str(caught.value), name
        with pytest.raises(TableError, match=REFUSED[name][2]):
            publish_to(store, by_hand(store, "r1", MONDAY), base=None)
        assert len(list((folder / "_delta_log").glob("*.json"))) == 1, name


def test_conditions_on_rows(spark_sql: SparkSql, tmp_path: Path) -> None:
    folder, store = tmp_path / "jvm" / "sessions", store_in(tmp_path / "jvm")
    name = table_in(folder)
    spark_sql.delta(create(folder), f"ALTER TABLE {name} ADD CONSTRAINT many CHECK (events > 5)")
    with pytest.raises(TableError, match=r"conditions, which runs don't check \(got 'many'\)"):
        publish_to(store, by_hand(store, "r1", MONDAY))
    spark_sql.delta(f"ALTER TABLE {name} DROP CONSTRAINT many")
    assert publish_to(store, by_hand(store, "r1", MONDAY)) == 3


def test_the_ways_out(spark_sql: SparkSql, tmp_path: Path) -> None:
    """Each, done as its error says, leads to a table that can be used."""
    folders = [tmp_path / str(number) / "sessions" for number in range(3)]
    rows_only, tracked, wider = map(table_in, folders)
    spark_sql.delta(
        create(folders[0], COLUMNS, "'delta.appendOnly' = 'true'"),
        f"ALTER TABLE {rows_only} SET TBLPROPERTIES (delta.appendOnly = false)",
        create(folders[1], COLUMNS, "'delta.enableRowTracking' = 'true'"),
        f"ALTER TABLE {tracked} DROP FEATURE rowTracking",
        f"ALTER TABLE {tracked} DROP FEATURE domainMetadata",
        create(folders[2], COLUMNS, "'delta.enableTypeWidening' = 'true'"),
        # Otherwise Spark asks to come back after a day.
        f"ALTER TABLE {wider} SET TBLPROPERTIES "
        "('delta.dropFeatureTruncateHistory.retentionDuration' = 'interval 0 hours')",
        f"ALTER TABLE {wider} DROP FEATURE typeWidening TRUNCATE HISTORY",
    )
    for folder in folders:
        store = store_in(folder.parent)
        publish_to(store, by_hand(store, "r1", MONDAY))
        assert content(store) == [f"r1 {MONDAY}"]


def test_files_elsewhere(spark_sql: SparkSql, tmp_path: Path) -> None:
    """Refused in folders of other names and in another table's folder, until they are rewritten."""
    original, clone = (tmp_path / name / "sessions" for name in ("original", "clone"))
    spark_sql.delta(
        create(original, COLUMNS, "'delta.randomizeFilePrefixes' = 'true'"),
        insert(original, "a", MONDAY),
        f"CREATE TABLE {table_in(clone)} SHALLOW CLONE {table_in(original)}",
    )
    for folder in (original, clone):
        store = store_in(folder.parent)
        with pytest.raises(
            TableError, match=r"outside the folder of its partition .*\.parquet.*INSERT OVERWRITE"
        ):
            paths_of(store, "sessions")
        with pytest.raises(TableError, match="has put a file outside the folder of its partition"):
            publish_to(store, by_hand(store, "r0", MONDAY), [], dates=day(MONDAY))
    names = [table_in(original), table_in(clone)]
    off = "SET TBLPROPERTIES (delta.randomizeFilePrefixes = false)"
    spark_sql.delta(
        *(f"ALTER TABLE {table} {off}" for table in names),
        *(f"INSERT OVERWRITE {table} SELECT * FROM {table}" for table in names),
    )
    for folder in (original, clone):
        store = store_in(folder.parent)
        publish_to(store, by_hand(store, "r1", TUESDAY), [], dates=day(TUESDAY))
        assert content(store) == [f"a {MONDAY}", f"r1 {TUESDAY}"]


def test_vacuum_leaves_what_is_ours(spark_sql: SparkSql, tmp_path: Path) -> None:
    """It deletes files that were replaced, whose versions then can't be read."""
    folder, store = tmp_path / "jvm" / "sessions", store_in(tmp_path / "jvm")
    spark_sql.delta(create(folder))
    first = publish_to(store, by_hand(store, "r1", MONDAY))
    publish_to(store, by_hand(store, "r2", MONDAY))
    waiting = by_hand(store, "r3", TUESDAY)
    spark_sql.delta(
        "SET spark.databricks.delta.retentionDurationCheck.enabled = false",
        f"VACUUM {table_in(folder)} RETAIN 0 HOURS",
    )
    assert content(store) == [f"r2 {MONDAY}"]
    assert record_of(store, "sessions") == {"runs": ["r1", "r2"]}
    with pytest.raises(TableError, match=f"1 of the 1 files of version {first} are gone"):
        store.restore("sessions", first, run_id="back", metadata={})
    publish_to(store, waiting, [], dates=day(TUESDAY))
    assert content(store) == [f"r2 {MONDAY}", f"r3 {TUESDAY}"]
    cleaned = store.clean("sessions", older_than_s=-1)
    assert (cleaned.staged, cleaned.files, cleaned.records) == (0, 0, 0)


JOB = """
source: {path: events.parquet, format: parquet}
events: {key: user, time: at}
windows:
  hourly:
    tumbling: {size: 1h}
    aggregates: {n: count, each: collect_list(n), users: collect_set(user), ns: count_distinct(n)}
tables: {catalog: lake, schema: web, options: OPTIONS}
runtime: sail
"""


def test_iceberg_tables_that_sail_wrote(spark_sql: SparkSql, tmp_path: Path) -> None:
    """Its files name the elements of lists and maps differently than Spark does."""
    rows = [{"user": "ab"[n % 2], "at": START_US + n * 600_000_000, "n": n} for n in range(24)]
    at = pa.timestamp("us", "UTC")
    schema = pa.schema({"user": pa.string(), "at": at, "n": pa.int64()})
    pq.write_table(pa.Table.from_pylist(rows, schema), tmp_path / "events.parquet")
    text = JOB.replace("OPTIONS", json.dumps(options(tmp_path / "lake")))
    (tmp_path / "job.yaml").write_text(text)
    command = [sys.executable, "-m", "backfill", "run", str(tmp_path / "job.yaml")]
    subprocess.run(command, check=True, capture_output=True)
    results = spark_sql.iceberg(
        tmp_path / "lake",
        "SELECT user, n, concat_ws(' ', each), users[0], size(_ns_values) FROM lake.web.hourly "
        "WHERE window_start >= timestamp '2024-01-01 03:00:00' ORDER BY user",
    )
    assert results == [["a|3|18 20 22|a|3", "b|3|19 21 23|b|3"]]
