"""Runs that publish at the same moment, in threads and in processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from backfill.errors import BackfillError
from backfill.store import StagedFiles
from backfill.store.files.store import FileStore
from tests.jvm_delta import create, read
from tests.lake import SERVED, store_in
from tests.spark_sql import SparkSql, with_jars
from tests.store.by_hand import by_hand, content, day, publish_to
from tests.store.processes import check_first_runs
from tests.tables import commits_of, folder_of, paths_of, record_of, version_of

Publish = Callable[..., int]
Dates = list[tuple[date, date]]

#: Places of Delta tables and of Iceberg catalogs.
LOCAL = ["out", "lake", "hadoop"]
#: The place of a table that Spark's own Delta Lake has made.
JVM = pytest.param("jvm", marks=with_jars)
#: Those on disk often, because each race is different; the others once, because they take longer.
OFTEN = pytest.mark.parametrize("place", [*LOCAL * 5, *SERVED, JVM], indirect=True)
DAYS = [f"2024-01-{number:02}" for number in range(1, 32)]


@pytest.fixture(params=[*LOCAL, *SERVED, JVM])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, reach: Callable[[str], None]
) -> Iterator[Path]:
    reach(request.param)
    place = tmp_path / str(request.param)
    if request.param != "jvm":
        yield place
        return
    spark_sql: SparkSql = request.getfixturevalue("spark_sql")
    spark_sql.delta(create(place / "sessions"))
    yield place
    [theirs] = spark_sql.delta(read(place / "sessions"))
    assert sorted(theirs) == sorted(row.replace(" ", "|") for row in content(store_in(place)))


@pytest.fixture
def store(place: Path) -> FileStore:
    return store_in(place)


@pytest.fixture
def publish(store: FileStore, place: Path) -> Publish:
    if place.name != "hive":
        return partial(publish_to, store)
    # Its client has one connection, which two threads can't use at once.
    return lambda *arguments, **more: publish_to(store_in(place), *arguments, **more)


def race(
    publish: Publish, runs: list[tuple[StagedFiles, Any, Dates | None]], base: int | None
) -> list[int | str]:
    """What each of the runs gets when all publish at once: its version, or why it was refused."""
    barrier = Barrier(len(runs))

    def one(run: tuple[StagedFiles, Any, Dates | None]) -> int | str:
        staged, replace, dates = run
        barrier.wait()
        try:
            return publish(staged, replace, dates=dates, base=base)
        except BackfillError as error:
            return str(error)

    with ThreadPoolExecutor(len(runs)) as pool:
        return list(pool.map(one, runs))


def begun(store: FileStore, publish: Publish, exists: bool) -> int | None:
    """The version that runs begin from: after one published run if `exists`, before any if not."""
    if not exists:
        return version_of(store, "sessions")
    return publish(by_hand(store, "first", "2023-01-01"))


@pytest.mark.parametrize("exists", [False, True])
@OFTEN
def test_disjoint_runs_all_succeed(store: FileStore, publish: Publish, exists: bool) -> None:
    base = begun(store, publish, exists)
    runs = [(by_hand(store, f"r{d}", d), [], day(d)) for d in DAYS[:6]]
    results = race(publish, runs, base)
    first = 0 if base is None else base + 1
    assert sorted(results, key=str) == list(range(first, first + 6))
    assert content(store) == [
        *(["first 2023-01-01"] if exists else []),
        *(f"r{d} {d}" for d in DAYS[:6]),
    ]
    # Each commit stands on the one before, and so does its record.
    commits = reversed(commits_of(store, "sessions"))
    order = [commit.metadata["run_id"] for commit in commits if commit.metadata]
    assert record_of(store, "sessions") == {"runs": order}


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("everything", [False, True])
@OFTEN
def test_of_runs_that_meet_on_an_empty_date_one_wins(
    store: FileStore, publish: Publish, exists: bool, everything: bool
) -> None:
    base = begun(store, publish, exists)
    replace: Any = "all" if everything else []
    runs = [(by_hand(store, f"r{n}", "2024-01-01"), replace, day("2024-01-01")) for n in range(4)]
    results = race(publish, runs, base)
    won = [n for n, result in enumerate(results) if isinstance(result, int)]
    assert len(won) == 1
    assert sum(f"run r{won[0]} published version" in str(result) for result in results) == 3
    for staged, _, _ in runs:
        store.discard(staged)
    kept = [] if everything or not exists else ["first 2023-01-01"]
    assert content(store) == [*kept, f"r{won[0]} 2024-01-01"]
    assert len(list(folder_of(store, "sessions").rglob("*.parquet"))) == 1 + exists
    assert record_of(store, "sessions") == {"runs": [*(["first"] if exists else []), f"r{won[0]}"]}


def test_of_runs_that_replace_the_same_file_one_wins(store: FileStore, publish: Publish) -> None:
    base = publish(by_hand(store, "first", *DAYS[:2]))
    monday, tuesday = paths_of(store, "sessions")
    runs = [
        (by_hand(store, "r1", DAYS[0]), [monday], day(DAYS[0])),
        (by_hand(store, "r2", DAYS[1]), [monday, tuesday], day(DAYS[1])),
    ]
    results = race(publish, runs, base)
    assert [type(result) for result in results].count(int) == 1


@pytest.mark.parametrize("place", LOCAL, indirect=True)
def test_processes(store: FileStore, place: Path) -> None:
    check_first_runs(store, place, DAYS[:4])
