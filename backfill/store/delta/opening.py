"""The Delta log of one table: opening it, and what its paths mean."""

from __future__ import annotations

from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from backfill.errors import TableError
from backfill.folders import Folder
from backfill.printable import one_line
from backfill.store.delta.entries import versions

# Features that other writers can give to a table and that change nothing about its files' rows.
_HARMLESS = frozenset({"timestampNtz", "v2Checkpoint"})


def open_table(folder: Folder, version: int | None = None) -> DeltaTable | None:
    """The table at a version (the newest by default); None where the folder holds no table.

    Raises:
        TableError: there is a table, but it or the version cannot be read; or other writers have
            deleted rows without writing their files again, or given it features that are not known.
    """
    if not versions(folder):
        return None
    try:
        table = DeltaTable(folder.uri, version, dict(folder.options))
    except (DeltaError, ValueError, OSError) as error:
        at = "" if version is None else f" at version {version}"
        raise TableError(
            f"the table cannot be read{at}: {one_line(error)}",
            field=str(folder),
            way_out="`backfill history` lists its versions." if version is not None else None,
        ) from error
    _check_features(folder, table)
    return table


def _check_features(folder: Folder, table: DeltaTable) -> None:
    features = set(table.protocol().reader_features or ()) - _HARMLESS
    if "deletionVectors" in features and not any(
        batch.num_rows for batch in pa.RecordBatchReader.from_stream(table.deletion_vectors())
    ):
        # What the vectors deleted is gone from the files by now.
        features.remove("deletionVectors")
    # The protocol can have this one although no column was ever renamed.
    if table.metadata().configuration.get("delta.columnMapping.mode", "none") == "none":
        features.discard("columnMapping")
    if "deletionVectors" in features:
        raise TableError(
            "another writer has deleted rows without writing their files again, and such deletions "
            "are not read",
            field=str(folder),
            way_out="In Spark, REORG TABLE … APPLY (PURGE) writes the files again; set the table's "
            "delta.enableDeletionVectors to false",
        )
    if features:
        raise TableError(
            "another writer has given the table features that are not known here",
            field=str(folder),
            value=", ".join(sorted(features)),
            way_out="In Spark, ALTER TABLE … DROP FEATURE, or publish into another folder",
        )


def live_files(table: DeltaTable) -> dict[str, int]:
    """The sizes in bytes of a version's files, by path relative to the table's folder, in order."""
    actions = pa.table(table.get_add_actions())
    paths, sizes = actions["path"].to_pylist(), actions["size_bytes"].to_pylist()
    # The log has paths URL-encoded, though the library takes them plain.
    return dict(sorted(zip(map(unquote, paths), sizes, strict=True)))
