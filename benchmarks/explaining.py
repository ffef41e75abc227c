"""The cost of explaining differences: the command from its start, and a million windows."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from backfill import Job
from backfill.reconciliation import reconcile
from benchmarks.data import Dataset
from benchmarks.measure import COMMAND
from benchmarks.reconcile import Comparison, Work, count, published, write

_SESSION = "from backfill.spark import session; session().range(1).count()"
#: Nearly all windows of these keys differ, just over a million: only a few amounts are whole.
_ALL = Dataset(name="all-differ", events=2_100_000, keys=525_000, per_session=2)


def _from_start(folder: Path, spark: SparkSession) -> tuple[int, str | None]:
    """The command, in its own process and with its own Spark."""
    arguments = ("reconcile", "job.yaml", "sessions", "--stream", "stream", "--format", "table")
    done = _run(folder, COMMAND, *arguments, "--grace", "365d", "--html", "report.html")
    off = sum(count(folder / name, spark) for name in ("lost", "changed"))
    wrong = None
    if done.returncode != 1 or f"match, {off:,} differ." not in done.stdout:
        wrong = f"not {off:,} differ: {done.stdout or done.stderr}"
    return off, wrong


def _session(folder: Path, spark: SparkSession) -> tuple[int, str | None]:
    done = _run(folder, _SESSION)
    return 1, done.stderr if done.returncode else None


def _run(folder: Path, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def _by_workers(folder: Path, spark: SparkSession) -> tuple[int, str | None]:
    with _few_events(min(reconcile.FEW_EVENTS, 10_000)):
        return _all_explained(folder, spark)


def _by_the_driver(folder: Path, spark: SparkSession) -> tuple[int, str | None]:
    with _few_events(1_000_000_000):
        return _all_explained(folder, spark)


@contextmanager
def _few_events(most: int) -> Iterator[None]:
    before, reconcile.FEW_EVENTS = reconcile.FEW_EVENTS, most
    try:
        yield
    finally:
        reconcile.FEW_EVENTS = before


def _all_explained(folder: Path, spark: SparkSession) -> tuple[int, str | None]:
    off = _rounded(folder, spark)
    path = str(folder / "rounded")
    job = Job.load(folder / "job.yaml")
    reconciled = job.reconcile("sessions", spark, stream=path, format="table", grace="365d")
    outcome = len(reconciled.differences), reconciled.causes, reconciled.possible
    wrong = None if outcome == (off, {"rounded": off}, 0) else f"{outcome}, of {off:,} rounded"
    return off, wrong


@cache
def _rounded(folder: Path, spark: SparkSession) -> int:
    """How many windows differ from those of a stream that wrote whole amounts."""
    rows = published(folder, spark)
    whole = F.round("revenue", 0)
    write(rows.withColumn("revenue", whole), folder / "rounded")
    return rows.where(F.col("revenue") != whole).count()


COMPARISONS = (
    Comparison(
        name="reconcile-start",
        title="backfill reconcile from start to report, one window of four another",
        works=(
            Work("backfill reconcile", _from_start),
            Work("a session and a Spark job", _session),
        ),
        at_least=(1 / 6,),
        dataset=Dataset(name="few", events=20_000, keys=2_000, per_session=4),
        one_of=4,
    ),
    Comparison(
        name="reconcile-all",
        title="windows that all differ, explained",
        works=(
            Work("by Spark's workers", _by_workers),
            Work("by the driver", _by_the_driver),
        ),
        at_least=(1,),
        dataset=_ALL,
    ),
)
