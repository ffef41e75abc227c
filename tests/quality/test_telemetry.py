"""Nothing leaves the machine; and what needs no Great Expectations does not import it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent

WATCHED = """
import json, os, socket, sys
tried = []

def refuse(*arguments, **_):
    tried.append(repr(arguments))
    raise OSError("refused by the test")

socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
socket.create_connection = socket.gethostbyname = refuse
os.environ["GX_ANALYTICS_ENABLED"] = "true"

from pathlib import Path
import pandas as pd
from backfill.quality import gx
from backfill.quality.docs import build_docs
from backfill.quality.suites import own_check
from tests.quality.given import check
from backfill.quality.evaluate import evaluate

import requests
requests.Session.request = refuse
frame = pd.DataFrame({"n": [1, 2]})
own = own_check("expect_column_max_to_be_between", {"column": "n", "max_value": 1}, "error")
found = evaluate(frame, [own, check("expect_column_to_exist", column="x")], table="t", run_id="r")
entry = {"table": "t", "run_id": "r", "at": "2024-01-01", "document": found.document}
build_docs([entry], Path(sys.argv[1]) / "docs", title="job")
with gx.context() as context:
    config = context.config.analytics_enabled
print(json.dumps({
    "tried": tried,
    "failed": len(found.failed),
    "analytics": [os.environ["GX_ANALYTICS_ENABLED"], config],
    "trackers": [name for name in sys.modules if name.split(".")[0] in {"posthog", "segment"}],
}))
"""

LIGHT = """
import sys
import backfill
import backfill.quality.checks, backfill.quality.suites, backfill.quality.evaluate
import backfill.quality.docs
print([name for name in sys.modules if name.startswith("great_expectations")])
"""


def run(script: str, home: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, str(home)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(home), "TMPDIR": str(home)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_nothing_leaves_the_machine(tmp_path: Path) -> None:
    printed: dict[str, Any] = json.loads(run(WATCHED, tmp_path))
    assert printed["failed"] == 2
    assert printed["tried"] == []
    assert printed["trackers"] == []
    # For the versions that look at this setting.
    assert printed["analytics"] == ["false", False]
    # Nothing else is written, either.
    assert [path.name for path in tmp_path.iterdir()] == ["docs"]


def test_it_is_imported_when_it_is_needed(tmp_path: Path) -> None:
    assert run(LIGHT, tmp_path) == "[]\n"
