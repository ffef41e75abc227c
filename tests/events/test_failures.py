"""What Spark raises while it computes becomes an error of one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from backfill.errors import BackfillError, ColumnError, JobFileError, SourceError
from backfill.events import spark_errors, translate


@pytest.mark.parametrize(
    ("expression", "kind", "message"),
    [
        ("CAST(text AS INT)", ColumnError, "the value 'abc' .*cannot be cast to \"INT\""),
        ("id + 9223372036854775807", ColumnError, "too large .*wider type.*your own .*try_add"),
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


def test_paths_with_blanks_are_told_whole(spark: SparkSession, tmp_path: Path) -> None:
    with (
        pytest.raises(SourceError, match=r"nothing is there \(got '.*/no where'\)"),
        spark_errors(),
    ):
        spark.read.parquet(str(tmp_path / "no where"))
    (tmp_path / "x y.parquet").write_text("no Parquet")
    with (
        pytest.raises(SourceError, match=r"/x y\.parquet: the file cannot be read"),
        spark_errors(),
    ):
        spark.read.parquet(str(tmp_path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "o1.collect: [FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH] Encountered error "
            "while reading file file:///a/b%20c.parquet. Data type mismatches when reading Parquet "
            "column [b]. Expected Spark type bigint, actual Parquet type BINARY. SQLSTATE: KD001",
            "/a/b c.parquet: column b has another type",
        ),
        (
            "Job aborted: [CANNOT_READ_FILE_FOOTER] Could not read footer for file: "
            "file:/a/b c.parquet. Please ensure that the file is in either ORC or Parquet format.",
            "/a/b c.parquet: the file cannot be read",
        ),
        (
            "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///a/b.csv. "
            "SQLSTATE: KD001\nCaused by: com.univocity.parsers.common.TextParsingException: Length "
            "of parsed input (4) exceeds the maximum number of characters",
            "/a/b.csv: a line has more or longer fields than maxColumns and maxCharsPerColumn",
        ),
        (
            "[STREAM_FAILED] Query terminated with exception: [CAST_INVALID_INPUT] The value 'abc' "
            'of the type "STRING" cannot be cast to "INT" because it is malformed.',
            'the value \'abc\' of type "STRING" cannot be cast to "INT"',
        ),
        (
            "[INCONSISTENT_BEHAVIOR_CROSS_VERSION.DATETIME_PATTERN_RECOGNITION] You may get a "
            "different result:\nFail to recognize 'YYYY' pattern in the DateTimeFormatter.",
            "not a datetime pattern of Spark (got 'YYYY')",
        ),
    ],
)
def test_causes_that_are_text_only(text: str, message: str) -> None:
    """Py4J and streaming queries give such causes on Spark 4.1 and later."""
    assert message in str(translate(RuntimeError(text)))


def test_others_pass(spark: SparkSession) -> None:
    assert translate(ValueError("[SOMETHING] else")) is None
    with pytest.raises(ZeroDivisionError), spark_errors():
        _ = 1 // 0
    known = ColumnError("is known")
    with pytest.raises(ColumnError) as raised, spark_errors():
        raise known
    assert raised.value is known
