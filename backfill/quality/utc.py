"""Times in UTC, whatever the zones of Spark's session and of this process."""

from __future__ import annotations

import datetime as dt

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from backfill.columns import column, quoted


def in_utc(moment: dt.datetime) -> dt.datetime:
    """The moment in UTC, without its zone; a moment without a zone is in UTC already."""
    if moment.tzinfo is None:
        return moment
    return moment.astimezone(dt.timezone.utc).replace(tzinfo=None)


def with_times_of_utc(frame: DataFrame) -> DataFrame:
    """The frame with timestamps as local times of UTC: Python shows instants in its own zone."""
    names = [field.name for field in frame.schema if isinstance(field.dataType, TimestampType)]
    epoch = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"
    local = {
        name: F.expr(f"timestampadd(MICROSECOND, unix_micros({quoted(name)}), {epoch})")
        for name in names
    }
    return frame.select(*(local.get(name, column(name)).alias(name) for name in frame.columns))
