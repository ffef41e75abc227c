"""Reading an Iceberg table: its snapshots as versions, and the files of each."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from pyiceberg import types as I
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.transforms import IdentityTransform
from pyiceberg.utils.datetime import days_to_date

from backfill.errors import TableError
from backfill.iceberg.schema import store_schema
from backfill.iceberg.snapshots import (
    data_files,
    moved_files,
    number,
    renamed_column,
    rewritten_name,
    same_place,
    schema_of,
)
from backfill.store.files.log import RECORD, FileChanges
from backfill.store.protocol import Commit, DataFile

#: The prefix of our properties of snapshots.
PREFIX = "backfill."
#: A property of our commits: "false" if the commit only moves rows.
DATA_CHANGE = f"{PREFIX}data-change"
#: The table's property that names the newest record; it stays when snapshots expire.
RECORD_PROPERTY = f"{PREFIX}{RECORD}"


def as_commit(snapshot: Snapshot) -> Commit:
    """The commit that made a snapshot."""
    properties = {} if snapshot.summary is None else snapshot.summary.additional_properties
    return Commit(
        version=number(snapshot),
        timestamp=dt.datetime.fromtimestamp(snapshot.timestamp_ms / 1000, dt.timezone.utc),
        metadata={
            name.removeprefix(PREFIX): value
            for name, value in properties.items()
            if name.startswith(PREFIX) and name != DATA_CHANGE
        },
    )


def changes_of(table: Table, snapshot: Snapshot) -> FileChanges:
    """What a snapshot did to the table's files."""
    files = moved_files(table, snapshot)
    summary = snapshot.summary
    moved = summary is not None and (
        summary.operation == Operation.REPLACE
        or summary.additional_properties.get(DATA_CHANGE) == "false"
    )
    return FileChanges(
        frozenset(relative(table, location) for location in files.added),
        frozenset(relative(table, location) for location in files.removed),
        # A compaction can also apply deletions that were beside the files.
        data=not moved or files.rows != 0,
    )


def mentioned(table: Table) -> tuple[set[str], set[str]]:
    """The files of all snapshots, also on other branches, and the runs whose records they name."""
    files: set[str] = set()
    seen: set[str] = set()
    for snapshot in table.snapshots():
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path not in seen:
                seen.add(manifest.manifest_path)
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
                files |= {relative(table, entry.data_file.file_path) for entry in entries}
    named = [as_commit(each).metadata.get(RECORD) for each in table.snapshots()]
    named.append(newest_record(table)[0])
    return files, {run_id for run_id in named if run_id}


def newest_record(table: Table) -> tuple[str | None, int]:
    """The run whose record our newest commit names, and the version that this commit made."""
    text = table.properties.get(RECORD_PROPERTY)
    if text is None:
        return None, -1
    known = json.loads(text)
    return known["run"] or None, known["version"]


def relative(table: Table, path: str) -> str:
    """A file's path within the table's folder, unless another writer has put it elsewhere.

    Writers also spell the same place in several ways, such as file:/data and file:///data.
    """
    return same_place(path).removeprefix(f"{same_place(table.location()).rstrip('/')}/")


def partitioned_by(table: Table) -> tuple[str, ...]:
    """The columns that each have a partition per value.

    Raises:
        TableError: the table is partitioned in another way.
    """
    fields = table.spec().fields
    other = [field for field in fields if not isinstance(field.transform, IdentityTransform)]
    if other:
        raise TableError(
            f"the table is partitioned by {other[0].transform} of a column",
            field=".".join(table.name()),
            value=other[0].name,
            way_out="Publish into another table, which is then partitioned by date",
        )
    return tuple(table.schema().find_column_name(field.source_id) or "" for field in fields)


class IcebergVersion:
    """One version: `backfill.store.files.log.Version`."""

    def __init__(self, table: Table, snapshot: Snapshot) -> None:
        self.table = table
        self.snapshot = snapshot
        self.number = number(snapshot)

    @cached_property
    def schema(self) -> str:
        """As `Version` has it.

        Raises:
            TableError: a column has been renamed, but files are read by their columns' names.
        """
        renamed = renamed_column(self.table, self._schema)
        if renamed is not None:
            name, former = renamed
            raise TableError(
                f"another writer has renamed this column, which was {former!r}, but files are "
                "read by their columns' names",
                field=f"{'.'.join(self.table.name())}.{name}",
                way_out="Publish into another table, or drop this one and run the whole backfill",
            )
        rewritten = rewritten_name(self._schema)
        if rewritten is not None and self.whole:
            raise TableError(
                "another writer has written files of the table, in which this column has another "
                "name: Iceberg's writers escape all but letters, digits and _",
                field=f"{'.'.join(self.table.name())}.{rewritten}",
                way_out="Run the whole backfill, which writes all files again, or give the column "
                "another name",
            )
        return store_schema(self._schema)

    @cached_property
    def partition_by(self) -> tuple[str, ...]:
        """As `Version` has it."""
        return partitioned_by(self.table)

    @cached_property
    def entries(self) -> Mapping[str, IcebergFile]:
        """The files by path, in order."""
        files = {
            relative(self.table, file.file_path): file
            for file in data_files(self.table, self.snapshot)
        }
        return dict(sorted(files.items()))

    @cached_property
    def live(self) -> Mapping[str, int]:
        """As `Version` has it."""
        return {path: file.file_size_in_bytes for path, file in self.entries.items()}

    @cached_property
    def whole(self) -> frozenset[str]:
        """As `Version` has it: files of other writers, outside the folders of our partitions.

        A file of ours is in the folder of its partition and does not contain the columns.
        """
        own = [f"{name}=" for name in self.partition_by]
        folders = {path: path.split("/")[:-1] for path in self.entries}
        return frozenset(
            path
            for path, parts in folders.items()
            if len(parts) != len(own) or not all(map(str.startswith, parts, own))
        )

    def check_writable(self) -> None:
        """As `Table` has it: any version that can be opened can be committed to."""

    def statistics(self) -> tuple[DataFile, ...]:
        """As `Version` has it."""
        return tuple(
            DataFile(
                path=path,
                size=file.file_size_in_bytes,
                rows=file.record_count,
                minimum=self._bounds(file, file.lower_bounds),
                maximum=self._bounds(file, file.upper_bounds),
                complete=self._complete(file),
            )
            for path, file in self.entries.items()
        )

    def _bounds(self, file: IcebergFile, bounds: Mapping[int, bytes] | None) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for column in self._columns:
            kind, value = column.field_type, (bounds or {}).get(column.field_id)
            # Bounds do not include NaN, which is the largest number for Spark.
            if value is None or isinstance(kind, I.FloatType | I.DoubleType):
                continue
            assert isinstance(kind, I.PrimitiveType)
            values[column.name] = _plain(kind, from_bytes(kind, value))
        return {**values, **self._partition(file)}

    def _partition(self, file: IcebergFile) -> dict[str, Any]:
        """A file's values in the columns that it was partitioned by, except NULL."""
        schema = self.table.schema()
        values = {}
        for place, field in enumerate(self.table.specs()[file.spec_id].fields):
            value = file.partition[place]
            if isinstance(field.transform, IdentityTransform) and value is not None:
                column = schema.find_field(field.source_id)
                values[column.name] = _plain(column.field_type, value)
        return values

    def _complete(self, file: IcebergFile) -> frozenset[str]:
        nulls = file.null_value_counts or {}
        return frozenset(column.name for column in self._columns if nulls.get(column.field_id) == 0)

    @cached_property
    def _schema(self) -> Schema:
        return schema_of(self.table, self.snapshot)

    @cached_property
    def _columns(self) -> list[I.NestedField]:
        return [
            field for field in self._schema.fields if isinstance(field.field_type, I.PrimitiveType)
        ]


def _plain(kind: I.IcebergType, value: Any) -> Any:
    """A value with times as µs and dates as `date`."""
    return days_to_date(value) if isinstance(kind, I.DateType) else value
