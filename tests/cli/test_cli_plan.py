"""`backfill plan`: what a run, a merge of late events or an expiry would do, as the same stages."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from backfill.cli import main
from tests.execution.world import FIRST_DAY, START
from tests.printed import plan

pytestmark = pytest.mark.usefixtures("interpreted")

DAY = 86_400_000_000
JOB = """\
source: {path: src, format: parquet}
events: {key: user, time: at}
windows:
  sessions: {session: {gap: 30m}, aggregates: {n: count}}
  daily: {tumbling: {size: 24h}, aggregates: {n: count}}
tables: {path: out}
retention: 10d
checks:
  builtin: {quarantined_share: off}
  daily: [expect_table_row_count_to_be_between: {min_value: 1}]
"""


@pytest.fixture
def job(spark: SparkSession, tmp_path: Path) -> str:
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "src").mkdir()
    write(tmp_path, "a", [0, 1, 2, 3])
    return str(tmp_path / "job.yaml")


def write(folder: Path, name: str, days: list[int]) -> None:
    times = [START + day * DAY + DAY // 2 for day in days]
    columns = {"user": ["u"] * len(days), "at": pa.array(times, pa.timestamp("us", "UTC"))}
    pq.write_table(pa.table(columns), folder / "src" / f"{name}.parquet")


def stages(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, object]]:
    capsys.readouterr()
    assert main(["plan", *arguments, "--json"]) == 0
    planned: list[dict[str, object]] = json.loads(capsys.readouterr().out)["stages"]
    return planned


def test_a_full_run_and_a_range_are_explained(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    (full,) = stages(capsys, job)
    assert full["kind"] == "full"
    assert full["events"] == 4
    assert full["commits"] == ["sessions", "daily", "quarantine"]
    checks = full["checks"]
    assert isinstance(checks, dict)
    assert checks["daily"][-1].startswith("expect_table_row_count")
    assert "conservation" in checks["sessions"]
    assert main(["run", job]) == 0
    ranges = stages(capsys, job, "--from", "2026-01-01", "--to", "2026-01-03", "--chunk", "1d")
    assert [stage["kind"] for stage in ranges] == ["range", "range"]
    assert ranges[0]["from"] == str(FIRST_DAY)
    assert "[2026-01-01, 2026-01-02)" in str(ranges[0]["replaces"])


def test_late_events_are_planned_as_they_are_merged(
    job: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["run", job]) == 0
    text, document = plan(capsys, job, "--recompute")
    assert document["stages"] == []
    assert "Nothing to do." in text
    write(tmp_path, "late", [1, 1])
    text, document = plan(capsys, job, "--recompute")
    (stage,) = document["stages"]
    assert stage["kind"] == "late"
    rewritten = stage["late"][0].pop("rewritten")
    assert {name: (counts["files"], counts["of"]) for name, counts in rewritten.items()} == {
        "sessions": (1, 4),
        "daily": (1, 4),
    }
    assert rewritten["daily"]["rows"] == 1
    assert (
        f"daily: up to 1 of 4 files are rewritten (1 rows, {rewritten['daily']['bytes']:,}" in text
    )
    assert stage["late"] == [
        {
            "tables": ["sessions", "daily"],
            "inputs": [str(tmp_path / "src" / "late.parquet")],
            "events": 2,
            "affected": {"sessions": 1, "daily": 1},
            "moved": [],
        }
    ]
    assert "Merge 2 events of 1 inputs into sessions, daily" in text
    assert "sessions: up to 1 published windows are computed again." in text
    assert main(["recompute", job, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accepted"] == 2
    assert stages(capsys, job, "--recompute") == []


def test_an_expiry_is_planned_without_spark(
    job: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["run", job]) == 0
    write(tmp_path, "b", [12])
    assert main(["run", job, "--from", "2026-01-13", "--to", "2026-01-14"]) == 0
    text, document = plan(capsys, job, "--expire")
    expiries = document["stages"]
    assert [(expiry["kind"], expiry["commits"]) for expiry in expiries] == [
        ("expire", ["sessions"]),
        ("expire", ["daily"]),
    ]
    assert expiries[0]["before"] == "2026-01-03T12:00:00.000000Z"
    assert "sessions: drop windows that ended before 2026-01-03T12:00" in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["--recompute", "--expire"],
            "recompute (--recompute), expire (--expire): can't be combined",
        ),
        (
            ["--recompute", "--date", "2026-01-01"],
            "recompute (--recompute), expire (--expire): can't be combined",
        ),
        (["--late", "x"], "is only allowed with recompute"),
    ],
)
def test_what_does_not_go_together_is_refused(
    job: str, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert main(["plan", job, *arguments]) == 2
    assert says in capsys.readouterr().err
