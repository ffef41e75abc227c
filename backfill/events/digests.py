"""Hashes of file contents: a file that was rewritten with the same bytes is the same input."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

from backfill.errors import SourceError
from backfill.events.files import local_path

_BLOCK = 1 << 20


def digest(path: str) -> str | None:
    """A hash of the file's content: 16 bytes of BLAKE2b, in hexadecimal.

    Args:
        path: a file's path; for a file on another file system, None is returned.

    Raises:
        SourceError: the file cannot be read.
    """
    local = local_path(path)
    if local is None:
        return None
    hashed, block = hashlib.blake2b(digest_size=16), bytearray(_BLOCK)
    view = memoryview(block)
    try:
        with open(local, "rb", buffering=0) as file:
            while size := file.readinto(block):
                hashed.update(view[:size])
    except OSError as error:
        raise SourceError(f"cannot be read: {error.strerror}", field=path) from error
    return hashed.hexdigest()


def digests(paths: Collection[str]) -> dict[str, str | None]:
    """The digest of each file, several at a time: hashing runs in parallel."""
    with ThreadPoolExecutor(4) as pool:
        return dict(zip(paths, pool.map(digest, paths), strict=True))
