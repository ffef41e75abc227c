"""Jobs whose events are in an Iceberg table of a catalog: what arrived, and what was rewritten."""

from __future__ import annotations

import datetime as dt
import json
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.expressions import EqualTo, NotEqualTo
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, StringType, UUIDType
from pyspark.sql import SparkSession

from backfill import Job
from backfill.errors import JobFileError, SourceError
from backfill.events import SourceOptions, open_source
from backfill.iceberg.catalog import open_catalog
from backfill.iceberg.snapshots import local_path
from tests.execution.world import at
from tests.lake import hadoop_options, lake_with_sources, options
from tests.on_sail import spark_only
from tests.spark_sql import SparkSql, with_jars

pytestmark = pytest.mark.usefixtures("interpreted")

JOB = """
source: {catalog: lake, format: iceberg, path: raw.events, options: {%s}}
events: {key: user, time: at}
windows:
  sessions: {session: {gap: 30m}, aggregates: {n: count, total: sum(value)}}
tables: {path: out}
checks: {builtin: {quarantined_share: off}}
"""
EVENTS = pa.schema(
    [("user", pa.string()), ("at", pa.timestamp("us", "UTC")), ("value", pa.int32())]
)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return lake_with_sources(tmp_path / "lake")


@pytest.fixture
def table(catalog: Catalog) -> Table:
    return catalog.create_table("raw.events", EVENTS)


@pytest.fixture
def job(tmp_path: Path, table: Table) -> Job:
    settings = ", ".join(f'{k}: "{v}"' for k, v in options(tmp_path / "lake").items())
    (tmp_path / "job.yaml").write_text(JOB % settings)
    return Job.load(tmp_path / "job.yaml")


def given(*rows: tuple[str, int, int], schema: pa.Schema = EVENTS) -> pa.Table:
    columns = list(zip(*rows, strict=True))
    return pa.table(
        {
            name: pa.array(values).cast(kind.type)
            for name, values, kind in zip(schema.names, columns, schema, strict=True)
        }
    )


def compact(table: Table, without: str = "") -> None:
    """As Spark's rewrite_data_files: all files in one, in a snapshot of the operation `replace`."""
    old = [task.file for task in table.scan().plan_files()]
    whole = table.scan(row_filter=NotEqualTo("user", without)).to_arrow()
    with table.transaction() as made, made.update_snapshot().overwrite() as snapshot:
        for file in _dataframe_to_data_files(made.table_metadata, whole, table.io):
            snapshot.append_data_file(file)
        for file in old:
            snapshot.delete_data_file(file)
    # pyiceberg itself makes no snapshot of this operation.
    path = Path(table.metadata_location.removeprefix("file://"))
    metadata = json.loads(path.read_text())
    metadata["snapshots"][-1]["summary"]["operation"] = "replace"
    path.write_text(json.dumps(metadata))
    table.refresh()


def rows(job: Job) -> set[tuple[Any, ...]]:
    sessions = job.fetch("sessions")
    return {
        (
            row["user"],
            micros(row["window_start"]),
            micros(row["window_end"]),
            row["n"],
            row["total"],
        )
        for row in sessions.to_pylist()
    }


def micros(moment: dt.datetime) -> int:
    return (moment - dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)) // dt.timedelta(
        microseconds=1
    )


def source(tmp_path: Path, path: str = "raw.events", **more: Any) -> SourceOptions:
    given = {"catalog": "lake", "options": options(tmp_path / "lake"), **more}
    return SourceOptions(format="iceberg", path=path, **given)


def test_what_is_read(spark: SparkSession, tmp_path: Path, table: Table) -> None:
    with table.update_spec() as update:
        update.add_field("user", IdentityTransform(), "user")
    table.append(given(("a/b", at(0, 1), 1), ("a/b", at(1, 1), 2), ("c", at(1, 2), 3)))
    with table.update_schema() as update:
        update.add_column("note", StringType())
    opened = open_source(spark, source(tmp_path))
    table.append(given(("d", at(1, 3), 4)))
    assert opened.frame.columns == ["user", "at", "value", "note", "_corrupt", "_source"]
    events = opened.frame.collect()
    assert sorted((row[0], row.value, row[3]) for row in events) == [
        ("a/b", 1, None),
        ("a/b", 2, None),
        ("c", 3, None),
    ]
    files = [file.path for file in opened.snapshot.inputs]
    assert {row._source for row in events} == set(files)
    assert (opened.snapshot.version, len(files)) == (0, 2)
    assert {row.user for row in opened.only(files[:1]).collect()} == {"a/b"}


def test_what_arrived(spark: SparkSession, job: Job, table: Table) -> None:
    table.append(given(("a", at(1, 1), 1)))
    table.append(given(("a", at(2, 1), 2), ("b", at(1, 5), 1)))
    job.run(spark)
    compact(table)
    assert table.current_snapshot().summary.operation == Operation.REPLACE
    assert len(list(table.scan().plan_files())) == 1
    assert job.recompute(spark) is None
    table.append(given(("a", at(1, 1, 20), 5)))
    compact(table)
    # New rows, rewritten with a file that was counted: they cannot be told apart.
    with pytest.raises(SourceError, match="an input that was counted is missing"):
        job.recompute(spark)
    job.run(spark)
    expected = {
        ("a", at(1, 1), at(1, 1, 20), 2, 6),
        ("a", at(2, 1), at(2, 1), 1, 2),
        ("b", at(1, 5), at(1, 5), 1, 1),
    }
    assert rows(job) == expected
    table.append(given(("b", at(1, 5, 10), 3)))
    compacted = job.recompute(spark)
    assert compacted is not None
    assert compacted.accepted == 1
    assert rows(job) == {*expected, ("b", at(1, 5), at(1, 5, 10), 2, 4)} - {
        ("b", at(1, 5), at(1, 5), 1, 1)
    }


def test_columns_that_were_added_and_widened(spark: SparkSession, job: Job, table: Table) -> None:
    table.append(given(("a", at(1, 1), 1)))
    job.run(spark)
    with table.update_schema() as update:
        update.update_column("value", LongType())
        update.add_column("note", StringType())
    large = pa.schema([*list(EVENTS)[:2], pa.field("value", pa.int64())])
    table.append(given(("a", at(1, 1, 10), 1 << 40), schema=large))
    result = job.recompute(spark)
    assert result is not None
    assert rows(job) == {("a", at(1, 1), at(1, 1, 10), 2, 1 + (1 << 40))}


def test_rows_that_were_deleted(spark: SparkSession, job: Job, table: Table) -> None:
    table.append(given(("a", at(1, 1), 1), ("b", at(1, 2), 1)))
    table.append(given(("a", at(3, 1), 1)))
    job.run(spark)
    table.delete(EqualTo("user", "b"))
    with pytest.raises(SourceError, match="an input that was counted is missing") as missing:
        job.recompute(spark)
    assert "--from 2026-01-02 --to 2026-01-03" in str(missing.value)
    job.run(spark, date="2026-01-02")
    assert rows(job) == {("a", at(1, 1), at(1, 1), 1, 1), ("a", at(3, 1), at(3, 1), 1, 1)}
    # On other dates the rewritten file has nothing that is new.
    result = job.recompute(spark)
    assert result is not None
    assert result.read == 0


def test_a_table_of_a_rest_catalog(
    spark: SparkSession, tmp_path: Path, reach: Callable[[str], None]
) -> None:
    reach("rest")
    catalog = open_catalog("rest", {}, field="catalog")
    catalog.create_namespace(tmp_path.name)
    table = catalog.create_table((tmp_path.name, "events"), EVENTS)
    job_file = tmp_path / "job.yaml"
    of_rest = JOB.replace("catalog: lake", "catalog: rest").replace("raw.", f"{tmp_path.name}.")
    job_file.write_text(of_rest % "token: marker-s3cret")
    job = Job.load(job_file)
    table.append(given(("a", at(1, 1), 1), ("b", at(2, 1), 1)))
    job.run(spark)
    with table.update_schema() as update:
        update.update_column("value", LongType())
        update.add_column("note", StringType())
    table.append(given(("a", at(1, 1, 10), 1)))
    result = job.recompute(spark)
    assert result is not None
    assert result.accepted == 1
    assert rows(job) == {("a", at(1, 1), at(1, 1, 10), 2, 2), ("b", at(2, 1), at(2, 1), 1, 1)}
    table.delete(EqualTo("user", "b"))
    with pytest.raises(SourceError, match="an input that was counted is missing"):
        job.recompute(spark)
    job.run(spark, date="2026-01-03")
    assert rows(job) == {("a", at(1, 1), at(1, 1, 10), 2, 2)}
    job_file.write_text(of_rest % 'uri: "http://me:marker-s3cret@127.0.0.1:9"')
    with pytest.raises(SourceError, match=r"^source\.catalog: the catalog fails: .") as failed:
        Job.load(job_file).run(spark)
    assert "marker-s3cret" not in "".join(traceback.format_exception(failed.value))


def expire(table: Table) -> None:
    with table.maintenance.expire_snapshots() as expire:
        for snapshot in table.snapshots()[:-1]:
            expire.by_id(snapshot.snapshot_id)


def test_snapshots_that_have_expired(spark: SparkSession, job: Job, table: Table) -> None:
    for day in range(2):
        table.append(given(("a", at(day, 1), 1)))
    job.run(spark)
    table.append(given(("a", at(0, 1, 10), 1)))
    expire(table)
    # No file is missing, so what happened between does not matter.
    result = job.recompute(spark)
    assert result is not None
    assert result.accepted == 1
    table.append(given(("b", at(0, 1), 1)))
    compact(table)
    expire(table)
    with pytest.raises(SourceError, match="--from 2026-01-01 --to 2026-01-03"):
        job.recompute(spark)
    job.run(spark, start="2026-01-01", end="2026-01-03")
    assert rows(job) == {
        ("a", at(0, 1), at(0, 1, 10), 2, 2),
        ("a", at(1, 1), at(1, 1), 1, 1),
        ("b", at(0, 1), at(0, 1), 1, 1),
    }


def test_a_compaction_that_applies_deletions(spark: SparkSession, job: Job, table: Table) -> None:
    table.append(given(("a", at(1, 1), 1), ("b", at(1, 2), 1)))
    job.run(spark)
    compact(table, without="b")
    with pytest.raises(SourceError, match="--from 2026-01-02 --to 2026-01-03"):
        job.recompute(spark)
    job.run(spark, date="2026-01-02")
    assert rows(job) == {("a", at(1, 1), at(1, 1), 1, 1)}


def test_passwords_are_not_shown(tmp_path: Path, job: Job) -> None:
    assert "catalog.db" in (tmp_path / "job.yaml").read_text()
    assert "catalog.db" not in repr(job.spec)


def test_what_is_refused(
    spark: SparkSession, tmp_path: Path, catalog: Catalog, table: Table
) -> None:
    def problem(made: SourceOptions, **more: Any) -> str:
        with pytest.raises(SourceError) as error:
            open_source(spark, made, **more)
        return str(error.value)

    def problem_of(name: str) -> str:
        return problem(source(tmp_path, name))

    assert problem(source(tmp_path)) == "source.path: the Iceberg table is empty (got 'raw.events')"
    assert "the catalog has no such table" in problem(source(tmp_path, "raw.others"))
    assert "the catalog has no such table" in problem(source(tmp_path, "none.events"))
    assert "added to it, not given as files" in problem(source(tmp_path), late=["x"])
    assert "has its own schema" in problem(source(tmp_path, schema="a int"))
    secret = {"type": "sql", "uri": f"sqlite:///{tmp_path}/none/s3cret.db"}
    failed = problem(source(tmp_path, options=secret))
    assert failed.startswith("source.catalog: the catalog fails: ")
    assert "s3cret" not in failed

    table.append(given(("a", at(0), 1)))
    with table.update_schema() as update:
        update.delete_column("value")
    open_source(spark, source(tmp_path))
    with table.update_schema() as update:
        update.add_column("value", LongType())
    assert "its column value has the name of a dropped column" in problem(source(tmp_path))
    with table.update_schema() as update:
        update.rename_column("at", "when")
    assert "its column when was named 'at' before" in problem(source(tmp_path))

    for name, kind, expected in [
        ("page-views", LongType(), "its column page-views has another name in the files"),
        ("id", UUIDType(), "column id: the table has a column of type uuid"),
    ]:
        odd = catalog.create_table(f"raw.odd_{name[:2]}", EVENTS)
        odd.append(given(("a", at(0), 1)))
        with odd.update_schema() as update:
            update.add_column(name, kind)
        assert expected in problem_of(f"raw.odd_{name[:2]}")
    old = catalog.create_table("raw.old", EVENTS, properties={"format-version": "1"})
    old.append(given(("a", at(0), 1)))
    assert "format version 1, but only 2 and 3 are supported" in problem_of("raw.old")

    # In a table of backfill's, only the folders say the date.
    other = catalog.create_table(
        "raw.folders", pa.schema([("n", pa.int64()), ("day", pa.string())])
    )
    with other.update_spec() as update:
        update.add_identity("day")
    folder = tmp_path / "lake" / "day=x"
    folder.mkdir()
    pa.parquet.write_table(pa.table({"n": [1]}), folder / "f.parquet")
    other.add_files([f"file://{folder}/f.parquet"])
    assert "the column day is only in the name of a file's folder" in problem(
        source(tmp_path, "raw.folders")
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("format: iceberg, path: raw.events", "source.catalog: is missing"),
        ("format: parquet, path: events, catalog: lake", "source.catalog: has no meaning"),
        (
            "format: iceberg, path: raw.events, catalog: a b",
            "source.catalog: can't be used as a name",
        ),
    ],
)
def test_job_files(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "job.yaml").write_text(
        JOB.replace("catalog: lake, format: iceberg, path: raw.events, options: {%s}", text)
    )
    with pytest.raises(JobFileError, match=problem):
        Job.load(tmp_path / "job.yaml")


#: What a user's Spark does with a table: compaction, then rows deleted beside their files.
TENDED = (
    "CREATE TABLE lake.raw.tended (user string, at timestamp) PARTITIONED BY (days(at))",
    "INSERT INTO lake.raw.tended VALUES ('a', timestamp'2026-01-01 01:00:00'), "
    "('b', timestamp'2026-01-01 02:00:00')",
    "INSERT INTO lake.raw.tended VALUES ('c', timestamp'2026-01-01 03:00:00')",
    "CALL lake.system.rewrite_data_files(table => 'raw.tended', "
    "options => map('rewrite-all', 'true'))",
    "CREATE TABLE lake.raw.beside (user string, at timestamp) TBLPROPERTIES "
    "('write.delete.mode' = 'merge-on-read')",
    "INSERT INTO lake.raw.beside VALUES ('a', timestamp'2026-01-01'), ('b', timestamp'2026-01-02')",
    "DELETE FROM lake.raw.beside WHERE user = 'a'",
)
#: What then writes these deletions into the files.
APPLIED = (
    "CALL lake.system.rewrite_data_files(table => 'raw.beside', "
    "options => map('rewrite-all', 'true', 'remove-dangling-deletes', 'true'))",
)


#: A table of format 3: two files, from which rows are deleted beside them, and later again.
VECTORS = (
    "CREATE TABLE lake.raw.third (user string, at timestamp) PARTITIONED BY (days(at)) "
    "TBLPROPERTIES ('format-version' = '3', 'write.delete.mode' = 'merge-on-read', "
    "'write.update.mode' = 'merge-on-read')",
    "INSERT INTO lake.raw.third SELECT concat('u', id), "
    "timestamp_micros(1767225600000000 + id * 60000000) FROM range(2000)",
    "DELETE FROM lake.raw.third WHERE at < timestamp'2026-01-01 00:05:00' OR user = 'u1999'",
)
#: From the first file: its new vector replaces the one that is stored with the other file's.
AGAIN = (
    "DELETE FROM lake.raw.third WHERE user IN ('u1000', 'u7')",
    "UPDATE lake.raw.third SET user = 'moved' WHERE user = 'u8'",
)
COMPACTED = (
    "CALL lake.system.rewrite_data_files(table => 'raw.third', "
    "options => map('rewrite-all', 'true', 'remove-dangling-deletes', 'true'))",
)


@spark_only
@with_jars
def test_deletion_vectors_of_format_3(
    spark: SparkSession, spark_sql: SparkSql, tmp_path: Path
) -> None:
    folder = tmp_path / "lake"
    options(folder)

    def read() -> tuple[list[str], dict[str, str | None]]:
        opened = open_source(spark, source(tmp_path, "raw.third"))
        rows = opened.frame.where("_corrupt IS NULL").select("user").collect()
        inputs = {file.path: file.deletions for file in opened.snapshot.inputs}
        return sorted(row.user for row in rows), inputs

    spark_sql.iceberg(folder, "CREATE NAMESPACE lake.raw", *VECTORS)
    left = {f"u{number}" for number in range(5, 1999)}
    users, before = read()
    assert users == sorted(left)
    assert all(before.values())
    [both] = (folder / "warehouse" / "raw" / "third" / "data").rglob("*.puffin")
    spark_sql.iceberg(folder, *AGAIN)
    left -= {"u1000", "u7", "u8"}
    users, now = read()
    assert users == sorted([*left, "moved"])
    # One file has lost rows since, and so counts as changed.
    assert sorted(now[path] == digest for path, digest in before.items()) == [False, True]
    kept = both.read_bytes()
    for damaged in (kept[:-9], kept[:8] + kept[9:]):
        both.write_bytes(damaged)
        with pytest.raises(SourceError, match="deletions cannot be read"):
            read()
    both.write_bytes(kept)
    spark_sql.iceberg(folder, *COMPACTED)
    assert read()[0] == sorted([*left, "moved"])
    # A default for older rows, which Spark's SQL cannot state yet.
    catalog = open_catalog("lake", options(folder), field="catalog")
    path = Path(str(local_path(catalog.load_table("raw.third").metadata_location)))
    metadata = json.loads(path.read_text())
    field = {"id": 9, "name": "note", "required": False, "type": "string", "initial-default": "x"}
    metadata["schemas"][-1]["fields"].append(field)
    path.write_text(json.dumps(metadata | {"last-column-id": 9}))
    with pytest.raises(SourceError, match="column note was added with a value for older rows"):
        read()


@spark_only
@with_jars
@pytest.mark.parametrize("kind", ["lake", "hadoop"])
def test_tables_of_sparks_own_iceberg(
    spark: SparkSession, spark_sql: SparkSql, tmp_path: Path, kind: str
) -> None:
    folder = tmp_path / kind
    own = {"options": hadoop_options(folder) if kind == "hadoop" else options(folder)}
    spark_sql.iceberg(folder, "CREATE NAMESPACE lake.raw", *TENDED)
    opened = open_source(spark, source(tmp_path, "raw.tended", **own))
    events = opened.frame.selectExpr("user", "unix_micros(at)").collect()
    assert sorted(map(tuple, events)) == [("a", at(0, 1)), ("b", at(0, 2)), ("c", at(0, 3))]
    [compaction] = opened.rewrites(1)
    assert (len(compaction.removed), compaction.added) == (
        2,
        {file.path for file in opened.snapshot.inputs},
    )
    beside = open_source(spark, source(tmp_path, "raw.beside", **own))
    assert [row.user for row in beside.frame.collect()] == ["b"]
    spark_sql.iceberg(folder, *APPLIED)
    applied = open_source(spark, source(tmp_path, "raw.beside", **own))
    assert [row.user for row in applied.frame.collect()] == ["b"]
    assert applied.rewrites(0) == ()
