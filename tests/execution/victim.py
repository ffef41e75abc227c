"""A process to be killed: `python -m tests.execution.victim JOB DAY...`.

It runs the days, one by one, and merges late events.
"""

from __future__ import annotations

import sys

from backfill import Job
from backfill.spark import session
from tests.execution.world import day
from tests.interpreted import SETTINGS
from tests.on_sail import ON_SAIL


def main(path: str, *days: str) -> None:
    job = Job.load(path)
    if ON_SAIL:
        spark = session(runtime="sail")
    else:
        conf = {**SETTINGS, "spark.master": "local[2]", "spark.sql.shuffle.partitions": "2"}
        spark = session(conf={**conf, "spark.driver.memory": "1g"}, paths=job.spec.paths)
    print("begins", flush=True)
    for number in map(int, days):
        job.run(spark, start=day(number), end=day(number + 1))
    job.recompute(spark)
    print("ends", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
