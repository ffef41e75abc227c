"""What the README and the notebook show is run as it stands."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backfill.spec import JobSpec

ROOT = Path(__file__).parents[1]
EVENTS = "data/samples/events"


def blocks(language: str) -> list[str]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def test_the_job_file(tmp_path: Path) -> None:
    (text,) = blocks("yaml")
    path = tmp_path / "job.yaml"
    path.write_text(text, encoding="utf-8")
    assert list(JobSpec.load(path).windows) == ["sessions", "daily", "trailing", "growing"]


def run(code: str, path: str, names: dict[str, Any]) -> dict[str, Any]:
    """Runs the code; Spark has started in another folder, so the path to the events is absolute."""
    exec(code.replace(path, str(ROOT / EVENTS)), names)
    return names


def test_the_lines_of_the_notebook(spark: SparkSession) -> None:
    (text,) = blocks("python")
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
