"""Run contenders one after the other, watch their time and memory, and compare their results."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import duckdb
import psutil
from pyspark.sql import SparkSession

from backfill import spark as our_spark
from backfill.runtimes import memory
from benchmarks.contenders import Contender
from benchmarks.data import FOLDER, Dataset
from benchmarks.scenarios import Rival, Scenario

#: The program `backfill`, for the Python of any environment.
COMMAND = "import sys; from backfill.cli import main; sys.exit(main())"
_RESULTS = FOLDER / "out"
# A run as long as this one has warmed up by itself by its middle.
_WARM_S = 180.0


def session(runtime: str = "spark") -> SparkSession:
    mib = min(8 << 10, memory.limit() // 2 >> 20)
    of_spark = {"spark.master": "local[2]", "spark.driver.memory": f"{mib}m"}
    return our_spark.session(
        conf={"spark.sql.shuffle.partitions": "8"} | (of_spark if runtime == "spark" else {}),
        runtime=runtime,
    )


class Failed(SystemExit):
    """A process failed; if this is not caught, it ends the benchmarks."""


@dataclass
class Measured:
    """The results of one contender; `differs` says how its windows differ from ours, if they do."""

    name: str
    seconds: list[float] = field(default_factory=list)
    peak_mib: int = 0
    rows: int = 0
    differs: str | None = None
    ratio: float | None = None
    at_least: float | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def reached(self) -> bool | None:
        if self.ratio is None or self.at_least is None:
            return None
        return self.ratio >= self.at_least


def run_once(spark: SparkSession, contender: Contender, source: Path, out: Path) -> float:
    """Seconds from Parquet to Parquet."""
    shutil.rmtree(out, ignore_errors=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    return timed(lambda: contender.run(spark, source, out))


def timed(act: Callable[[], object]) -> float:
    """The seconds that it takes."""
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def measure(spark: SparkSession, scenario: Scenario, *, factor: float, runs: int) -> list[Measured]:
    """Runs each contender alone for its memory and windows, then all of them warm, in turns.

    Ours is the first in the list. A contender whose windows differ from ours is not timed.
    """
    everyone = [Rival(contender=scenario.ours), *scenario.rivals]
    to_time: list[tuple[Measured, Callable[[], float]]] = []
    to_warm: list[Callable[[], float]] = []
    measured = []
    ours: Path | None = None
    for number, rival in enumerate(everyone):
        dataset = (rival.dataset or scenario.dataset).scaled(factor)
        dataset.make(spark)
        result = Measured(rival.contender.name, at_least=rival.at_least)
        measured.append(result)
        out = _RESULTS / f"{scenario.name}-{number}"
        alone, result.peak_mib = _alone(scenario, number, dataset, out)
        result.rows = count(out / scenario.windows)
        if ours is None:
            ours = out
        elif rival.dataset is None:
            result.differs = difference(
                ours / scenario.windows, out / scenario.windows, rival.contender.end_shift_us
            )
        if result.differs is None:
            run = partial(run_once, spark, rival.contender, dataset.path, _RESULTS / "timed")
            to_time.append((result, run))
            if alone < _WARM_S:
                to_warm.append(run)
    # Only now, because this process got cold while others ran in their own.
    for warm_up in to_warm:
        warm_up()
    in_turns(to_time, runs)
    shutil.rmtree(_RESULTS, ignore_errors=True)
    return measured


def in_turns(warm: Sequence[tuple[Measured, Callable[[], float]]], runs: int) -> None:
    """Times them in rounds, every other one backwards; the first one is ours.

    A ratio is the median of the rounds' ratios: if the machine is slow for a while, it is slow for
    both.
    """
    for number in range(runs):
        for result, run in warm if number % 2 == 0 else reversed(warm):
            result.seconds.append(run())
    (ours, _), *others = warm
    for result, _ in others:
        rounds = zip(result.seconds, ours.seconds, strict=True)
        result.ratio = statistics.median(theirs / own for theirs, own in rounds)


def _alone(scenario: Scenario, number: int, dataset: Dataset, out: Path) -> tuple[float, int]:
    """Seconds, including the JVM's start, and the most MiB that its processes held at a time."""
    command = [sys.executable, "-m", "benchmarks.alone", scenario.name, str(number)]
    return watched([*command, str(dataset.path), str(out)], f"{scenario.name}: contender {number}")


def watched(command: Sequence[str], name: str, *, may_differ: bool = False) -> tuple[float, int]:
    """The seconds of a process, and the most MiB that it and its children held at a time.

    Args:
        command: the process.
        name: what it does, for the message if it fails.
        may_differ: whether exit code 1 means that it found differences, not that it failed.
    """
    began = time.perf_counter()
    peak, seen = 0, set[int]()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        root = psutil.Process(process.pid)
        while process.poll() is None:
            held = _resident(root)
            # A new one that is about to become another program still shows its parent's memory.
            peak = max(peak, sum(size for pid, size in held.items() if pid in seen))
            seen = {*held}
            time.sleep(0.1)
    if process.returncode not in (0, *([1] if may_differ else [])):
        raise Failed(f"{name} failed ({process.returncode})")
    return time.perf_counter() - began, peak >> 20


def _resident(root: psutil.Process) -> dict[int, int]:
    """The bytes that each of the processes holds."""
    sizes = {}
    # Any of them may end while we look.
    with suppress(psutil.NoSuchProcess):
        for process in [root, *root.children(recursive=True)]:
            with suppress(psutil.Error):
                sizes[process.pid] = process.memory_info().rss
    return sizes


def _windows(folder: Path) -> str:
    return f"read_parquet('{folder}/**/*.parquet', hive_partitioning = false)"


def count(folder: Path) -> int:
    """The windows in a folder."""
    with duckdb.connect() as connection:
        ((count,),) = connection.sql(f"select count(*) from {_windows(folder)}").fetchall()
    return int(count)


def difference(ours: Path, theirs: Path, end_shift_us: int) -> str | None:
    """How the windows differ, or None. Sums of doubles may differ by a billionth of themselves."""
    with duckdb.connect() as connection:
        connection.sql("set threads = 2")
        ((windows, *wrong),) = connection.sql(f"""
            select count(*),
                   count(*) filter (a.user_id is null),
                   count(*) filter (b.user_id is null),
                   count(*) filter (
                       epoch_us(a.window_end) + {end_shift_us} <> epoch_us(b.window_end)),
                   count(*) filter (a.events <> b.events),
                   count(*) filter (abs(a.revenue - b.revenue) > 1e-9 * abs(a.revenue))
            from {_windows(ours)} a full join {_windows(theirs)} b
            on a.user_id = b.user_id
                and epoch_us(a.window_start) = epoch_us(b.window_start)
        """).fetchall()
    names = ("only theirs", "only ours", "end", "events", "revenue")
    counts = [f"{name}: {count:,}" for name, count in zip(names, wrong, strict=True) if count]
    return f"of {windows:,} windows differ " + ", ".join(counts) if counts else None
