"""A process to be killed: `python -m tests.execution.victim JOB`; says when it begins and ends."""

from __future__ import annotations

import sys

from backfill import Job
from backfill.spark import session
from tests.interpreted import SETTINGS
from tests.on_sail import ON_SAIL


def main(path: str) -> None:
    if ON_SAIL:
        spark = session(runtime="sail")
    else:
        conf = {**SETTINGS, "spark.master": "local[2]", "spark.sql.shuffle.partitions": "2"}
        spark = session(conf={**conf, "spark.driver.memory": "1g"})
    job = Job.load(path)
    print("begins", flush=True)
    job.run(spark, start="2026-01-02", end="2026-01-03")
    job.recompute(spark)
    print("ends", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
