"""What dead runs left is deleted; what any version refers to stays."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from backfill.errors import TableError
from backfill.folders import LocalFolder
from backfill.store import Cleaned, DeltaStore
from backfill.store.files.record import write_record
from backfill.store.files.staging import move_files
from tests.store.by_hand import by_hand, content, day
from tests.tables import folder_of, paths_of, record_of

Publish = Callable[..., int]

NOTHING = Cleaned(staged=0, files=0, records=0, size=0)
HOUR = 3600.0


def age(folder: Path, seconds: float) -> None:
    moment = time.time() - seconds
    for path in (folder, *folder.rglob("*")):
        os.utime(path, (moment, moment))


def test_only_what_no_version_has(store: DeltaStore, publish: Publish) -> None:
    folder = folder_of(store, "sessions")
    publish(by_hand(store, "r1", "2024-01-01", "2024-01-02"))
    publish(by_hand(store, "r2", "2024-01-02"), paths_of(store, "sessions")[1:])
    publish(by_hand(store, "r3", "2024-01-01"), [])
    DeltaTable(folder).optimize.compact()
    store.restore("sessions", 1, run_id="back", metadata={})
    publish(by_hand(store, "r4", "2024-01-05"))
    versions = [content(store, version=version) for version in range(6)]
    age(folder, 2 * HOUR)
    assert store.clean("sessions", older_than_s=HOUR) == NOTHING

    staged = by_hand(store, "died_staged", "2024-01-01", "2024-01-02")
    moved = by_hand(store, "died_moved", "2024-01-01", "2024-01-09")
    move_files(moved, LocalFolder(folder))
    write_record(LocalFolder(folder), "died_moved", {})
    (folder / "_record" / "died_moved.tmp").write_text("{")
    size = sum(file.size for file in (*staged.files, *moved.files)) + len("{}") + len("{")
    (folder / "notes.txt").write_text("not ours")
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "x.parquet").write_text("not ours")
    assert store.clean("sessions", older_than_s=HOUR) == NOTHING, "a run that is under way"
    age(folder, 2 * HOUR)
    cleaned = store.clean("sessions", older_than_s=HOUR)
    assert cleaned == Cleaned(staged=1, files=2, records=2, size=size)
    assert store.clean("sessions", older_than_s=HOUR) == NOTHING
    assert not Path(staged.folder).exists()
    assert (folder / "notes.txt").exists()
    assert (folder / "elsewhere" / "x.parquet").exists()
    for version, rows in enumerate(versions):
        assert content(store, version=version) == rows
        assert record_of(store, "sessions", version=version) is not None


def test_a_staged_folder_is_as_old_as_its_newest_file(store: DeltaStore) -> None:
    staged = by_hand(store, "slow", "2024-01-01", "2024-01-02")
    age(Path(staged.folder), 2 * HOUR)
    os.utime(Path(staged.folder) / staged.files[1].path)
    assert store.clean("sessions", older_than_s=HOUR) == NOTHING
    age(Path(staged.folder), 2 * HOUR)
    assert store.clean("sessions", older_than_s=HOUR).staged == 1


def test_files_are_as_old_as_their_way_to_the_table(store: DeltaStore, publish: Publish) -> None:
    """A run may stage hours before it publishes; its files are safe between move and commit."""
    publish(by_hand(store, "r1", "2024-01-01"))
    slow = by_hand(store, "slow", "2024-01-02")
    age(Path(slow.folder), 2 * HOUR)
    move_files(slow, LocalFolder(folder_of(store, "sessions")))
    assert store.clean("sessions", older_than_s=HOUR) == NOTHING
    assert publish(slow, [], dates=day("2024-01-02")) == 1
    assert content(store) == ["r1 2024-01-01", "slow 2024-01-02"]


def test_without_a_table_only_what_is_surely_ours(store: DeltaStore, tmp_path: Path) -> None:
    assert store.clean("sessions", older_than_s=0) == NOTHING
    folder = folder_of(store, "sessions")
    by_hand(store, "died", "2024-01-01")
    write_record(LocalFolder(folder), "died", {})
    (folder / "mine.parquet").write_text("not ours")
    age(folder, 1)
    cleaned = store.clean("sessions", older_than_s=0)
    assert (cleaned.staged, cleaned.files, cleaned.records) == (1, 0, 1)
    assert (folder / "mine.parquet").exists()


def test_a_damaged_log_keeps_everything(store: DeltaStore, publish: Publish) -> None:
    publish(by_hand(store, "r1", "2024-01-01"))
    publish(by_hand(store, "r2", "2024-01-01"))
    folder = folder_of(store, "sessions")
    DeltaTable(folder).create_checkpoint()
    (folder / "_delta_log" / f"{0:020}.json").write_text('{"add": {"pa')
    by_hand(store, "died", "2024-01-01")
    age(folder, 1)
    with pytest.raises(TableError, match="the log of version 0 cannot be read"):
        store.clean("sessions", older_than_s=0)
    assert len(list(folder.rglob("*.parquet"))) == 4
