"""The commits of a Delta log as text: one JSON action a line (the Delta protocol, "Actions")."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

#: The folder of the log in that of the table.
LOG = "_delta_log"

_KIND = re.compile(r'\s*\{\s*"(\w+)"')


def commit_name(version: int) -> str:
    """The path of a version's commit, relative to the table."""
    return f"{LOG}/{version:020}.json"


def actions(lines: Iterable[str], kinds: Collection[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The actions of some kinds, in order.

    Args:
        lines: of a commit.
        kinds: such as `add`, `remove`, `commitInfo`.

    Raises:
        ValueError: a line is not an action.
    """
    for line in lines:
        if not line.strip():
            continue
        kind = _KIND.match(line)
        if kind is None:
            raise ValueError("a line is not an action")
        # Only what is asked for is parsed: a big run's commit has thousands of files.
        if kind[1] in kinds:
            yield kind[1], json.loads(line)[kind[1]]
