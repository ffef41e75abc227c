"""Reading exactly the live files of a table with Spark."""

from __future__ import annotations

import re
from collections.abc import Collection
from contextlib import nullcontext
from functools import reduce

import pyarrow.dataset as ds
from deltalake import Schema
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from backfill.columns import column
from backfill.errors import TableError
from backfill.folders import Folder, LocalFolder
from backfill.runtimes.differences import nullable, runtime_of
from backfill.runtimes.folder_columns import folder_values, with_folder_values
from backfill.session_conf import local_listing
from backfill.store.files.log import Log, Version
from backfill.store.files.schema import spark_schema
from backfill.store.files.staging import STAGING, StagedFiles
from backfill.store.protocol import FILE


def read_files(
    spark: SparkSession,
    folder: Folder,
    table: Version,
    files: Collection[str] | None = None,
    *,
    with_file: bool = False,
) -> DataFrame:
    """The rows of the table's live files, with the columns in the table's order.

    Spark takes the partition columns from the folders' names, in the table's types, and so can skip
    files by them; except for files that contain these columns themselves.

    Args:
        spark: the session.
        folder: the table's folder.
        table: the table, at the version to read.
        files: the live files to read; all by default.
        with_file: whether to add the column FILE.

    Raises:
        TableError: files of this version are gone, or a file does not belong to it.
    """
    paths: Collection[str] = table.live
    if files is not None:
        foreign = [path for path in files if path not in paths]
        if foreign:
            raise TableError(
                f"the file is not part of version {table.number}",
                field=str(folder),
                value=foreign[0],
            )
        paths = dict.fromkeys(files)
    check_present(folder, table.number, paths)
    schema = Schema.from_json(table.schema)
    # Spark knows a file's path only directly above a scan, and only the whole path.
    kinds: dict[tuple[bool, int], list[str]] = {}
    for path in paths:
        kinds.setdefault((path in table.whole, 1 + path.count("/")), []).append(path)
    frames = []
    for (whole, parts), own in (kinds or {(False, 1): []}).items():
        if own and not runtime_of(spark).names_files:
            frames.append(_by_folder(spark, folder, schema, own, whole, with_file))
            continue
        rows = _rows(spark, folder, schema, own, whole=whole)
        if with_file:
            whole_path = F.input_file_name() if own else F.lit(None).cast("string")
            rows = rows.withColumn(FILE, F.substring_index(whole_path, "/", -parts))
        frames.append(rows)
    return reduce(DataFrame.unionByName, frames)


def read_staged(spark: SparkSession, staged: StagedFiles) -> DataFrame:
    """The rows of staged files, in the form that the table will have."""
    paths = [file.place for file in staged.files]
    schema = Schema.from_json(staged.schema)
    if paths and not runtime_of(spark).names_files:
        return _by_folder(spark, staged.folder, schema, paths, False, False)
    return _rows(spark, staged.folder, schema, paths)


def staged_dataset(log: Log, run: str) -> ds.Dataset:
    """The rows that a run wrote into a table's folder and did not publish, for pyarrow.

    Raises:
        TableError: there are none.
    """
    staged = log.folder / STAGING / run if log.may_have_files else None
    written = {} if staged is None else staged.files()
    if staged is None or not written:
        raise TableError(
            "there are no unpublished rows from this run",
            field=log.name,
            value=run,
            way_out="To see the published rows, leave out --run",
        )
    # The files are listed here: pyarrow would skip a folder that begins with an underscore.
    files = [staged.path(path) for path in written if path.endswith(".parquet")]
    return ds.dataset(files, filesystem=staged.filesystem, format="parquet")


def _rows(
    spark: SparkSession,
    folder: Folder,
    delta: Schema,
    paths: Collection[str],
    *,
    whole: bool = False,
) -> DataFrame:
    schema = spark_schema(delta)
    if not paths:
        nothing = (F.lit(None).cast(field.dataType).alias(field.name) for field in schema.fields)
        return spark.range(0).select(*nothing)
    local = isinstance(folder, LocalFolder)
    with local_listing(spark) if local else nullcontext():
        layout = {"recursiveFileLookup": "true"} if whole else {"basePath": folder.uri}
        rows = (
            spark.read.schema(schema)
            .options(**layout)
            .parquet(*(_literal(f"{folder.uri}/{path}") for path in paths))
        )
    # Spark puts the partition columns last, where runs also write them.
    return rows if rows.columns == schema.names else rows.select(*map(column, schema.names))


def _by_folder(
    spark: SparkSession,
    folder: Folder,
    delta: Schema,
    paths: Collection[str],
    whole: bool,
    with_file: bool,
) -> DataFrame:
    """The same, if the runtime does not give files the columns from their folders."""

    def scan(names: list[str], schema: StructType) -> DataFrame:
        return spark.read.schema(schema).parquet(*(f"{folder.uri}/{name}" for name in names))

    files = [(path, {} if whole else folder_values(f"/{path}", "")) for path in paths]
    return with_folder_values(
        files, nullable(spark_schema(delta)), scan, FILE if with_file else None
    )


def check_present(folder: Folder, version: int, paths: Collection[str]) -> None:
    """Refuses a version whose files have been deleted since."""
    gone = folder.missing(paths)
    if gone:
        raise TableError(
            f"{len(gone)} of the {len(paths)} files of version {version} are gone, "
            f"{gone[0]} among them",
            field=str(folder),
            way_out="Use another version, or run the backfill again.",
        )


def _literal(path: str) -> str:
    """The path with the characters escaped that Spark would take as part of a pattern."""
    return re.sub(r"([\[\]{}*?])", r"\\\1", path)
