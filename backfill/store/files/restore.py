"""Restoring an older version, by a commit on top of the newest."""

from __future__ import annotations

from collections.abc import Mapping

from backfill.errors import TableError
from backfill.store.files.commit import commit_metadata
from backfill.store.files.log import (
    RUN_ID,
    CommitFailedError,
    Log,
    Version,
    newest,
    required,
    writer,
)
from backfill.store.files.reading import check_present
from backfill.store.files.record import read_record, recorded_by


def check_restorable(log: Log, below: Version, table: Version) -> str | None:
    """Refuses a version that can't be made the newest again.

    Returns:
        The run whose record it has; None if it has none.

    Raises:
        TableError: as for `Store.check_restorable`.
    """
    log.check_restore(below, table.number)
    check_present(log.folder, table.number, table.live)
    recorder = recorded_by(log, table.number)
    if recorder is not None:
        read_record(log.folder, recorder)
    return recorder


def restore_version(
    log: Log, name: str, version: int, *, run_id: str, metadata: Mapping[str, str]
) -> int:
    """Makes a version the newest again; see `Store.restore`."""
    below = required(log)
    if version == below.number:
        return version
    recorder = check_restorable(log, below, required(log, version))
    try:
        # Every row may change, so no run under way can be committed on top of this.
        return log.restore(below, version, commit_metadata(run_id, None, recorder or "", metadata))
    except CommitFailedError as error:
        if newest(log) == below.number:
            raise TableError(f"the commit failed: {error}", field=name) from error
        winner = log.commit(log.since(below.number)[0])
        if winner.metadata.get(RUN_ID) != run_id:
            raise TableError(
                f"{writer(winner)} published version {winner.version} meanwhile",
                field=name,
                way_out="Run the restore again if you still want it.",
            ) from error
        return winner.version
