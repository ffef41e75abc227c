"""Real processes, killed at random moments; each one's rerun is the next one's victim."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.execution.world import EVERY, World, at
from tests.reference import Event

#: More of them: BACKFILL_KILLS=200.
KILLS = int(os.environ.get("BACKFILL_KILLS", "8"))


@pytest.mark.slow
def test_killed_runs_leave_no_trace(spark: SparkSession, tmp_path: Path) -> None:
    world = World(tmp_path, spark, windows=("sessions", "hopping"), gate=True)
    world.write("zero", [Event("a", at(0, 23, 40), 1), Event("b", at(0, 12), None)])
    world.run(0, 1)
    world.write("one", [Event("a", at(1, 0, 5), 1), Event("b", at(0, 12, 10), 3)])
    world.write("two", [Event("a", at(3, 0, 5), 1), Event("c", at(1, 23, 50), 3)])
    world.write("bad", [Event(None, at(1, 5), 1), Event("b", at(2, 0, 10), 1)])

    begun, seconds = _victim(world.folder, None)
    assert begun
    chance = random.Random(7)
    moments: Counter[str] = Counter()
    for number in range(KILLS):
        # New late events every time, so that each rerun has something to do.
        late = [Event("a", at(number % 4, 1 + number % 22), number), Event(None, at(1), number)]
        world.write(f"late{number}", late)
        begun, _ = _victim(world.folder, chance.uniform(0, seconds))
        moments["in time" if begun else "too early"] += 1
        for name in world.windows:
            _check_readable(world.folder / "out" / name)
    assert moments["in time"] >= 0.9 * KILLS, moments

    _victim(world.folder, None)
    world.counted = {name: set(EVERY) for name in world.files}
    world.check()
    for name in world.windows:
        assert world.job.table(name, spark).count() == len(world.rows(name))
    quarantined = world.job.table("quarantine", spark).groupBy("source", "raw").count().collect()
    assert len(quarantined) == 1 + KILLS
    assert {row["count"] for row in quarantined} == {1}
    world.job.clean("0s", spark)
    assert not list((world.folder / "out").glob("*/_staging/*"))
    world.check()


def _victim(folder: Path, after: float | None) -> tuple[bool, float]:
    """Runs, and kills after some seconds of work; whether it was at work, and for how long."""
    command = [sys.executable, "-m", "tests.execution.victim", str(folder / "job.yaml")]
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        command,
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        begun = process.stdout.readline().strip() == "begins"
        began = time.monotonic()
        killer = None
        if after is not None:
            # The whole group: a JVM that outlives Python could go on writing.
            killer = threading.Timer(after, os.killpg, (process.pid, signal.SIGKILL))
            killer.start()
        ended = process.stdout.readline().strip() == "ends"
        process.wait()
        if killer is not None:
            killer.cancel()
    assert ended or after is not None, "a run that nobody killed failed"
    return begun, time.monotonic() - began


def _check_readable(folder: Path) -> None:
    """Each window once, and every file of the newest version there."""
    table = DeltaTable(folder).to_pyarrow_table(columns=["user", "window_start"])
    rows = [(row["user"], row["window_start"]) for row in table.to_pylist()]
    assert len(rows) == len(set(rows))
