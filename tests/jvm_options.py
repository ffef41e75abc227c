"""Options of every JVM that a test starts."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from py4j import java_collections
from py4j.java_gateway import JavaClass, JavaMember, JavaPackage, JVMView
from pyspark.sql import SparkSession

from backfill.jvm import class_archive, java

# Tests run much code, but little of it long enough for the better compiler to pay off: without it
# the suite takes two thirds of the CPU time.
_SHORT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Room for the code that all tests need: the default is then 48 MB, too little after some thousand
# queries. And room for what a query leaves behind, so that it is gone before it would be copied.
_MEMORY = "-XX:ReservedCodeCacheSize=256m -Xmn512m"
# For every Spark, unless a test sets them. Each of thousands of queries allocates and clears a page
# for a few rows, and keeps what the UI, which is off, would show of it, including its full plan.
_SETTINGS = {
    "spark.buffer.pageSize": "1m",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.sql.ui.explainMode": "simple",
}
_OPTIONS = " ".join([_SHORT, _MEMORY, *(f"-D{name}={value}" for name, value in _SETTINGS.items())])


def set_options() -> None:
    """Sets the environment for every Spark that this process, or one started by it, starts."""
    home = java.find()
    shared = class_archive.options(home) if home else ""
    os.environ["SPARK_SUBMIT_OPTS"] = f"{_OPTIONS} {shared}"
    # Spark's launcher is a JVM of its own.
    os.environ["SPARK_LAUNCHER_OPTS"] = _SHORT


def remember_lookups(spark: SparkSession) -> None:
    """Keeps Spark and pyspark from looking up the same things again, some of them for each column.

    pyspark asks the JVM for a class or method by its name whenever it uses one, and a name that is
    no class is looked for in each of 300 jars. Spark records for each RDD where it was made.
    """
    # To choose a converter, py4j looks at each argument by `inspect.getattr_static`, which is slow.
    java_collections.hasattr2 = hasattr
    for kind in (JVMView, JavaPackage, JavaClass):
        kind.__getattr__ = _remembering(kind.__getattr__)
    for name in ("callSite.short", "callSite.long"):
        spark.sparkContext.setLocalProperty(name, "a test")


def _remembering(look_up: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    def remembered(self: Any, name: str) -> Any:
        member = look_up(self, name)
        # Values of fields are not kept, since they can change.
        if isinstance(member, (JavaPackage, JavaClass, JavaMember)):
            setattr(self, name, member)
        return member

    return remembered
