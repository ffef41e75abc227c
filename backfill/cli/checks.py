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
            "table": each.table,
            "check": each.check.name,
            "expectation": each.check.expectation,
            "arguments": each.check.arguments,
            "severity": each.check.severity,
            "success": each.success,
            "observed": each.observed,
            "unexpected": each.unexpected,
            "examples": list(each.examples),
            "problem": each.problem,
        }
        for each in outcomes
    ]


def print_failed(outcomes: Sequence[Outcome]) -> None:
    """Prints a table of the checks that failed, and rows that show why."""
    failed = [each for each in outcomes if not each.success]
    if not failed:
        return
    columns = ("table", "check", "severity", "expected", "found")
    rows = [
        (
            each.table,
            each.check.name,
            each.check.severity,
            each.problem or each.check.about or _told(each),
            _found(each),
        )
        for each in failed
    ]
    print_table(columns, rows)
    for each in failed:
        if each.examples:
            print_line(f"\n{each.table}: {each.check.name}, for example")
            names = list(each.examples[0])
            print_table(
                names,
                [[cell(row.get(n), dt.timezone.utc) for n in names] for row in each.examples],
            )
    print_line()


def _told(outcome: Outcome) -> str:
    check = outcome.check
    return ", ".join(f"{name}: {value}" for name, value in check.arguments.items())


def _found(outcome: Outcome) -> str:
    if outcome.unexpected is not None:
        return f"{outcome.unexpected:,} rows"
    limit = BUILTINS[outcome.check.name].limit if outcome.check.builtin else None
    if isinstance(limit, Fixed) and isinstance(outcome.observed, int | float):
        return f"{dt.timedelta(microseconds=outcome.observed)}"
    return cell(outcome.observed, dt.timezone.utc)
