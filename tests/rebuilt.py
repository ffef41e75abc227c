"""Tables brought up to date as errors say, and the same tables computed anew."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backfill import Job
from backfill.errors import SourceError

#: Two kinds of windows, and rows that are no events.
WINDOWS = """
events: {key: user, time: at}
windows:
  sessions: {session: {gap: 2h}, aggregates: {n: count, total: sum(value)}}
  days: {tumbling: {size: 1 day}, aggregates: {n: count, values: collect_list(value)}}
tables: {path: %s}
checks: {builtin: {quarantined_share: off, history: off, freshness: off}}
"""


def job_of(folder: Path, source: str, tables: str = "out") -> Job:
    """A job over a source that is given as YAML."""
    path = folder / f"{tables}.yaml"
    path.write_text(f"source: {{{source}}}{WINDOWS % tables}")
    return Job.load(path)


def contents(job: Job) -> dict[str, list[str]]:
    """The visible rows of all tables."""
    tables = {name: job.fetch(name).to_pylist() for name in ("sessions", "days")}
    for row in tables["days"]:
        row["values"] = sorted(row["values"], key=repr)
    return {name: sorted(map(repr, rows)) for name, rows in tables.items()}


def unusable(job: Job, spark: SparkSession) -> list[tuple[Any, ...]]:
    """The rows of the quarantine, without the runs."""
    rows = job.table("quarantine", spark).select("reason", "raw", "source").collect()
    return sorted(map(tuple, rows))


def named(job: Job, spark: SparkSession) -> tuple[str, str]:
    """The first and the last date, exclusive, that `recompute` says are to be run."""
    with pytest.raises(SourceError, match="an input that was counted") as error:
        job.recompute(spark)
    match = re.search(r"--from (\S+) --to (\S+?)\.?$", str(error.value))
    assert match, str(error.value)
    return match[1], match[2]


def caught_up(job: Job, spark: SparkSession) -> tuple[str, str]:
    """Runs the dates that `recompute` names, and then what is new; returns the dates."""
    start, end = named(job, spark)
    job.run(spark, start=start, end=end)
    job.recompute(spark)
    assert job.recompute(spark) is None
    return start, end


def same_as_rebuilt(job: Job, spark: SparkSession, source: str) -> None:
    """Checks that the tables hold what a run over everything makes of the source as it is."""
    again = job_of(job.spec.path.parent, source, "again")
    again.run(spark)
    assert contents(job) == contents(again)
