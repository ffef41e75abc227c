"""A job from its first run to its clean-up, as a program: on a disk and in an object store alike.

`python -m tests.object_job JOB LATE JOB...` prints what it makes as JSON; the last jobs only run.
Beside JOB is the same with a retention.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from backfill.job import Job
from backfill.spark import session


def life(job: Job, spark: SparkSession, late: str) -> dict[str, Any]:
    """What the steps give, and what is in the tables at the end."""
    found: dict[str, Any] = {"first": _counts(job.run(spark))}
    found["planned"] = _planned(job, spark, recompute=True, late=late)
    merged = job.recompute(spark, late=late)
    assert merged is not None
    found["late"] = _counts(merged)
    assert job.recompute(spark) is None, "nothing is late any more"
    found["changes"] = job.changes("sessions", None, spark).count()
    found["planned date"] = _planned(job, spark, date="2026-01-11")
    found["date"] = _counts(job.run(spark, date="2026-01-11"))
    found["valid"] = [(str(each.check), each.success) for each in job.validate(spark=spark)]
    assert all(success for _, success in found["valid"])
    assert found["valid"]
    found["reconciled"] = _reconciled(job, spark, f"{late.rpartition('/')[0]}/streamed")
    found["forgotten"] = {
        name: each.rows for name, each in job.forget({"user": "u1"}, spark).items()
    }
    found["restored"] = sorted(job.restore(job.history()[-1]["run_id"]).tables)
    found["cleaned"] = sum(each.removed.staged for each in job.clean("0s", spark).values())
    found["history"] = [each["kind"] for each in job.history()]
    for name in job.spec.windows:
        assert job.table(name, spark).count() > 0
        rows = job.store.dataset(name).to_table().to_pylist()
        found[name] = sorted(str(sorted(each.items())) for each in rows)
    found["looked_up"] = job.fetch("sessions", {"user": "u2"}).num_rows
    found["page"] = job.docs().exists()
    retaining = Job.load(_retaining(job))
    assert retaining.plan(spark, expire=True).stages
    found["expired"] = {name: each.rows for name, each in retaining.expire(spark).items()}
    assert found["expired"]["sessions"] > 0
    found["kept"] = job.table("sessions", spark).count()
    return found


def _retaining(job: Job) -> Path:
    return job.spec.path.with_name("retaining.yaml")


def _planned(job: Job, spark: SparkSession, **selection: Any) -> list[str]:
    plan = job.plan(spark, **selection)
    assert plan.files > 0 or selection.get("recompute")
    return [type(each).__name__ for each in plan.stages]


def _reconciled(job: Job, spark: SparkSession, streamed: str) -> dict[str, Any]:
    """What differs from a stream that counted one event fewer for one user."""
    less = F.col("events") - F.when(F.col("user") == "u3", 1).otherwise(0)
    rows = job.table("sessions", spark).withColumn("events", less)
    rows.write.mode("overwrite").parquet(streamed)
    result = job.reconcile("sessions", spark, stream=streamed, format="table")
    assert result.matched > 0
    assert len(result.differences) > 0
    return {"matched": result.matched, "causes": result.causes}


def _counts(result: Any) -> dict[str, Any]:
    windows = {name: (each.rows, each.events) for name, each in result.windows.items()}
    return {"read": result.read, "accepted": result.accepted, "windows": windows}


if __name__ == "__main__":
    loaded = Job.load(sys.argv[1])
    conf = {"spark.sql.shuffle.partitions": "2", "spark.master": "local[2]"}
    started = session(conf=conf, paths=loaded.spec.paths)
    made = life(loaded, started, sys.argv[2])
    made["others"] = [_counts(Job.load(each).run(started)) for each in sys.argv[3:]]
    print(json.dumps(made))
