"""Separate processes that publish, for tests that race or kill them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Mapping, Sequence
from itertools import count
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path

from backfill.errors import TableError
from backfill.store.files.store import FileStore
from tests.lake import store_in
from tests.store.by_hand import by_hand, content, day, days, publish_to
from tests.tables import commits_of, paths_of, record_of, version_of

# A process that has only imported everything forks the others in milliseconds; one that has used
# Spark or the Delta library must not fork.
context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(["pytest", __name__])


def publish_dates(
    root: Path | str,
    dates: Sequence[str],
    run_id: str,
    barrier: Barrier,
    won: Queue[tuple[str, str]],
    environment: Mapping[str, str] = {},
) -> None:
    """First runs of a table for each of the dates, each at the same moment as the others'."""
    os.environ.update(environment)
    store = store_in(root)
    for number, date in enumerate(dates):
        name = f"table{number}"
        staged = by_hand(store, run_id, date, name=name)
        barrier.wait()
        try:
            publish_to(store, staged, [], dates=day(date), base=None)
            won.put((name, run_id))
        except TableError:
            store.discard(staged)


def publish_for_ever(
    root: Path | str,
    name: str,
    dates: Sequence[str],
    ready: Event,
    environment: Mapping[str, str] = {},
) -> None:
    """Runs that replace all dates: by turns the whole table and its files."""
    os.environ.update(environment)
    store = store_in(root)
    for number in count():
        base = version_of(store, "sessions")
        staged = by_hand(store, f"{name}.{number}", *dates)
        everything = base is None or number % 2
        ready.set()
        publish_to(
            store,
            staged,
            "all" if everything else paths_of(store, "sessions"),
            base=base,
            dates=days(dates[0], "2100-01-01"),
        )


def check_first_runs(
    store: FileStore,
    root: Path | str,
    dates: Sequence[str],
    environment: Mapping[str, str] = {},
) -> None:
    """Processes create two tables: one with a date for each process, one with the same for all."""
    barrier, results = context.Barrier(len(dates)), context.Queue()
    processes = [
        context.Process(
            target=publish_dates,
            args=(root, (date, "2024-02-01"), f"r{number}", barrier, results, environment),
        )
        for number, date in enumerate(dates)
    ]
    for process in processes:
        process.start()
    won = [results.get(timeout=120) for _ in range(len(dates) + 1)]
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert content(store, "table0") == [f"r{n} {date}" for n, date in enumerate(dates)]
    record = record_of(store, "table0")
    assert record is not None
    assert sorted(record["runs"]) == [f"r{n}" for n in range(len(dates))]
    (winner,) = (run_id for name, run_id in won if name == "table1")
    assert content(store, "table1") == [f"{winner} 2024-02-01"]
    assert record_of(store, "table1") == {"runs": [winner]}


def kill_one(
    root: Path | str,
    name: str,
    dates: Sequence[str],
    *,
    after_s: float,
    environment: Mapping[str, str] = {},
) -> None:
    """Kills a process that publishes, `after_s` after it was ready to."""
    ready = context.Event()
    process = context.Process(target=publish_for_ever, args=(root, name, dates, ready, environment))
    process.start()
    assert ready.wait(60)
    time.sleep(after_s)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join(60)


def check_newest(store: FileStore, dates: Sequence[str], seen: int) -> int:
    """The newest version is whole, has its record, and is not older than `seen`; -1 if no table."""
    version = version_of(store, "sessions")
    if version is None:
        assert seen == -1
        return -1
    assert version >= seen, "what was published stays"
    commits = commits_of(store, "sessions")
    assert [commit.version for commit in commits] == list(range(version, -1, -1))
    # The table may have been made by others.
    runs = [commit.metadata["run_id"] for commit in commits if commit.metadata]
    assert content(store) == ([f"{runs[0]} {date}" for date in dates] if runs else [])
    assert record_of(store, "sessions") == ({"runs": runs[::-1]} if runs else None)
    return version
