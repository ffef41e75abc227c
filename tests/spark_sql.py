"""What users do with Spark's own Delta Lake and Iceberg, by SQL, in a process of its own.

Spark reads jars when it starts. One process serves all tests of a run, since a Spark that has just
started is slow: `python -m tests.spark_sql` reads settings and statements, and answers with rows.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from tests.interpreted import SETTINGS
from tests.lake import hadoop_options

#: The Spark that the jars are for, which is the newest that both support; and the jars.
SPARK = "4.1"
ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
DELTA = "io.delta:delta-spark_4.1_2.13:4.4.0"
#: What Delta Lake depends on, is large, and comes with Spark.
DELTA_EXCLUDES = "org.apache.hadoop:*,com.github.luben:*"

#: Settings that give a session Delta Lake's tables.
DELTA_CONF = {
    "spark.jars.packages": DELTA,
    "spark.jars.excludes": DELTA_EXCLUDES,
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # The partitions of a table's state: small tables need no fifty.
    "spark.databricks.delta.snapshotPartitions": "1",
    # VACUUM looks for files in this many tasks; by default in two hundred.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "1",
}

with_jars = pytest.mark.skipif(
    not pyspark.__version__.startswith(f"{SPARK}."), reason=f"the jars are for pyspark {SPARK}"
)


#: The SPARK_ variables that tests set for every JVM they start; others are of other sessions.
_OURS = ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", "SPARK_LOCAL_IP")


class SparkSql:
    """Runs statements; the process starts when it is first needed."""

    _process: subprocess.Popen[str] | None = None

    def delta(self, *statements: str) -> list[list[str]]:
        """What Delta Lake's statements give: lines, columns separated by `|`."""
        return self._run({}, *statements)

    def iceberg(self, folder: Path, *statements: str) -> list[list[str]]:
        """The same for Iceberg: the catalog `lake` is the one in a folder (`tests.lake`)."""
        jdbc = {
            "type": "jdbc",
            "uri": f"jdbc:sqlite:{folder}/catalog.db",
            "warehouse": f"file://{folder}/warehouse",
        }
        settings = hadoop_options(folder) if folder.name == "hadoop" else jdbc
        own = "spark.sql.catalog.lake"
        conf = {f"{own}.{name}": value for name, value in settings.items()}
        return self._run({own: "org.apache.iceberg.spark.SparkCatalog", **conf}, *statements)

    def _run(self, conf: Mapping[str, str], *statements: str) -> list[list[str]]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark_sql"],
                env=_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([conf, statements]), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        assert line, "the process has ended"
        answers, failure = json.loads(line)
        assert failure is None, failure
        results: list[list[str]] = answers
        return results

    def close(self) -> None:
        """Ends the process, and its Spark."""
        if self._process is not None:
            self._process.communicate()


def run_module(module: str, *arguments: str) -> str:
    """What a program of the tests with a Spark of its own prints."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, env=_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def _environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith("SPARK_") or k in _OURS}


def _serve() -> None:
    # VACUUM prints where only answers may be, so what the JVM prints goes where its log does.
    answered = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    conf = {
        **DELTA_CONF,
        "spark.jars.packages": f"{DELTA},{ICEBERG},org.xerial:sqlite-jdbc:3.50.3.0",
        "spark.sql.extensions": f"{DELTA_CONF['spark.sql.extensions']},"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        **SETTINGS,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.master("local[1]")
    for name, value in conf.items():
        builder = builder.config(name, value)
    first = builder.getOrCreate()
    for line in sys.stdin:
        settings, statements = json.loads(line)
        answers, failure = [], None
        try:
            # Nothing about a catalog is remembered from earlier requests.
            spark = first.newSession()
            for name, value in settings.items():
                spark.conf.set(name, value)
            for statement in statements:
                rows = spark.sql(statement).collect()
                answers.append(["|".join(map(str, row)) for row in rows])
        except Exception as error:
            # The one begins with what the JVM says, the other ends with where Python was.
            failure = f"{str(error)[:500]}\n{traceback.format_exc()[-3000:]}"
        print(json.dumps([answers, failure]), file=answered, flush=True)
    first.stop()


if __name__ == "__main__":
    _serve()
