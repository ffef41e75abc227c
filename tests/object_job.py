"""A job from its first run to its clean-up, as a program: on a disk and in an object store alike.

`python -m tests.object_job JOBS LATE` prints the results of jobs as JSON. JOBS, also JSON, has the
paths of job files by what to do with them: `life`, `youth` over Spark Connect, or `first`. The
folder `retaining` beside them has each of them with a retention.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from backfill.job import Job
from backfill.spark import session
from tests.interpreted import SETTINGS
from tests.objects import free_port


def youth(job: Job, spark: SparkSession, late: str) -> dict[str, Any]:
    """What the first steps give, and what is in the tables then."""
    report: dict[str, Any] = {"first": _counts(job.run(spark))}
    report["planned"] = _planned(job, spark, recompute=True, late=late)
    merged = job.recompute(spark, late=late)
    assert merged is not None
    report["late"] = _counts(merged)
    assert job.recompute(spark) is None, "nothing is late any more"
    report["changes"] = job.changes("sessions", None, spark).count()
    report["planned date"] = _planned(job, spark, date="2026-01-11")
    report["date"] = _counts(job.run(spark, date="2026-01-11"))
    report["young"] = _rows(job)
    return report


def life(job: Job, spark: SparkSession, late: str) -> dict[str, Any]:
    """What all steps give, and what is in the tables at the end."""
    report = youth(job, spark, late)
    report["valid"] = [
        (str(outcome.check), outcome.success) for outcome in job.validate(spark=spark)
    ]
    assert all(success for _, success in report["valid"])
    assert report["valid"]
    report["reconciled"] = _reconciled(job, spark, f"{late.rpartition('/')[0]}/streamed")
    report["forgotten"] = {
        name: erased.rows for name, erased in job.forget({"user": "u1"}, spark).items()
    }
    report["restored"] = sorted(job.restore(job.history()[-1]["run_id"]).tables)
    report["cleaned"] = sum(cleaned.removed.staged for cleaned in job.clean("0s", spark).values())
    # Whether there is something to compact depends on how Spark has cut the files.
    kinds = (run["kind"] for run in job.history())
    report["history"] = [kind for kind in kinds if kind != "compact"]
    for name in job.spec.windows:
        assert job.table(name, spark).count() > 0
    report["old"] = _rows(job)
    report["looked_up"] = job.fetch("sessions", {"user": "u2"}).num_rows
    report["page"] = job.docs().exists()
    retaining = Job.load(_retaining(job))
    assert retaining.plan(spark, expire=True).stages
    report["expired"] = {name: expired.rows for name, expired in retaining.expire(spark).items()}
    assert report["expired"]["sessions"] > 0
    report["kept"] = job.table("sessions", spark).count()
    return report


def _retaining(job: Job) -> Path:
    return job.spec.path.parent / "retaining" / job.spec.path.name


def _planned(job: Job, spark: SparkSession, **selection: Any) -> list[str]:
    plan = job.plan(spark, **selection)
    assert plan.files > 0 or selection.get("recompute")
    return [type(stage).__name__ for stage in plan.stages]


def _reconciled(job: Job, spark: SparkSession, streamed: str) -> dict[str, Any]:
    """What differs from a stream that counted one event fewer for one user."""
    less = F.col("events") - F.when(F.col("user") == "u3", 1).otherwise(0)
    rows = job.table("sessions", spark).withColumn("events", less)
    rows.write.mode("overwrite").parquet(streamed)
    result = job.reconcile("sessions", spark, stream=streamed, format="table")
    assert result.matched > 0
    assert len(result.differences) > 0
    return {"matched": result.matched, "causes": result.causes}


def _rows(job: Job) -> dict[str, list[str]]:
    tables = {}
    for name in job.spec.windows:
        rows = job.store.dataset(name).to_table().to_pylist()
        tables[name] = sorted(str(sorted(row.items())) for row in rows)
    return tables


def _counts(result: Any) -> dict[str, Any]:
    windows = {name: (window.rows, window.events) for name, window in result.windows.items()}
    return {"read": result.read, "accepted": result.accepted, "windows": windows}


def _over_connect(jobs: list[str], late: str, address: str) -> Any:
    """The youths in another process, which has neither Spark nor the jars, and does not warn."""
    program = [sys.executable, "-W", "error::UserWarning", "-m", __spec__.name]
    command = [*program, json.dumps({"youth": jobs}), late, address]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)["youth"]


def main(of_text: str, late: str, address: str | None = None) -> None:
    """Does with the jobs what JOBS says.

    Args:
        of_text: JOBS, as JSON.
        late: the path of late events.
        address: the address of a Spark to connect to; None: one here, which others connect to.
    """
    jobs: dict[str, list[str]] = json.loads(of_text)
    if address is not None:
        spark = session(remote=address)
        print(json.dumps({"youth": [youth(Job.load(path), spark, late) for path in jobs["youth"]]}))
        return
    port = free_port()
    conf = {
        **SETTINGS,
        "spark.sql.shuffle.partitions": "2",
        "spark.master": "local[2]",
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    spark = session(conf=conf, paths=[late])
    made: dict[str, Any] = {
        "life": [life(Job.load(path), spark, late) for path in jobs["life"]],
        "youth": _over_connect(jobs["youth"], late, f"sc://127.0.0.1:{port}"),
        "first": [_counts(Job.load(path).run(spark)) for path in jobs["first"]],
    }
    print(json.dumps(made))


if __name__ == "__main__":
    main(*sys.argv[1:])
