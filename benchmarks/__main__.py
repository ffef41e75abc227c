"""`python -m benchmarks`: ours and others side by side, as a table and as JSON."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from rich.console import Console

from benchmarks import explaining, late, reconcile, report
from benchmarks.data import VISITS
from benchmarks.measure import Measured, measure, session
from benchmarks.scenarios import SCENARIOS, Scenario
from benchmarks.times import TIMES

TABLES: tuple[report.Subject, ...] = (
    *SCENARIOS,
    TIMES,
    *late.UPKEEP,
    *reconcile.COMPARISONS,
    *explaining.COMPARISONS,
)


def main() -> int:
    """Returns 0, or 1 if a contender's windows differ from ours or a ratio misses its target."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--only",
        action="append",
        choices=[subject.name for subject in TABLES],
        help="a scenario; may be repeated",
    )
    parser.add_argument(
        "--events",
        type=int,
        default=VISITS.events,
        help="events of the session scenarios; the others' follow in proportion",
    )
    parser.add_argument("--runs", type=int, default=3, help="warm runs, of which the median counts")
    default = Path(__file__).with_name("results") / "latest.json"
    parser.add_argument("--json", type=Path, default=default, help="where to write the figures")
    arguments = parser.parse_args()
    # Wide enough for the tables even if the output is not a terminal.
    console = Console(width=max(100, Console().width))
    factor = arguments.events / VISITS.events
    spark = session()
    results: list[tuple[report.Subject, list[Measured]]] = []
    for scenario in TABLES:
        if arguments.only and scenario.name not in arguments.only:
            continue
        if isinstance(scenario, Scenario):
            measured = measure(spark, scenario, factor=factor, runs=arguments.runs)
        elif isinstance(scenario, reconcile.Comparison):
            measured = reconcile.measure(spark, scenario, factor=factor, runs=arguments.runs)
        else:
            measured = late.measure(spark, scenario, factor=factor, runs=arguments.runs)
        report.show(console, scenario, factor, measured)
        results.append((scenario, measured))
        # Written after each one, so that stopping halfway keeps the results so far.
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(report.document(results, factor), indent=2) + "\n")
    return int(
        any(
            contender.differs or contender.reached is False
            for _, measured in results
            for contender in measured
        )
    )


if __name__ == "__main__":
    sys.exit(main())
