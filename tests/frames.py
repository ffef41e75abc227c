"""Events as frames, and frames as plain Python."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.reference import Event

SCHEMA = "key string, time bigint, value {}, id string, arrival bigint"


def frame(spark: SparkSession, events: Iterable[Event], type: str = "bigint") -> DataFrame:
    """The events, their time in µs (`time_format="epoch_us"`)."""
    rows = [(e.key, e.time, e.value, e.id, e.arrival) for e in events]
    return spark.createDataFrame(rows, SCHEMA.format(type))


def rows(result: DataFrame) -> list[tuple[Any, ...]]:
    """The rows with timestamps as µs, which no session's time zone touches."""
    columns = [
        F.unix_micros(F.col(name)).alias(name) if type == "timestamp" else F.col(name)
        for name, type in result.dtypes
    ]
    return [tuple(row) for row in result.select(*columns).collect()]
