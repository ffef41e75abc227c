"""Reading an Iceberg table: its snapshots as versions, and the files of each."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from functools import cached_property, reduce
from operator import and_
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import Schema as DeltaSchema
from pyarrow.fs import LocalFileSystem
from pyiceberg import types as I
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import ManifestContent, ManifestEntry, ManifestEntryStatus
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.transforms import IdentityTransform

from backfill.errors import TableError
from backfill.store.files.log import RECORD, FileChanges
from backfill.store.iceberg.schema import store_schema
from backfill.store.protocol import Commit, DataFile

#: What the names of our properties of snapshots begin with.
PREFIX = "backfill."
#: Of a commit of ours: "false" where it only moves rows.
DATA_CHANGE = f"{PREFIX}data-change"
#: The table's property that names the newest record, which stays when snapshots expire.
RECORD_PROPERTY = f"{PREFIX}{RECORD}"

_EPOCH = dt.date(1970, 1, 1)


def snapshots(table: Table) -> list[Snapshot]:
    """Those that the current one stands on, as far as they are kept, newest first."""
    known = {each.snapshot_id: each for each in table.snapshots()}
    found, current = [], table.current_snapshot()
    while current is not None:
        found.append(current)
        parent = current.parent_snapshot_id
        current = None if parent is None else known.get(parent)
    return found


def number(snapshot: Snapshot) -> int:
    """The version that a snapshot is; the first one is 0."""
    assert snapshot.sequence_number is not None
    return snapshot.sequence_number - 1


def as_commit(snapshot: Snapshot) -> Commit:
    """Who made it."""
    found = {} if snapshot.summary is None else snapshot.summary.additional_properties
    return Commit(
        version=number(snapshot),
        timestamp=dt.datetime.fromtimestamp(snapshot.timestamp_ms / 1000, dt.timezone.utc),
        metadata={
            name.removeprefix(PREFIX): value
            for name, value in found.items()
            if name.startswith(PREFIX) and name != DATA_CHANGE
        },
    )


def changes_of(table: Table, snapshot: Snapshot) -> FileChanges:
    """What it did to the table's files."""
    paths: dict[ManifestEntryStatus, set[str]] = {each: set() for each in ManifestEntryStatus}
    for manifest in snapshot.manifests(table.io):
        if manifest.added_snapshot_id == snapshot.snapshot_id:
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
                if entry.snapshot_id == snapshot.snapshot_id:
                    paths[entry.status].add(relative(table, entry.data_file.file_path))
    summary = snapshot.summary
    moved = summary is not None and (
        summary.operation == Operation.REPLACE
        or summary.additional_properties.get(DATA_CHANGE) == "false"
    )
    return FileChanges(
        frozenset(paths[ManifestEntryStatus.ADDED]),
        frozenset(paths[ManifestEntryStatus.DELETED]),
        data=not moved,
    )


def mentioned(table: Table) -> tuple[set[str], set[str]]:
    """The files, and the runs whose records, that any snapshot has, also of other branches."""
    files: set[str] = set()
    seen: set[str] = set()
    for snapshot in table.snapshots():
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path not in seen:
                seen.add(manifest.manifest_path)
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
                files |= {relative(table, entry.data_file.file_path) for entry in entries}
    named = [as_commit(each).metadata.get(RECORD) for each in table.snapshots()]
    named.append(table.properties.get(RECORD_PROPERTY))
    return files, {each for each in named if each}


def relative(table: Table, path: str) -> str:
    """A file as it is named within the table; another writer may have put it elsewhere.

    Writers also write one place in several ways, such as file:/data and file:///data.
    """
    folder = local_path(table.location()) or table.location()
    return (local_path(path) or path).removeprefix(f"{folder.rstrip('/')}/")


def partitioned_by(table: Table) -> tuple[str, ...]:
    """The columns whose values have a partition each.

    Raises:
        TableError: partitions are made otherwise.
    """
    fields = table.spec().fields
    other = [each for each in fields if not isinstance(each.transform, IdentityTransform)]
    if other:
        raise TableError(
            f"the table is partitioned by {other[0].transform} of a column",
            field=".".join(table.name()),
            value=other[0].name,
            way_out="Publish into another table, which is then partitioned by date",
        )
    return tuple(table.schema().find_column_name(each.source_id) or "" for each in fields)


class IcebergVersion:
    """One version: `backfill.store.files.log.Version`."""

    def __init__(self, table: Table, snapshot: Snapshot) -> None:
        self.table = table
        self.snapshot = snapshot
        self.number = number(snapshot)

    @cached_property
    def schema(self) -> str:
        """As `Version` has it."""
        return store_schema(self._schema)

    @cached_property
    def partition_by(self) -> tuple[str, ...]:
        """As `Version` has it."""
        return partitioned_by(self.table)

    @cached_property
    def entries(self) -> Mapping[str, IcebergFile]:
        """The files by path, in order."""
        found = {relative(self.table, each.file_path): each for each in self._files()}
        return dict(sorted(found.items()))

    @cached_property
    def live(self) -> Mapping[str, int]:
        """As `Version` has it."""
        return {path: each.file_size_in_bytes for path, each in self.entries.items()}

    @cached_property
    def whole(self) -> frozenset[str]:
        """As `Version` has it: those of other writers, which put the partitions in folders of data.

        A file of ours is in the folder of its partition, and leaves its columns to that.
        """
        own = [f"{each}=" for each in self.partition_by]
        folders = {path: path.split("/")[:-1] for path in self.entries}
        return frozenset(
            path
            for path, parts in folders.items()
            if len(parts) != len(own) or not all(map(str.startswith, parts, own))
        )

    def statistics(self) -> tuple[DataFile, ...]:
        """As `Version` has it."""
        return tuple(
            DataFile(
                path=path,
                size=each.file_size_in_bytes,
                rows=each.record_count,
                minimum=self._bounds(each, each.lower_bounds),
                maximum=self._bounds(each, each.upper_bounds),
            )
            for path, each in self.entries.items()
        )

    def dataset(self) -> ds.Dataset:
        """As `Version` has it."""
        format, local = ds.ParquetFileFormat(), LocalFileSystem()
        schema = pa.schema(DeltaSchema.from_json(self.schema).to_arrow())
        fragments = [
            format.make_fragment(
                str(local_path(each.file_path)),
                local,
                partition_expression=self._known(each, schema),
            )
            for each in self.entries.values()
        ]
        return ds.FileSystemDataset(fragments, schema, format, local)

    def _files(self) -> Iterator[IcebergFile]:
        for manifest in self.snapshot.manifests(self.table.io):
            if manifest.content == ManifestContent.DELETES and (
                manifest.existing_files_count or manifest.added_files_count
            ):
                raise TableError(
                    "another writer has deleted rows without writing their files again, and such "
                    "deletions are not read",
                    field=".".join(self.table.name()),
                    way_out="Compact the table (Spark: CALL system.rewrite_data_files), and let "
                    "writers copy on write (write.delete.mode and write.update.mode)",
                )
            entries: list[ManifestEntry] = manifest.fetch_manifest_entry(self.table.io)
            yield from (entry.data_file for entry in entries)

    def _bounds(self, file: IcebergFile, bounds: Mapping[int, bytes] | None) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for column in self._columns:
            kind, value = column.field_type, (bounds or {}).get(column.field_id)
            # NaN is outside the bounds of numbers, and larger than any for Spark.
            if value is None or isinstance(kind, I.FloatType | I.DoubleType):
                continue
            assert isinstance(kind, I.PrimitiveType)
            found[column.name] = _plain(kind, from_bytes(kind, value))
        own = self._partition(file).items()
        return {**found, **{name: value for name, value in own if value is not None}}

    def _partition(self, file: IcebergFile) -> dict[str, Any]:
        """The values that a file has in the columns that it was partitioned by."""
        schema = self.table.schema()
        found = {}
        for place, each in enumerate(self.table.specs()[file.spec_id].fields):
            column = schema.find_field(each.source_id)
            if isinstance(each.transform, IdentityTransform):
                value = file.partition[place]
                found[column.name] = None if value is None else _plain(column.field_type, value)
        return found

    @cached_property
    def _schema(self) -> Schema:
        number = self.snapshot.schema_id
        return self.table.schema() if number is None else self.table.schemas()[number]

    @cached_property
    def _columns(self) -> list[I.NestedField]:
        return [
            each for each in self._schema.fields if isinstance(each.field_type, I.PrimitiveType)
        ]

    def _known(self, file: IcebergFile, schema: pa.Schema) -> ds.Expression:
        """What holds for all rows of a file."""
        least, most = (self._bounds(file, each) for each in (file.lower_bounds, file.upper_bounds))
        own, nulls = self._partition(file), file.null_value_counts or {}
        found = []
        for column in self._columns:
            name, kind = column.name, schema.field(column.name).type
            field = ds.field(name)
            if name in own:
                value = own[name]
                found.append(field.is_null() if value is None else field == _scalar(value, kind))
            elif name in least and name in most and nulls.get(column.field_id) == 0:
                found += [field >= _scalar(least[name], kind), field <= _scalar(most[name], kind)]
        return reduce(and_, found, ds.scalar(True))


def local_path(location: str) -> str | None:
    """The path on the local disk; None for locations elsewhere."""
    for scheme in ("file://", "file:"):
        if location.startswith(scheme):
            return location.removeprefix(scheme)
    return None if "://" in location else location


def _plain(kind: I.IcebergType, value: Any) -> Any:
    """Times as µs, dates as such."""
    if isinstance(kind, I.DateType) and isinstance(value, int):
        return _EPOCH + dt.timedelta(days=value)
    return value


def _scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    return (
        pa.scalar(value, pa.int64()).cast(kind)
        if pa.types.is_timestamp(kind)
        else pa.scalar(value, kind)
    )
