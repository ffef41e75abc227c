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


def open_table(folder: Folder, version: int | None = None) -> DeltaTable | None:
    """The table at a version (the newest by default); None where the folder holds no table.

    Raises:
        TableError: there is a table, but it or the version cannot be read.
    """
    if not versions(folder):
        return None
    try:
        return DeltaTable(folder.uri, version, dict(folder.options))
    except (DeltaError, ValueError, OSError) as error:
        at = "" if version is None else f" at version {version}"
        raise TableError(
            f"the table cannot be read{at}: {one_line(error)}",
            field=str(folder),
            way_out="`backfill history` lists its versions." if version is not None else None,
        ) from error


def live_files(table: DeltaTable) -> dict[str, int]:
    """The sizes in bytes of a version's files, by path relative to the table's folder, in order."""
    actions = pa.table(table.get_add_actions())
    paths, sizes = actions["path"].to_pylist(), actions["size_bytes"].to_pylist()
    # The log has paths URL-encoded, though the library takes them plain.
    return dict(sorted(zip(map(unquote, paths), sizes, strict=True)))
