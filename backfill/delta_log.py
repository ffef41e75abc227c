"""Delta logs: commits as text, one JSON action per line, and what a table requires of readers.

Source: the Delta protocol, "Actions" and "Table Features".
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from deltalake import DeltaTable

#: The feature by which rows are deleted beside their files.
DELETIONS = "deletionVectors"

#: The folder of the log in the table's folder.
LOG = "_delta_log"

# Features that change nothing about how a live file is read.
_HARMLESS = frozenset({"timestampNtz", "v2Checkpoint"})
# An old protocol has this feature without naming it, and a new one can name it without using it.
_RENAMED = "columnMapping"
_KIND = re.compile(r'\s*\{\s*"(\w+)"')


def commit_name(version: int) -> str:
    """The path of a version's commit, relative to the table."""
    return f"{LOG}/{version:020}.json"


def actions(lines: Iterable[str], kinds: Collection[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The actions of some kinds, in order.

    Args:
        lines: the lines of a commit.
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
        # Only the wanted kinds are parsed: a big run's commit has thousands of files.
        if kind[1] in kinds:
            yield kind[1], json.loads(line)[kind[1]]


def reader_features(table: DeltaTable) -> set[str]:
    """The features of a table that change how its files are read, by the protocol's names."""
    features = set(table.protocol().reader_features or ()) - _HARMLESS - {_RENAMED}
    if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
        features.add(_RENAMED)
    return features
