"""Keys that the driver has no room for are explained by workers, and just as it would."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.reconcile import in_parts

ROOT = Path(__file__).parents[2]


def test_parts_are_explained_as_the_whole(spark: SparkSession, tmp_path: Path) -> None:
    job = in_parts.job_of(tmp_path / "classic")
    job.run(spark)
    said: list[str] = []
    whole = in_parts.reconciled(job, spark, 10_000, said)
    assert "replaying 72 events" in said, said
    parts = in_parts.reconciled(job, spark, 10, said)
    assert re.search(r"^replaying keys of more than 10 events in \d\d+ parts$", said[-1]), said
    assert in_parts.told(whole) == in_parts.told(parts)

    causes = {
        (each.key, each.explanation.causes, each.explanation.proved) for each in whole.differences
    }
    assert causes == {
        ((None, None), ("late",), True),
        ((None, None), ("rounded",), True),
        (("b", 1), ("missing_in_stream",), True),
        (("c", 7), ("unexplained",), False),
    }, whole.differences


@pytest.mark.slow
def test_the_same_over_connect(spark: SparkSession, tmp_path: Path) -> None:
    job = in_parts.job_of(tmp_path / "classic")
    job.run(spark)
    here = in_parts.told(in_parts.reconciled(job, spark, 10_000, []))
    # A process of its own: classic and Connect sessions do not live in one.
    done = subprocess.run(
        [sys.executable, in_parts.__file__, str(tmp_path / "connect")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=400,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    whole, parts = json.loads(done.stdout.strip().splitlines()[-1])
    assert whole == parts == here
