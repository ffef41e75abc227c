"""A run killed at any moment leaves the table as before or as after, and the next one goes on."""

from __future__ import annotations

import itertools
import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests.lake import store_in
from tests.store.by_hand import content
from tests.store.processes import context, publish_for_ever
from tests.tables import commits_of, files_of, folder_of, record_of, version_of

DATES = ("2024-01-01", "2024-01-02", "2024-01-03")


@pytest.mark.parametrize("place", ["out", "lake"])
def test_killed_at_random_moments(tmp_path: Path, place: str) -> None:
    root = tmp_path / place
    store = store_in(root)
    chance = random.Random(4)
    seen = -1
    least = 25 if place == "out" else 12
    # On a busy machine some are killed before they publish anything: then there are more of them.
    for kill in itertools.count():
        if kill >= least and seen > 4:
            break
        assert kill < 100, "the test must kill runs, not only starts"
        ready = context.Event()
        process = context.Process(target=publish_for_ever, args=(root, f"k{kill}", DATES, ready))
        process.start()
        assert ready.wait(60)
        # A catalog takes longer, and starts a connection first.
        time.sleep(chance.uniform(0, 0.15 if place == "out" else 1.5))
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join(60)
        version = version_of(store, "sessions")
        if version is None:
            assert seen == -1
            continue
        assert version >= seen, "what was published stays"
        seen = version
        commits = commits_of(store, "sessions")
        assert [each.version for each in commits] == list(range(version, -1, -1))
        run_id = commits[0].metadata["run_id"]
        assert content(store) == [f"{run_id} {each}" for each in DATES]
        record = record_of(store, "sessions")
        assert record is not None
        assert record["runs"] == [each.metadata["run_id"] for each in reversed(commits)]

    folder = folder_of(store, "sessions")
    named = {file.path for v in range(seen + 1) for file in files_of(store, "sessions", version=v)}
    cleaned = store.clean("sessions", older_than_s=0)
    assert cleaned.staged + cleaned.files + cleaned.records > 0
    left = {path.relative_to(folder).as_posix() for path in folder.glob("date=*/*.parquet")}
    assert left == named
    assert not list((folder / "_staging").iterdir())
    assert len(list((folder / "_record").iterdir())) == seen + 1
    for version in range(0, seen + 1, 10):
        assert len(content(store, version=version)) == len(DATES)
