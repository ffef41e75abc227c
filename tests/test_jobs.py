"""The entry points for spark-submit, submitted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_run_windows(samples: Path) -> None:
    submit = Path(sys.executable).with_name("spark-submit")
    command = [submit, "--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=2"]
    job = [ROOT / "jobs" / "run_windows.py", samples / "job.yaml", "--json"]
    # As in an activated environment.
    path = f"{submit.parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run([*command, *job], cwd=samples, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    # spark-submit itself puts both streams on stdout.
    document = json.loads(done.stdout.splitlines()[-1])
    assert document["ok"]
    assert document["accepted"] == 5000

    (samples / "job.yaml").write_text("source: {}", encoding="utf-8")
    refused = subprocess.run([*command, *job], cwd=samples, env=env, capture_output=True, text=True)
    assert refused.returncode == 2
    assert not json.loads(refused.stdout.splitlines()[-1])["ok"]
