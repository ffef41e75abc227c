"""What Spark raises while it computes comes out as one line."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from backfill.errors import BackfillError, ColumnError, JobFileError
from backfill.events import spark_errors, translate


@pytest.mark.parametrize(
    ("expression", "kind", "message"),
    [
        ("CAST(text AS INT)", ColumnError, "the value 'abc' .*cannot be cast to \"INT\""),
        ("id + 9223372036854775807", ColumnError, "too large .*wider type.*of yours try_add"),
        ("CAST(id + 300 AS TINYINT)", ColumnError, "too large for its type"),
        ("CAST(id * 1000 AS DECIMAL(2,0))", ColumnError, "too large for its type"),
        ("1 / (id - 1)", ColumnError, "division by zero .*nullif"),
        ("1 % (id - 1)", ColumnError, "division by zero .*try_mod"),
        ("to_timestamp(text, 'qqqqqq')", JobFileError, "time_format: .*got 'qqqqqq'"),
    ],
)
def test_values(
    spark: SparkSession, expression: str, kind: type[BackfillError], message: str
) -> None:
    frame = spark.range(1, 3).withColumn("text", F.lit("abc")).filter("id > 0")
    with pytest.raises(kind, match=message) as raised, spark_errors():
        frame.selectExpr(expression).collect()
    assert "\n" not in str(raised.value)


def test_others_pass(spark: SparkSession) -> None:
    assert translate(ValueError("[SOMETHING] else")) is None
    with pytest.raises(ZeroDivisionError), spark_errors():
        _ = 1 // 0
    known = ColumnError("is known")
    with pytest.raises(ColumnError) as raised, spark_errors():
        raise known
    assert raised.value is known
