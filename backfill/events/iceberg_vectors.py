"""Deletion vectors of Iceberg's format 3: the places of a file's deleted rows, as a bitmap.

A Puffin file holds those of several data files, including some that later ones have replaced. The
manifests say which are valid. pyiceberg leaves that out, so the manifests are read here with the
columns of format 3. Source: Iceberg's specification, "Deletion Vectors".
"""

from __future__ import annotations

import zlib
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

_APPLY = (
    "Have the table's own engine apply them to the files; in Spark: CALL "
    "system.rewrite_data_files(table => …, options => map('rewrite-all', 'true', "
    "'remove-dangling-deletes', 'true'))"
)
_NAMES = [field.name for field in DATA_FILE_TYPE[3].fields]
#: Where in a Puffin file the vector of a data file is.
_FILE, _OFFSET = _NAMES.index("referenced_data_file"), _NAMES.index("content_offset")
#: These come before a bitmap; before them comes the length of both, as four bytes.
_MAGIC = b"\xd1\xd3\x39\x64"
_ENUMS: dict[int, Callable[..., Enum]] = {
    0: ManifestEntryStatus,
    101: FileFormat,
    134: DataFileContent,
}


def vectors_of(table: Table, snapshot: Snapshot) -> dict[str, Places]:
    """The places of deleted rows, by the path of their data file.

    Args:
        table: a table of format 3.
        snapshot: a snapshot of the table.

    Raises:
        TableError: a Puffin file can't be read, or lacks a vector that a manifest names.
    """
    manifests = [
        manifest
        for manifest in snapshot.manifests(table.io)
        if manifest.content == ManifestContent.DELETES and has_files(manifest)
    ]
    wanted: dict[str, dict[int, DataFile]] = {}
    for entries in at_once(lambda manifest: _vectors(table, manifest), manifests):
        for entry in entries:
            wanted.setdefault(entry.file_path, {})[entry[_OFFSET]] = entry
    vectors: dict[str, Places] = {}
    for places in at_once(lambda pair: _read(table, *pair), wanted.items()):
        for path, rows in places:
            if path in vectors:
                raise unreadable(table, f"a file has two deletion vectors: {path}")
            vectors[path] = rows
    return vectors


def _vectors(table: Table, manifest: ManifestFile) -> list[DataFile]:
    """The valid vectors, with the columns of format 3."""
    with AvroFile[ManifestEntry](
        table.io.new_input(manifest.manifest_path),
        MANIFEST_ENTRY_SCHEMAS[3],
        read_types={-1: ManifestEntry, 2: DataFile},
        read_enums=_ENUMS,
    ) as entries:
        return [
            entry.data_file
            for entry in entries
            if entry.status != ManifestEntryStatus.DELETED
            and entry.data_file.file_format == FileFormat.PUFFIN
        ]


def _read(table: Table, path: str, wanted: Mapping[int, DataFile]) -> list[tuple[str, Places]]:
    """The path of the data file, and the places, for each wanted vector of a Puffin file."""
    deletions = []
    try:
        with table.io.new_input(path).open() as stream:
            puffin = PuffinFile(stream.read())
        vectors = deletion_vectors_from_puffin_file(puffin)
        for blob, vector in zip(puffin.footer.blobs, vectors, strict=True):
            if blob.offset in wanted:
                entry = wanted[blob.offset]
                _check(puffin.get_blob_payload(blob))
                places = vector.to_vector().to_numpy().astype(np.int64)
                if len(places) != entry.record_count:
                    raise ValueError(f"{len(places)} rows instead of {entry.record_count}")
                deletions.append((located(entry[_FILE]), places))
    except Exception as error:  # the library has no error of its own for damaged files
        raise unreadable(table, f"deletions cannot be read: {first_line(error)}: {path}") from error
    if len(deletions) < len(wanted):
        raise unreadable(table, f"a file lacks deletions that a manifest names: {path}")
    return deletions


def _check(blob: bytes) -> None:
    """Checks what the library does not check: that a vector is what was written.

    Raises:
        ValueError: it is not.
    """
    content, checksum = blob[4:-4], int.from_bytes(blob[-4:], "big")
    if not content.startswith(_MAGIC) or zlib.crc32(content) != checksum:
        raise ValueError("a deletion vector is damaged")


def unreadable(table: Table, problem: str) -> TableError:
    """The error that deletions of a table can't be read."""
    return TableError(problem, field=".".join(table.name()), way_out=_APPLY)
