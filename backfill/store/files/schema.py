"""Spark's schema as Delta's: nearly the same JSON."""

from __future__ import annotations

import json
import re
from typing import Any

from deltalake import Schema
from pyspark.sql.types import StructType

from backfill.errors import ColumnError

_PRIMITIVES = {
    *("string", "byte", "short", "integer", "long", "float", "double", "boolean", "binary"),
    *("date", "timestamp", "timestamp_ntz"),
}
_DECIMAL = re.compile(r"decimal\(\d+,\d+\)")


def delta_schema(schema: StructType) -> Schema:
    """Delta's form of the schema, with every field nullable and no field metadata.

    A column that is never NULL today may be NULL under tomorrow's job file, and only the types
    may decide whether two versions of a table agree.

    Raises:
        ColumnError: a column has a type that Delta cannot hold.
    """
    fields = [_delta_field(field) for field in json.loads(schema.json())["fields"]]
    return Schema.from_json(json.dumps({"type": "struct", "fields": fields}))


def spark_schema(schema: Schema) -> StructType:
    """Spark's form of a Delta schema."""
    return StructType.fromJson(json.loads(schema.to_json()))


def primitive_columns(schema: Schema) -> dict[str, str]:
    """The columns that are not nested, with Delta's names for their types."""
    fields = json.loads(schema.to_json())["fields"]
    return {field["name"]: field["type"] for field in fields if isinstance(field["type"], str)}


def _delta_field(field: dict[str, Any], column: str | None = None) -> dict[str, Any]:
    kind = _delta_type(field["type"], column or field["name"])
    return {"name": field["name"], "type": kind, "nullable": True, "metadata": {}}


def _delta_type(kind: Any, column: str) -> Any:
    if isinstance(kind, str):
        if kind in _PRIMITIVES or _DECIMAL.fullmatch(kind):
            return kind
    elif kind["type"] == "struct":
        fields = [_delta_field(field, column) for field in kind["fields"]]
        return {"type": "struct", "fields": fields}
    elif kind["type"] == "array":
        element = _delta_type(kind["elementType"], column)
        return {"type": "array", "elementType": element, "containsNull": True}
    elif kind["type"] == "map":
        return {
            "type": "map",
            "keyType": _delta_type(kind["keyType"], column),
            "valueType": _delta_type(kind["valueType"], column),
            "valueContainsNull": True,
        }
    name = kind if isinstance(kind, str) else kind["type"]
    raise ColumnError(
        f"a table cannot hold a column of type {name}",
        field=column,
        way_out="Cast it to another type.",
    )
