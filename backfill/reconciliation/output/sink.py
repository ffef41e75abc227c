"""Which files of a folder are output of Spark's file sink, by its log.

A query that is killed leaves files of a batch that it never committed, and writes that batch again
when it resumes. The folder's `_spark_metadata` has a log for each batch, with the files that it
added, and now and then a compact log with all files so far.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

from backfill.errors import SourceError
from backfill.events.files import local_path

_LOG = "_spark_metadata"


def not_committed(path: str, files: Collection[str]) -> list[str]:
    """The files that are in no log of the sink; none if there is no log on the local disk.

    Files are identified by their names, which the sink makes unique, because the folder may have
    been moved.

    Args:
        path: the sink's folder.
        files: the files in it.

    Raises:
        SourceError: the log cannot be read.
    """
    local = local_path(path)
    folder = Path(local) / _LOG if local is not None else None
    if folder is None or not folder.is_dir():
        return []
    logs = {int(n): log for log in folder.iterdir() if (n := log.name.split(".")[0]).isdigit()}
    compact = max((n for n, log in logs.items() if log.suffix == ".compact"), default=-1)
    known: set[str] = set()
    try:
        for number in sorted(logs):
            if number < compact:
                continue
            version, *lines = logs[number].read_text(encoding="utf-8").splitlines()
            if version != "v1":
                raise ValueError(f"{logs[number].name} has version {version}, but only v1 is known")
            for line in lines:
                entry = json.loads(line)
                name = str(local_path(entry["path"]) or entry["path"]).rsplit("/", 1)[-1]
                if entry["action"] == "add":
                    known.add(name)
                else:
                    known.discard(name)
    except (OSError, ValueError, KeyError) as error:
        raise SourceError(
            f"the sink's log cannot be read: {error}", field="stream.path", value=str(folder)
        ) from error
    return [file for file in files if file.rsplit("/", 1)[-1] not in known]
