"""Staged files without Spark, and publishing, for tests of what happens afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema

from backfill.store import StagedFiles
from backfill.store.files.staging import STAGING, _collect
from backfill.store.files.store import FileStore
from backfill.store.iceberg.store import IcebergStore
from tests.tables import version_of

_COLUMNS = pa.schema(
    [
        ("user_id", pa.string()),
        ("window_start", pa.timestamp("us", "UTC")),
        ("window_end", pa.timestamp("us", "UTC")),
        ("events", pa.int64()),
        ("is_open", pa.bool_()),
    ]
)
_SCHEMA = Schema.from_arrow(_COLUMNS.append(pa.field("date", pa.date32())))


def by_hand(
    store: FileStore, run_id: str, *days: str, name: str = "sessions", piece: int = 0
) -> StagedFiles:
    """A file with one window for each of the days; the window's key is the run."""
    folder = store.log(name).folder / STAGING / run_id
    folder.make()
    for day in days:
        start = datetime.fromisoformat(f"{day}T12:00:00.000001+00:00")
        row = {
            "user_id": run_id,
            "window_start": start,
            "window_end": start + timedelta(minutes=10),
            "events": 1,
            "is_open": False,
        }
        (folder / f"date={day}").make()
        path = folder.path(f"date={day}/part-{piece}-{run_id}.parquet")
        rows = pa.Table.from_pylist([row], _COLUMNS)
        pq.write_table(rows, path, filesystem=folder.filesystem)
    files = _collect(folder, _SCHEMA, ("date",))
    return StagedFiles(name, run_id, folder, _SCHEMA.to_json(), ("date",), files)


def publish_to(
    store: FileStore,
    staged: StagedFiles,
    replace: Literal["all"] | Sequence[str] = "all",
    *,
    dates: Sequence[tuple[date, date]] | None = None,
    metadata: Mapping[str, str] = {},
    **base: int | None,
) -> int:
    """Publishes like a run that began from the newest version, or from `base`.

    The record lists the runs so far, with this one last.
    """

    def record(before: dict[str, Any] | None) -> dict[str, Any]:
        return {"runs": [*(before["runs"] if before else []), staged.run_id]}

    return store.publish(
        staged.name,
        staged,
        replace=replace,
        base=base["base"] if base else version_of(store, staged.name),
        dates=dates,
        metadata=metadata,
        record=record,
    )


def days(*starts_and_ends: str) -> list[tuple[date, date]]:
    """Half-open ranges: `days("2024-01-01", "2024-01-03")` is one range of two days."""
    dates = [date.fromisoformat(text) for text in starts_and_ends]
    return list(zip(dates[::2], dates[1::2], strict=True))


def day(text: str) -> list[tuple[date, date]]:
    """A range of one day."""
    start = date.fromisoformat(text)
    return [(start, start + timedelta(days=1))]


def content(store: FileStore, name: str = "sessions", version: int | None = None) -> list[str]:
    """The key and the date of every row, read by the library of the tables."""
    if isinstance(store, IcebergStore):
        loaded = store.catalog.load_table((*store.namespace, name))
        numbers = {commit.sequence_number: commit.snapshot_id for commit in loaded.snapshots()}
        snapshot = None if version is None else numbers[version + 1]
        table = loaded.scan(snapshot_id=snapshot).to_arrow()
    else:
        folder = store.log(name).folder
        log = DeltaTable(folder.uri, version, dict(folder.options))
        table = log.to_pyarrow_table()
    return sorted(f"{row['user_id']} {row['date']}" for row in table.to_pylist())
