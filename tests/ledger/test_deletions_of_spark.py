"""Jobs over tables from which Spark's own Delta and Iceberg delete rows, beside their files."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill.errors import SourceError
from backfill.events import SourceOptions, open_source
from tests.lake import lake, options
from tests.rebuilt import caught_up, job_of, same_as_rebuilt
from tests.spark_sql import SparkSql, with_jars

pytestmark = [pytest.mark.usefixtures("interpreted"), with_jars]

COLUMNS = "user string, at timestamp, value bigint"
#: Twenty events, one an hour, of three users, in a file for each partition.
INSERT = (
    "INSERT INTO {} SELECT concat('é ', id % 3), timestamp'2026-01-{:02} 00:10:00' + "
    "make_interval(0, 0, 0, 0, id), id + {} FROM range(20)"
)
#: Several changes, one after the other, also to files that have deletions already.
CHANGES = (
    "DELETE FROM {} WHERE value % 7 = 3",
    "UPDATE {} SET value = value + 1000 WHERE value IN (21, 25, 71)",
    "MERGE INTO {} t USING (SELECT 74 AS value UNION ALL SELECT 3000 AS value) s "
    "ON t.value = s.value WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT "
    "(user, at, value) VALUES ('new', timestamp'2026-01-03 03:00:00', s.value)",
)
LATER = "DELETE FROM {} WHERE value % 11 = 2"
READ = "SELECT user, unix_micros(at), value FROM {} ORDER BY ALL"


def filled(create: str, table: str) -> list[str]:
    return [create, *(INSERT.format(table, day, day * 20) for day in (1, 3))]


def read(spark: SparkSession, source: SourceOptions) -> list[str]:
    rows = open_source(spark, source).frame.selectExpr("user", "unix_micros(at)", "value")
    return sorted("|".join(map(str, row)) for row in rows.collect())


def deleted(spark: SparkSession, source: SourceOptions) -> int:
    """How many files have deletions."""
    return sum(file.deletions is not None for file in open_source(spark, source).snapshot.inputs)


def test_a_clone(spark: SparkSession, spark_sql: SparkSql, tmp_path: Path) -> None:
    """A clone's log names files of another table, and some of its own."""
    names = ("a table", "clone", "parted", "of parted")
    table, clone, parted, of_parted = (f"delta.`{tmp_path}/{name}`" for name in names)
    how = f"CREATE TABLE {{}} ({COLUMNS}) USING delta"
    spark_sql.delta(
        *filled(how.format(table), table),
        f"CREATE TABLE {clone} SHALLOW CLONE {table}",
        *filled(f"{how.format(parted)} PARTITIONED BY (user)", parted),
        f"CREATE TABLE {of_parted} SHALLOW CLONE {parted}",
    )
    with pytest.raises(SourceError, match="is a shallow clone of a partitioned table"):
        open_source(spark, SourceOptions(format="delta", path=str(tmp_path / "of parted")))
    source = "path: clone, format: delta"
    job = job_of(tmp_path, source)
    job.run(spark)
    *_, rows = spark_sql.delta(LATER.format(clone), READ.format(clone))
    of_clone = SourceOptions(format="delta", path=str(tmp_path / "clone"))
    assert read(spark, of_clone) == sorted(rows)
    caught_up(job, spark)
    same_as_rebuilt(job, spark, source)


def test_delta(spark: SparkSession, spark_sql: SparkSql, tmp_path: Path) -> None:
    whole, parted = (f"delta.`{tmp_path}/{name}`" for name in ("whole", "parted"))
    how = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    spark_sql.delta(
        *filled(f"CREATE TABLE {whole} ({COLUMNS}) USING delta {how}", whole),
        *filled(
            f"CREATE TABLE {parted} ({COLUMNS}) USING delta PARTITIONED BY (user) {how}", parted
        ),
    )
    of_whole, of_parted = (
        SourceOptions(format="delta", path=str(tmp_path / name)) for name in ("whole", "parted")
    )
    source = "path: parted, format: delta"
    job = job_of(tmp_path, source)
    job.run(spark)
    changes = [statement.format(table) for statement in CHANGES for table in (whole, parted)]
    *_, first, second = spark_sql.delta(*changes, READ.format(whole), READ.format(parted))
    assert (deleted(spark, of_whole), deleted(spark, of_parted)) == (2, 6)
    assert read(spark, of_whole) == sorted(first)
    assert read(spark, of_parted) == sorted(second)
    caught_up(job, spark)
    same_as_rebuilt(job, spark, source)
    # Purged and compacted, and then rows are deleted: the files are known, and have changed.
    before = open_source(spark, of_parted).snapshot
    assert before.version is not None
    tended = [f"REORG TABLE {parted} APPLY (PURGE)", f"OPTIMIZE {parted}", LATER.format(parted)]
    *_, third = spark_sql.delta(*tended, READ.format(parted))
    after = open_source(spark, of_parted)
    assert after.rewrites(before.version)
    assert not {e.path for e in before.inputs} & {
        e.path for e in after.snapshot.inputs if e.deletions
    }
    assert read(spark, of_parted) == sorted(third)
    with pytest.raises(SourceError, match="has changed"):
        job.recompute(spark)
    caught_up(job, spark)
    same_as_rebuilt(job, spark, source)


def test_iceberg(spark: SparkSession, spark_sql: SparkSql, tmp_path: Path) -> None:
    lake(tmp_path / "lake").catalog.create_namespace("raw")
    folder = tmp_path / "lake"
    whole, parted = "lake.raw.whole", "lake.raw.parted"
    modes = ", ".join(
        f"'write.{operation}.mode' = 'merge-on-read'" for operation in ("delete", "update", "merge")
    )
    # One file of deletions for each partition of `whole`, and for each file of `parted`.
    how = "TBLPROPERTIES ('format-version' = '2', 'write.delete.granularity' = '{}', " + modes + ")"
    spark_sql.iceberg(
        folder,
        *filled(f"CREATE TABLE {whole} ({COLUMNS}) {how.format('partition')}", whole),
        *filled(
            f"CREATE TABLE {parted} ({COLUMNS}) PARTITIONED BY (user) {how.format('file')}", parted
        ),
    )
    given = options(tmp_path / "lake")
    of_whole, of_parted = (
        SourceOptions(format="iceberg", path=f"raw.{name}", catalog="lake", options=given)
        for name in ("whole", "parted")
    )
    settings = ", ".join(f'{k}: "{v}"' for k, v in given.items())
    source = f"catalog: lake, format: iceberg, path: raw.parted, options: {{{settings}}}"
    job = job_of(tmp_path, source)
    job.run(spark)
    changes = [statement.format(table) for statement in CHANGES for table in (whole, parted)]
    *_, first, second = spark_sql.iceberg(folder, *changes, READ.format(whole), READ.format(parted))
    assert (deleted(spark, of_whole), deleted(spark, of_parted)) == (2, 6)
    assert read(spark, of_whole) == sorted(first)
    assert read(spark, of_parted) == sorted(second)
    caught_up(job, spark)
    same_as_rebuilt(job, spark, source)
    # The same deletions in other files are no change.
    before = open_source(spark, of_parted).snapshot
    call = "CALL lake.system.rewrite_{} options => map('rewrite-all', 'true'))"
    spark_sql.iceberg(folder, call.format("position_delete_files(table => 'raw.parted',"))
    assert open_source(spark, of_parted).snapshot.inputs == before.inputs
    assert job.recompute(spark) is None
    # Applied, they are in files that replace the old ones: which rows are counted is unknown.
    applied = call.format("data_files(table => 'raw.parted',")
    *_, third = spark_sql.iceberg(folder, applied, LATER.format(parted), READ.format(parted))
    assert read(spark, of_parted) == sorted(third)
    with pytest.raises(SourceError, match="is missing"):
        job.recompute(spark)
    caught_up(job, spark)
    same_as_rebuilt(job, spark, source)
