"""Delta tables: the log says which files are live, Spark reads exactly these."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType, TimestampNTZType, TimestampType

from backfill.columns import column
from backfill.delta_log import DELETIONS, reader_features
from backfill.errors import SourceError
from backfill.events.deletions import Deletions, Places, table_rows
from backfill.events.files import for_spark, local_path
from backfill.events.model import InputFile, Statistics
from backfill.folders import delta_options
from backfill.printable import first_line, shown


@dataclass(frozen=True)
class DeltaFiles:
    """What one version of a Delta table consists of.

    Attributes:
        version: the table's version.
        files: the live files, in order of path.
        schema: the table's schema.
        folders: as in Source, from the log.
        statistics: as in Source.
        repairs: per partition column, the values that Spark reads from the names of folders, and
            the values that they should be according to the log.
        deletions: the deletions of rows of the files.
    """

    version: int
    files: tuple[InputFile, ...]
    schema: StructType
    folders: Mapping[str, Mapping[str, str | None]]
    statistics: Mapping[str, Statistics]
    repairs: Mapping[str, Mapping[str, str]]
    deletions: Deletions


def open_delta(path: str) -> DeltaFiles:
    """The newest version of a Delta table.

    Args:
        path: the table's folder.

    Raises:
        SourceError: there is no table, or it has features that are not applied, which are named:
            column mapping, type widening and anything else that a reader must support.
    """
    root = table_root(path)
    try:
        table = DeltaTable(root, storage_options=delta_options())
        metadata, features = table.metadata(), reader_features(table)
        unknown = features - {DELETIONS}
        if not unknown:
            actions = _listed(pa.table(table.get_add_actions(flatten=False)))
            schema = StructType.fromJson(json.loads(table.schema().to_json()))
            deleted = _deleted(table, root) if DELETIONS in features else {}
    except (DeltaError, OSError) as error:
        raise SourceError(
            f"there is no readable Delta table: {reason(error)}",
            field="source.path",
            value=shown(path),
        ) from error
    if unknown:
        raise SourceError(
            f"the Delta table has features that are not supported: {', '.join(sorted(unknown))}",
            field="source.path",
            value=shown(path),
            way_out="Rewrite it without them, then drop the features",
        )
    if not actions:
        raise SourceError("the Delta table is empty", field="source.path", value=shown(path))
    repairs: dict[str, dict[str, str]] = {name: {} for name in metadata.partition_columns}
    deletions = Deletions(deleted)
    digests = deletions.digests(deleted)
    files, folders, statistics = [], {}, {}
    for action in actions:
        full = file_path(root, action["path"])
        size, modified = action["size_bytes"], action["modification_time"]
        files.append(InputFile(full, size, modified, digests.pop(full, None)))
        partition = {name: action["partition"][name] for name in repairs}
        for name, value in partition.items():
            type_ = schema[name].dataType
            repairs[name].update(_repair(unquote(action["path"]), name, type_, value))
        folders[full] = {n: None if v is None else str(v) for n, v in partition.items()}
        statistics[full] = _statistics(action)
    if digests:
        raise SourceError(
            "the Delta table deletes rows of a file that is not one of its files: "
            + shown(next(iter(digests))),
            field="source.path",
            value=shown(path),
            way_out="In Spark, REORG TABLE ... APPLY (PURGE) writes the files again",
        )
    if repairs and not all(file.path.startswith(f"{root}/") for file in files):
        raise SourceError(
            "the Delta table is a shallow clone of a partitioned table, which is not supported",
            field="source.path",
            value=shown(path),
            way_out="Read the table that it was cloned from, or rewrite it in Spark with "
            "INSERT OVERWRITE",
        )
    ordered = tuple(sorted(files, key=lambda file: file.path))
    return DeltaFiles(table.version(), ordered, schema, folders, statistics, repairs, deletions)


def _listed(actions: pa.Table) -> list[dict[str, Any]]:
    """The files; without any column's bounds if one of these is a date that Python can't hold."""
    rows: list[dict[str, Any]]
    try:
        rows = actions.to_pylist()
    except OverflowError:
        rows = actions.drop_columns(["min", "max"]).to_pylist()
    return rows


def _deleted(table: DeltaTable, root: str) -> dict[str, Places]:
    """The places of rows that deletion vectors delete, by the path of the file."""
    deleted = {}
    for batch in pa.RecordBatchReader.from_stream(table.deletion_vectors()):
        for location, kept in zip(*batch.columns, strict=True):
            # Masks of a file's rows, which can end before the file does.
            mask = kept.values.to_numpy(zero_copy_only=False)
            path = file_path(root, location.as_py().removeprefix(table.table_uri))
            places = np.flatnonzero(~mask.astype(bool))
            if len(places):
                deleted[path] = places.astype(np.int64)
    return deleted


def table_root(path: str) -> str:
    """The table's folder, as the Delta library and the paths of inputs write it."""
    return (local_path(path) or path).rstrip("/")


def file_path(root: str, logged: str) -> str:
    """The path of an input from the one in the log, which may be absolute."""
    # The log of a shallow clone has the other table's files, as file:/path.
    inside = re.sub("^file:/+", "/", unquote(logged))
    return inside if os.path.isabs(inside) or "://" in inside else f"{root}/{inside}"


def reason(error: Exception) -> str:
    """The first line of what a library says."""
    return shown(first_line(error))


def _statistics(action: Mapping[str, Any]) -> Statistics:
    least, largest = action.get("min") or {}, action.get("max") or {}
    return {
        name: (value, largest[name])
        for name, value in least.items()
        if value is not None and largest.get(name) is not None
    }


def read_delta(
    spark: SparkSession,
    table: DeltaFiles,
    settings: Mapping[str, str],
    files: tuple[InputFile, ...],
    where: Column | None,
) -> DataFrame:
    """Rows of some live files: the table's columns in its order, `_corrupt` and `_source`."""
    # Files of a clone are elsewhere.
    own = {name: value for name, value in settings.items() if table.repairs or name != "basePath"}

    def scan(files: tuple[InputFile, ...], schema: StructType) -> DataFrame:
        rows = spark.read.schema(schema).options(**own).parquet(*for_spark(files))
        columns = []
        for name in schema.names:
            value = column(name)
            for wrong, right in table.repairs.get(name, {}).items():
                value = F.when(column(name) == wrong, right).otherwise(value)
            columns.append(value.alias(name))
        return rows.select(*columns)

    schema = StructType([StructField(f.name, f.dataType) for f in table.schema.fields])
    return table_rows(spark, scan, schema, table.deletions, files, where, table.folders)


def _repair(path: str, name: str, type_: DataType, value: object) -> dict[str, str]:
    """Compares what the log says about a file's partition with what Spark will read in its folder.

    Spark takes each escape in a folder's name for one character, so names that were escaped as
    UTF-8 (as deltalake does) come out wrong: those are returned, to be put right.
    """
    if isinstance(type_, TimestampType | TimestampNTZType):
        raise SourceError(
            "Delta tables partitioned by a timestamp are not supported",
            field=name,
            value=shown(path),
            way_out="Partition it by a date, or read it through Spark's catalog (format: table)",
        )
    folders = dict(part.split("=", 1) for part in path.split("/")[:-1] if "=" in part)
    if name in folders:
        read = unquote(folders[name], encoding="latin-1")
        if value is None and read == "__HIVE_DEFAULT_PARTITION__":
            return {}
        if isinstance(value, str):
            return {} if read == value else {read: value}
        if isinstance(value, bool) and read == str(value).lower():
            return {}
        if isinstance(value, int | float | Decimal) and Decimal(read) == Decimal(str(value)):
            return {}
        if isinstance(value, date) and read == str(value):
            return {}
    raise SourceError(
        f"the Delta log says that {name} is {value!r} in this file, but its folder does not",
        field=path,
        way_out="Rewrite the table: partitions are read from the names of folders",
    )
