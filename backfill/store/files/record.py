"""What a version of a table has counted: one JSON document for each run, next to the files.

A run writes its record before it commits, and the commit names it; so a record is seen exactly
with the version that it belongs to. Commits that count nothing (a compaction) name the record of
the version below them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from backfill.errors import TableError
from backfill.folders import Folder
from backfill.store.files.log import RECORD, Log
from backfill.store.files.names import checked_name

# Next to the partitions' folders; Delta's VACUUM leaves it alone because of the underscore.
RECORDS = "_record"


def recorded_by(log: Log, version: int) -> str | None:
    """The run whose record a version carries; None if it carries none.

    A commit by others names no record; then the version has the newest record before it.

    Raises:
        TableError: there is no such version, the log is damaged, or it is not known any more.
    """
    for number in _down_from(log, version):
        run_id = log.commit(number).metadata.get(RECORD)
        if run_id is not None:
            # Empty if an older version without a record was restored.
            return run_id or None
    return log.forgotten(version)


def expired_records(log: Log) -> set[str]:
    """The names of the records that a commit no longer in the log can have named."""
    oldest = min(log.versions(), default=0)
    if oldest == 0:
        return set()
    kept_since = log.commit(oldest).timestamp.timestamp()
    records = (log.folder / RECORDS).files()
    return {name for name, file in records.items() if file.modified < kept_since}


def _down_from(log: Log, version: int) -> Iterator[int]:
    """A version, then the older ones, which are listed only if the first names no record."""
    yield version
    yield from (number for number in reversed(log.versions()) if number < version)


def read_record(folder: Folder, run_id: str) -> dict[str, Any]:
    """The record of a run.

    Raises:
        TableError: it is missing or damaged.
    """
    path = record_path(run_id)
    try:
        record = json.loads(folder.read(path))
        if not isinstance(record, dict):
            raise ValueError("not a JSON object")
    except (OSError, ValueError) as error:
        missing = isinstance(error, FileNotFoundError)
        raise TableError(
            "the record of what the table has counted is "
            + ("missing" if missing else f"damaged: {error}"),
            field=f"{folder}/{path}",
            way_out="Restore it from a backup, go back to an earlier version with `backfill "
            "restore`, or move the table's folder away and run the whole backfill.",
        ) from error
    return record


def write_record(folder: Folder, run_id: str, record: Mapping[str, Any]) -> None:
    """Writes the record of a run, whole or not at all, and safe from a loss of power."""
    # ASCII, since file names may not be valid Unicode.
    text = json.dumps(record, allow_nan=False, separators=(",", ":"))
    folder.write(record_path(run_id), text.encode("ascii"))


def record_path(run_id: str) -> str:
    """The path of a run's record in the table's folder, once it is written."""
    return f"{RECORDS}/{checked_name(run_id, 'run_id')}.json"
