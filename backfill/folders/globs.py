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
        >>> [meet(path, out) for path in ("/", "/out/x", "/other", "/{in,o*}")]
        [True, True, False, True]
        >>> [meet(path, LocalFolder(Path("/_out"))) for path in ("/*", "/_*")]
        [False, True]
    """
    path = unquote(urlsplit(path).path) if path.startswith("file:") else path
    parts, own = (same_scheme(url).rstrip("/").split("/") for url in (path, str(folder)))
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
        fnmatchcase(name, alternative.replace("[^", "[!"))
        for alternative in _alternatives(pattern)
        if not hidden or alternative[:1] == name[:1]
    )


def _alternatives(pattern: str) -> Iterator[str]:
    match = _ALTERNATIVES.search(pattern)
    if match is None:
        yield pattern
        return
    for choice in match[1].split(","):
        yield from _alternatives(pattern[: match.start()] + choice + pattern[match.end() :])
