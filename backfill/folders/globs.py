"""Whether folders are inside each other, even if one is named by a glob."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import starmap
from urllib.parse import unquote, urlsplit

from backfill.folders.protocol import Folder
from backfill.folders.urls import same_scheme

_ALTERNATIVES = re.compile(r"\{([^{}]*)\}")


def meet(path: str, folder: Folder) -> bool:
    """Whether one of two places is the other or inside it.

    Args:
        path: a path, a URL or a glob: `*`, `?`, `[...]` and `{a,b}`.
        folder: the other one.

    Example:
        >>> from pathlib import Path
        >>> from backfill.folders import LocalFolder
        >>> out = LocalFolder(Path("/out"))
        >>> [meet(each, out) for each in ("/", "/out/x", "/other", "/{in,o*}")]
        [True, True, False, True]
        >>> [meet(each, LocalFolder(Path("/_out"))) for each in ("/*", "/_*")]
        [False, True]
    """
    path = unquote(urlsplit(path).path) if path.startswith("file:") else path
    parts, own = (same_scheme(each).rstrip("/").split("/") for each in (path, str(folder)))
    # That holds if they are alike as far as both go.
    return all(starmap(_matches, zip(own, parts, strict=False)))


def _matches(name: str, pattern: str) -> bool:
    """Whether a part of a glob matches the name of a file or a folder.

    Names that begin with a dot or an underscore are hidden from patterns that do not.
    """
    if name == pattern:
        return True
    hidden = name.startswith((".", "_"))
    return any(
        fnmatchcase(name, each.replace("[^", "[!"))
        for each in _alternatives(pattern)
        if not hidden or each[:1] == name[:1]
    )


def _alternatives(pattern: str) -> Iterator[str]:
    found = _ALTERNATIVES.search(pattern)
    if found is None:
        yield pattern
        return
    for each in found[1].split(","):
        yield from _alternatives(pattern[: found.start()] + each + pattern[found.end() :])
