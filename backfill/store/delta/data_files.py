"""The files of a version with their statistics, so that a run opens only those that it must."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from backfill.folders import Folder
from backfill.store.delta.opening import plain_paths
from backfill.store.protocol import DataFile


def live_with_statistics(folder: Folder, table: DeltaTable) -> tuple[DataFile, ...]:
    """The files of a version, in order of path."""
    actions = pa.table(table.get_add_actions(flatten=True))
    if not actions.num_rows:
        return ()
    paths = plain_paths(folder, table, actions["path"].to_pylist())
    rows = actions["num_records"].to_pylist()
    bounds: dict[str, list[dict[str, Any]]] = {
        end: [{} for _ in paths] for end in ("min", "max", "partition", "null_count")
    }
    for name in actions.column_names:
        end, _, column = name.partition(".")
        # A name with a dot is a nested field's, or could be one.
        if end in bounds and "." not in column:
            for values, value in zip(bounds[end], _plain(actions[name], end), strict=True):
                if value is not None:
                    values[column] = value
    files = (
        DataFile(
            path=path,
            size=size,
            # Others may write files without statistics.
            rows=_count(folder, path) if count is None else count,
            minimum=smallest | partition,
            maximum=largest | partition,
            complete=frozenset(name for name, missing in nulls.items() if missing == 0),
        )
        for path, size, count, smallest, largest, partition, nulls in zip(
            paths,
            actions["size_bytes"].to_pylist(),
            rows,
            bounds["min"],
            bounds["max"],
            bounds["partition"],
            bounds["null_count"],
            strict=True,
        )
    )
    return tuple(sorted(files, key=lambda file: file.path))


def _count(folder: Folder, path: str) -> int:
    with folder.answering():
        count: int = pq.read_metadata(folder.path(path), filesystem=folder.filesystem).num_rows
    return count


def _plain(column: pa.ChunkedArray, end: str) -> list[Any]:
    if not pa.types.is_timestamp(column.type):
        values: list[Any] = column.to_pylist()
        return values
    times: list[int | None] = (
        column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist()
    )
    if end != "max":
        return times
    # Statistics are in milliseconds, and other writers round down: the largest time may be later.
    return [time + 999 if time is not None and time % 1000 == 0 else time for time in times]
