"""Checks of a reconciliation: each fails on what breaks it, and only it."""

from __future__ import annotations

from pathlib import Path

import pytest

from backfill.folders import LocalFolder
from backfill.quality.store import kept
from backfill.reconciliation.checks import check_reconciled
from backfill.reconciliation.explaining.case import Explanation
from backfill.reconciliation.explaining.matching import Difference
from backfill.reconciliation.result import Explained, Reconciled
from backfill.reconciliation.rows import Row
from backfill.spec import JobSpec
from tests.quality.published import JOB, failed

pytestmark = pytest.mark.one_lane


def spec(folder: Path, checks: str = "") -> JobSpec:
    (folder / "job.yaml").write_text(JOB.format(checks))
    return JobSpec.load(folder / "job.yaml")


def found(matched: int, *causes: str) -> Reconciled:
    row = Row(0, 1, {"n": 1})
    differences = [
        Explained((f"u{i}",), Difference((row,), ()), Explanation((cause,), True))
        for i, cause in enumerate(causes)
    ]
    every = matched + len(causes)
    return Reconciled("sessions", matched, differences, every, matched, True)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (found(9, "late"), set()),
        (found(0), set()),
        (found(8, "late", "pending"), {"match_rate"}),
        (found(99, "unexplained"), {"unexplained"}),
        (found(0, "unexplained"), {"match_rate", "unexplained"}),
    ],
)
def test_builtin_checks(tmp_path: Path, result: Reconciled, expected: set[str]) -> None:
    outcomes = check_reconciled(spec(tmp_path), result, "r1")
    assert {name for _, name in failed(outcomes)} == expected
    assert {outcome.table for outcome in outcomes} == {"reconciliation"}
    assert [validation["table"] for validation in kept(LocalFolder(tmp_path / "out"))] == [
        "reconciliation"
    ]


def test_limits_and_severities(tmp_path: Path) -> None:
    strict = spec(tmp_path, "checks: {builtin: {match_rate: {limit: 0.99, severity: error}}}")
    outcomes = check_reconciled(strict, found(9, "late"), "r1")
    assert failed(outcomes) == {("reconciliation", "match_rate")}
    (outcome,) = (verdict for verdict in outcomes if not verdict.success)
    assert (outcome.check.severity, outcome.observed) == ("error", 0.9)
    result = found(9, "late")
    assert result.ok(["late"])
    assert not Reconciled(**{**vars(result), "checks": outcomes}).ok(["late"])
    assert check_reconciled(spec(tmp_path, "checks: {builtin: off}"), result, "r2") == ()


def test_own_expectations_see_a_row_for_each_difference(tmp_path: Path) -> None:
    own = spec(
        tmp_path,
        "checks: {reconciliation: [{expect_column_values_to_be_in_set:"
        " {column: cause, value_set: [late]}}]}",
    )
    assert failed(check_reconciled(own, found(99, "late"), "r1")) == set()
    outcomes = check_reconciled(own, found(98, "late", "restart"), "r2")
    (outcome,) = (verdict for verdict in outcomes if not verdict.success)
    assert outcome.unexpected == 1
    assert outcome.examples == ({"user": "u1", "cause": "restart"},)
