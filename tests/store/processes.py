"""Processes of their own that publish, for tests that race or kill them."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Mapping, Sequence
from itertools import count
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path

from backfill.errors import TableError
from tests.lake import store_in
from tests.store.by_hand import by_hand, day, days, publish_to
from tests.tables import paths_of, version_of

# One process that has imported everything forks the others in milliseconds; one that has used
# Spark or the Delta library must not.
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
    """Runs that replace all dates, by turns the whole table or its files."""
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
