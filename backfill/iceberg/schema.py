"""Iceberg schemas in the store's form, and the other way round."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import count
from typing import Any

from deltalake import Schema as DeltaSchema
from pyiceberg import types as I
from pyiceberg.schema import Schema
from pyspark.sql import types as T

from backfill.errors import TableError

_PRIMITIVES: dict[str, I.PrimitiveType] = {
    "boolean": I.BooleanType(),
    "integer": I.IntegerType(),
    "long": I.LongType(),
    "float": I.FloatType(),
    "double": I.DoubleType(),
    "date": I.DateType(),
    "timestamp": I.TimestamptzType(),
    "timestamp_ntz": I.TimestampType(),
    "string": I.StringType(),
    "binary": I.BinaryType(),
}
_NAMES = {kind: name for name, kind in _PRIMITIVES.items()}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def iceberg_schema(schema: str) -> Schema:
    """The schema for a new table, from the form of `StagedFiles.schema`."""
    ids = count(1)
    return Schema(*(_field(field, ids) for field in json.loads(schema)["fields"]))


def store_schema(schema: Schema) -> str:
    """The schema in the form of `StagedFiles.schema`, with all fields nullable.

    Raises:
        TableError: a column has a type that Spark does not have.
    """
    fields = [_spark_field(field, field.name) for field in schema.fields]
    # Written by the library that writes `StagedFiles.schema`, so equal schemas are equal texts.
    return DeltaSchema.from_json(json.dumps({"type": "struct", "fields": fields})).to_json()


def widened(kind: T.DataType) -> T.DataType:
    """The type, with integers that Iceberg has no type for widened to the next larger type."""
    if isinstance(kind, T.ByteType | T.ShortType):
        return T.IntegerType()
    if isinstance(kind, T.StructType):
        return T.StructType(
            [T.StructField(field.name, widened(field.dataType)) for field in kind.fields]
        )
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(widened(kind.elementType))
    if isinstance(kind, T.MapType):
        return T.MapType(widened(kind.keyType), widened(kind.valueType))
    return kind


def _field(field: dict[str, Any], ids: Iterator[int]) -> I.NestedField:
    number = next(ids)
    return I.NestedField(number, field["name"], _type(field["type"], ids), required=False)


def _type(kind: Any, ids: Iterator[int]) -> I.IcebergType:
    if isinstance(kind, str):
        decimal = _DECIMAL.fullmatch(kind)
        if decimal:
            return I.DecimalType(int(decimal[1]), int(decimal[2]))
        return _PRIMITIVES[kind]
    if kind["type"] == "struct":
        return I.StructType(*(_field(field, ids) for field in kind["fields"]))
    if kind["type"] == "array":
        number = next(ids)
        element = _type(kind["elementType"], ids)
        return I.ListType(element_id=number, element=element, element_required=False)
    first, second = next(ids), next(ids)
    return I.MapType(
        key_id=first,
        key_type=_type(kind["keyType"], ids),
        value_id=second,
        value_type=_type(kind["valueType"], ids),
        value_required=False,
    )


def _spark_field(field: I.NestedField, column: str) -> dict[str, Any]:
    kind = _spark_type(field.field_type, column)
    return {"name": field.name, "type": kind, "nullable": True, "metadata": {}}


def _spark_type(kind: I.IcebergType, column: str) -> Any:
    if isinstance(kind, I.StructType):
        return {"type": "struct", "fields": [_spark_field(field, column) for field in kind.fields]}
    if isinstance(kind, I.ListType):
        element = _spark_type(kind.element_type, column)
        return {"type": "array", "elementType": element, "containsNull": True}
    if isinstance(kind, I.MapType):
        return {
            "type": "map",
            "keyType": _spark_type(kind.key_type, column),
            "valueType": _spark_type(kind.value_type, column),
            "valueContainsNull": True,
        }
    if isinstance(kind, I.DecimalType):
        return f"decimal({kind.precision},{kind.scale})"
    if isinstance(kind, I.PrimitiveType) and kind in _NAMES:
        return _NAMES[kind]
    raise TableError(
        f"the table has a column of type {kind}, which Spark does not have",
        field=column,
        way_out="Drop the column, or publish into another table",
    )
