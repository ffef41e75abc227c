"""What a commit adds to an Iceberg table: data files, and columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pyarrow.parquet as pq
from pyiceberg import types as I
from pyiceberg.io.pyarrow import (
    DataFileStatistics,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.utils.datetime import date_str_to_days

from backfill.errors import TableError
from backfill.folders import Folder, at_once
from backfill.iceberg.schema import iceberg_schema, store_schema
from backfill.store.files.names import partition_values
from backfill.store.files.staging import StagedFiles


def data_files(staged: StagedFiles, folder: Folder, metadata: TableMetadata) -> Iterator[DataFile]:
    """The staged files, now in the table's folder, in the form of its manifests."""
    schema = metadata.schema()
    plan = compute_statistics_plan(schema, metadata.properties)
    leaves = {
        field.name: tuple(parquet_path_to_id_mapping(Schema(field)).values())
        for field in schema.fields
    }
    location = metadata.location.rstrip("/")
    footers = at_once(
        lambda staged_file: pq.read_metadata(
            folder.path(staged_file.path), filesystem=folder.filesystem
        ),
        staged.files,
    )
    for file, footer in zip(staged.files, footers, strict=True):
        columns = _field_ids(footer, leaves)
        statistics = data_file_statistics_from_parquet_metadata(footer, plan, columns)
        _leave_out(statistics, footer, columns)
        yield DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=f"{location}/{file.path}",
            file_format=FileFormat.PARQUET,
            partition=_partition(file.path, staged.partition_by, schema),
            file_size_in_bytes=file.size,
            sort_order_id=None,
            spec_id=metadata.default_spec_id,
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )


def _field_ids(footer: pq.FileMetaData, leaves: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """The ids of a file's columns, by their paths.

    Columns are matched by position: in files not written by Spark, the elements of lists and maps
    have other names.
    """
    ids = [field_id for name in footer.schema.to_arrow_schema().names for field_id in leaves[name]]
    return {footer.schema.column(place).path: field_id for place, field_id in enumerate(ids)}


def _leave_out(
    statistics: DataFileStatistics, footer: pq.FileMetaData, columns: Mapping[str, int]
) -> None:
    """Removes statistics that a row group lacks: the library adds up the others all the same."""
    for position in range(footer.num_columns):
        field = columns.get(footer.schema.column(position).path)
        if field is None:
            continue
        for group in range(footer.num_row_groups):
            chunk = footer.row_group(group).column(position)
            stats = chunk.statistics
            nulls = None if stats is None or not stats.has_null_count else stats.null_count
            if nulls is None:
                statistics.null_value_counts.pop(field, None)
            if nulls != chunk.num_values and (stats is None or not stats.has_min_max):
                statistics.column_aggregates.pop(field, None)


def partitioning(schema: Schema, names: Iterable[str]) -> PartitionSpec:
    """A partition for each value of these columns."""
    fields = [
        PartitionField(
            source_id=schema.find_field(name).field_id,
            field_id=1000 + place,
            transform=IdentityTransform(),
            name=name,
        )
        for place, name in enumerate(names)
    ]
    return PartitionSpec(*fields)


def fit_schema(update: UpdateSchema, now: Schema, wanted: str, name: str) -> None:
    """Gives the table the columns of its new rows, and no others, in their order.

    Args:
        update: the update of the table's schema.
        now: the table's schema.
        wanted: the rows' schema, in the form of `StagedFiles.schema`.
        name: the table's name, for the message.

    Raises:
        TableError: a column has another type.
    """
    types = {
        spark_field["name"]: spark_field["type"] for spark_field in json.loads(wanted)["fields"]
    }
    own = {
        spark_field["name"]: spark_field["type"]
        for spark_field in json.loads(store_schema(now))["fields"]
    }
    new = {
        iceberg_field.name: iceberg_field.field_type
        for iceberg_field in iceberg_schema(wanted).fields
    }
    for field in now.fields:
        if field.required and field.name in types:
            update.update_column((field.name,), required=False)
    for column, kind in own.items():
        if column not in types:
            update.delete_column((column,))
        elif kind != types[column]:
            raise TableError(
                f"is {_shown(types[column])} now, but was {_shown(kind)}, which an Iceberg table "
                "can't change",
                field=f"{name}.{column}",
                way_out="Give the column another name, or publish into another table",
            )
    for column, field_type in new.items():
        if column not in own:
            update.add_column((column,), field_type)
    order = [
        *(kept for kept in own if kept in types),
        *(added for added in types if added not in own),
    ]
    if order != list(types):
        update.move_first((next(iter(types)),))
        for before, column in pairwise(types):
            update.move_after((column,), (before,))


def _partition(path: str, partition_by: tuple[str, ...], schema: Schema) -> Record:
    texts = partition_values(path, partition_by)
    return Record(*(_value(texts[name], schema.find_field(name)) for name in partition_by))


def _value(text: str | None, field: I.NestedField) -> Any:
    if text is None or isinstance(field.field_type, I.StringType):
        return text
    if isinstance(field.field_type, I.DateType):
        return date_str_to_days(text)
    if isinstance(field.field_type, I.IntegerType | I.LongType):
        return int(text)
    raise TableError(
        f"a table can't be partitioned by a column of type {field.field_type}", field=field.name
    )


def _shown(kind: Any) -> str:
    return kind if isinstance(kind, str) else json.dumps(kind)
