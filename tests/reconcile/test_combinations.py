"""Every engine, window and order of arrival goes through a comparison, or is refused by name."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from backfill import Job
from backfill.engines import ENGINES
from backfill.errors import BackfillError

JOB = """
source: {path: ../events, format: parquet}
events: {key: user, time: at%s}
engine: %s
windows:
  sessions: {session: {gap: 60s}, aggregates: {n: count}}
  tumbling: {tumbling: {size: 60s}, aggregates: {n: count}}
  hopping: {hopping: {size: 60s, advance: 20s}, aggregates: {n: count}}
  growing: {cumulating: {size: 60s, step: 20s}, aggregates: {n: count}}
tables: {path: out}
checks: {builtin: off}
"""
ARRIVALS = {"none": "", "one": ", arrival: place", "two": ", arrival: [partition, offset]"}
BEGAN = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
#: Key and second, in order of arrival; the second of key a comes late under every engine.
EVENTS = [("a", 0), ("a", 30), ("b", 1_000), ("a", 20), ("b", 5_000)]
#: Windows that an engine does not have, so no stream of it can have written them.
HAS_NO = {
    "kafka-streams": {"growing"},
    "spark": {"growing"},
    "beam": {"growing"},
    "storm": {"sessions", "growing"},
    "samza": {"sessions", "growing"},
}


@pytest.mark.slow
@pytest.mark.parametrize("arrival", ARRIVALS)
@pytest.mark.parametrize("engine", ENGINES)
def test_every_combination_is_compared(
    spark: SparkSession, tmp_path: Path, engine: str, arrival: str
) -> None:
    (tmp_path / "events").mkdir()
    (tmp_path / "job").mkdir()
    places = list(range(len(EVENTS)))
    # The wall clock, which is Samza's time, does not go back.
    events = sorted(EVENTS, key=lambda each: each[1]) if engine == "samza" else EVENTS
    columns = {
        "user": [key for key, _ in events],
        "at": pa.array([BEGAN + dt.timedelta(seconds=s) for _, s in events]),
        "place": places,
        "partition": [0 for _ in places],
        "offset": places,
    }
    pq.write_table(pa.table(columns), tmp_path / "events" / "a.parquet")
    (tmp_path / "job" / "job.yaml").write_text(JOB % (ARRIVALS[arrival], engine))
    job = Job.load(tmp_path / "job" / "job.yaml")
    job.run(spark)
    for window in job.spec.windows:
        table = job.table(window, spark).select("user", "window_start", "window_end", "n")
        # The window of b alone has another value, so its key is replayed.
        wrong = table.withColumn("n", F.when(F.col("user") == "b", 7).otherwise(F.col("n")))
        path = str(tmp_path / f"stream_{window}")
        wrong.coalesce(1).write.parquet(path)
        if window in HAS_NO.get(engine, ()):
            with pytest.raises(BackfillError, match=f"the engine {engine} has no such window"):
                job.reconcile(window, spark, stream=path, format="table")
            continue
        found = job.reconcile(window, spark, stream=path, format="table")
        rows = table.groupBy("user").count().collect()
        count = {row["user"]: row["count"] for row in rows}
        assert (found.matched, len(found.differences)) == (count["a"], count["b"]), window
        assert {each.key for each in found.differences} == {("b",)}
        assert all(each.explanation.causes for each in found.differences)
