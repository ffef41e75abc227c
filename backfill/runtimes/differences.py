"""How runtimes differ: one that speaks Spark Connect need not have everything that Spark has.

What a runtime lacks is found by asking it, not by its name, and workarounds are made here. The rest
of the package knows a single runtime.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.errors import (
    ArithmeticException,
    IllegalArgumentException,
    SparkRuntimeException,
    UnsupportedOperationException,
)
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill.columns import quoted
from backfill.errors import SetupError

#: Gives values by name.
Values = Callable[[], Mapping[str, Any]]


@dataclass(frozen=True)
class Runtime:
    """What a runtime has.

    Attributes:
        is_spark: it is Spark. Other runtimes have been asked for the following.
        observes: aggregates over a frame that is computed anyway (`DataFrame.observe`).
        names_files: the path of the file that a row comes from (`input_file_name`), and columns
            that files have from their folders.
        sketches: KLL sketches of quantiles.
        reports_overflow: an error if a sum overflows; asked with decimals of more than 38 digits.
        orders_nan: NaN is the largest number, also for the least and largest of groups.
        orders_nulls: NULL comes first within structs whose least is computed.
        cuts_bytes: `substring` of bytes that are not UTF-8.
    """

    is_spark: bool = True
    observes: bool = True
    names_files: bool = True
    sketches: bool = True
    reports_overflow: bool = True
    orders_nan: bool = True
    orders_nulls: bool = True
    cuts_bytes: bool = True


_HOLDS = "_holds"
SPARK = Runtime()
_KNOWN: WeakKeyDictionary[SparkSession, Runtime] = WeakKeyDictionary()


def is_of_this_process(spark: SparkSession) -> None:
    """Notes that a session belongs to a server in this process that is not Spark."""
    if spark not in _KNOWN:
        _KNOWN[spark] = _asked(spark)


def of_connect(spark: SparkSession) -> bool:
    """Whether a session is a Spark Connect session, of any server."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def runtime_of(spark: SparkSession) -> Runtime:
    """What the runtime of a session has.

    Raises:
        SetupError: the session's server is elsewhere and is not Spark.
    """
    if not of_connect(spark):
        return SPARK
    runtime = _KNOWN.get(spark)
    if runtime is None:
        if not _has(lambda: spark.range(1).select(F.input_file_name())):
            raise SetupError(
                "the server lacks parts of Spark, and rows that are kept would be in its files, "
                "not in this machine's",
                field="remote",
                way_out="Use a Spark server, or Sail in this process, with runtime: sail",
            )
        runtime = _KNOWN[spark] = SPARK
    return runtime


def needs_spark(session: SparkSession | DataFrame, what: str, *, field: str = "runtime") -> None:
    """Refuses what is only done on Spark.

    Raises:
        SetupError: the runtime lacks something that Spark has.
    """
    spark = session.sparkSession if isinstance(session, DataFrame) else session
    if not runtime_of(spark).is_spark:
        raise SetupError(
            f"{what} on Spark only, and this is another runtime",
            field=field,
            way_out="Use Spark: leave out runtime: sail, or give --runtime spark",
        )


def floats_need_spark(frame: DataFrame, name: str, what: str) -> None:
    """Refuses a column of floating-point numbers whose values are compared or sorted.

    Other runtimes may not group -0.0 with 0.0, or put NaN last.

    Raises:
        SetupError: the column is one, and the runtime lacks something that Spark has.
    """
    if isinstance(frame.schema[name].dataType, T.FloatType | T.DoubleType):
        needs_spark(frame, f"{what} can be a floating-point number", field=name)


def observed(frame: DataFrame, *sums: Column, hold: bool = False) -> tuple[DataFrame, Values]:
    """A frame, and aggregates over it that its first action computes as well.

    Args:
        frame: any rows.
        sums: aggregates with names; not of distinct values, which Spark does not observe.
        hold: if the runtime can't observe, compute the rows once, now, rather than again for the
            aggregates.

    Returns:
        The rows, and a function that gives the values after an action. Spark observes nothing of a
        frame that it finds to be empty.
    """
    if runtime_of(frame.sparkSession).observes:
        counted = Observation()
        return frame.observe(counted, *sums), lambda: counted.get
    rows = computed_once(frame) if hold else frame
    return rows, lambda: rows.agg(*sums).collect()[0].asDict()


def kept(frame: DataFrame) -> tuple[DataFrame, Callable[[], object]]:
    """The frame, whose rows are computed only once, and a function that releases them."""
    if runtime_of(frame.sparkSession).is_spark:
        held = frame.persist()
        return held, held.unpersist
    return _written(frame)


def computed_once(frame: DataFrame) -> DataFrame:
    """The frame, computed once, now.

    It is not persisted, because that keeps the plan, and a run over little data spends most of its
    time on plans that contain everything that went before.
    """
    if runtime_of(frame.sparkSession).is_spark:
        return frame.localCheckpoint()
    return _written(frame)[0]


def stacked(one: DataFrame, other: DataFrame) -> DataFrame:
    """The rows of both frames; a column that only one of them has is NULL in the other's rows."""
    if runtime_of(one.sparkSession).is_spark:
        return one.unionByName(other, allowMissingColumns=True)
    types = {
        field.name: field.dataType for frame in (one, other) for field in nullable(frame.schema)
    }

    def filled(frame: DataFrame) -> DataFrame:
        absent = [name for name in types if name not in frame.columns]
        nulls = (F.lit(None).cast(types[name]).alias(name) for name in absent)
        return optional(frame).select("*", *nulls)

    return filled(one).unionByName(filled(other))


def where(frame: DataFrame, condition: Column) -> DataFrame:
    """The rows for which a condition that goes through an array holds.

    Sail 0.7.2 hands the condition to the scan of the file, which fails, so it is first computed as
    a column.
    """
    if runtime_of(frame.sparkSession).is_spark:
        return frame.where(condition)
    asked = computed_once(frame.withColumn(_HOLDS, condition))
    return asked.where(F.col(_HOLDS)).drop(_HOLDS)


def optional(frame: DataFrame) -> DataFrame:
    """The frame with every column nullable, as outer joins and unions need.

    In Sail 0.7.2 the fields of a struct must be nullable if the struct can be NULL.
    """
    if runtime_of(frame.sparkSession).is_spark:
        return frame
    return frame.select(
        *(
            F.col(quoted(field.name)).cast(field.dataType).alias(field.name)
            for field in nullable(frame.schema)
        )
    )


def only_where(frame: DataFrame, name: str, condition: Column) -> DataFrame:
    """The frame with a struct where the condition holds, and NULL elsewhere.

    In Sail 0.7.2, a struct that `when` makes NULL can still return values for its fields.
    """
    struct = F.col(name)
    if runtime_of(frame.sparkSession).is_spark:
        return frame.withColumn(name, F.when(condition, struct))
    return frame.withColumn(name, _only_where(struct, condition, frame.schema[name].dataType))


def _only_where(value: Column, condition: Column, type: T.DataType) -> Column:
    if isinstance(type, T.StructType):
        value = F.struct(
            *(
                _only_where(value[field.name], condition, field.dataType).alias(field.name)
                for field in type
            )
        )
    return F.when(condition, value)


def _written(frame: DataFrame) -> tuple[DataFrame, Callable[[], object]]:
    """The rows in files on this machine, and a function that deletes these; the exit does it, too.

    Sail 0.7.2 has checkpoints, but it reads the rows of a sorted frame back in another order, and
    still takes them to be sorted.
    """
    folder = temporary_folder()
    # Parquet has no structs without fields, such as the key of a job that has none.
    held = [field for field in frame.schema if field.dataType != T.StructType()]
    written = frame.select(*(quoted(field.name) for field in held))
    written.write.mode("overwrite").parquet(f"file://{folder}")
    schema = nullable(T.StructType(held))
    # In a schema that is not text, fields of structs have metadata, which makes Sail 0.7.2 take the
    # struct for one of another type.
    read = frame.sparkSession.read.schema(schema.toDDL()).parquet(f"file://{folder}")
    rows = read.select(
        *(
            F.struct().alias(field.name)
            if field.dataType == T.StructType()
            else F.col(quoted(field.name))
            for field in frame.schema
        )
    )
    return rows, lambda: shutil.rmtree(folder, ignore_errors=True)


def nullable(
    schema: T.StructType, leaf: Callable[[T.DataType], T.DataType] = lambda type: type
) -> T.StructType:
    """The same with NULL allowed everywhere, because files can differ in where they have NULL.

    Args:
        schema: any schema.
        leaf: replaces a type that holds no other; called in the order of a file's columns.
    """

    def inside(type: T.DataType) -> T.DataType:
        if isinstance(type, T.StructType):
            return nullable(type, leaf)
        if isinstance(type, T.ArrayType):
            return T.ArrayType(inside(type.elementType))
        if isinstance(type, T.MapType):
            return T.MapType(inside(type.keyType), inside(type.valueType))
        return leaf(type)

    return T.StructType([T.StructField(field.name, inside(field.dataType)) for field in schema])


def temporary_folder() -> str:
    """A new folder, which is deleted when this process ends."""
    return tempfile.mkdtemp(prefix="rows-", dir=_folder())


@cache
def _folder() -> str:
    made = tempfile.mkdtemp(prefix="backfill-rows-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def _has(frame: Callable[[], DataFrame]) -> bool:
    """Whether a runtime accepts a plan; any other error is raised."""
    try:
        frame().schema  # noqa: B018
    except UnsupportedOperationException:
        return False
    return True


def _asked(spark: SparkSession) -> Runtime:
    rows, one = spark.range(1), F.lit(1)
    zone = spark.conf.get("spark.sql.session.timeZone")
    if zone != "UTC":
        raise SetupError(
            "must be UTC on this runtime",
            field="spark.sql.session.timeZone",
            value=zone,
            way_out="Leave it out; the job's zone is events.timezone",
        )
    return Runtime(
        is_spark=False,
        observes=_has(lambda: rows.observe(Observation(), F.count(one).alias("n"))),
        names_files=_has(lambda: rows.select(F.input_file_name())),
        sketches=_has(lambda: rows.agg(F.kll_sketch_agg_double(one.cast("double")))),
        reports_overflow=_reports_overflow(spark),
        orders_nan=_orders_nan(spark),
        orders_nulls=_orders_nulls(spark),
        cuts_bytes=_cuts_bytes(spark),
    )


def _reports_overflow(spark: SparkSession) -> bool:
    most = F.lit("9" * 38).cast("decimal(38,0)")
    try:
        spark.range(2).agg(F.sum(most + F.col("id") * 0)).collect()
    except (ArithmeticException, SparkRuntimeException):
        return True
    return False


def _cuts_bytes(spark: SparkSession) -> bool:
    one = F.substring(F.unhex(F.lit("FF00")), 1, 1)
    try:
        return bool(spark.range(1).select(F.hex(one)).collect()[0][0] == "FF")
    except (IllegalArgumentException, SparkRuntimeException):
        return False


def _orders_nan(spark: SparkSession) -> bool:
    value = F.when(F.col("id") < 2, F.lit("NaN").cast("double")).otherwise(1.0)
    rows = spark.range(4).select((F.col("id") * 0).alias("key"), value.alias("value"))
    least, most = rows.groupBy("key").agg(F.min("value"), F.max("value")).collect()[0][1:]
    return bool(least == 1.0 and most != most)


def _orders_nulls(spark: SparkSession) -> bool:
    value = F.when(F.col("id") < 2, F.col("id"))
    pair = F.struct(F.lit(1).alias("at"), value.alias("value"))
    rows = spark.range(4).select((F.col("id") * 0).alias("key"), pair.alias("pair"))
    least = rows.groupBy("key").agg(F.min("pair").alias("pair")).select("pair.value").collect()
    return least[0][0] is None
