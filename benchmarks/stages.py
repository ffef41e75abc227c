"""The slowest stage of each command, from Spark's own event log. `make profile`.

Each command is run cold, in a process of its own, with the log switched on. What a stage took is
set against what it moved, so that one sees which of the two a machine is short of.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table as Shown

from benchmarks import late, reconcile
from benchmarks.data import FOLDER, QUARTER, VISITS, Dataset
from benchmarks.measure import COMMAND, session, watched
from benchmarks.published import Published, Table

_LOGS = FOLDER / "event-logs"
_MB = 1_000_000


@dataclass(frozen=True)
class _Stage:
    """One stage of Spark.

    Attributes:
        name: the part of a plan that it holds, as Spark names it.
        seconds: from its submission to its end.
        cpu: seconds of its tasks on a core.
        gc: seconds of its tasks in which garbage was collected.
        moved: MB by kind: input, fetched, exchanged, output, spilled.
    """

    name: str
    tasks: int
    seconds: float
    cpu: float
    gc: float
    moved: dict[str, float]


@dataclass(frozen=True)
class _Verb:
    """A command.

    Attributes:
        arguments: those after the job file.
        folder: the folder of the job file, and of what the arguments name.
        restore: makes its tables as they were before.
    """

    command: str
    arguments: tuple[str, ...]
    folder: Path
    restore: Callable[[], object]


def _verbs(spark: SparkSession, factor: float) -> Iterator[_Verb]:
    """The commands, after making what they need."""

    def tables(table: Table, dataset: Dataset, *, newest: bool) -> Published:
        job = Published(table, dataset.scaled(factor), newest=newest, iceberg=False)
        job.dataset.make(spark)
        job.prepare(spark, VISITS.scaled(factor))
        return job

    of_late = tables(late.SESSIONS, VISITS, newest=False)
    of_day = tables(late.SESSIONS, VISITS, newest=True)
    metrics = tables(late.METRICS, QUARTER, newest=True)
    for published, command, *arguments in (
        (of_late, "run"),
        (of_day, "run", "--missing"),
        (of_late, "plan", "--recompute"),
        (of_late, "recompute"),
        (of_late, "validate"),
        (metrics, "run"),
        (metrics, "run", "--missing"),
    ):
        yield _Verb(command, tuple(arguments), published.folder, published.restored)
    compared = reconcile.prepared(spark, reconcile.COMPARISONS[0], factor)
    stream = ("--stream", str(compared / "stream"), "--format", "table", "--grace", "365d")
    yield _Verb("reconcile", ("sessions", *stream), compared, lambda: None)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stages", description=__doc__)
    parser.add_argument("--events", type=int, default=VISITS.events)
    events = parser.parse_args().events
    spark = session()
    verbs = list(_verbs(spark, events / VISITS.events))
    # What is measured needs its memory.
    spark.stop()
    shown = Shown(title=f"The slowest stage of each command, of {events:,} visits")
    numbers = ("s", "stages", "s of all", "s of slowest", "its tasks", "CPU s", "GC s")
    for name in ("command", *numbers, "MB", "what"):
        shown.add_column(name, justify="right" if name in numbers else "left")
    for verb in verbs:
        verb.restore()
        seconds, stages = _profiled(verb)
        slowest = max(stages, key=lambda stage: stage.seconds)
        shown.add_row(
            " ".join([verb.command, *verb.arguments[:1]]),
            f"{seconds:.1f}",
            str(len(stages)),
            f"{sum(stage.seconds for stage in stages):.1f}",
            f"{slowest.seconds:.1f}",
            str(slowest.tasks),
            f"{slowest.cpu:.1f}",
            f"{slowest.gc:.1f}",
            ", ".join(f"{name} {size:,.0f}" for name, size in slowest.moved.items() if size >= 1),
            slowest.name,
        )
    Console(width=220).print(shown)
    return 0


def _profiled(verb: _Verb) -> tuple[float, list[_Stage]]:
    """The seconds of the command, and its stages."""
    shutil.rmtree(_LOGS, ignore_errors=True)
    _LOGS.mkdir(parents=True)
    conf = {
        "spark.master": "local[2]",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file://{_LOGS}",
    }
    settings = [part for setting in conf.items() for part in ("--spark", "=".join(setting))]
    job = str(verb.folder / "job.yaml")
    command = [sys.executable, "-c", COMMAND, verb.command, job, *verb.arguments, *settings]
    seconds, _ = watched(command, verb.command, may_differ=verb.command == "reconcile")
    [log] = _LOGS.iterdir()
    return seconds, list(_stages(log))


def _stages(log: Path) -> Iterator[_Stage]:
    """The stages in a session's log."""
    with log.open() as lines:
        for line in lines:
            event = json.loads(line)
            if event["Event"] == "SparkListenerStageCompleted":
                yield _stage(event["Stage Info"])


def _stage(info: dict[str, Any]) -> _Stage:
    metrics = {metric["Name"]: metric["Value"] for metric in info["Accumulables"]}

    def of(name: str, unit: float) -> float:
        return float(metrics.get(f"internal.metrics.{name}", 0)) / unit

    scopes = [json.loads(rdd["Scope"])["name"] for rdd in info["RDD Info"] if "Scope" in rdd]
    fetched = of("shuffle.read.localBytesRead", _MB) + of("shuffle.read.remoteBytesRead", _MB)
    return _Stage(
        name=", ".join(dict.fromkeys(reversed(scopes))),
        tasks=info["Number of Tasks"],
        seconds=(info["Completion Time"] - info["Submission Time"]) / 1_000,
        cpu=of("executorCpuTime", 1e9),
        gc=of("jvmGCTime", 1e3),
        moved={
            "read": of("input.bytesRead", _MB),
            "fetched": fetched,
            "exchanged": of("shuffle.write.bytesWritten", _MB),
            "written": of("output.bytesWritten", _MB),
            "spilled": of("diskBytesSpilled", _MB),
        },
    )


if __name__ == "__main__":
    sys.exit(main())
