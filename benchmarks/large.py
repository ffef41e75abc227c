"""Cold: from the start of a process to sessions written, 100 million events. `make bench-large`."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from rich.console import Console

from benchmarks import contenders as c
from benchmarks import report
from benchmarks.contenders import Contender
from benchmarks.data import FOLDER, VISITS, Dataset
from benchmarks.measure import (
    COMMAND,
    Failed,
    Measured,
    count,
    difference,
    in_turns,
    session,
    watched,
)
from benchmarks.scenarios import SCENARIOS, Scenario

#: The Python of the environment that has Sail, whose client is an older pyspark.
_WITH_SAIL = Path(__file__).parent.parent / ".venv-lakehouse" / "bin" / "python"
_OUT = FOLDER / "out"
_SESSIONS = next(scenario for scenario in SCENARIOS if scenario.name == "sessions")
_OF_SESSIONS = [_SESSIONS.ours, *(rival.contender for rival in _SESSIONS.rivals)]


@dataclass(frozen=True)
class _Contender:
    """A process.

    Attributes:
        name: in the report.
        command: reads a folder of events and writes one of windows.
        windows: the folder in its output that holds them.
        end_shift_us: as in `contenders.Contender`.
        at_least: the target for the ratio of its time to ours.
    """

    name: str
    command: Callable[[Path, Path], list[str]]
    windows: str = "."
    end_shift_us: int = 0
    at_least: float | None = None


def _alone(contender: Contender, *, sail: bool = False) -> Callable[[Path, Path], list[str]]:
    """A contender from the scenario of sessions."""
    python = str(_WITH_SAIL) if sail else sys.executable
    runtime = ["sail"] if sail else []
    number = _OF_SESSIONS.index(contender)

    def command(source: Path, out: Path) -> list[str]:
        alone = ["-m", "benchmarks.alone", "sessions", str(number)]
        return [python, *alone, str(source), str(out), *runtime]

    return command


def _run(*, sail: bool) -> Callable[[Path, Path], list[str]]:
    """`backfill run`, with its checks."""
    python = str(_WITH_SAIL) if sail else sys.executable
    options = ["--runtime", "sail"] if sail else ["--spark", "spark.master=local[2]"]

    def command(source: Path, out: Path) -> list[str]:
        job = c.job_of_sessions(source, out)
        return [python, "-c", COMMAND, "run", str(job), *options]

    return command


_CONTENDERS = (
    _Contender("aggregate on Sail", _alone(c.OURS, sail=True)),
    _Contender("Polars", _alone(c.POLARS), at_least=1),
    _Contender("DuckDB", _alone(c.DUCKDB), at_least=1),
    _Contender("DuckDB over slices", _alone(c.DUCKDB_SLICES)),
    _Contender("backfill run on Sail", _run(sail=True), windows="sessions"),
    _Contender("aggregate on Spark", _alone(c.OURS)),
    _Contender("backfill run on Spark", _run(sail=False), windows="sessions"),
    _Contender("session_window", _alone(c.SESSION_WINDOW), end_shift_us=c.GAP_US),
)


def main() -> int:
    """Returns 0, or 1 if windows differ or a ratio misses its target."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large", description=__doc__)
    parser.add_argument("--events", type=int, nargs="+", default=[20_000_000, 100_000_000])
    parser.add_argument(
        "--runs",
        type=int,
        default=3,
        help="of which the median counts; 0: the first one, which is otherwise for the memory",
    )
    default = Path(__file__).with_name("results") / "large.json"
    parser.add_argument("--json", type=Path, default=default, help="where to write the figures")
    arguments = parser.parse_args()
    if not _WITH_SAIL.exists():
        parser.error(f"{_WITH_SAIL} is missing; type: make .venv-lakehouse/ready")
    os.environ["POLARS_MAX_THREADS"] = "2"
    console = Console(width=max(100, Console().width))
    results: list[tuple[report.Subject, list[Measured]]] = []
    datasets = [VISITS.scaled(number / VISITS.events) for number in arguments.events]
    # Its JVM lives as long as the process, and what is measured needs the memory.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as apart:
        apart.submit(_make, datasets).result()
    for dataset in datasets:
        title = "sessions with a gap of 30 minutes, cold"
        large = Scenario(name="large", title=title, dataset=dataset, ours=c.OURS, rivals=())
        measured = _measure(dataset, arguments.runs)
        report.show(console, large, 1, measured)
        results.append((large, measured))
    arguments.json.parent.mkdir(exist_ok=True)
    arguments.json.write_text(json.dumps(report.document(results, 1), indent=2) + "\n")
    everything = [contender for _, measured in results for contender in measured]
    return int(
        any(contender.differs is not None or contender.reached is False for contender in everything)
    )


def _make(datasets: Sequence[Dataset]) -> None:
    spark = session()
    for dataset in datasets:
        dataset.make(spark)


def _measure(dataset: Dataset, runs: int) -> list[Measured]:
    """Runs each once for its windows and memory, then those whose windows are ours in turns."""
    measured, to_time = [], []
    ours: Path | None = None
    for number, contender in enumerate(_CONTENDERS):
        result = Measured(contender.name, at_least=contender.at_least)
        measured.append(result)
        out = _OUT / f"large-{number}"
        try:
            seconds, result.peak_mib = _once(contender, dataset, out)
        except Failed as failure:
            # Where memory is limited some fail, which is worth knowing.
            result.differs = str(failure)
            print(failure, file=sys.stderr)
            continue
        print(f"{contender.name}: {seconds:.1f} s, {result.peak_mib:,} MiB", file=sys.stderr)
        windows = out / contender.windows
        result.rows = count(windows)
        if ours is None:
            ours = windows
        else:
            result.differs = difference(ours, windows, contender.end_shift_us)
            shutil.rmtree(out)
        if result.differs is None:
            if not runs:
                result.seconds.append(seconds)
            to_time.append((result, _timed(contender, dataset)))
    if runs:
        in_turns(to_time, runs)
    shutil.rmtree(_OUT, ignore_errors=True)
    return measured


def _timed(contender: _Contender, dataset: Dataset) -> Callable[[], float]:
    return lambda: _once(contender, dataset, _OUT / "timed")[0]


def _once(contender: _Contender, dataset: Dataset, out: Path) -> tuple[float, int]:
    """Seconds, and the most MiB that its processes held at a time."""
    shutil.rmtree(out, ignore_errors=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    return watched(contender.command(dataset.path, out), contender.name)


if __name__ == "__main__":
    sys.exit(main())
