"""The snapshots of an Iceberg table as versions, their columns and their files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.schema import Schema, index_name_by_id, make_compatible_name
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from backfill.errors import TableError
from backfill.folders import at_once, same_scheme


def snapshots(table: Table) -> list[Snapshot]:
    """The current snapshot and its ancestors, as far as they are kept, newest first."""
    known = {snapshot.snapshot_id: snapshot for snapshot in table.snapshots()}
    lineage, current = [], table.current_snapshot()
    while current is not None:
        lineage.append(current)
        parent = current.parent_snapshot_id
        current = None if parent is None else known.get(parent)
    return lineage


def number(snapshot: Snapshot) -> int:
    """A snapshot's version; the first one is 0."""
    assert snapshot.sequence_number is not None
    return snapshot.sequence_number - 1


def schema_of(table: Table, snapshot: Snapshot) -> Schema:
    """The columns of a snapshot."""
    schema_id = snapshot.schema_id
    return table.schema() if schema_id is None else table.schemas()[schema_id]


def data_files(table: Table, snapshot: Snapshot) -> Iterator[DataFile]:
    """The files of a snapshot.

    Raises:
        TableError: other files delete rows of these files.
    """
    for entry in live_entries(table, snapshot):
        if entry.data_file.content != DataFileContent.DATA:
            raise TableError(
                "another writer has deleted rows without rewriting their files, and such "
                "deletions are not supported",
                field=".".join(table.name()),
                way_out="In Spark, CALL system.rewrite_data_files(table => …, options => "
                "map('rewrite-all', 'true', 'remove-dangling-deletes', 'true')), and set "
                "write.delete.mode and write.update.mode to copy-on-write",
            )
        yield entry.data_file


def live_entries(table: Table, snapshot: Snapshot) -> list[ManifestEntry]:
    """The files of a snapshot, and the files that delete rows of them."""
    # Manifests with only removed files matter only for what has changed.
    live = [manifest for manifest in snapshot.manifests(table.io) if has_files(manifest)]
    read = at_once(lambda manifest: manifest.fetch_manifest_entry(table.io), live)
    return [entry for entries in read for entry in entries]


def has_files(manifest: ManifestFile) -> bool:
    """Whether a manifest has files that are part of the snapshot, and not only removed ones."""
    return bool(manifest.has_added_files() or manifest.has_existing_files())


def renamed_column(table: Table, schema: Schema) -> tuple[str, str] | None:
    """A column that older files have under another name: its name, and the other one."""
    names: dict[int, set[str]] = {}
    for table_schema in table.schemas().values():
        for number, name in index_name_by_id(table_schema).items():
            names.setdefault(number, set()).add(name)
    for number, name in index_name_by_id(schema).items():
        others = sorted(names[number] - {name})
        if others:
            return name, others[0]
    return None


def reused_name(table: Table, schema: Schema) -> str | None:
    """A column with the name of a dropped one, which older files can still have.

    Spark finds columns of files regardless of the case of their names.
    """
    ids: dict[str, set[int]] = {}
    for table_schema in table.schemas().values():
        for number, name in index_name_by_id(table_schema).items():
            ids.setdefault(name.lower(), set()).add(number)
    return next((column for column in schema.column_names if len(ids[column.lower()]) > 1), None)


def rewritten_name(schema: Schema) -> str | None:
    """A column that files have under another name.

    Iceberg's writers escape all but letters, digits and `_` (`AvroSchemaUtil.makeCompatibleName`).
    """
    fields = schema._lazy_id_to_field.values()
    return next(
        (field.name for field in fields if make_compatible_name(field.name) != field.name), None
    )


def filled_column(schema: Schema) -> str | None:
    """A column that was added with a value for the existing rows (format 3)."""
    fields = schema._lazy_id_to_field.values()
    return next((field.name for field in fields if field.initial_default is not None), None)


@dataclass(frozen=True)
class Moved:
    """The data files that a snapshot added, and those that it removed.

    Attributes:
        added: their locations.
        removed: the same.
        rows: how many more rows the added ones have.
    """

    added: frozenset[str]
    removed: frozenset[str]
    rows: int


def moved_files(table: Table, snapshot: Snapshot) -> Moved:
    """What a snapshot did to the table's data files."""
    files: dict[ManifestEntryStatus, dict[str, int]] = {
        status: {} for status in ManifestEntryStatus
    }
    for manifest in snapshot.manifests(table.io):
        own = manifest.added_snapshot_id == snapshot.snapshot_id
        if own and manifest.content == ManifestContent.DATA:
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
                if entry.snapshot_id == snapshot.snapshot_id:
                    file = entry.data_file
                    files[entry.status][file.file_path] = file.record_count
    added, removed = files[ManifestEntryStatus.ADDED], files[ManifestEntryStatus.DELETED]
    rows = sum(added.values()) - sum(removed.values())
    return Moved(frozenset(added), frozenset(removed), rows)


def same_place(location: str) -> str:
    """A location in a single spelling, though writers have several; for a local file its path."""
    return local_path(location) or same_scheme(location)


def located(location: str) -> str:
    """A location as sources name their inputs; for a local file its path."""
    return local_path(location) or location


def local_path(location: str) -> str | None:
    """The path on the local disk; None for locations elsewhere, and for relative ones."""
    for scheme in ("file://localhost/", "file:///", "file:/", "/"):
        if location.startswith(scheme):
            return "/" + location.removeprefix(scheme).lstrip("/")
    return None
