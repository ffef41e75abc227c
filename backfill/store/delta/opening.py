"""The Delta log of one table: opening it, and what its paths mean."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from backfill.errors import TableError
from backfill.printable import first_line

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
# The Delta library takes a folder named a%20b for one named "a b", and a backslash for a slash.
_MISREAD = re.compile(r"%[0-9A-Fa-f]{2}|\\")


def local_folder(path: str | Path) -> Path:
    """The folder as an absolute path.

    Raises:
        TableError: a URL, or a name that the Delta library cannot open.
    """
    text = os.fspath(path)
    if _URL.match(text):
        raise TableError(
            "embedded tables must be in a local folder, not at a URL",
            field="tables.path",
            value=text,
            way_out="Give a local path",
        )
    folder = Path(text).absolute()
    if _MISREAD.search(str(folder)):
        raise TableError(
            "the Delta library cannot open a folder with a backslash, or % and two hexadecimal "
            "digits, in its path",
            field="tables.path",
            value=str(folder),
            way_out="Choose another folder.",
        )
    return folder


def open_table(folder: Path, version: int | None = None) -> DeltaTable | None:
    """The table at a version (the newest by default); None where the folder holds no table.

    Raises:
        TableError: there is a table, but it or the version cannot be read.
    """
    if not _has_log(folder):
        return None
    try:
        return DeltaTable(folder, version=version)
    except (DeltaError, ValueError, OSError) as error:
        at = "" if version is None else f" at version {version}"
        raise TableError(
            f"the table cannot be read{at}: {first_line(error)}",
            field=str(folder),
            way_out="`backfill history` lists its versions." if version is not None else None,
        ) from error


def _has_log(folder: Path) -> bool:
    log = folder / "_delta_log"
    return any(log.glob("*.json"))


def live_files(table: DeltaTable) -> dict[str, int]:
    """The sizes in bytes of a version's files, by path relative to the table's folder, in order."""
    actions = pa.table(table.get_add_actions())
    paths, sizes = actions["path"].to_pylist(), actions["size_bytes"].to_pylist()
    # The log has paths URL-encoded, though the library takes them plain.
    return dict(sorted(zip(map(unquote, paths), sizes, strict=True)))
