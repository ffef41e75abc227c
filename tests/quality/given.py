"""Checks and frames that the tests of quality share."""

from __future__ import annotations

from typing import Any

from backfill.quality.checks import Check, Outcome, Severity
from backfill.quality.evaluate import evaluate


def check(
    expectation: str, severity: Severity = "error", about: str = "", **arguments: Any
) -> Check:
    return Check(
        name=expectation,
        expectation=expectation,
        arguments=arguments,
        severity=severity,
        about=about,
    )


def outcomes(frame: Any, *checks: Check, shown: tuple[str, ...] = ()) -> tuple[Outcome, ...]:
    return evaluate(frame, checks, table="sessions", run_id="run-1", key=shown).outcomes


def outcome(frame: Any, expectation: str, shown: tuple[str, ...] = (), **arguments: Any) -> Outcome:
    return outcomes(frame, check(expectation, **arguments), shown=shown)[0]
