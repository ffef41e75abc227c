"""Globs, as the sources of a job have them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

_ALTERNATIVES = re.compile(r"\{([^{}]*)\}")


def matches(name: str, pattern: str) -> bool:
    """Whether a glob's part names a file or a folder.

    Args:
        name: of one file or folder.
        pattern: `*`, `?`, `[...]` and `{a,b}`; what begins with a dot or an underscore is hidden
            from those that do not.

    Example:
        >>> matches("out", "{in,o*}"), matches("_out", "*"), matches("_out", "_*")
        (True, False, True)
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
