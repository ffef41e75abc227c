"""Rows of single events, and windows that begin a tick after one, in jobs."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill import Job, SlidingWindow
from backfill import aggregates as agg
from backfill.errors import JobFileError
from backfill.replay import Event, replay
from backfill.time.epoch import moment_of
from tests.files import write_rows

pytestmark = pytest.mark.usefixtures("interpreted")

SECOND = 1_000_000
#: The last but one has the time of the second one; in between Flink clears the key's state.
EVENTS = [("a", 18, 1), ("a", 20, 8), ("b", 100, 0), ("b", 120, 0), ("a", 20, 3), ("b", 130, 0)]


def _job(folder: Path, engine: str, window: str, aggregates: str) -> Job:
    rows = [
        {"user": key, "at": moment_of(second * SECOND), "value": value, "place": place}
        for place, (key, second, value) in enumerate(EVENTS)
    ]
    write_rows(folder / "events.parquet", rows)
    (folder / "job.yaml").write_text(f"""
source: {{path: events.parquet, format: parquet}}
events: {{key: user, time: at, arrival: place}}
engine: {engine}
windows: {{w: {{sliding: {{{window}}}, aggregates: {{{aggregates}}}}}}}
tables: {{path: out}}
checks: {{builtin: off}}
""")
    return Job.load(folder / "job.yaml")


@pytest.mark.parametrize(("count", "least"), [("n", "hi"), ("a", "b")])
def test_names_of_aggregates_decide_nothing(
    spark: SparkSession, tmp_path: Path, count: str, least: str
) -> None:
    job = _job(tmp_path, "flink", "size: 5s", f"{count}: count, {least}: min(value)")
    job.run(spark)
    events = [
        Event(key=key, time=second * SECOND, arrival=place, value={"value": value})
        for place, (key, second, value) in enumerate(EVENTS)
    ]
    aggregates = {count: agg.count(), least: agg.min("value")}
    made = replay(
        events, SlidingWindow(size="5s"), engine="flink", api="sql", aggregates=aggregates
    )
    rows = [
        {"user": emission.key, "event_time": moment_of(emission.end), **(emission.values or {})}
        for emission in made.emissions
    ]
    stream = write_rows(tmp_path / "stream.parquet", rows)
    reconciled = job.reconcile("w", spark, stream=str(stream), format="flink", api="sql")
    causes = [
        (difference.explanation.causes, difference.explanation.proved)
        for difference in reconciled.differences
    ]
    assert (reconciled.matched, causes) == (4, [(("engine_loss",), True)] * 2)


def test_windows_that_begin_a_tick_later_are_of_the_streams_engine(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = _job(tmp_path, "plain", "size: 5s, distinct: true", "n: count")
    job.run(spark)
    start, end = (moment_of(second * SECOND) for second in (0, 5))
    key = {"user": "a", "window_start": start, "window_end": end}
    row = {"partition": 0, "offset": 0, "key": key, "value": {"n": 1}}
    stream = write_rows(tmp_path / "stream.parquet", [row])
    given = {"key_format": "struct", "value_format": "struct"}
    with pytest.raises(JobFileError, match="begin one tick after an event") as caught:
        job.reconcile("w", spark, stream=str(stream), format="kafka-streams", **given)
    assert caught.value.way_out == "Publish them as the stream has them: engine: kafka-streams"
