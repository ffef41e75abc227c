"""The examples in docstrings, run as they stand on the tests' one session."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

JOB = """\
source: {path: events.csv, format: csv, schema: "user string, at timestamp"}
events: {key: user, time: at}
windows: {hourly: {tumbling: {size: 1h}, aggregates: {events: count}}}
tables: {path: out}
"""
EVENTS = """\
user,at
a,2026-01-10T10:00:00Z
a,2026-01-10T10:20:00Z
a,2026-01-10T12:00:00Z
"""
MODULES = ("aggregates", "api", "job", "windows")


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of(name: str, spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "events.csv").write_text(EVENTS)
    found = doctest.testmod(
        import_module(f"backfill.{name}"),
        extraglobs={"spark": spark, "job_file": tmp_path / "job.yaml"},
        optionflags=doctest.NORMALIZE_WHITESPACE,
    )
    assert found.attempted > 0
    assert found.failed == 0
