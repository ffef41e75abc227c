"""What a run reads and writes of an Iceberg table's metadata after many other runs."""

from __future__ import annotations

import time
from collections import Counter
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import ManifestFile

from backfill.store.iceberg.store import IcebergStore
from tests.lake import lake
from tests.spark_sql import SparkSql, with_jars
from tests.store.by_hand import by_hand, content, day, publish_to
from tests.tables import record_of

MOST = 5


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a catalog with a table that joins its manifests early."""
    store = lake(tmp_path / "lake")
    _run(store, 0)
    with _table(store).transaction() as transaction:
        transaction.set_properties({"commit.manifest.min-count-to-merge": str(MOST)})
    return tmp_path / "lake"


def _table(store: IcebergStore) -> Any:
    return store.catalog.load_table((*store.namespace, "sessions"))


def _day(number: int) -> str:
    return str(date(2024, 1, 1) + timedelta(days=number))


def _run(store: IcebergStore, number: int) -> tuple[set[str], set[str]]:
    """A run of a new day that also replaces the day before; the files that it adds and removes."""
    table = store.open("sessions")
    before = [] if table is None else [file.path for file in table.files]
    old = [path for path in before if _day(number - 1) in path]
    days = (_day(number - 1), _day(number)) if before else (_day(number),)
    staged = by_hand(store, f"r{number}", *days)
    dates = [calendar_date for text in days for calendar_date in day(text)]
    base = None if table is None else table.version
    publish_to(store, staged, old if before else "all", dates=dates, base=base)
    return {file.path for file in staged.files}, set(old)


def test_they_stay_few(folder: Path) -> None:
    store = lake(folder)
    made = [_run(store, number) for number in range(1, 18)]
    manifests = _table(store).current_snapshot().manifests(_table(store).io)
    assert len(manifests) <= MOST + 1
    # One manifest tells what the last run removed, for `changes`; older such ones are dropped.
    dead = [
        manifest
        for manifest in manifests
        if not (manifest.added_files_count or manifest.existing_files_count)
    ]
    assert {manifest.sequence_number for manifest in dead} <= {18}
    # Each date is from the run after it, except the last one.
    assert content(store) == sorted(f"r{min(index + 1, 17)} {_day(index)}" for index in range(18))
    for version, (added, removed) in enumerate(made, start=1):
        changes = store.log("sessions").changes(version)
        assert (changes.added, changes.removed) == (added, removed)
        assert len(content(store, version=version)) == version + 1
    assert record_of(store, "sessions") == {"runs": [f"r{index}" for index in range(18)]}


def test_tables_that_do_not_want_them_joined(folder: Path) -> None:
    store = lake(folder)
    with _table(store).transaction() as transaction:
        transaction.set_properties({"commit.manifest-merge.enabled": "false"})
    for number in range(1, 2 * MOST):
        publish_to(store, by_hand(store, f"r{number}", _day(number)), [])
    assert len(_table(store).current_snapshot().manifests(_table(store).io)) == 2 * MOST


def test_a_run_reads_no_more_after_many_others(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: Counter[str] = Counter()

    def counted(owner: type, name: str) -> None:
        real = getattr(owner, name)

        def call(*arguments: Any, **options: Any) -> Any:
            asked[name] += 1
            return real(*arguments, **options)

        monkeypatch.setattr(owner, name, call)

    counted(SqlCatalog, "load_table")
    counted(ManifestFile, "fetch_manifest_entry")
    for number in range(1, 30):
        asked.clear()
        _run(lake(folder), number)
        # Two by us, for the run and its commit, one for what came between, and one by the library.
        assert asked["load_table"] == 4
        # Each once, those with files to remove twice, and all again when they are joined.
        assert asked["fetch_manifest_entry"] <= 2 * MOST + 4


def test_threads_do_not_mix_them_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(list[Any]):
        """Lets other threads run between two accesses."""

        def __getitem__(self, place: Any) -> Any:
            time.sleep(0.02)
            return super().__getitem__(place)

    store = lake(folder)
    for number in (1, 2):
        publish_to(store, by_hand(store, f"r{number}", _day(number)), [])
    table = store.open("sessions")
    assert table is not None
    own = [file.path for file in table.files if _day(0) not in file.path]
    real = ManifestFile.partitions.fget
    monkeypatch.setattr(ManifestFile, "partitions", property(lambda manifest: Slow(real(manifest))))
    publish_to(store, by_hand(store, "r3", _day(3)), own)
    monkeypatch.undo()
    assert content(store) == [f"r0 {_day(0)}", f"r3 {_day(3)}"]


@with_jars
def test_spark_reads_them(folder: Path, spark_sql: SparkSql) -> None:
    store = lake(folder)
    for number in range(1, 9):
        _run(store, number)
    [early] = [
        snapshot.snapshot_id
        for snapshot in _table(store).snapshots()
        if snapshot.sequence_number == 3
    ]
    statements = (
        "SELECT user_id, date FROM lake.web.sessions ORDER BY date",
        f"SELECT user_id FROM lake.web.sessions VERSION AS OF {early} ORDER BY date",
        "SELECT count(*) FROM lake.web.sessions.manifests WHERE existing_data_files_count > 2",
        "CALL lake.system.rewrite_manifests('web.sessions')",
    )
    now, then, joined, *_ = spark_sql.iceberg(folder, *statements)
    assert now == [f"r{min(index + 1, 8)}|{_day(index)}" for index in range(9)]
    assert then == ["r1", "r2", "r2"]
    assert joined == ["1"]
    _run(store, 9)
    assert content(store) == [f"r{min(index + 1, 9)} {_day(index)}" for index in range(10)]
