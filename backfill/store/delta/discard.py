"""Discards what a run staged and did not publish."""

from __future__ import annotations

from pathlib import Path

from backfill.store.delta.entries import RECORD, RUN_ID, read_changes, read_commit, versions
from backfill.store.delta.record import record_path
from backfill.store.delta.staging import StagedFiles, delete_files


def discard_files(staged: StagedFiles, folder: Path) -> None:
    """Deletes a run's files and its record, except what a commit of the run has made visible."""
    files: set[str] = set()
    recorded = False
    for version in versions(folder):
        metadata = read_commit(folder, version).metadata
        if metadata.get(RUN_ID) == staged.run_id:
            files |= read_changes(folder, version).added
        recorded = recorded or metadata.get(RECORD) == staged.run_id
    delete_files(staged, folder, published=files)
    if not recorded:
        record_path(folder, staged.run_id).unlink(missing_ok=True)
