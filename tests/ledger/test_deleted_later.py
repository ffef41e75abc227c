"""Jobs over tables whose rows are deleted beside their files, after the files were counted."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyspark.sql import SparkSession

from backfill.errors import SourceError
from backfill.events.compaction import rewrites
from backfill.ledger.record import Input, Record
from tests import deletion_vectors, iceberg_deletes
from tests.lake import lake_with_sources, options
from tests.ledger.test_iceberg_source import compact
from tests.rebuilt import (
    caught_up,
    contents,
    job_of,
    named,
    same_as_rebuilt,
    unusable,
)

pytestmark = pytest.mark.usefixtures("interpreted")

EVENTS = pa.schema(
    [("user", pa.string()), ("at", pa.timestamp("us", "UTC")), ("value", pa.int64())]
)


def given(*rows: tuple[str | None, int, float, int]) -> pa.Table:
    """Events, from users, days, hours and values."""
    start = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
    return pa.Table.from_pylist(
        [
            {"user": user, "at": start + dt.timedelta(days=day, hours=hour), "value": value}
            for user, day, hour, value in rows
        ],
        EVENTS,
    )


#: Files of one date each, except the first, which has events of the days 1 and 2.
FIRST = given(("a", 1, 1, 1), ("a", 1, 2, 2), ("b", 1, 5, 3), (None, 1, 6, 4), ("b", 2, 23, 5))
SECOND = given(("a", 3, 1, 6), ("b", 3, 0.5, 7))
THIRD = given(("a", 5, 1, 8), ("c", 5, 2, 9))


@pytest.fixture
def delta(tmp_path: Path) -> Path:
    path = tmp_path / "events"
    for rows in (FIRST, SECOND, THIRD):
        write_deltalake(str(path), rows, mode="append")
    return path


def logged(path: Path) -> dict[int, str]:
    """The files of the log by their first value."""
    return {
        pq.read_table(path / name)["value"][0].as_py(): name for name in deletion_vectors.live(path)
    }


def moved(path: Path, value: int, rows: pa.Table) -> str:
    """Commits what OPTIMIZE or PURGE do: a file is removed, and its rows are in another one."""
    old = deletion_vectors.live(path)[logged(path)[value]]
    name = f"moved-{value}-{len(rows)}.parquet"
    pq.write_table(rows, path / name)
    status = (path / name).stat()
    whole = {key: field for key, field in old.items() if key != "deletionVector"}
    added = {**whole, "path": name, "size": status.st_size, "dataChange": False}
    vector = {"deletionVector": old["deletionVector"]} if "deletionVector" in old else {}
    removed = {"path": old["path"], "dataChange": False, "deletionTimestamp": 0, **vector}
    deletion_vectors.commit(path, [{"remove": removed}, {"add": added}])
    return name


@pytest.mark.slow
def test_a_delta_source(spark: SparkSession, tmp_path: Path, delta: Path) -> None:
    source = "path: events, format: delta"
    job = job_of(tmp_path, source)
    job.run(spark)
    assert [row[0] for row in unusable(job, spark)] == ["no_key"]
    files = logged(delta)
    deletion_vectors.delete_places(delta, "u", {files[1]: [0, 3]})
    states = job.plan(spark, start="2026-01-01", end="2026-01-07").windows["sessions"]
    assert {(str(e.dates[0]), str(e.dates[1])) for e in states if e.state == "changed"} == {
        ("2026-01-02", "2026-01-04")
    }
    assert sum(state.events for state in states) == 7
    assert caught_up(job, spark) == ("2026-01-02", "2026-01-04")
    assert unusable(job, spark) == []
    same_as_rebuilt(job, spark, source)

    # Further deletions in two files, with events that arrived before the run.
    deletion_vectors.delete_places(delta, "i", {files[1]: [0, 3, 4], files[8]: [1]})
    write_deltalake(str(delta), given(("a", 5, 1.5, 10), ("c", 3, 1, 11)), mode="append")
    assert caught_up(job, spark) == ("2026-01-02", "2026-01-07")
    same_as_rebuilt(job, spark, source)

    # Purged: what is left of the files is known.
    before = contents(job)
    moved(delta, 1, FIRST.take([1, 2]))
    moved(delta, 8, THIRD.slice(0, 1))
    assert len(rewrites(str(delta), 5, 7)) == 2
    assert job.recompute(spark) is None
    write_deltalake(str(delta), given(("a", 1, 2.5, 12)), mode="append")
    late = job.recompute(spark)
    assert late is not None
    assert late.accepted == 1
    assert contents(job) != before
    same_as_rebuilt(job, spark, source)


@pytest.mark.slow
def test_deletions_around_a_rewrite(spark: SparkSession, tmp_path: Path, delta: Path) -> None:
    source = "path: events, format: delta"
    job = job_of(tmp_path, source)
    job.run(spark)
    # Deleted and purged since: it is unknown which of the rows are counted.
    deletion_vectors.delete_places(delta, "u", {logged(delta)[6]: [0]})
    moved(delta, 6, SECOND.slice(1))
    assert rewrites(str(delta), 2, 4) == ()
    assert len(rewrites(str(delta), 3, 4)) == 1
    assert caught_up(job, spark) == ("2026-01-04", "2026-01-05")
    same_as_rebuilt(job, spark, source)
    # Rewritten, and then rows are deleted from the new file.
    name = moved(delta, 8, THIRD)
    deletion_vectors.delete_places(delta, "u", {name: [1]})
    assert len(rewrites(str(delta), 4, 6)) == 1
    assert caught_up(job, spark) == ("2026-01-06", "2026-01-07")
    same_as_rebuilt(job, spark, source)
    # And back, as RESTORE does it.
    add = deletion_vectors.live(delta)[name]
    whole = {key: field for key, field in add.items() if key != "deletionVector"}
    removed = {"path": name, "dataChange": True, "deletionVector": add["deletionVector"]}
    deletion_vectors.commit(delta, [{"remove": removed}, {"add": {**whole, "dataChange": True}}])
    assert caught_up(job, spark) == ("2026-01-06", "2026-01-07")
    same_as_rebuilt(job, spark, source)


def test_a_file_that_comes_back_whole_before_a_rewrite(
    spark: SparkSession, tmp_path: Path, delta: Path
) -> None:
    source = "path: events, format: delta"
    name = logged(delta)[8]
    deletion_vectors.delete_places(delta, "u", {name: [1]})
    job = job_of(tmp_path, source)
    job.run(spark)
    # Deleted altogether, restored as it was before its rows were deleted, and compacted.
    add = deletion_vectors.live(delta)[name]
    whole = {key: field for key, field in add.items() if key != "deletionVector"}
    vector = add["deletionVector"]
    removed = {"path": name, "dataChange": True, "deletionTimestamp": 0, "deletionVector": vector}
    deletion_vectors.commit(delta, [{"remove": removed}])
    deletion_vectors.commit(delta, [{"add": {**whole, "dataChange": True}}])
    moved(delta, 8, THIRD)
    assert rewrites(str(delta), 3, 6) == ()
    assert caught_up(job, spark) == ("2026-01-06", "2026-01-07")
    same_as_rebuilt(job, spark, source)


@pytest.mark.slow
def test_a_part_of_the_changed_dates(spark: SparkSession, tmp_path: Path, delta: Path) -> None:
    source = "path: events, format: delta"
    job = job_of(tmp_path, source)
    job.run(spark)
    deletion_vectors.delete_places(delta, "u", {logged(delta)[1]: [0, 4]})
    job.run(spark, date="2026-01-02", chunk=1)
    assert named(job, spark) == ("2026-01-03", "2026-01-04")
    # The same stage with other deletions is not done yet.
    deletion_vectors.delete_places(delta, "u", {logged(delta)[1]: [0, 1, 4]})
    job.run(spark, date="2026-01-02", chunk=1)
    job.run(spark, date="2026-01-03", chunk=1)
    rest = job.recompute(spark)
    assert rest is not None
    assert rest.read == 0
    same_as_rebuilt(job, spark, source)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return lake_with_sources(tmp_path / "lake")


@pytest.fixture
def table(catalog: Catalog) -> Table:
    made = catalog.create_table("raw.events", EVENTS)
    # Without the row that has no user, which `compact` drops.
    for rows in (FIRST.take([0, 1, 2, 4]), SECOND, THIRD):
        made.append(rows)
    return made


def iceberg(tmp_path: Path) -> str:
    settings = ", ".join(f'{k}: "{v}"' for k, v in options(tmp_path / "lake").items())
    return f"catalog: lake, format: iceberg, path: raw.events, options: {{{settings}}}"


def test_positions_and_values(spark: SparkSession, tmp_path: Path, table: Table) -> None:
    source = iceberg(tmp_path)
    job = job_of(tmp_path, source)
    job.run(spark)
    [second] = [t.file for t in table.scan().plan_files() if t.file.record_count == 2][-2:-1]
    iceberg_deletes.delete_places(table, {second: [0]})
    held = pq.read_table(second.file_path.removeprefix("file://"), partitioning=None)
    day = held["at"][0].as_py().date()
    assert caught_up(job, spark) == (str(day), str(day + dt.timedelta(days=1)))
    same_as_rebuilt(job, spark, source)
    # As Flink's upserts do it: every file can have rows of the key.
    iceberg_deletes.delete_values(table, {"user": ["b"]})
    table.append(given(("b", 3, 0.7, 20)))
    assert caught_up(job, spark) == ("2026-01-02", "2026-01-07")
    same_as_rebuilt(job, spark, source)
    # The deletions do not reach what was added with or after them.
    assert sum("'b'" in row for row in contents(job)["sessions"]) == 1


def test_a_compaction_and_deletions(spark: SparkSession, tmp_path: Path, table: Table) -> None:
    source = iceberg(tmp_path)
    job = job_of(tmp_path, source)
    job.run(spark)
    compact(table)
    [whole] = [task.file for task in table.scan().plan_files()]
    iceberg_deletes.delete_places(table, {whole: [0]})
    # The compaction is followed, and what was deleted since is a change.
    with pytest.raises(SourceError, match="has changed"):
        job.recompute(spark)
    caught_up(job, spark)
    same_as_rebuilt(job, spark, source)


def test_a_table_that_was_rolled_back(spark: SparkSession, tmp_path: Path, table: Table) -> None:
    source = iceberg(tmp_path)
    job = job_of(tmp_path, source)
    before = table.current_snapshot()
    assert before is not None
    iceberg_deletes.delete_places(table, {t.file: [0] for t in table.scan().plan_files()})
    job.run(spark)
    with table.manage_snapshots() as manage:
        manage.rollback_to_snapshot(before.snapshot_id)
    # Nothing is deleted any more, so the compacted file has more rows than were counted.
    compact(table)
    assert caught_up(job, spark) == ("2026-01-02", "2026-01-07")
    same_as_rebuilt(job, spark, source)


def test_old_records_are_read(tmp_path: Path) -> None:
    whole = Input(1, 2, "d", (3, 4))
    deleted = Input(1, 2, "d", (3, 4), deletions="x")
    record = Record(settings={}, inputs={"/a": whole, "/b": deleted})
    written = record.json(tmp_path)
    # As it was before there were deletions.
    assert len(written["inputs"]["/a"]) == 6
    assert Record.from_json(written, tmp_path).inputs == {"/a": whole, "/b": deleted}
    assert not whole.same_content(deleted)
    assert not Input(1, 2, None, None).same_content(Input(1, 2, None, None, deletions="x"))
