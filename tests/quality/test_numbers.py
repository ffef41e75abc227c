"""Numbers against limits: as Great Expectations would judge them, without it."""

from __future__ import annotations

import subprocess
import sys

import pandas as pd
import pytest

from backfill.quality.builtin import BUILTINS
from backfill.quality.evaluate import evaluate
from backfill.quality.judging import as_check, judged
from backfill.quality.numbers import compared

CHECKS = [as_check(builtin) for builtin in BUILTINS.values()]


@pytest.mark.parametrize("value", [0, 0.0, 1, 0.1, 0.1 + 1e-17, 0.11, 0.9, 0.899, 2**53, 1e300])
def test_as_great_expectations_tells_it(value: float) -> None:
    frame = pd.DataFrame([{check.name: value for check in CHECKS}])
    metrics = {check.name: value for check in CHECKS}
    ours = compared(CHECKS, metrics, table="t", run_id="r1")
    theirs = evaluate(frame, CHECKS, table="t", run_id="r1")
    assert ours.document == theirs.document
    assert [outcome.success for outcome in ours.outcomes] == [
        outcome.success for outcome in theirs.outcomes
    ]
    assert [outcome.observed for outcome in ours.outcomes] == [value] * len(CHECKS)


def test_at_the_limit() -> None:
    metrics = {check.name: BUILTINS[check.name].limit or 0 for check in CHECKS} | {"history": 0}
    metrics["freshness"] = 86_400_000_000
    (validation,) = judged("t", "r1", CHECKS, metrics, (), None, ())  # type: ignore[arg-type]
    assert not validation.failed
    assert not validation.warned
    metrics["freshness"] += 1  # type: ignore[operator]
    (validation,) = judged("t", "r1", CHECKS, metrics, (), None, ())  # type: ignore[arg-type]
    assert [outcome.check.name for outcome in validation.warned] == ["freshness"]


def test_great_expectations_is_not_loaded_for_numbers() -> None:
    script = """
import sys
from backfill.quality.builtin import BUILTINS
from backfill.quality.judging import as_check, judged
checks = [as_check(each) for each in BUILTINS.values()]
judged("t", "r1", checks, {each.name: 0 for each in checks}, (), None, ())
print([name for name in sys.modules if name.startswith("great_expectations")])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")
