"""One commit, whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from backfill.errors import TableError
from backfill.store import DeltaStore, StagedFiles
from backfill.store.delta import writing
from tests.store.by_hand import by_hand, content, day
from tests.tables import commits_of, files_of, folder_of, paths_of, record_of, rows_of, version_of

Windows = Callable[..., DataFrame]
Stage = Callable[..., StagedFiles]
Publish = Callable[..., int]

MONDAY = ("a", "2024-01-01", "2024-01-01 10:00:00")
TUESDAY = ("a", "2024-01-02", "2024-01-02 10:00:00")
LATER = ("b", "2024-01-02", "2024-01-02 11:00:00")


def keys(store: DeltaStore, spark: SparkSession, version: int | None = None) -> list[str]:
    frame = rows_of(store, spark, "sessions", version=version)
    return sorted(f"{row.user_id} {row.date}" for row in frame.collect())


def test_nothing_is_visible_before_the_commit(
    store: DeltaStore, spark: SparkSession, windows: Windows, stage: Stage, publish: Publish
) -> None:
    staged = stage(windows(MONDAY), "r1")
    assert store.open("sessions") is None
    assert version_of(store, "sessions") is None
    assert commits_of(store, "sessions") == ()
    assert files_of(store, "sessions") == ()
    assert record_of(store, "sessions") is None
    assert publish(staged) == 0
    assert keys(store, spark) == ["a 2024-01-01"]
    # A run is killed after staging: the table is as before, and another run goes on.
    killed = stage(windows(MONDAY, TUESDAY), "r2")
    assert keys(store, spark) == ["a 2024-01-01"]
    assert version_of(store, "sessions") == 0
    assert publish(stage(windows(TUESDAY), "r3"), []) == 1
    assert keys(store, spark) == ["a 2024-01-01", "a 2024-01-02"]
    store.discard(killed)
    assert not Path(killed.folder).exists()
    assert keys(store, spark) == ["a 2024-01-01", "a 2024-01-02"]


def test_everything_is_replaced_and_old_versions_stay(
    store: DeltaStore, spark: SparkSession, windows: Windows, stage: Stage, publish: Publish
) -> None:
    publish(stage(windows(MONDAY, TUESDAY), "r1"))
    second = stage(windows(LATER), "r2")
    assert publish(second) == 1
    assert keys(store, spark) == ["b 2024-01-02"]
    assert keys(store, spark, version=0) == ["a 2024-01-01", "a 2024-01-02"]
    store.discard(second)
    assert keys(store, spark) == ["b 2024-01-02"], "published files are not discarded"
    assert record_of(store, "sessions") == {"runs": ["r1", "r2"]}
    empty = stage(windows(MONDAY).where("false"), "r3")
    assert publish(empty) == 2
    assert keys(store, spark) == []


def test_single_files_are_replaced(
    store: DeltaStore, spark: SparkSession, windows: Windows, stage: Stage, publish: Publish
) -> None:
    publish(stage(windows(MONDAY, TUESDAY), "r1"))
    tuesday = [path for path in paths_of(store, "sessions") if "date=2024-01-02" in path]
    staged = stage(windows(LATER), "r2")
    assert publish(staged, tuesday * 2) == 1
    assert keys(store, spark) == ["a 2024-01-01", "b 2024-01-02"]
    log = folder_of(store, "sessions") / "_delta_log" / f"{1:020}.json"
    removes = [
        action["remove"]
        for action in map(json.loads, log.read_text().splitlines())
        if "remove" in action
    ]
    assert [remove["path"] for remove in removes] == tuesday
    assert removes[0]["partitionValues"] == {"date": "2024-01-02"}
    with pytest.raises(TableError, match=r"no longer in the table"):
        publish(stage(windows(LATER), "r3"), tuesday)
    assert version_of(store, "sessions") == 1


def test_only_the_record_changes(store: DeltaStore, publish: Publish) -> None:
    publish(by_hand(store, "r1", "2024-01-01"))
    assert publish(by_hand(store, "r2"), [], dates=day("2024-01-02")) == 1
    assert content(store) == ["r1 2024-01-01"]
    assert record_of(store, "sessions") == {"runs": ["r1", "r2"]}
    assert record_of(store, "sessions", version=0) == {"runs": ["r1"]}


def test_another_schema_only_with_everything(
    store: DeltaStore, spark: SparkSession, windows: Windows, stage: Stage, publish: Publish
) -> None:
    publish(stage(windows(MONDAY), "r1"))
    other = windows(TUESDAY, events="timestamp_ntz'2024-01-01 00:00:00'").withColumnRenamed(
        "is_open", "was_open"
    )
    staged = stage(other, "r2")
    with pytest.raises(TableError, match="columns or types of the new files"):
        publish(staged, [])
    # The library makes its own commit for the new type, which conflicts with nothing.
    assert publish(staged) == 2
    frame = rows_of(store, spark, "sessions")
    assert dict(frame.dtypes)["events"] == "timestamp_ntz"
    assert frame.columns == other.columns
    assert frame.count() == 1
    assert rows_of(store, spark, "sessions", version=0).columns == windows(MONDAY).columns
    assert record_of(store, "sessions") == {"runs": ["r1", "r2"]}
    assert store.restore("sessions", 0, run_id="back", metadata={}) == 3
    assert rows_of(store, spark, "sessions").columns == windows(MONDAY).columns
    assert keys(store, spark) == ["a 2024-01-01"]
    assert DeltaTable(folder_of(store, "sessions")).to_pyarrow_table().num_rows == 1
    unpartitioned = store.stage("sessions", other, run_id="r3", partition_by=(), sort_by=())
    with pytest.raises(TableError, match="partitioned by other columns: date"):
        publish(unpartitioned)


def test_history_tells_what_was_published(store: DeltaStore, publish: Publish) -> None:
    before = datetime.now(timezone.utc).replace(microsecond=0)
    publish(by_hand(store, "r1", "2024-01-01"), metadata={"engine": "plain"})
    publish(
        by_hand(store, "r2", "2024-01-02"), [], dates=day("2024-01-02"), metadata={"engine": "beam"}
    )
    newest, oldest = commits_of(store, "sessions")
    assert newest.version == 1
    assert newest.metadata == {
        "run_id": "r2",
        "engine": "beam",
        "closure": '[["2024-01-02", "2024-01-03"]]',
        "record": "r2",
    }
    assert oldest.version == 0
    assert oldest.metadata == {
        "run_id": "r1",
        "engine": "plain",
        "closure": "null",
        "record": "r1",
    }
    assert before <= oldest.timestamp <= newest.timestamp <= datetime.now(timezone.utc)


def test_discarded_files_cannot_be_published(store: DeltaStore, publish: Publish) -> None:
    staged = by_hand(store, "r1", "2024-01-01")
    store.discard(staged)
    with pytest.raises(TableError, match="sessions: a staged file is missing"):
        publish(staged)
    assert store.open("sessions") is None


def test_a_refused_run_leaves_nothing_behind_once_discarded(
    store: DeltaStore, publish: Publish
) -> None:
    mine, other = by_hand(store, "mine", "2024-01-01"), by_hand(store, "other", "2024-01-02")

    def overtaken(before: object) -> dict[str, object]:
        # By now the files are where the log will point to.
        publish(other, [])
        return {}

    with pytest.raises(TableError, match="meanwhile"):
        store.publish(
            "sessions", mine, replace="all", base=None, dates=None, metadata={}, record=overtaken
        )
    store.discard(mine)
    store.discard(other)
    folder = folder_of(store, "sessions")
    left = {path.relative_to(folder).as_posix() for path in folder.rglob("*.parquet")}
    assert left == set(paths_of(store, "sessions"))
    assert len(left) == 1
    assert [path.name for path in (folder / "_record").iterdir()] == ["other.json"]
    assert record_of(store, "sessions") == {"runs": ["other"]}


def test_what_has_landed_is_not_published_twice(
    store: DeltaStore, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(by_hand(store, "r1", "2024-01-01"))
    exchange = writing.exchange

    def exchange_then_fail(*arguments: object) -> None:
        exchange(*arguments)
        raise OSError("no space left for a checkpoint")

    monkeypatch.setattr(writing, "exchange", exchange_then_fail)
    staged = by_hand(store, "r2", "2024-01-02")
    assert publish(staged, []) == 1
    assert publish(staged, [], base=0) == 1
    assert version_of(store, "sessions") == 1
    assert record_of(store, "sessions") == {"runs": ["r1", "r2"]}
    store.discard(staged)
    assert content(store) == ["r1 2024-01-01", "r2 2024-01-02"]
    again = by_hand(store, "r2", "2024-01-03")
    with pytest.raises(TableError, match=r"run r2: the run has published other files in version 1"):
        publish(again, [], base=0)
    store.discard(again)
    assert content(store) == ["r1 2024-01-01", "r2 2024-01-02"]
    assert record_of(store, "sessions") == {"runs": ["r1", "r2"]}
    assert not Path(again.folder).exists()


def test_a_commit_that_fails_says_why(
    store: DeltaStore, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(writing, "create", fail)
    with pytest.raises(TableError, match="sessions: the commit failed: disk full"):
        publish(by_hand(store, "r1", "2024-01-01"))


def test_names_must_agree(store: DeltaStore) -> None:
    with pytest.raises(TableError, match="staged for another table"):
        store.publish(
            "hourly",
            by_hand(store, "r1", "2024-01-01"),
            replace="all",
            base=None,
            dates=None,
            metadata={},
            record=lambda before: {},
        )


def test_a_broken_table_is_named(store: DeltaStore, publish: Publish) -> None:
    publish(by_hand(store, "r1", "2024-01-01"))
    with pytest.raises(TableError, match="cannot be read at version 7"):
        paths_of(store, "sessions", version=7)
    (folder_of(store, "sessions") / "_delta_log" / f"{0:020}.json").write_text("nonsense")
    with pytest.raises(TableError, match="cannot be read"):
        version_of(store, "sessions")
    for look_up in (commits_of, record_of):
        with pytest.raises(TableError, match=r"the table cannot be read: .*Json error"):
            look_up(store, "sessions")


def test_another_table_in_its_place(store: DeltaStore, publish: Publish) -> None:
    publish(by_hand(store, "r1", "2024-01-01"))
    with pytest.raises(TableError, match=r"at version 0, but was at version 3 before"):
        publish(by_hand(store, "r2", "2024-01-02"), [], base=3)


def test_many_runs_leave_a_checkpoint_and_all_history(
    store: DeltaStore, spark: SparkSession, publish: Publish
) -> None:
    publish(by_hand(store, "r0", "2024-01-01"))
    for number in range(1, 103):
        publish(by_hand(store, f"r{number}"), [], dates=day("2024-01-02"))
    assert list((folder_of(store, "sessions") / "_delta_log").glob("*.checkpoint.parquet"))
    commits = commits_of(store, "sessions")
    assert [commit.metadata["run_id"] for commit in commits] == [
        f"r{n}" for n in range(102, -1, -1)
    ]
    assert content(store) == ["r0 2024-01-01"]
    assert keys(store, spark) == ["r0 2024-01-01"]
    assert keys(store, spark, version=0) == ["r0 2024-01-01"]
    assert DeltaTable(folder_of(store, "sessions")).version() == 102
    assert len(record_of(store, "sessions")["runs"]) == 103
