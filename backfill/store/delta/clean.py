"""Deleting what killed runs left: nothing that any version of the table refers to."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from backfill.store.delta.entries import RECORD, read_changes, read_commit, versions
from backfill.store.delta.log import live_files, open_table
from backfill.store.delta.record import RECORDS, record_path
from backfill.store.delta.staging import STAGING
from backfill.store.protocol import Cleaned


def clean_table(folder: Path, *, older_than_s: float) -> Cleaned:
    """Deletes what killed runs left; see `Store.clean`."""
    before = time.time() - older_than_s
    # Looked for before the log is read: what a run commits meanwhile, the log then names.
    staged = [path for path in (folder / STAGING).glob("*") if _is_old(path, before)]
    files = [path for path in _data_files(folder) if _is_old(path, before)]
    records = [path for path in (folder / RECORDS).glob("*") if _is_old(path, before)]
    named_files, named_records = _named(folder)
    files = [path for path in files if path.relative_to(folder).as_posix() not in named_files]
    records = [path for path in records if path not in named_records]
    size = sum(map(_delete, (*staged, *files, *records)))
    return Cleaned(len(staged), len(files), len(records), size)


def _named(folder: Path) -> tuple[set[str], set[Path]]:
    """The files and the records that any version has, or a commit has removed."""
    files: set[str] = set()
    records: set[Path] = set()
    table = open_table(folder)
    if table is not None:
        files.update(live_files(table))
    for version in versions(folder):
        changes = read_changes(folder, version)
        files |= changes.added | changes.removed
        run_id = read_commit(folder, version).metadata.get(RECORD)
        if run_id:
            records.add(record_path(folder, run_id))
    return files, records


def _data_files(folder: Path) -> Iterator[Path]:
    """The Parquet files where a table's are: in its folder and in folders named `column=value`."""
    if not versions(folder):  # no table (yet): then nothing says that the files are ours
        return
    for path in folder.rglob("*.parquet"):
        if all("=" in part for part in path.relative_to(folder).parts[:-1]):
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
