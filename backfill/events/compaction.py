"""Commits of a Delta source that rewrote files and changed no data, as OPTIMIZE does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import PyFileSystem

from backfill.delta_log import actions, commit_name
from backfill.errors import SourceError
from backfill.events.delta_source import file_path, reason, table_root
from backfill.events.model import Rewrite
from backfill.folders import delta_options
from backfill.printable import shown


def rewrites(path: str, since: int, until: int) -> tuple[Rewrite, ...]:
    """The rewrites between two versions of a Delta table, oldest first.

    They are determined commit by commit, since a file that was appended within the range may have
    been rewritten in it too: the events of `added` are known only if those of `removed` are.

    Args:
        path: the table's folder.
        since: the version to begin after.
        until: the last version.

    Returns:
        The commits all of whose files are marked as no change of data; one that also changes data
        is not one of them, nor one that rewrote a file whose rows were deleted since `since`.
        Empty if the log no longer has every commit of the range (Delta keeps them for 30 days,
        unless the table says otherwise), or if `since` is newer than `until`, because the table
        was recreated: then files that were read are missing, and the others are new.

    Raises:
        SourceError: the log cannot be read.
    """
    if since > until:
        return ()
    root = table_root(path)
    try:
        files = PyFileSystem(DeltaStorageHandler(root, delta_options()))
        commits = [_commit(files, root, version) for version in range(since + 1, until + 1)]
    except FileNotFoundError:
        return ()
    except (DeltaError, OSError, ValueError) as error:
        raise SourceError(
            f"the log of the Delta table cannot be read: {reason(error)}",
            field="source.path",
            value=shown(path),
        ) from error
    compactions, changed, gone = [], set[str](), set[str]()
    for commit in commits:
        if commit.rewrite is not None and not commit.rewrite.removed & changed:
            compactions.append(commit.rewrite)
        changed |= commit.deleted_of | (commit.back & gone)
        gone |= commit.gone
    return tuple(compactions)


@dataclass(frozen=True)
class _Commit:
    """A commit of a Delta log.

    Attributes:
        rewrite: what it did to files, if it changed no data.
        deleted_of: files that it gave other deletion vectors.
        back: files that it may have brought back, whose vectors may have differed when counted.
        gone: files that it removed.
    """

    rewrite: Rewrite | None
    deleted_of: set[str]
    back: set[str]
    gone: set[str]


def _commit(files: PyFileSystem, root: str, version: int) -> _Commit:
    with files.open_input_file(commit_name(version)) as commit:
        lines = commit.read().decode().split("\n")
    moved: dict[str, dict[str, Any]] = {"add": {}, "remove": {}}
    changed = False
    for kind, action in actions(lines, ("add", "remove")):
        changed |= action.get("dataChange", True)
        moved[kind][file_path(root, action["path"])] = action.get("deletionVector")
    added, removed = moved["add"], moved["remove"]
    # A file whose deletions change is removed as it was, and added as it is.
    stay = added.keys() & removed.keys()
    deleted_of = {path for path in stay if added[path] != removed[path]}
    new = added.keys() - stay
    deletes = any(added[path] is not None for path in new)
    rewrite = Rewrite(version, frozenset(new), frozenset(removed.keys() - stay))
    moves = not (changed or deleted_of or deletes) and (rewrite.added or rewrite.removed)
    return _Commit(
        rewrite if moves else None, deleted_of, set(new) if changed else set(), set(removed)
    )
