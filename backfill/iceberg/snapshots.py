"""The snapshots of an Iceberg table as versions, their columns and their files."""

from __future__ import annotations

from collections.abc import Iterator

from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntry, ManifestEntryStatus
from pyiceberg.schema import Schema, index_name_by_id
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from backfill.errors import TableError


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


def schema_of(table: Table, snapshot: Snapshot) -> Schema:
    """The columns of a snapshot."""
    found = snapshot.schema_id
    return table.schema() if found is None else table.schemas()[found]


def data_files(table: Table, snapshot: Snapshot) -> Iterator[DataFile]:
    """The files of a snapshot.

    Raises:
        TableError: rows of files are deleted by other files.
    """
    for manifest in snapshot.manifests(table.io):
        if manifest.content == ManifestContent.DELETES and (
            manifest.existing_files_count or manifest.added_files_count
        ):
            raise TableError(
                "another writer has deleted rows without writing their files again, and such "
                "deletions are not read",
                field=".".join(table.name()),
                way_out="In Spark, CALL system.rewrite_data_files(table => …, options => "
                "map('rewrite-all', 'true', 'remove-dangling-deletes', 'true')), and set "
                "write.delete.mode and write.update.mode to copy-on-write",
            )
        entries: list[ManifestEntry] = manifest.fetch_manifest_entry(table.io)
        yield from (entry.data_file for entry in entries)


def renamed_column(table: Table, schema: Schema) -> tuple[str, str] | None:
    """A column that files written before have by another name: its name, and the other one."""
    names: dict[int, set[str]] = {}
    for each in table.schemas().values():
        for number, name in index_name_by_id(each).items():
            names.setdefault(number, set()).add(name)
    for number, name in index_name_by_id(schema).items():
        others = sorted(names[number] - {name})
        if others:
            return name, others[0]
    return None


def reused_name(table: Table, schema: Schema) -> str | None:
    """A column with the name of one that was dropped, which files written before can have."""
    ids: dict[str, set[int]] = {}
    for each in table.schemas().values():
        for number, name in index_name_by_id(each).items():
            ids.setdefault(name, set()).add(number)
    return next((each for each in schema.column_names if len(ids[each]) > 1), None)


def moved_files(table: Table, snapshot: Snapshot) -> tuple[frozenset[str], frozenset[str]]:
    """The locations of the files that a snapshot added, and of those that it removed."""
    found: dict[ManifestEntryStatus, set[str]] = {each: set() for each in ManifestEntryStatus}
    for manifest in snapshot.manifests(table.io):
        if manifest.added_snapshot_id == snapshot.snapshot_id:
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
                if entry.snapshot_id == snapshot.snapshot_id:
                    found[entry.status].add(entry.data_file.file_path)
    return (
        frozenset(found[ManifestEntryStatus.ADDED]),
        frozenset(found[ManifestEntryStatus.DELETED]),
    )


def local_path(location: str) -> str | None:
    """The path on the local disk; None for locations elsewhere, and for relative ones."""
    for scheme in ("file://localhost/", "file:///", "file:/", "/"):
        if location.startswith(scheme):
            return "/" + location.removeprefix(scheme).lstrip("/")
    return None
