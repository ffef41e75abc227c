"""Events as frames, and frames as plain Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from tests.reference import Event

SCHEMA = "key string, time bigint, value {}, id string, arrival bigint"


def from_rows(spark: SparkSession, rows: Iterable[Sequence[Any]], schema: str) -> DataFrame:
    """Rows of plain Python as a frame, by Arrow.

    Spark has a Python worker unpack rows that are given as tuples, again for each query.
    """
    arrow = to_arrow_schema(T.StructType.fromDDL(schema))
    values = [list(row) for row in rows]
    if not values:
        # Over Spark Connect, pyspark 4.1 accepts no table without rows.
        return spark.createDataFrame([], schema)
    columns = [
        pa.array([row[place] for row in values], field.type) for place, field in enumerate(arrow)
    ]
    return spark.createDataFrame(pa.Table.from_arrays(columns, schema=arrow))


def frame(spark: SparkSession, events: Iterable[Event], type: str = "bigint") -> DataFrame:
    """The events, their time in µs (`time_format="epoch_us"`)."""
    rows = [(e.key, e.time, e.value, e.id, e.arrival) for e in events]
    return from_rows(spark, rows, SCHEMA.format(type))


def rows(result: DataFrame) -> list[tuple[Any, ...]]:
    """The rows with timestamps as µs, which no session's time zone touches."""
    columns = [
        F.unix_micros(F.col(name)).alias(name) if type == "timestamp" else F.col(name)
        for name, type in result.dtypes
    ]
    return [tuple(row) for row in result.select(*columns).collect()]
