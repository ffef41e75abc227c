"""Deleting what killed runs left: nothing that any version of the table refers to."""

from __future__ import annotations

import time
from collections.abc import Mapping

from backfill.folders import Found
from backfill.store.files.log import Log
from backfill.store.files.record import RECORDS, expired_records, record_path
from backfill.store.files.staging import STAGING
from backfill.store.protocol import Cleaned


def clean_table(log: Log, *, older_than_s: float) -> Cleaned:
    """Deletes what killed runs left; see `Store.clean`."""
    if not log.may_have_files:
        return Cleaned(staged=0, files=0, records=0, size=0)
    folder = log.folder
    before = time.time() - older_than_s
    # Listed before the log is read, so that the log names whatever a run commits meanwhile.
    staged = _old((folder / STAGING).entries(), before)
    files = _old(_data_files(log), before)
    records = _old((folder / RECORDS).entries(), before)
    named_files, runs = log.mentioned()
    named_records = {record_path(run_id) for run_id in runs}
    if not runs:
        # These records alone say that something was counted.
        named_records = {f"{RECORDS}/{name}" for name in expired_records(log)}
    files = {path: file for path, file in files.items() if path not in named_files}
    records = {
        name: entry for name, entry in records.items() if f"{RECORDS}/{name}" not in named_records
    }
    for place, names in ((STAGING, staged), (RECORDS, records)):
        for name in names:
            (folder / place / name).delete_all()
    folder.delete(files)
    size = sum(entry.size for listing in (staged, files, records) for entry in listing.values())
    return Cleaned(len(staged), len(files), len(records), size)


def _data_files(log: Log) -> dict[str, Found]:
    """The Parquet files in a table's folder and in folders named `column=value` below it."""
    if not log.versions():  # no table (yet): then nothing says that the files are ours
        return {}
    return {
        path: file
        for path, file in log.folder.files().items()
        if path.endswith(".parquet") and all("=" in part for part in path.split("/")[:-1])
    }


def _old(entries: Mapping[str, Found], before: float) -> dict[str, Found]:
    """The entries that nothing was written to since `before`."""
    return {name: entry for name, entry in entries.items() if entry.modified < before}
