"""Everything runs unchanged over Spark Connect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_the_same_over_connect(samples: Path) -> None:
    # A process of its own: classic and Connect sessions do not live in one.
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "connect_script.py"), str(samples)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=400,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    counts = json.loads(done.stdout.strip().splitlines()[-1])
    assert counts["job"] == {"sessions": 406, "hourly": 467, "trailing": 6346}
    assert counts["quarantined"] == {"no_key": 3, "no_time": 3}
    # The built-in ones of events and three windows, and our four; one of these is a warning.
    assert counts["checks"] == [5 + 3 * 6 + 4, counts["lone"]]
    assert (counts["sessions"], counts["trailing"], counts["sessionized"]) == (406, 6346, 5052)
    assert (counts["stream"]["read"], counts["stream"]["batches"]) == (5058, 2)
    assert counts["stream"]["rows"] == counts["written"] > 400
