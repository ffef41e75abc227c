"""Whether a job can be run on a session's runtime."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import SparkSession

from backfill.folders import is_url
from backfill.runtimes.differences import needs_spark, runtime_of
from backfill.spec import JobSpec

#: What a runtime can take for a pattern, or decode, in a path.
_SPECIAL = frozenset("[]{}*?%\\")


def check_job(spec: JobSpec, spark: SparkSession, paths: Iterable[str]) -> None:
    """Checks that the session's runtime has all that a job needs, before anything is done.

    Args:
        spec: the job.
        spark: the session.
        paths: what is read and written.

    Raises:
        SetupError: it has not.
    """
    if runtime_of(spark).is_spark:
        return
    if spec.bots is not None:
        needs_spark(spark, "rules for bots are computed", field="events.bots")
    if spec.retention_us is not None:
        needs_spark(spark, "retention is computed", field="retention")
    if spec.lake is not None:
        needs_spark(spark, "tables in a catalog are written", field="tables.catalog")
    if spec.entries is not None:
        needs_spark(spark, "tables are registered in a catalog", field="tables.catalog")
    if spec.source.parts:
        needs_spark(spark, "several sources are read", field="sources")
    if spec.source.format != "parquet":
        needs_spark(spark, f"the format {spec.source.format} is read", field="source.format")
    if spec.checks.own:
        needs_spark(spark, "a job's own expectations are checked", field="checks")
    for path in paths:
        if is_url(path):
            needs_spark(spark, "object stores are read and written", field=path)
        check_characters(path, spark, field=path)


def check_characters(path: str, spark: SparkSession, *, field: str) -> None:
    """Checks that a session's runtime takes a path as it is.

    Raises:
        SetupError: it may not.
    """
    if _SPECIAL & set(path):
        needs_spark(spark, "paths with special characters are read", field=field)
