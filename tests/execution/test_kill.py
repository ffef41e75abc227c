"""Real processes, killed at random moments; the rerun of each one is the next to be killed."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.execution.world import EVERY, World, at, day
from tests.objects import everything_in, make_bucket, served
from tests.on_sail import ON_SAIL, spark_only
from tests.reference import Event
from tests.tables import files_of, version_of

#: How many to kill. For more: BACKFILL_KILLS=200. Sail starts in a second, Spark in many.
KILLS = int(os.environ.get("BACKFILL_KILLS") or (9 if ON_SAIL else 3))
#: What kills wait for, in turn: the beginning of work, a staged file, a commit to a table; and
#: the share of a run's time within which the kill then comes.
SIGNS = {"": 1.0, "/_staging/": 0.1, "/_delta_log/": 0.01}


@pytest.mark.slow
def test_killed_runs_leave_no_trace(spark: SparkSession, tmp_path: Path) -> None:
    world = World(tmp_path, spark, windows=("sessions", "hopping"), gate=True)
    world.write("zero", [Event("a", at(0, 23, 40), 1), Event("b", at(0, 12), None)])
    world.run(0, 1)
    _write_more(world)
    _, seconds = _victim(world, [1])
    assert _kill(world, KILLS, seconds, [""])[""] >= KILLS / 2, "they ended before"
    # The last rerun is in this process, whose Spark has started.
    world.job.run(spark, date=day(1))
    world.recompute()
    world.check()
    for name in world.windows:
        assert world.job.table(name, spark).count() == len(world.rows(name))
    quarantined = world.job.table("quarantine", spark).groupBy("source", "raw").count().collect()
    assert len(quarantined) == 1 + KILLS
    assert {row["count"] for row in quarantined} == {1}
    world.job.clean("0s", spark)
    assert not list((world.folder / "out").glob("*/_staging/*"))
    world.check()


@pytest.mark.slow
@spark_only
def test_killed_runs_leave_no_trace_in_an_object_store(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        root = make_bucket(environment, "shop")
        world = World(tmp_path, spark, windows=("sessions", "hopping"), gate=True, root=root)
        world.write("zero", [Event("a", at(0, 23, 40), 1), Event("b", at(0, 12), None)])
        _write_more(world)
        _, seconds = _victim(world, [0, 1])
        killed = _kill(world, KILLS, seconds, list(SIGNS))
        assert all(killed[sign] for sign in SIGNS if sign), "one of these never came in time"
        _victim(world, [1])
        world.counted = {name: set(EVERY) for name in world.files}
        world.check()
        assert len(world.rows("quarantine")) == 1 + KILLS
        store = world.job.store
        wanted = set()
        for name in (*world.windows, "quarantine"):
            # Either clock, the store's or ours, may be ahead.
            store.clean(name, older_than_s=-60)
            newest = version_of(store, name)
            assert newest is not None
            files = {f.path for v in range(newest + 1) for f in files_of(store, name, v)}
            wanted |= {f"out/{name}/{path}" for path in files}
        # An empty object stands for a folder.
        left = {path for path in everything_in(environment, "shop") if path[-1] != "/"}
        # The other folders, which begin with an underscore, hold logs, records and checks.
        assert {path for path in left if re.match("out/[^_]*/[^_]", path)} == wanted
        assert not [path for path in left if "/_staging/" in path or "/_temporary" in path]
        world.check()


def _write_more(world: World) -> None:
    world.write("one", [Event("a", at(1, 0, 5), 1), Event("b", at(0, 12, 10), 3)])
    world.write("two", [Event("a", at(3, 0, 5), 1), Event("c", at(1, 23, 50), 3)])
    world.write("bad", [Event(None, at(1, 5), 1), Event("b", at(2, 0, 10), 1)])


def _kill(world: World, kills: int, seconds: float, signs: list[str]) -> Counter[str]:
    """Kills `kills` runs, which take some seconds each; the caller reruns the last one.

    Returns:
        How many it killed at each sign before they ended.
    """
    chance = random.Random(7)
    killed = Counter[str]()
    for number in range(kills):
        # New late events every time, so that each rerun has something to do.
        late = [Event("a", at(number % 4, 1 + number % 22), number), Event(None, at(1), number)]
        world.write(f"late{number}", late)
        sign = signs[number % len(signs)]
        ended, _ = _victim(world, [1], sign, chance.uniform(0, SIGNS[sign] * seconds))
        killed[sign] += not ended
        for name in world.windows:
            _check_readable(world, name)
    return killed


def _victim(
    world: World, days: Iterable[int], sign: str = "", after_s: float | None = None
) -> tuple[bool, float]:
    """Runs days, and kills the run `after_s` after a new file with the sign in its path.

    Returns:
        Whether the run came to its end, and how long it was at work.
    """
    before = set(world.place("out").files())
    command = [sys.executable, "-m", "tests.execution.victim", str(world.folder / "job.yaml")]
    with subprocess.Popen(
        [*command, *map(str, days)],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "begins"
        began = time.monotonic()
        if after_s is not None:
            while sign and process.poll() is None and not _has_come(world, sign, before):
                time.sleep(0.02)
            try:
                process.wait(after_s)
            except subprocess.TimeoutExpired:
                # The whole group: a JVM that outlives Python could go on writing.
                os.killpg(process.pid, signal.SIGKILL)
        ended = process.stdout.readline().strip() == "ends"
    assert ended or after_s is not None, "a run that nobody killed failed"
    return ended, time.monotonic() - began


def _has_come(world: World, sign: str, before: set[str]) -> bool:
    return any(sign in f"/{path}" for path in world.place("out").files() if path not in before)


def _check_readable(world: World, name: str) -> None:
    """Checks that each window is there once, and every file of the newest version."""
    place = world.place("out") / name
    table = DeltaTable(place.uri, storage_options=dict(place.options))
    rows = table.to_pyarrow_table(columns=["user", "window_start"]).to_pylist()
    assert len({(row["user"], row["window_start"]) for row in rows}) == len(rows)
