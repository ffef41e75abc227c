"""What users do with Spark's own Delta Lake and Iceberg, by SQL, in a process of its own.

Spark reads jars when it starts: `python -m tests.spark_sql SETTINGS STATEMENT...`, the settings as
JSON, prints the rows that each statement gives.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

#: The Spark that the jars are for, the newest that both have some for; and these.
SPARK = "4.1"
ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
DELTA = "io.delta:delta-spark_4.1_2.13:4.4.0"
#: Of what Delta Lake names, Spark has these, which are large.
DELTA_EXCLUDES = "org.apache.hadoop:*,com.github.luben:*"

#: What gives a session Delta Lake's tables.
DELTA_CONF = {
    "spark.jars.packages": DELTA,
    "spark.jars.excludes": DELTA_EXCLUDES,
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Of a table's state, which small tables need no fifty of.
    "spark.databricks.delta.snapshotPartitions": "1",
}

with_jars = pytest.mark.skipif(
    not pyspark.__version__.startswith(f"{SPARK}."), reason=f"the jars are for pyspark {SPARK}"
)


def delta(*statements: str) -> list[list[str]]:
    """What Delta Lake's statements give: lines, columns separated by `|`."""
    return _run(DELTA_CONF, *statements)


def iceberg(folder: Path, *statements: str) -> list[list[str]]:
    """The same of Iceberg, with the catalog `lake` that is in a folder (`tests.lake`)."""
    conf = {
        "spark.jars.packages": f"{ICEBERG},org.xerial:sqlite-jdbc:3.50.3.0",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "jdbc",
        "spark.sql.catalog.lake.uri": f"jdbc:sqlite:{folder}/catalog.db",
        "spark.sql.catalog.lake.warehouse": f"file://{folder}/warehouse",
    }
    return _run(conf, *statements)


def run_module(module: str, *arguments: str) -> str:
    """What a program of the tests prints that has a Spark of its own."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SPARK_")}
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def _run(conf: Mapping[str, str], *statements: str) -> list[list[str]]:
    answers = run_module("tests.spark_sql", json.dumps(conf), *statements)
    return [each.split("\n")[:-1] for each in answers.split("--\n")[:-1]]


def _main(settings: str, *statements: str) -> None:
    conf = {
        **json.loads(settings),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.master("local[1]")
    for name, value in conf.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    for each in statements:
        for row in spark.sql(each).collect():
            print("|".join(map(str, row)))
        print("--")


if __name__ == "__main__":
    _main(*sys.argv[1:])
