"""The jars that tests fetch from Maven Central, for processes that have a Spark of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

#: The Spark that they are for: the newest that both have jars for.
SPARK = "4.1"
ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
DELTA = "io.delta:delta-spark_4.1_2.13:4.4.0"
#: Of what Delta Lake's jar names, Spark has these, which are large.
DELTA_EXCLUDES = "org.apache.hadoop:hadoop-client-api,org.apache.hadoop:hadoop-client-runtime"

#: What gives a session Delta Lake's tables.
DELTA_CONF = {
    "spark.jars.packages": DELTA,
    "spark.jars.excludes": DELTA_EXCLUDES,
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def run_module(module: str, *arguments: str | Path) -> str:
    """What a program of the tests prints, in a process with a Spark of its own."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SPARK_")}
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
