"""Going back to an older version, with its record."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from backfill.errors import TableError
from backfill.folders import LocalFolder
from backfill.store import DeltaStore
from backfill.store.delta.entries import read_changes
from backfill.store.files import restore
from tests.store.by_hand import by_hand, content, day
from tests.tables import commits_of, folder_of, paths_of, record_of, rows_of, version_of

Publish = Callable[..., int]


def test_rows_and_record_go_back_together(
    spark: SparkSession, store: DeltaStore, publish: Publish
) -> None:
    publish(by_hand(store, "r1", "2024-01-01", "2024-01-02"))
    publish(by_hand(store, "r2", "2024-01-02"), paths_of(store, "sessions")[1:])
    publish(by_hand(store, "r3", "2024-01-03"), [])
    assert store.restore("sessions", 1, run_id="back", metadata={"to": "r2"}) == 3
    assert content(store) == ["r1 2024-01-01", "r2 2024-01-02"]
    assert rows_of(store, spark, "sessions").count() == 2
    assert record_of(store, "sessions") == {"runs": ["r1", "r2"]}
    assert commits_of(store, "sessions")[0].metadata == {
        "to": "r2",
        "run_id": "back",
        "closure": "null",
        "record": "r2",
    }
    # Forward too, and a run goes on from there.
    assert store.restore("sessions", 2, run_id="forth", metadata={}) == 4
    assert content(store)[-1] == "r3 2024-01-03"
    assert publish(by_hand(store, "r4", "2024-01-04"), []) == 5
    assert record_of(store, "sessions") == {"runs": ["r1", "r2", "r3", "r4"]}
    assert store.restore("sessions", 5, run_id="nowhere", metadata={}) == 5


def test_it_is_in_the_way_of_runs_that_began_before(store: DeltaStore, publish: Publish) -> None:
    publish(by_hand(store, "r1", "2024-01-01"))
    publish(by_hand(store, "r2", "2024-01-02"), [])
    store.restore("sessions", 0, run_id="back", metadata={})
    with pytest.raises(TableError, match="run back published version 2 meanwhile, and it replaced"):
        publish(by_hand(store, "r3", "2024-01-03"), [], dates=day("2024-01-03"), base=1)


def test_files_must_be_there(store: DeltaStore, publish: Publish) -> None:
    publish(by_hand(store, "r1", "2024-01-01"))
    (path,) = paths_of(store, "sessions")
    publish(by_hand(store, "r2", "2024-01-02"))
    with pytest.raises(TableError, match="cannot be read at version 9"):
        store.restore("sessions", 9, run_id="back", metadata={})
    (folder_of(store, "sessions") / path).unlink()
    with pytest.raises(
        TableError, match=r"1 of the 1 files of version 0 are gone, date=2024-01-01"
    ):
        store.restore("sessions", 0, run_id="back", metadata={})
    assert version_of(store, "sessions") == 1
    with pytest.raises(TableError, match="does not exist yet"):
        store.restore("nothing", 0, run_id="back", metadata={})


def test_to_before_all_records(store: DeltaStore, publish: Publish) -> None:
    folder = folder_of(store, "sessions")
    publish(by_hand(store, "r0", "2024-01-01"))
    rows = DeltaTable(folder).to_pyarrow_table()
    shutil.rmtree(folder)
    write_deltalake(str(folder), rows, partition_by=["date"])
    publish(by_hand(store, "r1", "2024-01-02"), [])
    assert record_of(store, "sessions") == {"runs": ["r1"]}
    assert store.restore("sessions", 0, run_id="back", metadata={}) == 2
    assert content(store) == ["r0 2024-01-01"]
    assert record_of(store, "sessions") is None
    publish(by_hand(store, "r2", "2024-01-02"), [])
    assert record_of(store, "sessions") == {"runs": ["r2"]}


def test_a_run_that_comes_first_wins(
    store: DeltaStore, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(by_hand(store, "r1", "2024-01-01"))
    publish(by_hand(store, "r2", "2024-01-02"), [])
    check, other = restore.check_present, by_hand(store, "r3", "2024-01-03")

    def check_then_lose(*arguments: object) -> None:
        check(*arguments)
        publish(other, [])

    monkeypatch.setattr(restore, "check_present", check_then_lose)
    with pytest.raises(TableError, match=r"run r3 published version 2 meanwhile\. Run the restore"):
        store.restore("sessions", 0, run_id="back", metadata={})
    assert content(store) == ["r1 2024-01-01", "r2 2024-01-02", "r3 2024-01-03"]


def test_across_checkpoints(store: DeltaStore, publish: Publish) -> None:
    """A checkpoint describes files differently than commits do: nothing may get lost by that."""
    publish(by_hand(store, "r0", "2024-01-01", "2024-01-02"))
    kept, replaced = paths_of(store, "sessions")
    for number in range(1, 120):
        path = [replaced] if number == 110 else []
        publish(by_hand(store, f"r{number}"), path, dates=day("2024-01-02"))
    publish(by_hand(store, "last", "2024-01-03"), [])
    assert list((folder_of(store, "sessions") / "_delta_log").glob("*.checkpoint.parquet"))
    for version, rows in ((5, 2), (105, 2), (115, 1), (120, 2), (0, 2)):
        made = store.restore("sessions", version, run_id=f"to{version}", metadata={})
        assert content(store) == content(store, version=version)
        assert len(content(store)) == rows
        changes = read_changes(LocalFolder(folder_of(store, "sessions")), made)
        assert not changes.added & changes.removed
        assert kept not in changes.added | changes.removed
        assert record_of(store, "sessions") == record_of(store, "sessions", version=version)
