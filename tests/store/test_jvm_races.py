"""Spark's own Delta Lake commits while runs publish: all that succeeds is there, nothing else."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from backfill.errors import TableError
from backfill.store.files.store import FileStore
from tests.jvm_delta import create, insert, read, table_in
from tests.lake import store_in
from tests.spark_sql import SparkSql, with_jars
from tests.store.by_hand import by_hand, content, day, publish_to
from tests.tables import paths_of, record_of, version_of

pytestmark = with_jars

#: The date that runs change, the one that Spark changes, and one that both change.
OURS, THEIRS, BOTH = "2024-01-01", "2024-01-02", "2024-01-03"
ROUNDS = 2


def test_neither_loses_what_the_other_has_committed(spark_sql: SparkSql, tmp_path: Path) -> None:
    folder, store = tmp_path / "jvm" / "sessions", store_in(tmp_path / "jvm")
    spark_sql.delta(create(folder))
    publish_to(store, by_hand(store, "first", OURS, BOTH))
    theirs: set[str] = set()
    with ThreadPoolExecutor(1) as pool:
        spark = pool.submit(tend, spark_sql, folder, theirs)
        ours, both = publish_meanwhile(store, spark)
        lost = spark.result()
    expected = [f"{run} {date}" for date, runs in ((OURS, ours), (BOTH, both)) for run in runs]
    assert content(store) == sorted([*expected, *theirs])
    [rows] = spark_sql.delta(read(folder))
    assert sorted(rows) == sorted(row.replace(" ", "|") for row in content(store))
    record = record_of(store, "sessions")
    assert record is not None
    assert set(record["runs"]) >= {*ours, *both}
    assert not any("INSERT" in statement for statement in lost), "what only adds is in nobody's way"


def tend(spark_sql: SparkSql, folder: Path, rows: set[str]) -> list[str]:
    """Adds rows, deletes some and compacts; returns the statements that lost against a run."""
    lost = []

    def attempt(statement: str) -> bool:
        try:
            spark_sql.delta(statement)
        except AssertionError as error:
            if "Concurrent" not in str(error):
                raise
            lost.append(statement)
            return False
        return True

    for number in range(ROUNDS):
        for date in (THEIRS, BOTH):
            if attempt(insert(folder, f"s{number}", date)):
                rows.add(f"s{number} {date}")
        key = f"s{number - 1}"
        if attempt(f"DELETE FROM {table_in(folder)} WHERE user_id = '{key}'"):
            rows -= {f"{key} {THEIRS}", f"{key} {BOTH}"}
        attempt(f"OPTIMIZE {table_in(folder)}")
    return lost


def publish_meanwhile(store: FileStore, spark: Future[list[str]]) -> tuple[list[str], list[str]]:
    """Runs that replace or add to their own date, or add to the common one; the runs of each."""
    ours, both, number = ["first"], ["first"], 0
    while not spark.done():
        number += 1
        # Spark has to read each of the commits.
        time.sleep(0.1)
        base, run, turn = version_of(store, "sessions"), f"r{number}", number % 3
        date = BOTH if turn == 2 else OURS
        old = [path for path in paths_of(store, "sessions", base) if OURS in path]
        staged = by_hand(store, run, date)
        try:
            publish_to(store, staged, [] if turn else old, dates=day(date), base=base)
        except TableError as error:
            if "another writer published version" not in str(error):
                raise
            store.discard(staged)
            continue
        if turn == 0:
            ours.clear()
        (both if turn == 2 else ours).append(run)
    return ours, both
