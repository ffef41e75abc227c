"""Delta tables named in a catalog of Spark's, which Delta Lake's own SQL also reads and writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill.errors import SetupError
from backfill.job import Job
from tests.spark_sql import DELTA, DELTA_EXCLUDES, ICEBERG, SPARK, run_module, with_jars

JOB = """\
source: {path: events, format: csv, schema: "user string, at string"}
events: {key: user, time: at, time_format: iso}
windows:
  sessions: {session: {gap: 30m}, aggregates: {events: count}}
  hourly: {tumbling: {size: 1h}, aggregates: {events: count}}
tables:
  {catalog: spark_catalog, schema: web, format: delta, path: my out,
   properties: {delta.logRetentionDuration: interval 60 days}}
checks: {builtin: {quarantined_share: off}}
"""
EVENTS = """\
user,at
a,2026-01-10T10:00:00Z
a,2026-01-10T10:10:00Z
b,2026-01-10T11:00:00Z
gone,2026-01-10T12:00:00Z
a,2026-01-11T10:00:00Z
,2026-01-11T10:00:00Z
nobody,yesterday
"""
LATE = "user,at\nb,2026-01-10T11:20:00Z\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "1.csv").write_text(EVENTS)
    (tmp_path / "late.csv").write_text(LATE)
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "strict.yaml").write_text(JOB.replace("quarantined_share: off", ""))
    (tmp_path / "other.yaml").write_text(JOB.replace("path: my out", "path: elsewhere"))
    return tmp_path


@with_jars
def test_both_write_the_same_tables(folder: Path) -> None:
    printed = json.loads(run_module("tests.delta_job", str(folder)))
    assert sorted(printed["tables"]) == ["hourly", "quarantine", "sessions"]
    for rows in (
        *printed["first"].values(),
        *(printed[step] for step in ("late", "purged", "again")),
    ):
        assert rows["ours"] == rows["theirs"]
    assert len(printed["first"]["sessions"]["ours"]) == 4
    assert len(printed["first"]["quarantine"]["ours"]) == 2
    assert printed["properties"]["delta.checkpointInterval"] == "7"
    assert printed["properties"]["mine"] == "x"
    assert printed["properties"]["delta.logRetentionDuration"] == "interval 60 days"
    # A run whose check fails leaves the tables as both had read them, even one that Spark made.
    assert "quarantined_share" in printed["strict"]
    assert printed["refused"] == {name: printed["first"][name] for name in ("sessions", "hourly")}
    assert printed["versions"] == 2, "the run, and the table's properties"
    assert (
        "spark_catalog.web.sessions: the catalog has a table of this name which is not in"
        in (printed["other"])
    )
    assert not (folder / "elsewhere").exists()
    late = printed["late"]["ours"]
    assert len(late) == 3
    assert not any("'gone'" in row for row in late)
    assert any("'b'" in row and "events=2" in row for row in late)
    assert "has deleted rows without rewriting their files" in printed["beside"]
    assert "REORG TABLE" in printed["beside"]
    assert len(printed["purged"]["ours"]) == 2
    # The run of the date counts the source's events, and so brings back the date's three rows.
    assert len(printed["again"]["ours"]) == 4
    assert printed["kinds"] == ["run", "run", "recompute", "run"]
    assert printed["restored"]["ours"] == printed["first"]["sessions"]["ours"]
    assert printed["restored"]["theirs"] == printed["restored"]["ours"]


def test_a_spark_without_delta_lake_is_refused_first(spark: SparkSession, folder: Path) -> None:
    with pytest.raises(SetupError, match=r"tables\.format: this Spark does not have Delta Lake"):
        Job.load(folder / "job.yaml").run(spark)
    assert not (folder / "my out").exists()


def test_the_documentation_has_the_versions() -> None:
    text = (Path(__file__).parents[2] / "docs" / "catalogs.md").read_text()
    for version in (
        DELTA,
        DELTA_EXCLUDES,
        f"pyspark {SPARK}",
        f"({ICEBERG.rpartition(':')[2]}, on",
    ):
        assert version in text, version
    # The lane that must run the tests with jars has the Spark that the jars are for.
    constraints = (Path(__file__).parents[2] / "constraints-lakehouse.txt").read_text()
    assert f"\npyspark=={SPARK}." in constraints
    assert f"Delta Lake {DELTA.rpartition(':')[2]}, on pyspark {SPARK}" in text
