"""Names of tables and runs, and the values in the names of folders."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import unquote

from backfill.errors import TableError

_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def checked_name(name: str, what: str) -> str:
    """The name, if it is valid as a folder name everywhere: letters, digits, `_`, `.` and `-`."""
    if not _NAME.fullmatch(name):
        raise TableError(
            "may contain only letters, digits, '_', '.' and '-'", field=what, value=name
        )
    return name


def partition_values(path: str, partition_by: Sequence[str]) -> dict[str, str | None]:
    """The partition values in the names of a file's folders, as text; NULL is None."""
    folders = dict(part.split("=", 1) for part in path.split("/")[:-1] if "=" in part)
    # Spark escapes characters that cannot be in a folder's name, as URLs do.
    values = {unquote(name): unquote(value) for name, value in folders.items()}
    return {name: None if values[name] == _NULL_FOLDER else values[name] for name in partition_by}
