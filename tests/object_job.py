"""A job from its first run to its clean-up, as a program: on a disk and in an object store alike.

`python -m tests.object_job JOB LATE JOB...` prints what it makes as JSON; the last jobs only run.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

from backfill.job import Job
from backfill.spark import session


def life(job: Job, spark: SparkSession, late: str) -> dict[str, Any]:
    """What the steps give, and what is in the tables at the end."""
    found: dict[str, Any] = {"first": _counts(job.run(spark))}
    merged = job.recompute(spark, late=late)
    assert merged is not None
    found["late"] = _counts(merged)
    assert job.recompute(spark) is None, "nothing is late any more"
    found["changes"] = job.changes("sessions", None, spark).count()
    found["date"] = _counts(job.run(spark, date="2026-01-11"))
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
    return found


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
