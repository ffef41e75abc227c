"""Iceberg tables: the catalog says which files are live, Spark reads exactly these."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.transforms import IdentityTransform
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from backfill.errors import SourceError, TableError
from backfill.events.files import for_spark, place
from backfill.events.model import InputFile, Rewrite, SourceOptions, whole_rows
from backfill.iceberg.catalog import open_catalog
from backfill.iceberg.failures import answering
from backfill.iceberg.schema import store_schema
from backfill.iceberg.snapshots import (
    data_files,
    local_path,
    moved_files,
    number,
    renamed_column,
    reused_name,
    snapshots,
)


@dataclass(frozen=True)
class IcebergFiles:
    """What one version of an Iceberg table consists of.

    Attributes:
        table: as the catalog has it now.
        version: the sequence number of its snapshot, less one.
        files: in order of path.
        schema: the table's, all of whose columns can be NULL.
    """

    table: Table
    version: int
    files: tuple[InputFile, ...]
    schema: StructType

    def rewrites(self, since: int) -> tuple[Rewrite, ...]:
        """As `Source.rewrites`: the snapshots by which a compaction replaced files."""
        found: list[Rewrite] = []
        for each in snapshots(self.table):
            if number(each) <= since:
                break
            if each.summary is not None and each.summary.operation == Operation.REPLACE:
                added, removed = moved_files(self.table, each)
                found.append(Rewrite(number(each), _paths(added), _paths(removed)))
        else:
            raise SourceError(
                f"the snapshots of the Iceberg table after version {since}, which has been read, "
                "have expired, so new events cannot be distinguished from old ones in rewritten "
                "files",
                field="source.path",
                value=".".join(self.table.name()),
                way_out="Compute the dates again: backfill run --from DATE --to DATE",
            )
        return tuple(reversed(found))


def open_iceberg(source: SourceOptions) -> IcebergFiles:
    """The current snapshot of an Iceberg table.

    Args:
        source: `catalog`, `options` and `path`, the table with its namespace.

    Raises:
        SourceError: the catalog fails; there is no such table, or it is empty; files are not on a
            local disk, or not Parquet, or have rows that are deleted elsewhere; or their columns'
            names are not the table's.
    """
    assert source.catalog is not None
    try:
        catalog = open_catalog(source.catalog, source.options, field="source.catalog")
        with answering("source.catalog", catalog):
            try:
                table = catalog.load_table(source.path)
            except (NoSuchTableError, NoSuchNamespaceError):
                raise SourceError(
                    "the catalog has no such table", field="source.path", value=source.path
                ) from None
            snapshot = table.current_snapshot()
            if snapshot is None:
                raise _problem(source, "the Iceberg table is empty")
            return _opened(source, table, snapshot)
    except TableError as error:
        raise SourceError(
            error.problem, field=error.field, value=source.path, way_out=error.way_out
        ) from None


def _opened(source: SourceOptions, table: Table, snapshot: Snapshot) -> IcebergFiles:
    # The newest: of older files, columns that have been added since are NULL.
    schema = table.schema()
    renamed, reused = renamed_column(table, schema), reused_name(table, schema)
    if renamed is not None or reused is not None:
        problem = (
            f"its column {reused} has the name of one that was dropped"
            if renamed is None
            else "its column {} was {!r} before".format(*renamed)
        )
        raise _problem(
            source,
            f"{problem}, and files are read by their columns' names",
            way_out="Copy it into a new table: CREATE TABLE … AS SELECT",
        )
    # The files themselves have the columns that they are partitioned by, but not those of tables
    # that began as folders.
    partitions = {
        field.source_id: schema.find_column_name(field.source_id) or ""
        for spec in table.specs().values()
        for field in spec.fields
        if isinstance(field.transform, IdentityTransform)
    }
    files = [_file(source, each, partitions) for each in data_files(table, snapshot)]
    if not files:
        raise _problem(source, "the Iceberg table is empty")
    spark_schema = StructType.fromJson(json.loads(store_schema(schema)))
    ordered = tuple(sorted(files, key=lambda file: file.path))
    return IcebergFiles(table, number(snapshot), ordered, spark_schema)


def _file(source: SourceOptions, file: DataFile, partitions: Mapping[int, str]) -> InputFile:
    path = local_path(file.file_path)
    if path is None:
        raise _problem(
            source,
            "files of Iceberg tables have to be on a local or mounted disk so far",
            way_out="Read it through Spark's catalog, as a source of format table",
        )
    if file.file_format != FileFormat.PARQUET:
        raise _problem(source, f"its files have to be Parquet, and one is {file.file_format}")
    if file.record_count and file.value_counts is not None:
        for number, name in partitions.items():
            if number not in file.value_counts:
                raise _problem(
                    source,
                    f"a file does not have the column {name} itself, but only its folder does",
                    way_out="Rewrite the table's files, in Spark by CALL system.rewrite_data_files",
                )
    try:
        status = os.stat(path)
    except OSError as error:
        raise _problem(source, f"a file cannot be read: {error.strerror}: {path}") from error
    return InputFile(path, status.st_size, status.st_mtime_ns // 1_000_000)


def _paths(locations: frozenset[str]) -> frozenset[str]:
    return frozenset(local_path(each) or each for each in locations)


def _problem(source: SourceOptions, problem: str, way_out: str | None = None) -> SourceError:
    return SourceError(problem, field="source.path", value=source.path, way_out=way_out)


def read_iceberg(
    spark: SparkSession, table: IcebergFiles, files: tuple[InputFile, ...], where: Column | None
) -> DataFrame:
    """Some files, with the table's columns in the table's order, `_corrupt` and `_source`."""
    # No folder's name is a column.
    reader = spark.read.schema(table.schema).option("recursiveFileLookup", "true")
    return whole_rows(reader.parquet(*for_spark(files)), table.schema.names, place(), where)
