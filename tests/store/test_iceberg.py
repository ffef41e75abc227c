"""Our Iceberg tables when other writers maintain them: a run accepts what they change."""

from __future__ import annotations

import datetime as dt
import os
import re
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog, SqlCatalogBaseTable
from pyiceberg.expressions import EqualTo
from pyiceberg.types import StringType
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill.errors import TableError
from backfill.store import Cleaned, StagedFile, look_up
from backfill.store.iceberg.store import IcebergStore
from tests.lake import SERVED, lake, options, store_in
from tests.spark_sql import SparkSql, with_jars
from tests.store.by_hand import by_hand, content, day, publish_to
from tests.tables import commits_of, files_of, folder_of, paths_of, record_of, rows_of, version_of

Windows = Callable[..., DataFrame]

DAYS = ("2024-01-01", "2024-01-02", "2024-01-03")
MONDAY, TUESDAY = "2024-01-01 10:00:00", "2024-01-02 09:00:00"


@pytest.fixture
def store(
    request: pytest.FixtureRequest, tmp_path: Path, reach: Callable[[str], None]
) -> IcebergStore:
    kind = getattr(request, "param", "lake")
    reach(kind)
    file_store = store_in(tmp_path / kind)
    assert isinstance(file_store, IcebergStore)
    return file_store


#: Catalogs in SQLite, in folders, and on servers.
EVERY_CATALOG = pytest.mark.parametrize("store", ["lake", "hadoop", *SERVED], indirect=True)


def table_of(store: IcebergStore, name: str = "sessions") -> Any:
    return store.catalog.load_table((*store.namespace, name))


def publish(store: IcebergStore, frame: DataFrame, run: str, **more: Any) -> int:
    staged = store.stage("sessions", frame, run_id=run, partition_by=("date",), sort_by=())
    return publish_to(store, staged, **more)


def test_a_table_as_its_readers_see_it(store: IcebergStore) -> None:
    publish_to(store, by_hand(store, "r1", *DAYS[:2]), metadata={"kind": "run"})
    table = table_of(store)
    assert [(field.name, str(field.transform)) for field in table.spec().fields] == [
        ("date", "identity")
    ]
    assert table.location().endswith("/lake/warehouse/web/sessions")
    summary = table.current_snapshot().summary.additional_properties
    assert summary["backfill.run_id"] == "r1"
    assert summary["backfill.kind"] == "run"
    assert summary["added-records"] == "2"
    assert table.scan(row_filter="date = '2024-01-02'").to_arrow().num_rows == 1
    assert table.scan(row_filter="user_id > 'r1'").to_arrow().num_rows == 0
    # Nothing shows of a run that has not published yet, not even in the log.
    by_hand(store, "r2", DAYS[2])
    assert content(store) == [f"r1 {date}" for date in DAYS[:2]]
    assert len(table_of(store).snapshots()) == 1


@EVERY_CATALOG
def test_columns_come_and_go(store: IcebergStore, spark: SparkSession, windows: Windows) -> None:
    frame = windows(("a", DAYS[0], MONDAY))
    publish(store, frame, "r1")
    more = frame.select("user_id", F.lit(1.5).alias("revenue"), *frame.columns[1:])
    with pytest.raises(TableError, match="columns or types of the new files do not match"):
        publish(store, more, "r2", replace=[])
    publish(store, more, "r3")
    assert rows_of(store, spark, "sessions").columns == more.columns
    assert rows_of(store, spark, "sessions").collect()[0].revenue == 1.5
    assert table_of(store).scan().to_arrow()["revenue"].to_pylist() == [1.5]
    publish(store, frame.drop("is_open"), "r4")
    assert rows_of(store, spark, "sessions").columns == frame.drop("is_open").columns
    assert table_of(store).scan().to_arrow().num_rows == 1
    # The first version still has its own columns.
    first = store.open("sessions", 0)
    assert first is not None
    assert first.read(spark).collect() == frame.collect()
    with pytest.raises(TableError, match="the table has other columns now"):
        store.restore("sessions", 0, run_id="r5", metadata={})
    text = frame.drop("is_open").withColumn("events", F.col("events").cast("string"))
    with pytest.raises(TableError, match="is string now, but was long, which an Iceberg table"):
        publish(store, text, "r6")


@EVERY_CATALOG
def test_types(store: IcebergStore, spark: SparkSession) -> None:
    frame = spark.sql(
        """
        SELECT 1Y AS tiny, 2S AS small, 3 AS whole, 4L AS big, 1.5F AS single, 2.5D AS double,
               1.25BD AS price, true AS flag, 'ü' AS text, X'00FF' AS bytes,
               timestamp'1969-12-31 23:59:59.999999Z' AS at,
               timestamp_ntz'1969-12-31 01:02:03' AS local,
               date'1969-12-31' AS day, array(1Y, NULL) AS list, map('a', 1S) AS map,
               named_struct('n', 1, 'deep', array(named_struct('x', 2D))) AS state,
               CAST(NULL AS string) AS none
        """
    )
    staged = store.stage("t", frame, run_id="r1", partition_by=(), sort_by=())
    publish_to(store, staged)
    read = rows_of(store, spark, "t")
    assert read.collect() == frame.collect()
    kinds = {field.name: field.dataType.simpleString() for field in read.schema}
    assert (kinds["tiny"], kinds["small"], kinds["list"]) == ("int", "int", "array<int>")
    [file] = files_of(store, "t")
    assert (file.minimum["at"], file.maximum["at"]) == (-1, -1)
    assert file.minimum["day"] == dt.date(1969, 12, 31)
    assert {"single", "double", "none", "list"}.isdisjoint(file.minimum)
    [row] = table_of(store, "t").scan().to_arrow().to_pylist()
    assert (row["price"], row["bytes"], row["state"]["deep"]) == (
        frame.collect()[0].price,
        b"\x00\xff",
        [{"x": 2.0}],
    )


def test_look_ups_open_no_file_that_they_need_not(
    store: IcebergStore, spark: SparkSession, windows: Windows
) -> None:
    publish(store, windows(("a", DAYS[0], MONDAY), ("b", DAYS[1], TUESDAY)), "r1")
    for path in paths_of(store, "sessions"):
        if DAYS[1] in path:
            (folder_of(store, "sessions") / path).write_bytes(b"not Parquet")
    start = 1_704_103_200_000_000  # Monday, 10:00
    rows = look_up(store.dataset("sessions"), start_us=start, end_us=start + 1)
    assert rows["user_id"].to_pylist() == ["a"]
    assert look_up(store.dataset("sessions"), key={"user_id": "a"}).num_rows == 1
    assert look_up(store.dataset("sessions"), key={"user_id": "c"}).num_rows == 0
    with pytest.raises(TableError, match="cannot be read"):
        look_up(store.dataset("sessions"))


@EVERY_CATALOG
def test_a_run_goes_on_where_snapshots_have_expired(store: IcebergStore) -> None:
    publish_to(store, by_hand(store, "r1", DAYS[0]))
    publish_to(store, by_hand(store, "r2", DAYS[1]), [])
    # A commit by others: the same rows, without our metadata.
    table = table_of(store)
    table.append(table.scan().to_arrow().slice(0, 0))
    assert version_of(store, "sessions") == 2
    kept = table.current_snapshot().snapshot_id
    with table.maintenance.expire_snapshots() as expire:
        expire.by_ids(
            [snapshot.snapshot_id for snapshot in table.snapshots() if snapshot.snapshot_id != kept]
        )
    assert [commit.version for commit in commits_of(store, "sessions")] == [2]
    assert record_of(store, "sessions") == {"runs": ["r1", "r2"]}
    assert store.clean("sessions", older_than_s=-1).records == 1, "that of the expired first run"
    assert publish_to(store, by_hand(store, "r3", DAYS[2]), []) == 3
    assert record_of(store, "sessions") == {"runs": ["r1", "r2", "r3"]}
    with pytest.raises(TableError, match="version 1 is no longer in the table's history"):
        publish_to(store, by_hand(store, "r4", DAYS[2]), [], dates=day(DAYS[2]), base=1)


@EVERY_CATALOG
def test_what_was_rolled_back_is_kept(store: IcebergStore) -> None:
    publish_to(store, by_hand(store, "r1", DAYS[0]))
    publish_to(store, by_hand(store, "r2", DAYS[1]), [])
    table = table_of(store)
    first, second = (snapshot.snapshot_id for snapshot in table.snapshots())
    with table.manage_snapshots() as manage:
        manage.rollback_to_snapshot(first)
    assert version_of(store, "sessions") == 0
    assert record_of(store, "sessions") == {"runs": ["r1"]}
    staged = by_hand(store, "r3", DAYS[2])
    with pytest.raises(TableError, match="is at version 0, but was at version 1 before"):
        publish_to(store, staged, [], dates=day(DAYS[2]), base=1)
    assert publish_to(store, staged, [], dates=day(DAYS[2])) == 2
    assert [commit.version for commit in commits_of(store, "sessions")] == [2, 0]
    assert record_of(store, "sessions") == {"runs": ["r1", "r3"]}
    # A snapshot that no later one stands on can still be restored.
    assert store.clean("sessions", older_than_s=-1).files == 0
    assert table_of(store).scan(snapshot_id=second).to_arrow().num_rows == 2


@EVERY_CATALOG
def test_partitions_that_have_changed(store: IcebergStore, spark: SparkSession) -> None:
    publish_to(store, by_hand(store, "r1", DAYS[0]))
    table = table_of(store)
    with table.update_spec() as update:
        update.remove_field("date")
    # Added by others, in files that hold the date.
    table.append(table.scan().to_arrow())
    with table.update_spec() as update:
        update.add_identity("date")
    publish_to(store, by_hand(store, "r2", DAYS[1]), [])
    expected = [f"r1 {DAYS[0]}", f"r1 {DAYS[0]}", f"r2 {DAYS[1]}"]
    assert content(store) == expected
    rows = rows_of(store, spark, "sessions").select("user_id", F.col("date").cast("string"))
    assert sorted(" ".join(row) for row in rows.collect()) == expected
    held = look_up(store.dataset("sessions"), key={"user_id": "r1"})
    assert held.num_rows == 2
    dates = store.dataset("sessions").to_table(filter=pc.field("date") == dt.date(2024, 1, 1))
    assert dates.num_rows == 2
    assert [file.minimum["date"] for file in files_of(store, "sessions")] == [
        dt.date(2024, 1, 1),
        dt.date(2024, 1, 1),
        dt.date(2024, 1, 2),
    ]


@pytest.mark.parametrize("name", ["a b", "per%20cent", "ünï{c}*[1]"])
def test_folders_of_any_name(tmp_path: Path, spark: SparkSession, name: str) -> None:
    named = {**options(tmp_path), "warehouse": f"file://{tmp_path}/{name}"}
    store = IcebergStore("lake", "web", named)
    publish_to(store, by_hand(store, "r1", *DAYS))
    assert content(store) == [f"r1 {date}" for date in DAYS]
    assert rows_of(store, spark, "sessions").count() == 3
    table = store.open("sessions")
    assert table is not None
    [path, *_] = [file.path for file in table.files]
    assert [row["_file_path"] for row in table.read(spark, [path], with_file=True).collect()] == [
        path
    ]
    assert look_up(store.dataset("sessions")).num_rows == 3


def test_an_old_format_is_refused(store: IcebergStore) -> None:
    store.catalog.create_namespace("web")
    schema = pa.schema([("date", pa.date32())])
    store.catalog.create_table(("web", "sessions"), schema, properties={"format-version": "1"})
    with pytest.raises(TableError, match="only tables of Iceberg's format version 2"):
        store.open("sessions")


def test_rows_by_others_are_in_the_way_of_runs_of_their_dates(store: IcebergStore) -> None:
    publish_to(store, by_hand(store, "r1", DAYS[0]))
    table = table_of(store)
    table.append(table.scan().to_arrow())
    with pytest.raises(TableError, match=f"another writer .* 1 meanwhile, and both .* {DAYS[0]}"):
        publish_to(store, by_hand(store, "r2", DAYS[0]), [], dates=day(DAYS[0]), base=0)
    assert publish_to(store, by_hand(store, "r3", DAYS[1]), [], dates=day(DAYS[1]), base=0) == 2
    assert content(store) == [f"r1 {DAYS[0]}"] * 2 + [f"r3 {DAYS[1]}"]


@EVERY_CATALOG
def test_a_table_that_somebody_has_made(store: IcebergStore) -> None:
    catalog, note = store.catalog, ("note", pa.string())
    schema = pa.schema([pa.field("date", pa.date32(), nullable=False), note])
    catalog.create_namespace(store.namespace)
    name = (*store.namespace, "sessions")
    catalog.create_table_transaction(name, schema, properties={"owner": "us"}).commit_transaction()
    table = catalog.load_table(name)
    assert store.open("sessions") is None, "an empty table is none"
    with pytest.raises(TableError, match="the table is partitioned by other columns: none"):
        publish_to(store, by_hand(store, "r1", DAYS[0]))
    with table.update_spec() as update:
        update.add_identity("date")
    assert publish_to(store, by_hand(store, "r2", DAYS[0])) == 0
    assert content(store) == [f"r2 {DAYS[0]}"]
    table = table_of(store)
    assert [field.name for field in table.schema().fields][:2] == ["user_id", "window_start"]
    assert table.properties["owner"] == "us"
    with table.update_spec() as update:
        update.add_field("date", "month", "month")
    with pytest.raises(TableError, match="partitioned by month of a column"):
        publish_to(store, by_hand(store, "r3", DAYS[1]))


def test_of_two_first_writers_one_makes_the_table(store: IcebergStore) -> None:
    other = lake(folder_of(store, "sessions").parents[2])
    one, two = by_hand(store, "r1", DAYS[0]), by_hand(other, "r2", DAYS[1])

    def record(before: dict[str, Any] | None) -> dict[str, Any]:
        # The other commits in the middle of this one's commit.
        if version_of(other, "sessions") is None:
            publish_to(other, two, dates=None)
        return {"runs": [*(before or {}).get("runs", []), "r1"]}

    def publish(**more: Any) -> int:
        settings = {"base": None, "metadata": {}, "record": record, **more}
        return store.publish("sessions", one, **settings)

    with pytest.raises(TableError, match="run r2 published version 0 meanwhile"):
        publish(replace="all", dates=None)
    assert content(store) == [f"r2 {DAYS[1]}"]


def test_others_make_the_catalog_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def overtaken(self: SqlCatalog) -> None:
        monkeypatch.undo()
        for _ in ("the other", "this one, which found nothing before"):
            SqlCatalogBaseTable.metadata.create_all(self.engine, checkfirst=False)

    monkeypatch.setattr(SqlCatalog, "create_tables", overtaken)
    store = lake(tmp_path / "lake")
    publish_to(store, by_hand(store, "r1", DAYS[0]))
    assert content(store) == [f"r1 {DAYS[0]}"]
    assert SqlCatalog.create_tables is not overtaken


def test_others_make_the_namespace_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def overtaken(self: SqlCatalog, namespace: Any) -> bool:
        seen.append(namespace)
        if len(seen) == 2:
            # The library has looked as well; now the other makes the namespace.
            monkeypatch.undo()
            lake(tmp_path / "lake").catalog.create_namespace("web")
        return False

    store = lake(tmp_path / "lake")
    monkeypatch.setattr(SqlCatalog, "namespace_exists", overtaken)
    publish_to(store, by_hand(store, "r1", DAYS[0]))
    assert content(store) == [f"r1 {DAYS[0]}"]
    assert len(seen) == 2


@pytest.mark.parametrize("made", [True, False])
def test_a_commit_of_which_nobody_knows(
    store: IcebergStore, monkeypatch: pytest.MonkeyPatch, made: bool
) -> None:
    publish_to(store, by_hand(store, "r1", DAYS[0]))
    real = store.catalog.commit_table

    def lost(*arguments: Any) -> Any:
        if made:
            real(*arguments)
        raise OSError("connection reset")

    monkeypatch.setattr(store.catalog, "commit_table", lost)
    staged = by_hand(store, "r2", DAYS[1])
    if made:
        # The catalog can be asked whether it was made.
        assert publish_to(store, staged, []) == 1
    else:
        with pytest.raises(TableError, match="not known whether the commit was made: connection"):
            publish_to(store, staged, [])
        store.discard(staged)
    monkeypatch.undo()
    assert version_of(store, "sessions") == int(made)
    assert content(store) == [f"r1 {DAYS[0]}", *([f"r2 {DAYS[1]}"] if made else [])]
    assert record_of(store, "sessions") == {"runs": ["r1", *(["r2"] if made else [])]}
    assert store.clean("sessions", older_than_s=-1).files == 1 - made


def test_row_groups_without_bounds(store: IcebergStore) -> None:
    staged = by_hand(store, "r1", DAYS[0])
    [file] = staged.files
    path = Path(staged.folder) / file.path
    rows = pq.read_table(path)
    keys = pa.array(["a", "b", "z" * 6000, "mm", None, None])
    rows = pa.concat_tables([rows] * 6).set_column(
        rows.column_names.index("user_id"), "user_id", keys
    )
    pq.write_table(rows, path, row_group_size=2)
    fields = {**vars(file), "size": path.stat().st_size, "rows": 6}
    publish_to(store, replace(staged, files=(StagedFile(**fields),)))
    for key in keys.to_pylist()[:4]:
        assert look_up(store.dataset("sessions"), key={"user_id": key}).num_rows == 1
        assert table_of(store).scan(row_filter=EqualTo("user_id", key)).to_arrow().num_rows == 1
    assert look_up(store.dataset("sessions"), key={"user_id": None}).num_rows == 2
    [held] = files_of(store, "sessions")
    assert "user_id" not in held.minimum
    assert held.minimum["events"] == 1


def test_columns_that_others_have_renamed(store: IcebergStore) -> None:
    publish_to(store, by_hand(store, "r1", DAYS[0]))
    with table_of(store).update_schema() as update:
        update.rename_column("events", "n")
    with pytest.raises(TableError, match="another writer has renamed this column"):
        publish_to(store, by_hand(store, "r2", DAYS[1]), [])
    table = table_of(store)
    table.append(table.scan().to_arrow())
    with pytest.raises(TableError, match=r"sessions\.n: another writer has renamed this column"):
        store.dataset("sessions")


@EVERY_CATALOG
def test_columns_that_others_have_added(store: IcebergStore) -> None:
    publish_to(store, by_hand(store, "r1", DAYS[0]))
    with table_of(store).update_schema() as update:
        update.add_column("note", StringType())
    staged = by_hand(store, "r2", DAYS[1])
    with pytest.raises(TableError, match="another writer has changed the table's columns"):
        publish_to(store, staged, [])
    assert publish_to(store, staged) == 1
    assert "note" not in store.dataset("sessions").schema.names


def test_names_with_dots(store: IcebergStore, spark: SparkSession) -> None:
    frame = spark.sql("SELECT 'a' AS `a.b`, 1 AS n, date'2024-01-01' AS date")
    staged = store.stage("t", frame, run_id="r1", partition_by=("date",), sort_by=())
    publish_to(store, staged)
    more = frame.selectExpr("`a.b`", "2 AS `c.d`", "n", "date")
    publish_to(store, store.stage("t", more, run_id="r2", partition_by=("date",), sort_by=()))
    assert rows_of(store, spark, "t").collect() == more.collect()
    # Iceberg's own writers escape such names.
    table = store.catalog.load_table("web.t")
    table.append(table.scan().to_arrow())
    with pytest.raises(TableError, match=r"web\.t\.a\.b: another writer has written files"):
        store.dataset("t")


def test_records_that_have_expired(store: IcebergStore) -> None:
    publish_to(store, by_hand(store, "r1", DAYS[0]))
    table = table_of(store)
    table.append(table.scan().to_arrow().slice(0, 0))
    publish_to(store, by_hand(store, "r2", DAYS[1]), [])
    table = table_of(store)
    first, others, last = table.snapshots()
    with table.maintenance.expire_snapshots() as expire:
        expire.by_id(first.snapshot_id)
    assert record_of(store, "sessions") == {"runs": ["r1", "r2"]}
    with pytest.raises(TableError, match="what this version has counted is not known any more"):
        store.restore("sessions", 1, run_id="r3", metadata={})
    # The property belongs to the snapshot that was rolled back.
    with table_of(store).manage_snapshots() as manage:
        manage.rollback_to_snapshot(others.snapshot_id)
    with table_of(store).maintenance.expire_snapshots() as expire:
        expire.by_id(last.snapshot_id)
    with pytest.raises(TableError, match="what this version has counted is not known any more"):
        record_of(store, "sessions")


def test_nothing_is_made_by_looking(store: IcebergStore) -> None:
    assert store.open("sessions") is None
    with pytest.raises(TableError, match=r"^web\.sessions: the table does not exist yet"):
        store.dataset("sessions")
    with pytest.raises(TableError, match="no unpublished rows"):
        store.dataset("sessions", "r1")
    assert store.clean("sessions", older_than_s=0) == Cleaned(0, 0, 0, 0)
    assert store.catalog.list_namespaces() == []


@pytest.mark.parametrize(
    "uri",
    [
        "http://localhost:1/?token=s3cret",
        "http://me:s3/cret@localhost:1",
        "sqlite:////no/such/folder/s3cret.db",
    ],
)
def test_a_catalog_that_fails(uri: str) -> None:
    with pytest.raises(TableError, match=r"^tables\.catalog: the catalog fails: .") as failed:
        IcebergStore("lake", "web", {"uri": uri}).open("sessions")
    shown = "".join(traceback.format_exception(failed.value))
    assert "s3cret" not in shown
    assert "me:s3" not in shown


@pytest.mark.parametrize("warehouse", ["hdfs://host/lake", "lake", "file:///tmp/a#b"])
def test_places_where_tables_cannot_be(tmp_path: Path, warehouse: str) -> None:
    named = {**options(tmp_path), "warehouse": warehouse}
    with pytest.raises(TableError, match=r"a URL of an object store|with # or \?"):
        by_hand(IcebergStore("lake", "web", named), "r1", DAYS[0])


#: Spark reads the table, compacts it, deletes a row of one date, and reads the metadata. In
#: another table it deletes a row with a delete file.
TENDED = (
    "SELECT user_id, date FROM lake.web.sessions ORDER BY ALL",
    "CALL lake.system.rewrite_data_files(table => 'web.sessions', "
    "options => map('rewrite-all', 'true'))",
    "DELETE FROM lake.web.sessions WHERE user_id = 'b'",
    "SELECT operation FROM lake.web.sessions.snapshots ORDER BY committed_at",
    "CALL lake.system.remove_orphan_files(table => 'web.sessions', "
    "older_than => TIMESTAMP '2020-01-01 00:00:00')",
    "SELECT count(*) FROM lake.web.sessions",
    "ALTER TABLE lake.web.beside SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')",
    "DELETE FROM lake.web.beside WHERE user_id = 'b'",
)


@with_jars
@pytest.mark.parametrize("store", ["lake", "hadoop"], indirect=True)
def test_sparks_own_iceberg_tends_the_table(
    store: IcebergStore,
    spark: SparkSession,
    spark_sql: SparkSql,
    windows: Windows,
    tmp_path: Path,
) -> None:
    catalog = tmp_path / store.name
    rows = [("a", DAYS[0], MONDAY), ("b", DAYS[0], MONDAY), ("c", DAYS[1], TUESDAY)]
    publish(store, windows(*rows), "r1")
    beside = store.stage("beside", windows(*rows), run_id="r1", partition_by=(), sort_by=())
    publish_to(store, beside)
    # A file that nothing names is an orphan; our own files beside the table are not.
    waiting = by_hand(store, "waiting", DAYS[2])
    folder = folder_of(store, "sessions")
    orphan = folder / "date=2024-01-01" / "orphan.parquet"
    orphan.write_bytes(b"")
    for path in folder.rglob("*"):
        os.utime(path, (0, 0))
    first, _, _, operations, orphans, *_ = spark_sql.iceberg(catalog, *TENDED)
    assert [uri.rpartition("/")[2] for uri in orphans] == ["orphan.parquet"]
    assert not orphan.exists()
    assert (folder / "_record" / "r1.json").exists()
    assert (Path(waiting.folder) / waiting.files[0].path).exists()
    assert first == [f"{key}|{date}" for key, date, _ in rows]
    assert operations == ["append", "replace", "overwrite"]
    with pytest.raises(
        TableError, match="another writer has deleted rows without rewriting"
    ) as caught:
        files_of(store, "beside")
    [call] = re.findall(r"CALL (system\.[^;]*?\)\))", str(caught.value))
    spark_sql.iceberg(catalog, "CALL lake." + call.replace("…", "'web.beside'"))
    assert rows_of(store, spark, "beside").count() == 2
    # A run that began before: the compaction does not conflict with it, the deletion does.
    staged = by_hand(store, "r2", DAYS[0])
    with pytest.raises(TableError, match="another writer published version 2 meanwhile"):
        publish_to(store, staged, [], dates=day(DAYS[0]), base=0)
    store.discard(staged)
    # Other writers' files lie elsewhere, and hold the partition's column.
    assert all(path.startswith("data/date=") for path in paths_of(store, "sessions"))
    sessions = rows_of(store, spark, "sessions").select("user_id", F.col("date").cast("string"))
    assert sorted(map(tuple, sessions.collect())) == [("a", DAYS[0]), ("c", DAYS[1])]
    assert record_of(store, "sessions") == {"runs": ["r1"]}
    gone = [path for path in paths_of(store, "sessions") if DAYS[0] in path]
    frame = windows(("d", DAYS[0], MONDAY))
    assert publish(store, frame, "r3", replace=gone, dates=day(DAYS[0])) == 3
    keys = rows_of(store, spark, "sessions").select("user_id").collect()
    assert sorted(row.user_id for row in keys) == ["c", "d"]
    table = store.open("sessions")
    assert table is not None
    [other] = [file.path for file in table.files if DAYS[1] in file.path]
    assert [row["_file_path"] for row in table.read(spark, [other], with_file=True).collect()] == [
        other
    ]
