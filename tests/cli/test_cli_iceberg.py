"""A job whose tables are in an Iceberg catalog, on the command line; its secrets stay its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from pyspark.sql import SparkSession

from backfill.cli import main
from tests.lake import lake, options

pytestmark = pytest.mark.usefixtures("interpreted")

SECRET = "marker-s3cret"


@pytest.fixture
def job(samples: Path, tmp_path: Path) -> Path:
    path = samples / "job.yaml"
    settings = yaml.safe_load(path.read_text())
    more = {"token": SECRET, "s3.secret-access-key": SECRET}
    settings["tables"] = {
        "catalog": "lake",
        "schema": "web",
        "path": "checked",
        "options": {**options(tmp_path / "lake"), **more},
    }
    settings["windows"].pop("trailing")
    path.write_text(yaml.safe_dump(settings))
    return path


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_a_job(job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []

    def call(*arguments: str, code: int = 0) -> dict[str, Any]:
        capsys.readouterr()
        for more in ((), ("--json",)):
            if more or arguments[0] not in ("run", "recompute", "restore"):
                assert main([arguments[0], str(job), *arguments[1:], *more]) == code
            said.extend(capsys.readouterr())
        document: dict[str, Any] = json.loads(said[-2])
        return document

    events = sorted((job.parent / "events").rglob("*.parquet"))
    late = job.parent / "late.parquet"
    rows = pq.read_table(events[0])
    pq.write_table(rows.slice(0, 40), late)
    pq.write_table(rows.slice(40), events[0])

    plan = call("plan")
    assert {state["state"] for state in plan["windows"]["sessions"]} == {"missing"}
    first = call("run")
    assert first["windows"]["sessions"]["table"] == "lake.web.sessions"
    assert call("plan", "--recompute", "--late", str(late))["stages"]
    merged = call("recompute", "--late", str(late))
    assert merged["read"] > 0
    again = call("run", "--date", "2026-01-11")
    assert again["accepted"] > 0
    assert call("validate")["ok"]
    shown = call("show", "sessions", "--top", "events", "--limit", "2")
    assert len(shown["rows"]) == 2
    assert call("changes", "hourly", "--since", merged["run_id"])["counts"]
    assert call("history")["runs"][0]["run_id"] == again["run_id"]
    call("restore", "--run", first["run_id"])
    assert call("clean", "--older-than", "0s")["ok"]
    store = lake(tmp_path / "lake")
    rows_of_table = store.catalog.load_table("web.sessions").scan().to_arrow().num_rows
    assert rows_of_table == first["windows"]["sessions"]["rows"]

    # Nothing that was printed, and nothing that is left, has a secret in it.
    said += [repr(document) for document in (plan, first)]
    assert not [text for text in said if SECRET in text]
    left = [path for path in tmp_path.rglob("*") if path.is_file() and path != job]
    assert len(left) > 20
    assert not [path for path in left if SECRET.encode() in path.read_bytes()]


def test_a_failed_check_publishes_nothing(
    job: Path, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with job.open("a") as text:
        text.write("checks: {hourly: [{expect_column_values_to_be_between: ")
        text.write("{column: events, max_value: 1}}]}\n")
    assert main(["run", str(job)]) == 1
    assert "expect_column_values_to_be_between" in capsys.readouterr().out
    assert main(["show", str(job), "hourly"]) == 2
    assert "nothing is published yet" in capsys.readouterr().err
    [folder] = (tmp_path / "lake").rglob("hourly/_staging/*")
    assert main(["show", str(job), "hourly", "--run", folder.name, "--limit", "1"]) == 0
    assert main(["clean", str(job), "--older-than", "0s"]) == 0
    assert not list((tmp_path / "lake").rglob("*.parquet"))
