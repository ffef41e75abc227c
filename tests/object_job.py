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
    found: dict[str, Any] = {"first": _counts(job.run(spark))}
    found["planned"] = _planned(job, spark, recompute=True, late=late)
    merged = job.recompute(spark, late=late)
    assert merged is not None
    found["late"] = _counts(merged)
    assert job.recompute(spark) is None, "nothing is late any more"
    found["changes"] = job.changes("sessions", None, spark).count()
    found["planned date"] = _planned(job, spark, date="2026-01-11")
    found["date"] = _counts(job.run(spark, date="2026-01-11"))
    found["young"] = _rows(job)
    return found


def life(job: Job, spark: SparkSession, late: str) -> dict[str, Any]:
    """What all steps give, and what is in the tables at the end."""
    found = youth(job, spark, late)
    found["valid"] = [(str(each.check), each.success) for each in job.validate(spark=spark)]
    assert all(success for _, success in found["valid"])
    assert found["valid"]
    found["reconciled"] = _reconciled(job, spark, f"{late.rpartition('/')[0]}/streamed")
    found["forgotten"] = {
        name: each.rows for name, each in job.forget({"user": "u1"}, spark).items()
    }
    found["restored"] = sorted(job.restore(job.history()[-1]["run_id"]).tables)
    found["cleaned"] = sum(each.removed.staged for each in job.clean("0s", spark).values())
    # Whether there is something to compact depends on how Spark has cut the files.
    kinds = (each["kind"] for each in job.history())
    found["history"] = [each for each in kinds if each != "compact"]
    for name in job.spec.windows:
        assert job.table(name, spark).count() > 0
    found["old"] = _rows(job)
    found["looked_up"] = job.fetch("sessions", {"user": "u2"}).num_rows
    found["page"] = job.docs().exists()
    retaining = Job.load(_retaining(job))
    assert retaining.plan(spark, expire=True).stages
    found["expired"] = {name: each.rows for name, each in retaining.expire(spark).items()}
    assert found["expired"]["sessions"] > 0
    found["kept"] = job.table("sessions", spark).count()
    return found


def _retaining(job: Job) -> Path:
    return job.spec.path.parent / "retaining" / job.spec.path.name


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


def _rows(job: Job) -> dict[str, list[str]]:
    found = {}
    for name in job.spec.windows:
        rows = job.store.dataset(name).to_table().to_pylist()
        found[name] = sorted(str(sorted(each.items())) for each in rows)
    return found


def _counts(result: Any) -> dict[str, Any]:
    windows = {name: (each.rows, each.events) for name, each in result.windows.items()}
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
        print(json.dumps({"youth": [youth(Job.load(each), spark, late) for each in jobs["youth"]]}))
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
        "life": [life(Job.load(each), spark, late) for each in jobs["life"]],
        "youth": _over_connect(jobs["youth"], late, f"sc://127.0.0.1:{port}"),
        "first": [_counts(Job.load(each).run(spark)) for each in jobs["first"]],
    }
    print(json.dumps(made))


if __name__ == "__main__":
    main(*sys.argv[1:])
