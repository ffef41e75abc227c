"""Restores an older version, by a commit on top of the newest."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from deltalake.exceptions import DeltaError

from backfill.errors import TableError
from backfill.store.delta.commit import commit_properties
from backfill.store.delta.entries import RUN_ID, read_commit, versions, writer
from backfill.store.delta.log import first_line, live_files, required_table
from backfill.store.delta.reading import check_present
from backfill.store.delta.record import read_record, recorded_by


def restore_version(
    folder: Path, name: str, version: int, *, run_id: str, metadata: Mapping[str, str]
) -> int:
    """Makes a version the newest again; see `Store.restore`."""
    table = required_table(folder)
    newest = table.version()
    if version == newest:
        return newest
    check_present(folder, version, live_files(required_table(folder, version)))
    recorder = recorded_by(folder, version)
    if recorder is not None:
        read_record(folder, recorder)
    try:
        # Every row may change, so no run that is under way can be committed on top of this.
        table.restore(
            version, commit_properties=commit_properties(run_id, None, recorder or "", metadata)
        )
    except (DeltaError, OSError) as error:
        if max(versions(folder)) == newest:
            raise TableError(f"the commit failed: {first_line(error)}", field=name) from error
        winner = read_commit(folder, newest + 1)
        if winner.metadata.get(RUN_ID) != run_id:
            raise TableError(
                f"{writer(winner)} published version {newest + 1} meanwhile",
                field=name,
                way_out="Nothing was restored. Run the restore again if you still want it.",
            ) from error
    return newest + 1
