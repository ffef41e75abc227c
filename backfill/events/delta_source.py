"""Delta tables: the log says which files are live, Spark reads exactly these."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType, TimestampNTZType, TimestampType

from backfill.columns import column
from backfill.errors import SourceError
from backfill.events.files import for_spark, local_path, place
from backfill.events.model import CORRUPT, SOURCE, InputFile, no_line, shown

# Reader features that change nothing about how a live file is read.
_HARMLESS = frozenset({"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})


@dataclass(frozen=True)
class DeltaFiles:
    """What one version of a Delta table consists of.

    Attributes:
        version: of the table.
        files: the live ones, in order of path.
        schema: the table's.
        repairs: per partition column, the values that Spark reads from the names of folders and
            that the log says should read otherwise.
    """

    version: int
    files: tuple[InputFile, ...]
    schema: StructType
    repairs: Mapping[str, Mapping[str, str]]


def open_delta(path: str) -> DeltaFiles:
    """The newest version of a Delta table.

    Args:
        path: the table's folder.

    Raises:
        SourceError: there is no table, or it has features that are not applied: deletion vectors,
            column mapping, type widening and whatever else a reader must know of, by name.
    """
    root = (local_path(path) or path).rstrip("/")
    try:
        table = DeltaTable(root)
        protocol, metadata = table.protocol(), table.metadata()
        features = set(protocol.reader_features or ()) - _HARMLESS - {"columnMapping"}
        if metadata.configuration.get("delta.columnMapping.mode", "none") != "none":
            features.add("columnMapping")
        if not features:
            actions = pa.table(table.get_add_actions(flatten=False)).to_pylist()
            schema = StructType.fromJson(json.loads(table.schema().to_json()))
    except (DeltaError, OSError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise SourceError(
            f"there is no Delta table that can be read: {shown(first)}",
            field="source.path",
            value=shown(path),
        ) from error
    if features:
        raise SourceError(
            f"the Delta table has features that are not applied: {', '.join(sorted(features))}",
            field="source.path",
            value=shown(path),
            way_out="Rewrite it without them (deletion vectors: REORG TABLE ... APPLY (PURGE), "
            "then drop the feature)",
        )
    if not actions:
        raise SourceError("the Delta table is empty", field="source.path", value=shown(path))
    repairs: dict[str, dict[str, str]] = {name: {} for name in metadata.partition_columns}
    files = []
    for action in actions:
        inside = unquote(action["path"])
        full = inside if os.path.isabs(inside) or "://" in inside else f"{root}/{inside}"
        files.append(InputFile(full, action["size_bytes"], action["modification_time"]))
        for name in repairs:
            type_ = schema[name].dataType
            repairs[name].update(_repair(inside, name, type_, action["partition"][name]))
    ordered = tuple(sorted(files, key=lambda file: file.path))
    return DeltaFiles(table.version(), ordered, schema, repairs)


def read_delta(spark: SparkSession, table: DeltaFiles, settings: Mapping[str, str]) -> DataFrame:
    """The live files, with the table's columns in the table's order, `_corrupt` and `_source`."""
    schema = StructType([StructField(f.name, f.dataType) for f in table.schema.fields])
    rows = spark.read.schema(schema).options(**settings).parquet(*for_spark(table.files))
    columns = []
    for name in schema.names:
        value = column(name)
        for wrong, right in table.repairs.get(name, {}).items():
            value = F.when(column(name) == wrong, right).otherwise(value)
        columns.append(value.alias(name))
    return rows.select(*columns, no_line().alias(CORRUPT), place().alias(SOURCE))


def _repair(path: str, name: str, type_: DataType, value: object) -> dict[str, str]:
    """Compare what the log says of a file's partition with what Spark will read of its folder.

    Spark takes each escape in a folder's name for one character, so names that were escaped as
    UTF-8 (as deltalake does) come out wrong: those are given back to be put right.
    """
    if isinstance(type_, TimestampType | TimestampNTZType):
        raise SourceError("a Delta table partitioned by a timestamp is not read", field=name)
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
        f"the Delta log says that {name} is {value!r} in this file, its folder does not",
        field=path,
        way_out="Rewrite the table: partitions are read from the names of folders",
    )
