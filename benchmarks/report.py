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
    for each in measured:
        table.add_row(
            each.name,
            f"{each.median:.2f}" if each.seconds else "-",
            f"{each.peak_mib:,}" if each.peak_mib else "",
            f"{each.rows:,}",
            f"{each.ratio:.2f}" if each.ratio is not None else "",
            f"≥ {each.at_least:.2f}" if each.at_least is not None else "",
            {None: "", True: "yes", False: "no"}[each.reached],
        )
    console.print(table)
    for each in measured:
        if each.differs:
            console.print(f"{each.name} is not timed: {each.differs}")


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
                        "name": each.name,
                        "seconds": each.seconds,
                        "median": each.median if each.seconds else None,
                        "peak_mib": each.peak_mib,
                        "windows": each.rows,
                        "differs": each.differs,
                        "ratio": each.ratio,
                        "at_least": each.at_least,
                        "reached": each.reached,
                    }
                    for each in measured
                ],
            }
            for scenario, measured in results
        ],
    }
