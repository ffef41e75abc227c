"""Deleting what killed runs left: nothing that any version of the table refers to."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from backfill.store.files.log import Log
from backfill.store.files.record import RECORDS, record_path
from backfill.store.files.staging import STAGING
from backfill.store.protocol import Cleaned


def clean_table(log: Log, *, older_than_s: float) -> Cleaned:
    """Deletes what killed runs left; see `Store.clean`."""
    if not log.may_have_files:
        return Cleaned(staged=0, files=0, records=0, size=0)
    folder = log.folder
    before = time.time() - older_than_s
    # Looked for before the log is read: what a run commits meanwhile, the log then names.
    staged = [path for path in (folder / STAGING).glob("*") if _is_old(path, before)]
    files = [path for path in _data_files(log) if _is_old(path, before)]
    records = [path for path in (folder / RECORDS).glob("*") if _is_old(path, before)]
    named_files, runs = log.mentioned()
    named_records = {record_path(folder, run_id) for run_id in runs}
    files = [path for path in files if path.relative_to(folder).as_posix() not in named_files]
    records = [path for path in records if path not in named_records]
    size = sum(map(_delete, (*staged, *files, *records)))
    return Cleaned(len(staged), len(files), len(records), size)


def _data_files(log: Log) -> Iterator[Path]:
    """The Parquet files where a table's are: in its folder and in folders named `column=value`."""
    if not log.versions():  # no table (yet): then nothing says that the files are ours
        return
    for path in log.folder.rglob("*.parquet"):
        if all("=" in part for part in path.relative_to(log.folder).parts[:-1]):
            yield path


def _is_old(path: Path, before: float) -> bool:
    """Whether neither it nor anything in it was written since."""
    try:
        return all(each.stat().st_mtime < before for each in (path, *path.rglob("*")))
    except FileNotFoundError:  # its run has just moved or deleted it
        return False


def _delete(path: Path) -> int:
    """Deletes a file, or a folder with its files; gives their size."""
    files = [each for each in (path, *path.rglob("*")) if each.is_file()]
    size = sum(file.stat().st_size for file in files)
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    return size
