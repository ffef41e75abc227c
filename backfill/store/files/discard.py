"""Discarding what a run staged and did not publish."""

from __future__ import annotations

from backfill.folders import at_once
from backfill.store.files.log import RECORD, RUN_ID, Log
from backfill.store.files.record import record_path
from backfill.store.files.staging import StagedFiles, delete_files


def discard_files(staged: StagedFiles, log: Log) -> None:
    """Deletes a run's files and its record, except what a commit of the run has made visible."""
    if staged.run_id in log.uncertain:
        return
    files: set[str] = set()
    recorded = False
    for commit in at_once(log.commit, log.versions()):
        metadata = commit.metadata
        if metadata.get(RUN_ID) == staged.run_id:
            files |= log.changes(commit.version).added
        recorded = recorded or metadata.get(RECORD) == staged.run_id
    delete_files(staged, log.folder, published=files)
    if not recorded:
        log.folder.delete([record_path(staged.run_id)])
