"""Folders on the local disk and in object stores, and the files in them.

Files are named by their paths inside the folder, with slashes.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from backfill.errors import TableError
from backfill.folders.at_once import at_once
from backfill.folders.environment import delta_options, endpoint, region
from backfill.folders.globs import meet
from backfill.folders.local import LocalFolder
from backfill.folders.objects import ObjectFolder
from backfill.folders.protocol import Folder, Found
from backfill.folders.urls import SCHEMES, check_no_keys, in_s3, is_url, same_scheme
from backfill.printable import shown

__all__ = [
    "Folder",
    "Found",
    "LocalFolder",
    "ObjectFolder",
    "at_once",
    "check_no_keys",
    "delta_options",
    "endpoint",
    "folder_at",
    "in_s3",
    "is_url",
    "meet",
    "region",
    "same_scheme",
]

# What a library would misread: as an escape, a slash, a query or a pattern.
_MISREAD = re.compile(r"%[0-9A-Fa-f]{2}|\\")
_MISREAD_IN_URL = re.compile(r"[%\\#?*\[\]{}\s]")


def folder_at(path: str | os.PathLike[str], field: str = "tables.path") -> Folder:
    """A folder, by its path or URL.

    Args:
        path: local, or a URL of an object store.
        field: the job file's field, for errors.

    Raises:
        TableError: a URL of something else, or a name that a library would misread.
    """
    text = os.fspath(path)
    if not is_url(text):
        local = Path(text).absolute()
        if _MISREAD.search(str(local)):
            raise TableError(
                "the Delta library cannot open a folder with a backslash, or % and two hexadecimal "
                "digits, in its path",
                field=field,
                value=str(local),
                way_out="Choose another folder.",
            )
        return LocalFolder(local)
    scheme, _, rest = text.partition("://")
    bucket, *inside = rest.rstrip("/").split("/")
    if scheme not in SCHEMES or not bucket:
        raise TableError(
            "must be a local folder, or a URL of an object store",
            field=field,
            value=shown(text),
            way_out=f"Write it like s3://bucket/folder; other schemes: {', '.join(SCHEMES[1:])}",
        )
    check_no_keys(text, field)
    if _MISREAD_IN_URL.search(text) or ":" in bucket or {"", ".", ".."} & set(inside):
        raise TableError(
            "has something that a library would misread: one of % \\ # ? * [ ] { }, a space, "
            "a port, or a part that is empty, . or ..",
            field=field,
            value=text,
            way_out="Choose another folder.",
        )
    return ObjectFolder(f"{scheme}://{'/'.join([bucket, *inside])}")
