"""A run killed at any moment leaves the table as before or as after, and the next one goes on."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest

from tests.lake import store_in
from tests.store.by_hand import content
from tests.store.processes import check_newest, kill_one
from tests.tables import files_of, folder_of

DATES = ("2024-01-01", "2024-01-02", "2024-01-03")


@pytest.mark.parametrize("place", ["out", "lake", "hadoop"])
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
        # A catalog takes longer, and starts a connection first.
        after_s = chance.uniform(0, 0.15 if place == "out" else 1.5)
        kill_one(root, f"k{kill}", DATES, after_s=after_s)
        seen = check_newest(store, DATES, seen)

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
