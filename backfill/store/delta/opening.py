"""The Delta log of one table: opening it, and what its paths mean."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from backfill.delta_log import DELETIONS, reader_features
from backfill.errors import TableError
from backfill.folders import Folder
from backfill.printable import one_line
from backfill.store.delta.entries import versions

# A path that is not relative to the table's folder: shallow clones have such files.
_ELSEWHERE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:")


def open_table(folder: Folder, version: int | None = None) -> DeltaTable | None:
    """The table at a version (the newest by default); None if the folder holds no table.

    Raises:
        TableError: there is a table, but it or the version cannot be read; or other writers have
            deleted rows without rewriting their files, or given the table unknown features.
    """
    if not versions(folder):
        return None
    try:
        table = DeltaTable(folder.uri, version, dict(folder.options))
        features = reader_features(table)
        if DELETIONS in features:
            # The deleted rows may be gone from the files by now.
            deletions = pa.RecordBatchReader.from_stream(table.deletion_vectors())
            if not any(batch.num_rows for batch in deletions):
                features.remove(DELETIONS)
    except (DeltaError, ValueError, OSError) as error:
        at = "" if version is None else f" at version {version}"
        raise TableError(
            f"the table cannot be read{at}: {one_line(error)}",
            field=str(folder),
            way_out="`backfill history` lists its versions." if version is not None else None,
        ) from error
    _check_features(folder, features)
    return table


def _check_features(folder: Folder, features: set[str]) -> None:
    if DELETIONS in features:
        raise TableError(
            "another writer has deleted rows without rewriting their files, and such deletions "
            "are not supported",
            field=str(folder),
            way_out="In Spark, REORG TABLE … APPLY (PURGE) writes the files again; set the table's "
            "delta.enableDeletionVectors to false",
        )
    if features:
        raise TableError(
            "another writer has given the table features that are not supported",
            field=str(folder),
            value=", ".join(sorted(features)),
            # Without TRUNCATE HISTORY, Delta Lake adds a feature instead that only it knows.
            way_out="In Spark, ALTER TABLE … DROP FEATURE … TRUNCATE HISTORY, or publish into "
            "another folder",
        )


def live_files(folder: Folder, table: DeltaTable) -> dict[str, int]:
    """The sizes in bytes of a version's files, by path relative to the table's folder, in order.

    Raises:
        TableError: as `plain_paths` does.
    """
    actions = pa.table(table.get_add_actions())
    paths = plain_paths(folder, table, actions["path"].to_pylist())
    return dict(sorted(zip(paths, actions["size_bytes"].to_pylist(), strict=True)))


def plain_paths(folder: Folder, table: DeltaTable, paths: Iterable[str]) -> list[str]:
    """Paths of a version's files as the library takes them; the log has them URL-encoded.

    Raises:
        TableError: another writer has put a file outside the folder of its partition, from whose
            name rows get the values of the partition columns.
    """
    partition_by = set(table.metadata().partition_columns)
    plain = []
    for path in map(unquote, paths):
        folders = {unquote(part).partition("=")[0] for part in path.split("/")[:-1]}
        if _ELSEWHERE.match(path) or not partition_by <= folders:
            raise TableError(
                "another writer has put a file outside the folder of its partition",
                field=str(folder),
                value=path,
                way_out="In Spark, set the table's delta.randomizeFilePrefixes to false, and write "
                "its rows again: INSERT OVERWRITE … SELECT * FROM …",
            )
        plain.append(path)
    return plain
