"""Options of every JVM that a test starts; as a program, an archive of Spark's classes.

To load and verify its classes takes Spark some three seconds of CPU time at each start, which a JVM
saves that has them from an archive (JEP 350). It is made once for each environment, in half a
minute: `python -m tests.jvm`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import JavaClass, JavaMember, JavaPackage, JVMView
from pyspark.sql import SparkSession

from backfill import java

_ROOT = Path(__file__).parent.parent

# Tests run much code, and little of it long enough for the better compiler to pay: without it the
# suite takes two thirds of the CPU time.
_SHORT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Room for the code that all tests need, which is 48 MB by default then, and too little after some
# thousand queries; and for what a query leaves behind, which is gone before it is copied.
_MEMORY = "-XX:ReservedCodeCacheSize=256m -Xmn512m"
# Of every Spark, unless a test sets them. Each of thousands of queries allots and clears a page for
# a few rows, and leaves what the UI, which is off, would show of it.
_SETTINGS = {
    "spark.buffer.pageSize": "1m",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.sql.ui.retainedExecutions": "10",
}
_OPTIONS = " ".join([_SHORT, _MEMORY, *(f"-D{name}={value}" for name, value in _SETTINGS.items())])


def set_options() -> None:
    """Sets the environment for every Spark that this process starts, and those that it starts."""
    archive = _archive()
    # A JVM that an archive does not fit starts without it, and would print why.
    shared = f' -XX:SharedArchiveFile="{archive}" -Xlog:cds*=off' if archive.exists() else ""
    os.environ["SPARK_SUBMIT_OPTS"] = _OPTIONS + shared
    # Spark's launcher is a JVM of its own.
    os.environ["SPARK_LAUNCHER_OPTS"] = _SHORT


def remember_lookups(spark: SparkSession) -> None:
    """Spares Spark and pyspark looking up the same things again, some of them for each column.

    pyspark asks the JVM for a class or method by its name whenever it uses one, and what is no
    class is looked for in each of 300 jars. Spark notes for each RDD from where it was made.
    """
    for kind in (JVMView, JavaPackage, JavaClass):
        kind.__getattr__ = _remembering(kind.__getattr__)
    for name in ("callSite.short", "callSite.long"):
        spark.sparkContext.setLocalProperty(name, "a test")


def _remembering(look_up: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    def remembered(self: Any, name: str) -> Any:
        found = look_up(self, name)
        # And no values of fields, which can change.
        if isinstance(found, (JavaPackage, JavaClass, JavaMember)):
            setattr(self, name, found)
        return found

    return remembered


def _archive() -> Path:
    """In the environment, by the versions of Spark and of Java."""
    home = java.find()
    release = home / "release" if home else None
    about = release.read_bytes() if release and release.exists() else str(home).encode()
    name = f"spark-{pyspark.__version__}-{hashlib.sha256(about).hexdigest()[:8]}.jsa"
    return Path(sys.prefix) / name


def _make(archive: Path) -> None:
    """Runs the samples' job under spark-submit, whose JVM leaves the archive when it ends."""
    submit = Path(sys.executable).with_name("spark-submit")
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        made = Path(folder) / archive.name
        samples = shutil.copytree(
            _ROOT / "data" / "samples",
            Path(folder) / "samples",
            ignore=shutil.ignore_patterns("out"),
        )
        environment = {
            **os.environ,
            "PATH": f"{submit.parent}{os.pathsep}{os.environ['PATH']}",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_SUBMIT_OPTS": f'{_OPTIONS} -XX:ArchiveClassesAtExit="{made}" -Xlog:cds*=off',
        }
        script = _ROOT / "jobs" / "run_windows.py"
        few = {"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"}
        settings = [f"--conf={name}={value}" for name, value in few.items()]
        command = [submit, "--master=local[2]", *settings, script, samples / "job.yaml"]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"no archive of Spark's classes: {done.stderr[-3000:]}")
        os.replace(made, archive)


if __name__ == "__main__":
    if not _archive().exists():
        _make(_archive())
