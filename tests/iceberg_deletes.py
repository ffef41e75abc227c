"""Delete files of Iceberg tables, which pyiceberg reads and does not write."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.typedef import Record

_PATH, _POS = 2147483546, 2147483545


def delete_places(table: Table, places: Mapping[DataFile, Sequence[int]]) -> None:
    """Deletes rows of files by their places, with one delete file for each partition."""
    parts: dict[tuple[int, Record], list[tuple[str, int]]] = {}
    for file, deleted in places.items():
        rows = [(file.file_path, place) for place in deleted]
        parts.setdefault((file.spec_id, file.partition), []).extend(rows)
    schema = pa.schema([_field("file_path", pa.string(), _PATH), _field("pos", pa.int64(), _POS)])
    files = []
    for (spec, partition), rows in parts.items():
        ordered = sorted(rows)
        columns = [pa.array([row[i] for row in ordered]) for i in range(2)]
        written = pa.table(columns, schema=schema)
        kind = DataFileContent.POSITION_DELETES
        files.append((table.specs()[spec], _write(table, written, kind, partition, None)))
    commit(table, files)


def delete_values(
    table: Table, rows: Mapping[str, Sequence[Any]], partition: Record | None = None
) -> None:
    """Deletes the rows with these values, in one partition or in the whole table."""
    fields = [table.schema().find_field(name) for name in rows]
    kinds = table.schema().as_arrow()
    schema = pa.schema([_field(e.name, kinds.field(e.name).type, e.field_id) for e in fields])
    written = pa.table({name: pa.array(values) for name, values in rows.items()}).cast(schema)
    spec = UNPARTITIONED_PARTITION_SPEC if partition is None else table.spec()
    if partition is None and spec.spec_id in table.specs():
        spec = table.specs()[spec.spec_id]
    ids = [field.field_id for field in fields]
    kind = DataFileContent.EQUALITY_DELETES
    commit(table, [(spec, _write(table, written, kind, partition or Record(), ids))])


def commit(table: Table, files: Sequence[tuple[PartitionSpec, DataFile]]) -> None:
    """Commits a snapshot that adds delete files."""
    with table.transaction() as made:
        added = _Deletes(Operation.OVERWRITE, made, table.io)
        added.files = files
        added.commit()


class _Deletes(_FastAppendFiles):
    files: Sequence[tuple[PartitionSpec, DataFile]] = ()

    def _existing_manifests(self) -> list[ManifestFile]:
        manifests = super()._existing_manifests()
        for spec, file in self.files:
            output = self.new_manifest_output()
            schema = self._transaction.table_metadata.schema()
            with _DeletesWriter(spec, schema, output, self._snapshot_id, "gzip") as writer:
                writer.add(
                    ManifestEntry.from_args(
                        status=ManifestEntryStatus.ADDED,
                        snapshot_id=self._snapshot_id,
                        sequence_number=None,
                        file_sequence_number=None,
                        data_file=file,
                    )
                )
            manifests.append(writer.to_manifest_file())
        return manifests


class _DeletesWriter(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def _field(name: str, kind: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})


def _write(
    table: Table,
    rows: pa.Table,
    content: DataFileContent,
    partition: Record,
    ids: Sequence[int] | None,
) -> DataFile:
    location = f"{table.location()}/data/{uuid.uuid4()}-deletes.parquet"
    with table.io.new_output(location).create() as stream:
        pq.write_table(rows, stream)
    return DataFile.from_args(
        content=content,
        file_path=location,
        file_format=FileFormat.PARQUET,
        partition=partition,
        record_count=len(rows),
        file_size_in_bytes=len(table.io.new_input(location)),
        equality_ids=ids,
    )
