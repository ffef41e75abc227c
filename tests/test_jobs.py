"""The entry points for spark-submit, submitted."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.interpreted import SETTINGS

ROOT = Path(__file__).parent.parent


def submit(script: str, *arguments: str | Path) -> tuple[int, dict[str, Any]]:
    """Submits one of the jobs; returns its exit code, and the document that it prints last."""
    # As in an activated environment.
    bin = Path(sys.executable).parent
    path = f"{bin}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PYSPARK_PYTHON": sys.executable}
    conf = {**SETTINGS, "spark.sql.shuffle.partitions": "2"}
    settings = [f"--conf={name}={value}" for name, value in conf.items()]
    command = [bin / "spark-submit", "--master=local[2]", *settings, ROOT / "jobs" / script]
    done = subprocess.run([*command, *arguments, "--json"], env=env, capture_output=True, text=True)
    # spark-submit itself puts both streams on stdout.
    lines = done.stdout.splitlines()
    assert lines, done.stderr[-3000:]
    return done.returncode, json.loads(lines[-1])


@pytest.mark.slow
def test_run_windows(samples: Path) -> None:
    code, document = submit("run_windows.py", samples / "job.yaml")
    assert (code, document["ok"]) == (0, True), document
    assert document["accepted"] == 5000

    (samples / "job.yaml").write_text("source: {}", encoding="utf-8")
    code, document = submit("run_windows.py", samples / "job.yaml")
    assert (code, document["ok"]) == (2, False)


@pytest.mark.slow
def test_nightly_and_late(
    samples: Path,
    spark: SparkSession,
    interpreted: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The dates one after the other, then an event that comes too late for its own."""

    def submitted(script: str) -> dict[str, Any]:
        code, document = submit(script, samples / "job.yaml")
        assert code == 0, document
        return document

    def again(script: str, *options: str) -> dict[str, Any]:
        """The same script once more, in this process: spark-submit has been tried by then."""
        monkeypatch.setattr(sys, "argv", [script, str(samples / "job.yaml"), "--json", *options])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(ROOT / "jobs" / script), run_name="__main__")
        assert ended.value.code == 0
        return dict(json.loads(capsys.readouterr().out))

    nightly = submitted("nightly_backfill.py")
    assert nightly["ok"]
    assert nightly["windows"]["hourly"]["events"] == 5000
    assert not again("nightly_backfill.py")["runs"]
    assert again("nightly_backfill.py", "--date=2026-01-10")["accepted"] > 0
    one = next((samples / "events").rglob("*.parquet"))
    late = one.with_name("late.parquet")
    table = pq.read_table(one).slice(0, 1)
    place = table.schema.get_field_index("event_id")
    pq.write_table(table.set_column(place, "event_id", pa.array(["never seen"])), late)
    merged = submitted("recompute_late.py")
    assert merged["accepted"] == 1
    assert merged["windows"]["hourly"]["rows"] == 1
    assert again("recompute_late.py")["run_id"] is None


@pytest.mark.slow
def test_stream_windows(samples: Path) -> None:
    code, document = submit("stream_windows.py", samples / "job.yaml", "--to", samples / "stream")
    assert code == 0, document
    windows = document["windows"]
    # Under Spark's rules a NULL key is a group, and every copy of an event is counted.
    assert [(window["read"], window["unusable"]) for window in windows.values()] == [(5058, 3)] * 3
    hourly = pq.read_table(samples / "stream/hourly")
    assert hourly.num_rows == windows["hourly"]["rows"]
    assert hourly.column_names == ["user_id", "window_start", "window_end", "events"]
    assert 5000 < sum(hourly["events"].to_pylist()) < 5055  # the last hours are open
