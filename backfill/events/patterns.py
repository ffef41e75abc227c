"""Spark's patterns for times in text."""

from __future__ import annotations

import re

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from backfill.errors import JobFileError
from backfill.events.failures import spark_errors


def has_zone(pattern: str) -> bool:
    """Whether a time of this pattern says its zone or offset itself."""
    return bool(re.search("[VzOXxZ]", _letters(pattern)))


def check_pattern(spark: SparkSession, pattern: str) -> None:
    """Refuse an invalid pattern before any row is read.

    Raises:
        JobFileError: it is not a pattern, or its zone is optional (without one, Spark would use the
            session's).
    """
    letters = _letters(pattern)
    if re.search(r"\[[^\]]*[VzOXxZ]", letters):
        raise JobFileError(
            "the zone must not be optional in a pattern",
            field="time_format",
            value=pattern,
            way_out="Use iso, which takes both, or a pattern without brackets around the zone",
        )
    if not re.search("[yuMLdDHhKkmsS]", letters):
        raise JobFileError(
            "not a datetime pattern of Spark",
            field="time_format",
            value=pattern,
            way_out="Allowed: iso, epoch_s, epoch_ms, epoch_us, or a pattern such as "
            "'yyyy-MM-dd HH:mm:ss'",
        )
    with spark_errors():
        text = spark.range(1).select(F.col("id").cast("string").alias("text"))
        text.select(F.try_to_timestamp("text", F.lit(pattern))).collect()


def _letters(pattern: str) -> str:
    """The pattern without text in quotes."""
    return re.sub("'[^']*'", "", pattern)
