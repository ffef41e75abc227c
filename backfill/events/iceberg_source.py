"""Iceberg tables: the catalog says which files are live, Spark reads exactly these."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow.parquet as pq
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.transforms import IdentityTransform
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from backfill.errors import SourceError, TableError
from backfill.events.deletions import Deletions, table_rows
from backfill.events.files import for_spark
from backfill.events.iceberg_deletions import deletions_of
from backfill.events.model import InputFile, Rewrite, SourceOptions
from backfill.folders import folder_at, in_s3
from backfill.iceberg.catalog import open_catalog
from backfill.iceberg.failures import answering
from backfill.iceberg.schema import store_schema
from backfill.iceberg.snapshots import (
    filled_column,
    live_entries,
    local_path,
    located,
    moved_files,
    number,
    renamed_column,
    reused_name,
    rewritten_name,
    snapshots,
)
from backfill.printable import first_line

_SPARK = "Read it through Spark's catalog, as a source of format table"


@dataclass(frozen=True)
class IcebergFiles:
    """What one version of an Iceberg table consists of.

    Attributes:
        table: the table as the catalog has it now.
        version: the sequence number of its snapshot, less one.
        files: the files, in order of path.
        schema: the table's schema, with all columns nullable.
        deletions: the deletions of rows of the files.
    """

    table: Table
    version: int
    files: tuple[InputFile, ...]
    schema: StructType
    deletions: Deletions

    def rewrites(self, since: int) -> tuple[Rewrite, ...]:
        """As `Source.rewrites`: the compactions; none if snapshots in between have expired."""
        compactions: list[Rewrite] = []
        with answering("source.path", self.table.catalog):
            for snapshot in snapshots(self.table):
                if number(snapshot) == since:
                    return tuple(reversed(compactions))
                if number(snapshot) < since:
                    # The table was rolled back, and what was deleted until then no longer is.
                    return ()
                if snapshot.summary is not None and snapshot.summary.operation == Operation.REPLACE:
                    moved = moved_files(self.table, snapshot)
                    # If there are fewer rows now, it applied deletions that lay beside the files.
                    # So if there are as many, there were none, neither then nor before.
                    if moved.removed and not moved.rows:
                        paths = _paths(moved.added), _paths(moved.removed)
                        compactions.append(Rewrite(number(snapshot), *paths))
        # Snapshots in between have expired. Then the files that are missing say which dates to run.
        return ()


def open_iceberg(source: SourceOptions) -> IcebergFiles:
    """The current snapshot of an Iceberg table.

    Args:
        source: `catalog`, `options` and `path`, the table with its namespace.

    Raises:
        SourceError: the catalog fails; there is no such table, or it is empty; files are neither
            on a local disk nor in S3, or not Parquet; deletions of their rows can't be read; or
            their columns' names are not the table's.
    """
    if source.catalog is None:
        raise SourceError("is missing", field="source.catalog")
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
    if table.format_version not in (2, 3):
        raise _problem(
            source,
            f"it has Iceberg's format version {table.format_version}, but only 2 and 3 are "
            "supported",
            _SPARK,
        )
    # The newest schema: in older files, columns that have been added since are NULL.
    schema = table.schema()
    renamed, reused = renamed_column(table, schema), reused_name(table, schema)
    rewritten, filled = rewritten_name(schema), filled_column(schema)
    if filled is not None:
        raise _problem(
            source,
            f"its column {filled} was added with a value for older rows, which would be read as "
            "NULL",
            _SPARK,
        )
    problem = None
    if renamed is not None:
        problem = "its column {} was named {!r} before".format(*renamed)
    elif reused is not None:
        problem = f"its column {reused} has the name of a dropped column"
    elif rewritten is not None:
        problem = f"its column {rewritten} has another name in the files, with escaped characters"
    if problem is not None:
        raise _problem(source, f"{problem}, but files are read by their columns' names", _SPARK)
    try:
        spark_schema = StructType.fromJson(json.loads(store_schema(schema)))
    except TableError as error:
        raise _problem(source, f"column {error.field}: {error.problem}", _SPARK) from None
    entries = live_entries(table, snapshot)
    files = [
        _file(source, table, entry.data_file)
        for entry in entries
        if entry.data_file.content == DataFileContent.DATA
    ]
    if not files:
        raise _problem(source, "the Iceberg table is empty")
    deletions = deletions_of(table, spark_schema, snapshot, entries)
    digests = deletions.digests(input_file.path for input_file in files)
    ordered = tuple(
        replace(input_file, deletions=digests.get(input_file.path))
        for input_file in sorted(files, key=lambda file: file.path)
    )
    return IcebergFiles(table, number(snapshot), ordered, spark_schema, deletions)


def _file(source: SourceOptions, table: Table, file: DataFile) -> InputFile:
    path = local_path(file.file_path)
    if path is None and not in_s3(file.file_path):
        problem = "files of Iceberg tables must be on a local or mounted disk, or in S3"
        raise _problem(source, problem, _SPARK)
    if file.file_format != FileFormat.PARQUET:
        raise _problem(source, f"its files must be Parquet, but one is {file.file_format}")
    try:
        # An object of an Iceberg table is never rewritten, so its time says nothing.
        status = None if path is None else os.stat(path)
        wanted = _partitions(table, file)
        known = _columns(file) if wanted else []
    except OSError as error:
        reason = error.strerror or first_line(error)
        raise _problem(source, f"a file cannot be read: {reason}: {file.file_path}") from error
    absent = [name for name in wanted if name not in known]
    if absent:
        raise _problem(
            source,
            f"the column {absent[0]} is only in the name of a file's folder, not in the file",
            "Rewrite the table's files, in Spark with CALL system.rewrite_data_files",
        )
    if path is None or status is None:
        return InputFile(file.file_path, file.file_size_in_bytes, 0)
    return InputFile(path, status.st_size, status.st_mtime_ns // 1_000_000)


def _columns(file: DataFile) -> list[str]:
    """The columns in a file, which is opened."""
    folder, _, name = (local_path(file.file_path) or file.file_path).rpartition("/")
    place = folder_at(folder)
    names: list[str] = pq.read_schema(place.path(name), filesystem=place.filesystem).names
    return names


def _partitions(table: Table, file: DataFile) -> list[str]:
    """The columns that a file is partitioned by, except those that it certainly has itself."""
    schema = table.schema()
    columns = [
        (field.source_id, schema.find_column_name(field.source_id))
        for field in table.specs()[file.spec_id].fields
        if isinstance(field.transform, IdentityTransform)
    ]
    counted = file.value_counts or {}
    return [name for number, name in columns if name is not None and number not in counted]


def _paths(locations: frozenset[str]) -> frozenset[str]:
    return frozenset(located(location) for location in locations)


def _problem(source: SourceOptions, problem: str, way_out: str | None = None) -> SourceError:
    return SourceError(problem, field="source.path", value=source.path, way_out=way_out)


def read_iceberg(
    spark: SparkSession,
    table: IcebergFiles,
    settings: Mapping[str, str],
    files: tuple[InputFile, ...],
    where: Column | None,
) -> DataFrame:
    """Rows of some files: the table's columns in its order, `_corrupt` and `_source`."""

    def scan(files: tuple[InputFile, ...], schema: StructType) -> DataFrame:
        # No folder name is a column.
        reader = spark.read.schema(schema).options(**settings, recursiveFileLookup="true")
        return reader.parquet(*for_spark(files))

    return table_rows(spark, scan, table.schema, table.deletions, files, where)
