"""The examples in docstrings, run on the tests' one session, each with a job of its own."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import backfill
from backfill import Job, TumblingWindow, aggregate, aggregates, replay

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
MODULES = (
    "aggregates",
    "aggregates.custom",
    "frames.api",
    "job",
    "joins.as_of_join",
    "joins.joining",
    "joins.session_joining",
    "windows.message_gaps",
    "frames.metric",
    "published.tables",
    "frames.rolling",
    "triggers",
    "update_history.table",
    "update_history.updating",
    "windows",
    "replay.joins",
    "replay.replaying",
    "replay.stores.segments",
)
FINDER = doctest.DocTestFinder(exclude_empty=True)


def examples() -> Iterator[tuple[str, doctest.DocTest]]:
    for name in MODULES:
        module = import_module(f"backfill.{name}")
        for test in FINDER.find(module, name):
            if test.examples:
                yield test.name, test


EXAMPLES = dict(examples())


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_of(name: str, spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "events.csv").write_text(EVENTS)

    def value_of(one: aggregates.Aggregate) -> Any:
        clicks = spark.sql(
            "SELECT 'u' AS user, timestamp_seconds(s) AS at, amount, page"
            " FROM VALUES (0, 2, 'a'), (1200, 3, 'b'), (2400, 4, 'a') t(s, amount, page)"
        )
        window = TumblingWindow(size="1h")
        windows = aggregate(clicks, window, key="user", time="at", aggregates={"value": one})
        return windows.collect()[0].value

    test = EXAMPLES[name]
    test.globs |= {
        "Job": Job,
        "spark": spark,
        "job_file": tmp_path / "job.yaml",
        "value_of": value_of,
    }
    said: list[str] = []
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    result = doctest.DocTestRunner(optionflags=options).run(
        test, out=said.append, clear_globs=False
    )
    assert result.attempted > 0
    assert result.failed == 0, "".join(said)


def public_functions() -> list[str]:
    functions = [
        f"{module.__name__}.{name}"
        for module in (backfill, aggregates, replay)
        for name in module.__all__
        if inspect.isfunction(getattr(module, name))
    ]
    methods = inspect.getmembers(
        Job, lambda member: inspect.isfunction(member) or inspect.ismethod(member)
    )
    return functions + [f"Job.{name}" for name, _ in methods if not name.startswith("_")]


@pytest.mark.parametrize("name", public_functions())
def test_every_public_function_has_an_example(name: str) -> None:
    module, _, own = name.rpartition(".")
    holder = Job if module == "Job" else import_module(module)
    assert ">>> " in (inspect.getdoc(getattr(holder, own)) or "")
