"""What the README and the notebook show is run as it stands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backfill.spec import JobSpec
from tests.pages import ROOT, blocks

EVENTS = "data/samples/events"


def test_the_job_file(tmp_path: Path) -> None:
    """The whole job file, and the checks that can be added to it."""
    text, checks = blocks("README.md", "yaml")
    suite = {"name": "s", "expectations": [{"type": "expect_table_row_count_to_be_between"}]}
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "sessions.json").write_text(json.dumps(suite), encoding="utf-8")
    path = tmp_path / "job.yaml"
    path.write_text(text + checks, encoding="utf-8")
    job = JobSpec.load(path)
    windows = ["sessions", "daily", "trailing", "growing", "moving", "hundreds"]
    assert list(job.windows) == [*windows, "spending", "bought"]
    assert [check.severity for check in job.checks.own["sessions"]] == ["warn", "error"]
    assert "history" not in job.checks.builtin


@pytest.mark.slow
def test_what_the_demo_prints(samples: Path) -> None:
    """The two commands of `make demo`, on a copy of the samples."""
    job = str(samples / "job.yaml")
    printed = ""
    for command in (["run", job], ["show", job, "sessions", "--top", "events", "--limit", "10"]):
        code = "from backfill.cli import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", code, *command],
            cwd=ROOT,
            env={**os.environ, "COLUMNS": "160"},
            capture_output=True,
            text=True,
            check=True,
        )
        printed += done.stdout
    shown = next(block for block in blocks("README.md", "") if block.startswith("read  "))
    # The folder and the time differ, and so does the width that the table is padded to.
    words = [line.split() for line in shown.splitlines() if "─" not in line and line.strip("… ")]
    lines = [line.split() for line in printed.splitlines()]
    for line in words:
        if line[0] in ("sessions", "hourly", "trailing"):
            assert [cells[:3] for cells in lines].count(line[:3]) == 1
        elif line[0] != "Done":
            assert line in lines


def run(code: str, path: str, names: dict[str, Any]) -> dict[str, Any]:
    """Runs the code; Spark has started in another folder, so the path to the events is absolute."""
    exec(code.replace(path, str(ROOT / EVENTS)), names)
    return names


def test_the_lines_of_the_notebook(spark: SparkSession) -> None:
    (text,) = blocks("README.md", "python")
    names = run(text, EVENTS, {})
    assert names["sessions"].columns == [
        "user_id",
        "session_id",
        "window_start",
        "window_end",
        "events",
        "revenue",
    ]
    assert names["clicks"].count() == names["events"].count()


def test_the_notebook(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    notebook = json.loads((ROOT / "notebooks/sessions.ipynb").read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            run("".join(cell["source"]), f"../{EVENTS}", names)
    assert "session_id" in capsys.readouterr().out
