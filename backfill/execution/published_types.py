"""Gives new rows the types of a table, if these can hold every value."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from backfill.columns import column
from backfill.errors import TableError

_WHOLE = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)


def as_published(new: DataFrame, like: DataFrame, table: str) -> DataFrame:
    """The rows with the columns and types of a table.

    Args:
        new: the rows to be added.
        like: the table's own rows.
        table: its name.

    Raises:
        TableError: a column cannot hold every new value, since the source or an expression has
            another type than when the table was published.
    """
    own = {field.name: field.dataType for field in new.schema.fields}
    columns = []
    for target in like.schema.fields:
        now = own[target.name]
        if not _holds(target.dataType, now):
            raise TableError(
                f"is {target.dataType.simpleString()} in the table, but would be "
                f"{now.simpleString()} now: a type of the source has changed",
                field=f"{table}, column {target.name}",
                way_out="Nothing was published. Run everything: backfill run JOB",
            )
        expression = column(target.name)
        if now != target.dataType:
            expression = expression.cast(target.dataType).alias(target.name)
        columns.append(expression)
    return new.select(*columns)


def _holds(type: T.DataType, other: T.DataType) -> bool:
    """Whether a type holds all values of another."""
    if isinstance(type, _WHOLE) and isinstance(other, _WHOLE):
        return _WHOLE.index(other.__class__) <= _WHOLE.index(type.__class__)
    if isinstance(type, T.DecimalType) and isinstance(other, T.DecimalType):
        whole, others = (decimal.precision - decimal.scale for decimal in (type, other))
        return whole >= others and type.scale >= other.scale
    if isinstance(type, T.ArrayType) and isinstance(other, T.ArrayType):
        return _holds(type.elementType, other.elementType)
    if isinstance(type, T.MapType) and isinstance(other, T.MapType):
        return _holds(type.keyType, other.keyType) and _holds(type.valueType, other.valueType)
    if isinstance(type, T.StructType) and isinstance(other, T.StructType):
        return type.names == other.names and all(
            _holds(one.dataType, two.dataType) for one, two in zip(type, other, strict=True)
        )
    same = type.simpleString() == other.simpleString()
    return same or (isinstance(type, T.DoubleType) and isinstance(other, T.FloatType))
