"""The outcomes of checks, as JSON and for people."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from backfill.cli.output import cell, print_line, print_table
from backfill.quality.builtin import BUILTINS
from backfill.time.durations import Fixed

if TYPE_CHECKING:
    from backfill.quality.checks import Outcome


def as_documents(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    """One mapping for each check."""
    return [
        {
            "table": outcome.table,
            "check": outcome.check.name,
            "expectation": outcome.check.expectation,
            "arguments": outcome.check.arguments,
            "severity": outcome.check.severity,
            "success": outcome.success,
            "observed": outcome.observed,
            "unexpected": outcome.unexpected,
            "examples": list(outcome.examples),
            "problem": outcome.problem,
        }
        for outcome in outcomes
    ]


def print_failed(outcomes: Sequence[Outcome]) -> None:
    """Prints a table of the checks that failed, and rows that show why."""
    failed = [outcome for outcome in outcomes if not outcome.success]
    if not failed:
        return
    columns = ("table", "check", "severity", "expected", "found")
    rows = [
        (
            outcome.table,
            outcome.check.name,
            outcome.check.severity,
            outcome.problem or outcome.check.about or _arguments(outcome),
            _observed(outcome),
        )
        for outcome in failed
    ]
    print_table(columns, rows)
    for outcome in failed:
        if outcome.examples:
            print_line(f"\n{outcome.table}: {outcome.check.name}, for example")
            names = list(outcome.examples[0])
            print_table(
                names,
                [[cell(row.get(n), dt.timezone.utc) for n in names] for row in outcome.examples],
            )
    print_line()


def _arguments(outcome: Outcome) -> str:
    check = outcome.check
    return ", ".join(f"{name}: {value}" for name, value in check.arguments.items())


def _observed(outcome: Outcome) -> str:
    if outcome.unexpected is not None:
        return f"{outcome.unexpected:,} rows"
    limit = BUILTINS[outcome.check.name].limit if outcome.check.builtin else None
    if isinstance(limit, Fixed) and isinstance(outcome.observed, int | float):
        return f"{dt.timedelta(microseconds=outcome.observed)}"
    return cell(outcome.observed, dt.timezone.utc)
