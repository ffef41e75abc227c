"""Tables in an object store: a server that speaks S3, on loopback."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from backfill.errors import TableError
from backfill.folders import Folder, folder_at, meet
from backfill.store import DeltaStore
from backfill.store.files.store import FileStore
from backfill.store.iceberg.store import IcebergStore
from tests.lake import options
from tests.objects import MANY, SECRET, names, served
from tests.store.by_hand import by_hand, content, day, publish_to
from tests.store.processes import check_first_runs, check_newest, kill_one
from tests.store.test_races import DAYS, race
from tests.tables import commits_of, files_of, paths_of, record_of, version_of

pytestmark = pytest.mark.one_lane

Publish = Callable[..., int]
DATES = ("2024-01-01", "2024-01-02", "2024-01-03")


@pytest.fixture
def store(bucket: str) -> DeltaStore:
    return DeltaStore(f"{bucket}/out")


@pytest.fixture(params=["delta", "sql", "glue"])
def either(request: pytest.FixtureRequest, bucket: str, tmp_path: Path) -> FileStore:
    """Tables in the object store; the catalog itself is on disk, or Glue on the same server."""
    if request.param == "delta":
        return DeltaStore(f"{bucket}/out")
    settings = options(tmp_path)
    if request.param == "glue":
        settings = {"type": "glue", "glue.endpoint": os.environ["AWS_ENDPOINT_URL"]}
    # All tests on the server share its databases.
    name = tmp_path.name if request.param == "glue" else "out"
    return IcebergStore("lake", name, {**settings, "warehouse": bucket})


def test_published_replaced_restored_and_discarded(either: FileStore, bucket: str) -> None:
    assert version_of(either, "sessions") is None
    assert publish_to(either, by_hand(either, "r1", *DATES[:2])) == 0
    paths = paths_of(either, "sessions")
    assert publish_to(either, by_hand(either, "r2", DATES[1]), paths[1:], dates=day(DATES[1])) == 1
    assert content(either) == ["r1 2024-01-01", "r2 2024-01-02"]
    assert content(either, version=0) == ["r1 2024-01-01", "r1 2024-01-02"]
    assert record_of(either, "sessions") == {"runs": ["r1", "r2"]}
    assert either.restore("sessions", 0, run_id="back", metadata={}) == 2
    assert (content(either), record_of(either, "sessions")) == (
        ["r1 2024-01-01", "r1 2024-01-02"],
        {"runs": ["r1"]},
    )
    assert either.dataset("sessions").to_table()["user_id"].to_pylist() == ["r1", "r1"]
    assert [commit.metadata.get("run_id") for commit in commits_of(either, "sessions")] == [
        "back",
        "r2",
        "r1",
    ]
    staged = by_hand(either, "r3", DATES[2])
    assert either.dataset("sessions", "r3").to_table()["user_id"].to_pylist() == ["r3"]
    either.discard(staged)
    with pytest.raises(TableError, match="no unpublished rows from this run"):
        either.dataset("sessions", "r3")
    assert not [path for path in folder_at(bucket).files() if "r3" in path]


def test_what_killed_runs_left_is_cleaned(either: FileStore, bucket: str) -> None:
    publish_to(either, by_hand(either, "r1", DATES[0]))
    published = set(folder_at(bucket).files())
    staged = by_hand(either, "dead", *DATES)
    folder = either.log("sessions").folder
    folder.write("date=2024-01-09/dead.parquet", b"")
    folder.write("_record/dead.json", b"{}")
    folder.write("notes.txt", b"not ours")
    assert either.clean("sessions", older_than_s=3600).staged == 0
    # Either clock, the store's or ours, may be ahead of the other.
    cleaned = either.clean("sessions", older_than_s=-60)
    assert (cleaned.staged, cleaned.files, cleaned.records) == (1, 1, 1)
    assert cleaned.size == sum(file.size for file in staged.files) + len("{}")
    left = f"{folder.uri}/notes.txt".removeprefix(f"{bucket}/")
    assert set(folder_at(bucket).files()) == {*published, left}


def test_files_that_are_gone_are_found(store: DeltaStore, publish: Publish) -> None:
    publish(by_hand(store, "r1", *DATES))
    publish(by_hand(store, "r2", DATES[0]))
    folder = store.log("sessions").folder
    first = paths_of(store, "sessions", 0)[0]
    folder.delete([first])
    with pytest.raises(TableError, match="1 of the 3 files of version 0 are gone"):
        store.restore("sessions", 0, run_id="back", metadata={})
    staged = by_hand(store, "r3", DATES[1])
    staged.folder.delete_all()
    with pytest.raises(TableError, match="a staged file is missing"):
        publish(staged, [])


def test_runs_at_once(either: FileStore, bucket: str) -> None:
    runs = [(by_hand(either, f"r{d}", d), [], day(d)) for d in DAYS[:4]]
    assert sorted(race(partial(publish_to, either), runs, None), key=str) == [0, 1, 2, 3]
    assert content(either) == [f"r{d} {d}" for d in DAYS[:4]]
    meeting = [(by_hand(either, f"m{n}", DAYS[9]), [], day(DAYS[9])) for n in range(3)]
    results = race(partial(publish_to, either), meeting, 3)
    (won,) = (n for n, result in enumerate(results) if isinstance(result, int))
    assert (
        sum(f"run m{won} published version 4 meanwhile" in str(result) for result in results) == 2
    )


@pytest.mark.slow
def test_processes_at_once(store: DeltaStore) -> None:
    check_first_runs(store, store.root.uri, DAYS[:3], _keys())


@pytest.mark.slow
def test_killed_at_random_moments(store: DeltaStore) -> None:
    chance = random.Random(4)
    seen = -1
    for kill in range(60):
        if kill >= 8 and seen > 2:
            break
        after_s = chance.uniform(0, 1)
        kill_one(store.root.uri, f"k{kill}", DATES, after_s=after_s, environment=_keys())
        seen = check_newest(store, DATES, seen)
    assert seen > 2, "the test must kill runs, not only starts"
    cleaned = store.clean("sessions", older_than_s=-60)
    assert cleaned.staged + cleaned.files + cleaned.records > 0
    left = {path for path in store.log("sessions").folder.files() if path.startswith("date=")}
    assert left == {file.path for v in range(seen + 1) for file in files_of(store, "sessions", v)}


def test_ten_thousand_files(monkeypatch: pytest.MonkeyPatch) -> None:
    with served(files=10_000) as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        folder = folder_at(f"s3://{MANY}/sessions")
        expected = sorted(path.removeprefix("sessions/") for path in names(10_000))
        assert list(folder.files()) == expected
        assert len(folder.names()) == 28
        assert folder.missing([*expected, "date=2024-01-01/x"]) == ["date=2024-01-01/x"]
        assert sum(entry.size for entry in folder.entries().values()) == 10_000
        # They are not a table's, so none of them is deleted.
        assert DeltaStore(f"s3://{MANY}").clean("sessions", older_than_s=-60).files == 0
        folder.delete_all()
        assert folder.files() == {}


@pytest.mark.parametrize("kind", ["local", "objects"])
def test_folders_are_alike(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    root = str(tmp_path) if kind == "local" else request.getfixturevalue("bucket")
    folder: Folder = folder_at(f"{root}/top")
    assert (folder.names(), folder.files(), folder.entries()) == ([], {}, {})
    assert folder.missing(["a"]) == ["a"]
    with pytest.raises(FileNotFoundError):
        folder.read("a")
    folder.delete(["a"])
    folder.delete_all()
    folder.make()
    before = time.time() - 60
    for name, text in {"a": b"1", "b/c": b"22", "b/d/e": b"333"}.items():
        folder.write(name, text)
    folder.write("a", b"4444")
    assert (folder.names(), list(folder.files())) == (["a", "b"], ["a", "b/c", "b/d/e"])
    assert {name: entry.size for name, entry in folder.entries().items()} == {"a": 4, "b": 5}
    assert all(file.modified > before for file in folder.files().values())
    assert (folder.read("a"), (folder / "b").read("d/e")) == (b"4444", b"333")
    folder.move({"b/d/e": "f/g=1/h", "b/c": "f/c"})
    (folder / "b").delete_all()
    assert list(folder.files()) == ["a", "f/c", "f/g=1/h"]
    assert (folder.read("f/c"), folder.read("f/g=1/h")) == (b"22", b"333")
    (folder / "f").delete_all()
    folder.delete(["a", "b/none"])
    assert folder.files() == {}
    assert meet(root, folder)
    assert meet(f"{root}/top", folder)
    assert not meet(f"{root}/to", folder)


def test_a_store_that_refuses(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TableError, match="no such bucket or container \\(got 'no-such-bucket'\\)"):
        DeltaStore("s3://no-such-bucket/out").open("sessions")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(TableError, match="the object store refuses, or does not answer") as error:
        DeltaStore(f"{bucket}/out").open("sessions")
    assert SECRET not in str(error.value)


def test_keys_of_a_profile(
    store: DeltaStore, publish: Publish, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {name: value for name, value in _keys().items() if "KEY" in name}
    for name in keys:
        monkeypatch.delenv(name)
    lines = [f"{name.lower()} = {value}" for name, value in keys.items()]
    (tmp_path / "credentials").write_text("\n".join(["[shop]", *lines, ""]))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_PROFILE", "shop")
    assert publish(by_hand(store, "r1", DATES[0])) == 0
    assert content(store) == ["r1 2024-01-01"]


def _keys() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
