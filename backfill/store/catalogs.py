"""Stores of tables in catalogs; their libraries are loaded only when needed."""

from __future__ import annotations

from collections.abc import Mapping

from backfill.errors import TableError
from backfill.store.protocol import Store


def iceberg_store(
    catalog: str,
    schema: str,
    options: Mapping[str, str],
    properties: Mapping[str, str],
    sort_by: tuple[str, ...],
) -> Store:
    """Iceberg tables of a catalog.

    Args:
        catalog: its name, as pyiceberg is configured.
        schema: the namespace of the tables.
        options: further settings of the catalog.
        properties: the tables' properties.
        sort_by: as for `FileStore`.

    Raises:
        TableError: pyiceberg is not installed.
    """
    try:
        from backfill.store.iceberg.store import IcebergStore
    except ImportError as error:
        raise TableError(
            f"Iceberg tables need a library that is missing: {error.name}",
            field="tables.catalog",
            value=catalog,
            way_out="pip install 'backfill[iceberg]'",
        ) from error
    return IcebergStore(catalog, schema, options, properties, sort_by)
