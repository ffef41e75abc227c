"""What was measured, as a table and as JSON."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.data import Dataset
from benchmarks.late import Upkeep
from benchmarks.measure import Measured
from benchmarks.reconcile import Comparison
from benchmarks.scenarios import Scenario

Subject = Scenario | Upkeep | Comparison


def title(scenario: Subject, factor: float) -> str:
    dataset = _dataset(scenario).scaled(factor)
    return f"{scenario.title}: {dataset.events:,} events, {dataset.keys:,} keys"


def _dataset(scenario: Subject) -> Dataset:
    return scenario.works[0].dataset if isinstance(scenario, Upkeep) else scenario.dataset


def show(console: Console, scenario: Subject, factor: float, measured: list[Measured]) -> None:
    table = Table(title=title(scenario, factor))
    table.add_column("", no_wrap=True)
    for heading in ("seconds", "MiB", "windows", "to ours", "wanted", "reached"):
        table.add_column(heading, justify="right")
    for contender in measured:
        table.add_row(
            contender.name,
            f"{contender.median:.2f}" if contender.seconds else "-",
            f"{contender.peak_mib:,}" if contender.peak_mib else "",
            f"{contender.rows:,}",
            f"{contender.ratio:.2f}" if contender.ratio is not None else "",
            f"≥ {contender.at_least:.2f}" if contender.at_least is not None else "",
            {None: "", True: "yes", False: "no"}[contender.reached],
        )
    console.print(table)
    for contender in measured:
        if contender.differs:
            console.print(f"{contender.name} is not timed: {contender.differs}")


def document(results: list[tuple[Subject, list[Measured]]], factor: float) -> dict[str, Any]:
    return {
        "machine": {
            "cores": os.cpu_count(),
            "memory_mib": psutil.virtual_memory().total >> 20,
            "python": platform.python_version(),
            "versions": {name: version(name) for name in ("pyspark", "duckdb", "polars")},
        },
        "scenarios": [
            {
                "name": scenario.name,
                "title": scenario.title,
                "events": _dataset(scenario).scaled(factor).events,
                "contenders": [
                    {
                        "name": contender.name,
                        "seconds": contender.seconds,
                        "median": contender.median if contender.seconds else None,
                        "peak_mib": contender.peak_mib,
                        "windows": contender.rows,
                        "differs": contender.differs,
                        "ratio": contender.ratio,
                        "at_least": contender.at_least,
                        "reached": contender.reached,
                    }
                    for contender in measured
                ],
            }
            for scenario, measured in results
        ],
    }
