"""The Delta log of one table: opening it, and what its paths mean."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from backfill.errors import TableError

_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
# The Delta library takes a folder named a%20b for one named "a b", and a backslash for a slash.
_MISREAD = re.compile(r"%[0-9A-Fa-f]{2}|\\")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


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


def checked_name(name: str, what: str) -> str:
    """The name, if it is valid as a folder name everywhere: letters, digits, `_`, `.` and `-`."""
    if not _NAME.fullmatch(name):
        raise TableError(
            "may contain only letters, digits, '_', '.' and '-'", field=what, value=name
        )
    return name


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


def required_table(folder: Path, version: int | None = None) -> DeltaTable:
    """The table at a version.

    Raises:
        TableError: there is no table yet, or it cannot be read.
    """
    table = open_table(folder, version)
    if table is None:
        raise TableError(
            "the table does not exist yet",
            field=str(folder),
            way_out="`backfill run` publishes it.",
        )
    return table


def _has_log(folder: Path) -> bool:
    log = folder / "_delta_log"
    return any(log.glob("*.json"))


def live_files(table: DeltaTable) -> dict[str, int]:
    """The sizes in bytes of a version's files, by path relative to the table's folder, in order."""
    actions = pa.table(table.get_add_actions())
    paths, sizes = actions["path"].to_pylist(), actions["size_bytes"].to_pylist()
    # The log has paths URL-encoded, though the library takes them plain.
    return dict(sorted(zip(map(unquote, paths), sizes, strict=True)))


def partition_values(path: str, partition_by: Sequence[str]) -> dict[str, str | None]:
    """The partition values in the names of a file's folders, as text; NULL is None."""
    folders = dict(part.split("=", 1) for part in path.split("/")[:-1] if "=" in part)
    # Spark escapes what cannot be in a folder's name, as URLs do.
    values = {unquote(name): unquote(value) for name, value in folders.items()}
    return {name: None if values[name] == _NULL_FOLDER else values[name] for name in partition_by}


def first_line(error: BaseException) -> str:
    """The first line of a library's message, without its final dot."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
