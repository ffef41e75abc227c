"""The commits in a table's log: one JSON file for each version.

They are not read with the Delta library, because it numbers the commits by counting back from the
newest, and does not say which files they changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any
from urllib.parse import unquote

from backfill.delta_log import LOG, actions, commit_name
from backfill.errors import TableError
from backfill.folders import Folder
from backfill.store.files.log import FileChanges
from backfill.store.protocol import Commit

# The key of our metadata in a commit's information.
METADATA = "backfill"

_FILE = re.compile(r"(\d{20})\.json")


def versions(folder: Folder) -> list[int]:
    """The versions in the log, oldest first; empty if the folder holds no table."""
    names = (folder / LOG).names()
    return sorted(int(match[1]) for match in map(_FILE.fullmatch, names) if match)


def read_commit(folder: Folder, version: int) -> Commit:
    """The commit that made the version.

    Raises:
        TableError: the log has no entry for this version, or is damaged.
    """
    _, info = next(_actions(folder, version, "commitInfo"), ("", {}))
    milliseconds = info.get("timestamp")
    if milliseconds is None:  # the protocol lets a writer leave it out
        name = commit_name(version).rpartition("/")[2]
        milliseconds = (folder / LOG).files()[name].modified * 1000
    metadata = info.get(METADATA)
    return Commit(
        version=version,
        timestamp=datetime.fromtimestamp(milliseconds / 1000, timezone.utc),
        metadata=metadata if isinstance(metadata, dict) else {},
    )


def read_changes(folder: Folder, version: int) -> FileChanges:
    """What the version's commit did to the files.

    Raises:
        TableError: the log has no entry for this version, or is damaged.
    """
    paths: dict[str, set[str]] = {"add": set(), "remove": set()}
    data = False
    for kind, action in _actions(folder, version, *paths):
        paths[kind].add(unquote(action["path"]))
        data = data or action.get("dataChange", True)
    return FileChanges(frozenset(paths["add"]), frozenset(paths["remove"]), data)


def _actions(folder: Folder, version: int, *kinds: str) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        text = folder.read(commit_name(version)).decode()
        yield from actions(text.split("\n"), kinds)
    except FileNotFoundError as error:
        raise TableError(
            f"the log has no entry for version {version}",
            field=str(folder),
            way_out="`backfill history` lists its versions.",
        ) from error
    except (OSError, ValueError) as error:
        raise TableError(
            f"the log of version {version} cannot be read: {error}", field=str(folder)
        ) from error
