"""Panes that a trigger sent are explained if the job says which trigger it was."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill import AfterAny, AfterCount, AfterProcessingTime, Job, Repeatedly, TumblingWindow
from backfill import aggregates as agg
from backfill.replay import Event, replay
from backfill.spec import JobSpec
from tests.files import write_rows
from tests.memory_store import MemoryStore

pytestmark = pytest.mark.usefixtures("interpreted")

EARLY = 'Repeatedly(AfterAny(AfterCount(3), AfterProcessingTime("20s")))'
JOB = f"""
source: {{path: events, format: parquet}}
events: {{key: user, time: at, arrival: place}}
engine: flink
windows:
  minutes: {{tumbling: {{size: 60s}}, aggregates: {{n: count}}}}
tables: {{path: out}}
stream:
  path: written.parquet
  format: flink
  api: datastream
  early: {EARLY}
  drained: false
checks: {{builtin: off}}
"""
BEGAN = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
#: Key and second. The job still runs, and the watermark has not completed the minute.
EVENTS = [("a", 5), ("a", 6), ("a", 7), ("b", 30), ("a", 31), ("b", 55), ("a", 56), ("c", 57)]


def at(second: int) -> dt.datetime:
    return BEGAN + dt.timedelta(seconds=second)


def test_a_job_names_the_trigger_of_early_panes(spark: SparkSession, tmp_path: Path) -> None:
    sent = replay(
        [
            Event(key=key, time=round(at(second).timestamp()) * 1_000_000, arrival=place)
            for place, (key, second) in enumerate(EVENTS)
        ],
        TumblingWindow(size="60s"),
        engine="flink",
        api="datastream",
        aggregates={"n": agg.count()},
        early=Repeatedly(AfterAny(AfterCount(3), AfterProcessingTime("20s"))),
        drained=False,
    ).emissions
    # When b's event at 55 s comes, panes are due that were not due before.
    assert [(emission.key, emission.values["n"]) for emission in sent] == [
        ("a", 3),
        ("b", 1),
        ("a", 4),
    ]
    write_rows(
        tmp_path / "written.parquet",
        [
            {"user": e.key, "window_start": at(0), "window_end": at(60), "op": "+I", **e.values}
            for e in sent
        ],
    )
    write_rows(
        tmp_path / "events" / "a.parquet",
        [{"user": key, "at": at(s), "place": place} for place, (key, s) in enumerate(EVENTS)],
    )
    (tmp_path / "job.yaml").write_text(JOB)
    job = Job(JobSpec.load(tmp_path / "job.yaml"), MemoryStore())
    job.run(spark)

    def causes(**settings: object) -> dict[str, tuple[tuple[str, ...], bool]]:
        reconciled = job.reconcile("minutes", spark, **settings)
        return {
            e.key[0]: (e.explanation.causes, e.explanation.proved) for e in reconciled.differences
        }

    explained = causes()
    assert explained == dict.fromkeys("abc", (("pending",), True))
    # Under other triggers the operator would have sent other panes.
    others = causes(early=1)
    assert others["c"] != explained["c"]
    assert others["a"] != explained["a"]
