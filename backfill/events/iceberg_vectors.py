"""Deletion vectors of Iceberg's format 3: the places of a file's deleted rows, as a bitmap.

A Puffin file holds those of several data files, also some that later ones have replaced. Which are
valid, the manifests say. pyiceberg leaves out what they say of it, so they are read here with the
columns of format 3. Source: Iceberg's specification, "Deletion Vectors".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

import numpy as np
from pyiceberg.avro.file import AvroFile
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    MANIFEST_ENTRY_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.table import Table
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile
from pyiceberg.table.snapshots import Snapshot

from backfill.errors import TableError
from backfill.events.deletions import Places
from backfill.folders import at_once
from backfill.iceberg.snapshots import has_files, located
from backfill.printable import first_line

_NAMES = [each.name for each in DATA_FILE_TYPE[3].fields]
#: Where in a Puffin file the vector of a data file is.
_FILE, _OFFSET = _NAMES.index("referenced_data_file"), _NAMES.index("content_offset")
_ENUMS: dict[int, Callable[..., Enum]] = {
    0: ManifestEntryStatus,
    101: FileFormat,
    134: DataFileContent,
}


def vectors_of(table: Table, snapshot: Snapshot) -> dict[str, Places]:
    """The places of deleted rows, by the path of their data file.

    Args:
        table: of format 3.
        snapshot: of the table.

    Raises:
        TableError: a Puffin file can't be read, or lacks a vector that a manifest names.
    """
    manifests = [
        each
        for each in snapshot.manifests(table.io)
        if each.content == ManifestContent.DELETES and has_files(each)
    ]
    wanted: dict[str, dict[int, str]] = {}
    for entries in at_once(lambda each: _vectors(table, each), manifests):
        for path, offset, file in entries:
            wanted.setdefault(path, {})[offset] = file
    found: dict[str, Places] = {}
    for places in at_once(lambda each: _read(table, *each), wanted.items()):
        found |= places
    return found


def _vectors(table: Table, manifest: ManifestFile) -> list[tuple[str, int, str]]:
    """Of each valid vector its Puffin file, where it is in that, and the data file."""
    with AvroFile[ManifestEntry](
        table.io.new_input(manifest.manifest_path),
        MANIFEST_ENTRY_SCHEMAS[3],
        read_types={-1: ManifestEntry, 2: DataFile},
        read_enums=_ENUMS,
    ) as entries:
        return [
            (each.data_file.file_path, each.data_file[_OFFSET], each.data_file[_FILE])
            for each in entries
            if each.status != ManifestEntryStatus.DELETED
            and each.data_file.file_format == FileFormat.PUFFIN
        ]


def _read(table: Table, path: str, wanted: Mapping[int, str]) -> dict[str, Places]:
    try:
        with table.io.new_input(path).open() as stream:
            puffin = PuffinFile(stream.read())
        found: dict[str, Places] = {
            located(vector.referenced_data_file): vector.to_vector().to_numpy().astype(np.int64)
            for blob, vector in zip(
                puffin.footer.blobs, deletion_vectors_from_puffin_file(puffin), strict=True
            )
            if wanted.get(blob.offset) == vector.referenced_data_file
        }
    except Exception as error:  # the library has no error of its own for what is damaged
        raise _problem(table, f"deletions cannot be read: {first_line(error)}: {path}") from error
    if len(found) < len(wanted):
        raise _problem(table, f"a file of deletions lacks some that a manifest names: {path}")
    return found


def _problem(table: Table, problem: str) -> TableError:
    return TableError(problem, field=".".join(table.name()))
