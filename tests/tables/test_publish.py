"""One commit, whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from backfill.errors import BackfillError, TableError
from backfill.tables import DeltaStore, StagedFiles, commit

Windows = Callable[..., DataFrame]
Stage = Callable[..., StagedFiles]

MONDAY = ("a", "2024-01-01", "2024-01-01 10:00:00")
TUESDAY = ("a", "2024-01-02", "2024-01-02 10:00:00")
LATER = ("b", "2024-01-02", "2024-01-02 11:00:00")


def keys(store: DeltaStore, spark: SparkSession, version: int | None = None) -> list[str]:
    frame = store.read(spark, "sessions", version=version)
    return sorted(f"{row.user_id} {row.date}" for row in frame.collect())


def test_nothing_is_visible_before_the_commit(
    store: DeltaStore, spark: SparkSession, windows: Windows, stage: Stage
) -> None:
    staged = stage(windows(MONDAY), "r1")
    assert not store.exists("sessions")
    assert store.version("sessions") is None
    assert store.history("sessions") == []
    assert store.publish("sessions", staged, replace="all", metadata={}) == 0
    assert keys(store, spark) == ["a 2024-01-01"]
    # A run that is killed after staging: the table is as before, and another run goes on.
    killed = stage(windows(MONDAY, TUESDAY), "r2")
    assert keys(store, spark) == ["a 2024-01-01"]
    assert store.version("sessions") == 0
    assert store.publish("sessions", stage(windows(TUESDAY), "r3"), replace=[], metadata={}) == 1
    assert keys(store, spark) == ["a 2024-01-01", "a 2024-01-02"]
    store.discard(killed)
    assert not killed.folder.exists()
    assert keys(store, spark) == ["a 2024-01-01", "a 2024-01-02"]


def test_everything_is_replaced_and_old_versions_stay(
    store: DeltaStore, spark: SparkSession, windows: Windows, stage: Stage
) -> None:
    store.publish("sessions", stage(windows(MONDAY, TUESDAY), "r1"), replace="all", metadata={})
    second = stage(windows(LATER), "r2")
    assert store.publish("sessions", second, replace="all", metadata={}) == 1
    assert keys(store, spark) == ["b 2024-01-02"]
    assert keys(store, spark, version=0) == ["a 2024-01-01", "a 2024-01-02"]
    store.discard(second)
    assert keys(store, spark) == ["b 2024-01-02"], "published files are not discarded"
    empty = stage(windows(MONDAY).where("false"), "r3")
    assert store.publish("sessions", empty, replace="all", metadata={}) == 2
    assert keys(store, spark) == []


def test_single_files_are_replaced(
    store: DeltaStore, spark: SparkSession, windows: Windows, stage: Stage
) -> None:
    store.publish("sessions", stage(windows(MONDAY, TUESDAY), "r1"), replace="all", metadata={})
    tuesday = [path for path in store.files("sessions") if "date=2024-01-02" in path]
    staged = stage(windows(LATER), "r2")
    assert store.publish("sessions", staged, replace=tuesday * 2, metadata={}) == 1
    assert keys(store, spark) == ["a 2024-01-01", "b 2024-01-02"]
    log = store.folder("sessions") / "_delta_log" / f"{1:020}.json"
    removes = [
        action["remove"]
        for action in map(json.loads, log.read_text().splitlines())
        if "remove" in action
    ]
    assert [remove["path"] for remove in removes] == tuesday
    assert removes[0]["partitionValues"] == {"date": "2024-01-02"}
    with pytest.raises(TableError, match=r"not in the table \(any more\); run r2 removed it"):
        store.publish("sessions", stage(windows(LATER), "r3"), replace=tuesday, metadata={})
    assert store.version("sessions") == 1


def test_another_schema_only_with_everything(
    store: DeltaStore, spark: SparkSession, windows: Windows, stage: Stage
) -> None:
    store.publish("sessions", stage(windows(MONDAY), "r1"), replace="all", metadata={})
    other = windows(TUESDAY, events="timestamp_ntz'2024-01-01 00:00:00'").withColumnRenamed(
        "is_open", "was_open"
    )
    staged = stage(other, "r2")
    with pytest.raises(TableError, match="other columns or types"):
        store.publish("sessions", staged, replace=[], metadata={})
    store.publish("sessions", staged, replace="all", metadata={})
    frame = store.read(spark, "sessions")
    assert dict(frame.dtypes)["events"] == "timestamp_ntz"
    assert frame.columns == other.columns
    assert frame.count() == 1
    assert store.read(spark, "sessions", version=0).columns == windows(MONDAY).columns
    unpartitioned = store.stage("sessions", other, run_id="r3", partition_by=(), sort_by=())
    with pytest.raises(TableError, match="partitioned by other columns: date"):
        store.publish("sessions", unpartitioned, replace="all", metadata={})


def test_history_tells_what_was_published(
    store: DeltaStore, windows: Windows, stage: Stage
) -> None:
    before = datetime.now(timezone.utc).replace(microsecond=0)
    store.publish(
        "sessions", stage(windows(MONDAY), "r1"), replace="all", metadata={"engine": "plain"}
    )
    store.publish(
        "sessions", stage(windows(TUESDAY), "r2"), replace="all", metadata={"engine": "beam"}
    )
    newest, oldest = store.history("sessions")
    assert newest["version"] == 1
    assert newest["metadata"] == {"run_id": "r2", "engine": "beam"}
    assert oldest["version"] == 0
    assert oldest["metadata"] == {"run_id": "r1", "engine": "plain"}
    assert before <= oldest["timestamp"] <= newest["timestamp"] <= datetime.now(timezone.utc)


def test_of_two_first_runs_one_wins(
    store: DeltaStore, spark: SparkSession, windows: Windows, stage: Stage
) -> None:
    staged = [stage(windows(MONDAY), f"r{number}") for number in range(4)]

    def publish(each: StagedFiles) -> int | str:
        try:
            return store.publish("sessions", each, replace="all", metadata={})
        except BackfillError as error:
            return str(error)

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(publish, staged))
    # Those that began after the winner was done replace what it published, one after the other.
    versions = [result for result in results if isinstance(result, int)]
    assert sorted(versions) == list(range(len(versions)))
    assert versions
    assert all("published version" in str(r) for r in results if not isinstance(r, int))
    assert keys(store, spark) == ["a 2024-01-01"]


@pytest.fixture
def overtaken(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Has another writer commit between this one's look at the table and its commit."""

    def arrange(other: Callable[[], object]) -> None:
        check = commit._check
        calls = iter([other])

        def check_then_lose(*arguments: object) -> None:
            check(*arguments)
            for call in calls:
                call()

        monkeypatch.setattr(commit, "_check", check_then_lose)

    return arrange


@pytest.mark.parametrize("exists", [False, True])
def test_replacing_everything_is_refused_after_any_other_commit(
    store: DeltaStore,
    spark: SparkSession,
    windows: Windows,
    stage: Stage,
    overtaken: Callable[[Callable[[], object]], None],
    exists: bool,
) -> None:
    if exists:
        empty = stage(windows(MONDAY).where("false"), "r0")
        store.publish("sessions", empty, replace="all", metadata={})
    mine, other = stage(windows(MONDAY), "mine"), stage(windows(TUESDAY), "other")
    overtaken(lambda: store.publish("sessions", other, replace=[], metadata={}))
    with pytest.raises(TableError, match=f"run other published version {int(exists)} meanwhile"):
        store.publish("sessions", mine, replace="all", metadata={})
    assert keys(store, spark) == ["a 2024-01-02"]


def test_single_files_wait_for_others_and_lose_only_their_own(
    store: DeltaStore,
    spark: SparkSession,
    windows: Windows,
    stage: Stage,
    overtaken: Callable[[Callable[[], object]], None],
) -> None:
    store.publish("sessions", stage(windows(MONDAY, TUESDAY), "r1"), replace="all", metadata={})
    monday, tuesday = store.files("sessions")
    mine, other = stage(windows(LATER), "mine"), stage(windows(MONDAY, MONDAY), "other")
    overtaken(lambda: store.publish("sessions", other, replace=[monday], metadata={}))
    assert store.publish("sessions", mine, replace=[tuesday], metadata={}) == 2
    assert keys(store, spark) == ["a 2024-01-01", "a 2024-01-01", "b 2024-01-02"]
    live = store.files("sessions")
    loser, winner = stage(windows(LATER), "loser"), stage(windows(LATER), "winner")
    overtaken(lambda: store.publish("sessions", winner, replace=live, metadata={}))
    with pytest.raises(TableError, match="run winner removed it"):
        store.publish("sessions", loser, replace=live[:1], metadata={})
    assert keys(store, spark) == ["b 2024-01-02"]


def test_discarded_files_cannot_be_published(
    store: DeltaStore, windows: Windows, stage: Stage
) -> None:
    staged = stage(windows(MONDAY), "r1")
    store.discard(staged)
    with pytest.raises(TableError, match="sessions: a staged file is gone"):
        store.publish("sessions", staged, replace="all", metadata={})
    assert not store.exists("sessions")


def test_a_refused_run_leaves_nothing_behind_once_discarded(
    store: DeltaStore,
    windows: Windows,
    stage: Stage,
    overtaken: Callable[[Callable[[], object]], None],
) -> None:
    mine, other = stage(windows(MONDAY), "mine"), stage(windows(TUESDAY), "other")
    overtaken(lambda: store.publish("sessions", other, replace=[], metadata={}))
    with pytest.raises(TableError, match="meanwhile"):
        store.publish("sessions", mine, replace="all", metadata={})
    store.discard(mine)
    store.discard(other)
    folder = store.folder("sessions")
    left = {path.relative_to(folder).as_posix() for path in folder.rglob("*.parquet")}
    assert left == set(store.files("sessions"))
    assert len(left) == 1


def test_names_must_agree(store: DeltaStore, windows: Windows, stage: Stage) -> None:
    with pytest.raises(TableError, match="staged for another table"):
        store.publish("hourly", stage(windows(MONDAY), "r1"), replace="all", metadata={})


def test_a_broken_table_is_named(store: DeltaStore, windows: Windows, stage: Stage) -> None:
    store.publish("sessions", stage(windows(MONDAY), "r1"), replace="all", metadata={})
    with pytest.raises(TableError, match="cannot be read at version 7"):
        store.files("sessions", version=7)
    (store.folder("sessions") / "_delta_log" / f"{0:020}.json").write_text("nonsense")
    with pytest.raises(TableError, match="cannot be read"):
        store.version("sessions")


def test_many_runs_leave_a_checkpoint_and_all_history(
    store: DeltaStore, spark: SparkSession, windows: Windows, stage: Stage
) -> None:
    staged = stage(windows(MONDAY), "r1")
    store.publish("sessions", staged, replace="all", metadata={})
    nothing = stage(windows(MONDAY).where("false"), "r2")
    for _ in range(101):
        store.publish("sessions", nothing, replace=[], metadata={})
    assert list((store.folder("sessions") / "_delta_log").glob("*.checkpoint.parquet"))
    assert len(store.history("sessions")) == 102
    assert keys(store, spark) == ["a 2024-01-01"]
    assert keys(store, spark, version=0) == ["a 2024-01-01"]
    assert DeltaTable(store.folder("sessions")).version() == 101
