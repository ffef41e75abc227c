"""What a table's properties say about the files that are written for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

# About how large a file is, for Delta and for Iceberg.
_FILE_SIZES = ("delta.targetFileSize", "write.target-file-size-bytes")
# How files are compressed.
_CODECS = ("delta.parquet.compression.codec", "write.parquet.compression-codec")

_SIZE = re.compile(r"(\d+)([kmg]?)b?", re.IGNORECASE)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


@dataclass(frozen=True)
class Layout:
    """How files are written.

    Attributes:
        task_bytes: about how much a task sorts and writes; None for Spark's setting. A task writes
            one file, which is smaller, since Parquet compresses better than Spark's exchanges do.
        codec: as Spark's Parquet writer names it; None for Spark's setting.
    """

    task_bytes: int | None = None
    codec: str | None = None


def layout_of(properties: Mapping[str, str]) -> Layout:
    """The layout of a table with these properties, which have been checked.

    Raises:
        ValueError: a size is invalid.
    """
    sizes = [_bytes(properties[name]) for name in _FILE_SIZES if name in properties]
    codecs = [properties[name].lower() for name in _CODECS if name in properties]
    return Layout(sizes[0] if sizes else None, codecs[0] if codecs else None)


def _bytes(text: str) -> int:
    """The bytes in a number, or in a size such as 128mb, as Delta writes it."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"not a size: {text}")
    return int(match[1]) * _UNITS[match[2].lower()]
