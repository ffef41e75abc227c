"""Whether a job can be run on a session's runtime."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import SparkSession

from backfill.runtimes.differences import needs_spark, runtime_of
from backfill.runtimes.folder_columns import check_place
from backfill.spec import JobSpec

#: The formats of events that every runtime reads.
_READ = frozenset({"parquet", "delta", "iceberg"})
#: Expectations for which Great Expectations asks for approximate quantiles.
_BY_SKETCH = frozenset(
    {"expect_column_median_to_be_between", "expect_column_quantile_values_to_be_between"}
)


def check_job(spec: JobSpec, spark: SparkSession, paths: Iterable[str]) -> None:
    """Checks that the session's runtime has all that a job needs, before anything is done.

    Args:
        spec: the job.
        spark: the session.
        paths: what is read and written.

    Raises:
        SetupError: it does not.
    """
    if runtime_of(spark).is_spark:
        return
    if spec.entries is not None:
        needs_spark(spark, "tables are registered in a catalog", field="tables.catalog")
    for source in spec.source.parts.values() or [spec.source]:
        if source.format not in _READ:
            needs_spark(spark, f"the format {source.format} is read", field="source.format")
    for name, checks in spec.checks.own.items():
        for check in checks:
            if check.expectation in _BY_SKETCH:
                what = f"{check.expectation} is evaluated"
                needs_spark(spark, what, field=f"checks.{name}")
    for path in paths:
        check_place(path, spark, field=path)
