"""Tables with rows that are deleted beside the files: what is read of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, WriterProperties, write_deltalake
from pyiceberg.catalog import Catalog
from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from backfill.errors import SourceError
from backfill.events import Source, SourceOptions, open_source
from backfill.iceberg.snapshots import live_entries
from tests import deletion_vectors, iceberg_deletes
from tests.lake import lake_with_sources, options
from tests.on_sail import spark_only
from tests.plans import explained

pytestmark = pytest.mark.usefixtures("interpreted")


def of_delta(spark: SparkSession, path: Path) -> Source:
    return open_source(spark, SourceOptions(format="delta", path=str(path)))


def of_iceberg(spark: SparkSession, folder: Path) -> Source:
    return open_source(
        spark,
        SourceOptions(format="iceberg", path="raw.t", catalog="lake", options=options(folder)),
    )


def values(source: Source) -> list[int]:
    return sorted(row.n for row in source.frame.collect())


@spark_only
@pytest.mark.parametrize("storage", ["i", "u", "p"])
def test_deletion_vectors(spark: SparkSession, tmp_path: Path, storage: str) -> None:
    path = tmp_path / "ev ents+%é"
    rows = pa.table({"n": range(10), "place": ["a/b é"] * 5 + ["c"] * 5})
    write_deltalake(str(path), rows, partition_by=["place"])
    logged = deletion_vectors.live(path)
    at = {add["partitionValues"]["place"]: name for name, add in logged.items()}
    write_deltalake(str(path), pa.table({"n": [10], "place": ["c"]}), mode="append")
    whole = of_delta(spark, path)
    assert [file.deletions for file in whole.snapshot.inputs] == [None] * 3
    assert values(whole) == list(range(11))
    deletion_vectors.delete_places(path, storage, {at["a/b é"]: [0, 4]}, tmp_path)
    once = of_delta(spark, path)
    assert values(once) == [1, 2, 3, 5, 6, 7, 8, 9, 10]
    assert [row.place for row in once.frame.collect()].count("a/b é") == 3
    # More rows of the same file, and all rows of another.
    again = {at["a/b é"]: [0, 1, 4], at["c"]: range(5)}
    deletion_vectors.delete_places(path, storage, again, tmp_path)
    twice = of_delta(spark, path)
    assert values(twice) == [2, 3, 10]
    # The earlier frame still reads what there was.
    assert values(once) == [1, 2, 3, 5, 6, 7, 8, 9, 10]
    changed = set(twice.snapshot.inputs) - set(once.snapshot.inputs)
    assert {file.path.split("/")[-2] for file in changed} == {"place=a%2Fb%20%C3%A9", "place=c"}
    assert {(file.path, file.size, file.modified_ms) for file in twice.snapshot.inputs} == {
        (file.path, file.size, file.modified_ms) for file in whole.snapshot.inputs
    }


@spark_only
def test_places_in_files_that_are_read_in_parts(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "events"
    size = 200_000
    rows = pa.table({"n": range(size), "text": [str(number) * 3 for number in range(size)]})
    write_deltalake(str(path), rows, writer_properties=WriterProperties(max_row_group_size=20_000))
    [name] = deletion_vectors.live(path)
    gone = set(range(0, size, 7)) | set(range(100_000, 120_000))
    deletion_vectors.delete_places(path, "u", {name: gone})
    setting = "spark.sql.files.maxPartitionBytes"
    spark.conf.set(setting, "100000")
    try:
        source = of_delta(spark, path)
        parts = source.frame.select(F.spark_partition_id().alias("part")).distinct().count()
        # A condition that leaves out parts of the file.
        some = source.only([source.snapshot.inputs[0].path], F.col("n") >= 150_000)
        numbers = [row.n for row in source.frame.collect()]
        late = [row.n for row in some.collect()]
    finally:
        spark.conf.unset(setting)
    assert parts > 1
    assert sorted(numbers) == sorted(set(range(size)) - gone)
    assert sorted(late) == sorted(set(range(150_000, size)) - gone)


@spark_only
def test_only_files_with_deletions_pay(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "events"
    for n in range(2):
        write_deltalake(str(path), pa.table({"n": [n, n + 10]}), mode="append")
    plain = explained(of_delta(spark, path).frame)
    assert "Join" not in plain
    assert "row_index" not in plain
    name = min(deletion_vectors.live(path))
    deletion_vectors.delete_places(path, "i", {name: [0]})
    source = of_delta(spark, path)
    # One scan of each kind of file; where there are no deletions, rows are not numbered or joined.
    plan = explained(source.frame)
    assert plan.count("FileScan parquet") == 2
    assert plan.count("LeftAnti") == 1
    [other] = [file.path for file in source.snapshot.inputs if file.deletions is None]
    assert "Join" not in explained(source.only([other]))
    # If no column is asked for, none is read.
    counted = explained(source.frame.select(F.lit(1)))
    assert "n#" not in "".join(line for line in counted.splitlines() if "FileScan" in line)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return lake_with_sources(tmp_path)


EVENTS = pa.schema([("n", pa.int32()), ("user", pa.string())])


def given(*rows: tuple[int, str | None]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(EVENTS.names, row, strict=True)) for row in rows], EVENTS)


def files_of(table: Table) -> dict[tuple[Any, ...], DataFile]:
    """The files by the values of their first column."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    files = {}
    for entry in live_entries(table, snapshot):
        file = entry.data_file
        if file.content == DataFileContent.DATA:
            rows = pq.read_table(file.file_path.removeprefix("file://"), partitioning=None)
            files[tuple(rows["n"].to_pylist())] = file
    return files


@spark_only
def test_positions(spark: SparkSession, tmp_path: Path, catalog: Catalog) -> None:
    table = catalog.create_table("raw.t", EVENTS)
    table.append(given((0, "a"), (1, "b"), (2, "c")))
    table.append(given((3, "a"), (4, "b")))
    first, second = (files_of(table)[key] for key in [(0, 1, 2), (3, 4)])
    iceberg_deletes.delete_places(table, {first: [2]})
    once = of_iceberg(spark, tmp_path)
    assert values(once) == [0, 1, 3, 4]
    iceberg_deletes.delete_places(table, {first: [0, 2], second: [0]})
    twice = of_iceberg(spark, tmp_path)
    assert values(twice) == [1, 4]
    assert all(file.deletions for file in twice.snapshot.inputs)
    # The same again, and deletions in a file that is gone: nothing has changed.
    iceberg_deletes.delete_places(table, {first: [0]})
    table.append(given((5, "e")))
    gone = files_of(table)[(5,)]
    table.delete("n = 5")
    iceberg_deletes.delete_places(table, {gone: [0]})
    assert of_iceberg(spark, tmp_path).snapshot.inputs == twice.snapshot.inputs


@spark_only
def test_values(spark: SparkSession, tmp_path: Path, catalog: Catalog) -> None:
    table = catalog.create_table("raw.t", EVENTS)
    table.append(given((0, "a"), (1, None), (2, "c"), (3, "a")))
    iceberg_deletes.delete_values(table, {"user": ["a", None]})
    table.append(given((4, "a"), (5, None), (6, "c"), (6, "d")))
    # Rows that were added later are not deleted, though they have the same values.
    once = of_iceberg(spark, tmp_path)
    assert values(once) == [2, 4, 5, 6, 6]
    assert sorted(file.deletions is None for file in once.snapshot.inputs) == [False, True]
    iceberg_deletes.delete_values(table, {"n": [6, 4], "user": ["c", None]})
    twice = of_iceberg(spark, tmp_path)
    assert values(twice) == [2, 4, 5, 6]
    assert [row.user for row in twice.frame.collect() if row.n == 6] == ["d"]
    # All files that the deletions reach count as changed.
    assert not set(once.snapshot.inputs) & set(twice.snapshot.inputs)
    # By places, too, and with a column that has been widened.
    with table.update_schema() as update:
        update.update_column("n", LongType())
    iceberg_deletes.delete_places(table, {files_of(table)[4, 5, 6, 6]: [1]})
    assert values(of_iceberg(spark, tmp_path)) == [2, 4, 6]


@spark_only
def test_values_in_partitions(spark: SparkSession, tmp_path: Path, catalog: Catalog) -> None:
    table = catalog.create_table("raw.t", EVENTS)
    table.append(given((0, "a"), (1, "b")))
    with table.update_spec() as update:
        update.add_field("user", IdentityTransform(), "user")
    table.append(given((0, "a"), (1, "a"), (0, "b"), (1, "b"), (0, None)))
    # Only rows of the partition, not of the files from before there were partitions.
    iceberg_deletes.delete_values(table, {"n": [0]}, Record("a"))
    rows = sorted(map(repr, of_iceberg(spark, tmp_path).frame.select("n", "user").collect()))
    assert len(rows) == 6
    assert rows.count("Row(n=0, user='a')") == 1
    changed = [file.path for file in of_iceberg(spark, tmp_path).snapshot.inputs if file.deletions]
    assert ["user=a" in path for path in changed] == [True]
    # Deletions without a partition apply to all partitions.
    iceberg_deletes.delete_values(table, {"n": [0]})
    source = of_iceberg(spark, tmp_path)
    assert sorted((row.n, row.user) for row in source.frame.collect()) == [
        (1, "a"),
        (1, "b"),
        (1, "b"),
    ]
    assert all(file.deletions for file in source.snapshot.inputs)


def test_deletions_that_cannot_be_read(
    spark: SparkSession, tmp_path: Path, catalog: Catalog
) -> None:
    table = catalog.create_table("raw.t", EVENTS)
    table.append(given((0, "a"), (1, "b")))
    iceberg_deletes.delete_values(table, {"user": ["a"]})
    with table.update_schema() as update:
        update.delete_column("user")
    with pytest.raises(SourceError, match="values of columns that the table no longer has") as one:
        of_iceberg(spark, tmp_path)
    assert "user" in str(one.value)
    assert "rewrite_data_files" in str(one.value)

    other = catalog.create_table("raw.u", EVENTS)
    other.append(given((0, "a"), (1, "b")))
    [file] = files_of(other).values()
    iceberg_deletes.delete_places(other, {file: [0]})
    [deletes] = (tmp_path / "warehouse" / "raw" / "u" / "data").glob("*-deletes.parquet")
    deletes.unlink()
    with pytest.raises(SourceError, match="deletions cannot be read") as two:
        open_source(
            spark,
            SourceOptions(
                format="iceberg", path="raw.u", catalog="lake", options=options(tmp_path)
            ),
        )
    assert deletes.name in str(two.value)


def test_a_vector_that_is_gone(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "events"
    write_deltalake(str(path), pa.table({"n": [1, 2]}))
    [name] = deletion_vectors.live(path)
    deletion_vectors.delete_places(path, "u", {name: [0]})
    assert DeltaTable(str(path)).version() == 1
    [vector] = path.glob("deletion_vector_*.bin")
    vector.unlink()
    with pytest.raises(SourceError, match="Delta table"):
        of_delta(spark, path)
