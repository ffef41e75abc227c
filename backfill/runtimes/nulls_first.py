"""Structs in Spark's order, for a runtime that puts NULL last within them.

Spark puts NULL first. Here each field of a struct comes after a flag that says whether it has a
value, so that NULL is never compared with a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

#: The fields of a struct by name, each with a function that gives the part that can be NULL.
Fields = Mapping[str, Callable[[Column], Column]]


def sorts_alike(type: T.DataType) -> bool:
    """Whether values of a type sort as on Spark; NaN, and NULL in nested values, may not."""
    nested = T.StructType | T.ArrayType | T.MapType
    return not isinstance(type, T.FloatType | T.DoubleType | nested)


def flagged(row: Column, fields: Fields) -> Column:
    """A struct that sorts as `row` does on Spark."""
    parts = []
    for name, value in fields.items():
        parts += [value(row[name]).isNotNull().alias(f"has_{name}"), row[name].alias(name)]
    return F.when(row.isNotNull(), F.struct(*parts))


def plain(row: Column, fields: Fields) -> Column:
    """The struct that `flagged` was made from."""
    return F.when(row.isNotNull(), F.struct(*(row[name].alias(name) for name in fields)))
