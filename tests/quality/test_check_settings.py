"""What a job file may say of checks."""

from __future__ import annotations

from pathlib import Path

import pytest

from backfill.errors import JobFileError
from backfill.quality.builtin import BUILTINS
from backfill.spec import JobSpec
from backfill.time.durations import Fixed
from tests.quality.published import JOB

pytestmark = pytest.mark.one_lane


def load(folder: Path, checks: str) -> JobSpec:
    path = folder / "job.yaml"
    path.write_text(JOB.format(checks))
    return JobSpec.load(path)


def test_without_a_setting_every_builtin_check_is_on(tmp_path: Path) -> None:
    checks = load(tmp_path, "").checks
    assert dict(checks.builtin) == dict(BUILTINS)
    assert dict(checks.own) == {}


def test_limits_severities_and_off(tmp_path: Path) -> None:
    checks = load(
        tmp_path,
        "checks: {builtin: {quarantined_share: 0.01, freshness: {limit: 1h, severity: error},"
        " gap: warn, history: off}}",
    ).checks.builtin
    assert checks["quarantined_share"].limit == 0.01
    assert (checks["freshness"].limit, checks["freshness"].severity) == (
        Fixed(3_600_000_000),
        "error",
    )
    assert (checks["gap"].limit, checks["gap"].severity) == (None, "warn")
    assert set(BUILTINS) - set(checks) == {"history"}
    assert dict(load(tmp_path, "checks: {builtin: off}").checks.builtin) == {}


def test_own_expectations_keep_numbers_and_texts_apart(tmp_path: Path) -> None:
    checks = load(
        tmp_path,
        """\
checks:
  sessions:
    - expect_column_values_to_be_between: {column: n, min_value: 1, max_value: 2.5}
      severity: warn
    - {expect_column_values_to_be_in_set: {column: user, value_set: ["1", 2, true, x]}}
    - {expect_column_values_to_be_in_set: {column: user, value_set: [a]}}
""",
    ).checks.own["sessions"]
    assert [check.severity for check in checks] == ["warn", "error", "error"]
    assert checks[0].arguments == {"column": "n", "min_value": 1, "max_value": 2.5}
    assert checks[1].arguments["value_set"] == ["1", 2, True, "x"]
    assert len({check.name for check in checks}) == 3


@pytest.mark.parametrize(
    ("checks", "parts"),
    [
        ("checks: [a]", ["7: checks", "must be a mapping"]),
        ("checks: {sesions: []}", ["checks.sesions", "Did you mean 'sessions'?"]),
        ("checks: {builtin: {gaps: off}}", ["checks.builtin.gaps", "Did you mean 'gap'?"]),
        ("checks: {builtin: {gap: 5}}", ["checks.builtin.gap", "has no limit", "off, warn or"]),
        ("checks: {builtin: {quarantined_share: 2}}", ["between 0 and 1", "'2'"]),
        ("checks: {builtin: {quarantined_share: few}}", ["must be a share", "'few'"]),
        ("checks: {builtin: {freshness: 5}}", ["checks.builtin.freshness: not a duration"]),
        ("checks: {builtin: {freshness: {limits: 5m}}}", ["Did you mean 'limit'?"]),
        ("checks: {builtin: {gap: {severity: err}}}", ["severity", "Did you mean 'error'?"]),
        ("checks: {sessions: {a: b}}", ["checks.sessions", "must be a list"]),
        ("checks:\n  sessions:\n  - {}\n", ["9: checks.sessions[0]", "must be an expectation"]),
        (
            "checks: {sessions: [{expect_column_values_to_be_betwen: {column: n}}]}",
            ["checks.sessions[0].expect_column_values_to_be_betwen", "Did you mean"],
        ),
        (
            "checks: {sessions: [{expect_column_values_to_be_between: {colum: n}}]}",
            ["checks.sessions[0]", "colum", "Did you mean 'column'?"],
        ),
        ("checks: {sessions: [{suite: none.json}]}", ["none.json"]),
    ],
)
def test_what_is_wrong_is_told_with_its_place(
    tmp_path: Path, checks: str, parts: list[str]
) -> None:
    with pytest.raises(JobFileError) as caught:
        load(tmp_path, checks)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    for part in parts:
        assert part in message


def test_a_window_can_not_be_called_builtin(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(JOB.format("").replace("hopping: {hopping", "builtin: {hopping"))
    with pytest.raises(JobFileError, match="name reserved for the tables"):
        JobSpec.load(path)
