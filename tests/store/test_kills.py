"""A run killed at any moment leaves the table as before or as after; the next run goes on."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.jvm_delta import create, read_versions
from tests.lake import store_in
from tests.spark_sql import SparkSql, with_jars
from tests.store.by_hand import content
from tests.store.processes import check_newest, kill_one
from tests.tables import files_of, folder_of, version_of

DATES = ("2024-01-01", "2024-01-02", "2024-01-03")


@with_jars
def test_a_table_that_spark_has_made(tmp_path: Path, spark_sql: SparkSql) -> None:
    folder = tmp_path / "jvm" / "sessions"
    spark_sql.delta(create(folder))
    _kill_at_random_moments(tmp_path / "jvm", least=8)
    versions = range(1, len(list((folder / "_delta_log").glob("*.json"))), 10)
    [rows] = spark_sql.delta(read_versions(folder, versions))
    counts = Counter(int(row.split("|")[0]) for row in rows)
    assert counts == dict.fromkeys(versions, len(DATES))


@pytest.mark.parametrize("place", ["out", "lake", "hadoop"])
def test_killed_at_random_moments(tmp_path: Path, place: str) -> None:
    _kill_at_random_moments(tmp_path / place, least=25 if place == "out" else 12)


def _kill_at_random_moments(root: Path, least: int) -> None:
    store = store_in(root)
    made = version_of(store, "sessions") is not None
    chance = random.Random(4)
    seen = -1
    short = 1.5 if root.name == "lake" else 0.15
    # On a busy machine some are killed before they publish anything, so more are started.
    for kill in itertools.count():
        if kill >= least and seen > 4:
            break
        assert kill < 100, "the test must kill runs, not only starts"
        # A catalog takes longer, and starts a connection first.
        after_s = chance.uniform(0, short)
        kill_one(root, f"k{kill}", DATES, after_s=after_s)
        seen = check_newest(store, DATES, seen)

    folder = folder_of(store, "sessions")
    named = {file.path for v in range(seen + 1) for file in files_of(store, "sessions", version=v)}
    cleaned = store.clean("sessions", older_than_s=0)
    assert cleaned.staged + cleaned.files + cleaned.records > 0
    left = {path.relative_to(folder).as_posix() for path in folder.glob("date=*/*.parquet")}
    assert left == named
    assert not list((folder / "_staging").iterdir())
    assert len(list((folder / "_record").iterdir())) == seen + 1 - made
    for version in range(made, seen + 1, 10):
        assert len(content(store, version=version)) == len(DATES)
