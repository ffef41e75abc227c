"""The tables of a job in a catalog of Iceberg tables.

Spark writes the files, and the `pyiceberg` library commits them: no extra jar is needed, and any
reader of Iceberg can open the tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from pyiceberg.catalog import Catalog
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from backfill.columns import column
from backfill.iceberg.catalog import open_catalog
from backfill.iceberg.hadoop import HadoopCatalog
from backfill.iceberg.schema import widened
from backfill.store.files.names import checked_name
from backfill.store.files.store import FileStore
from backfill.store.iceberg.log import IcebergLog


class IcebergStore(FileStore):
    """The tables of one job, each an Iceberg table of a namespace.

    Args:
        name: the catalog's name, as `pyiceberg` is configured: in `~/.pyiceberg.yaml`, or by
            environment variables such as PYICEBERG_CATALOG__LAKE__URI.
        namespace: in the catalog; parts are separated by dots.
        options: further settings of the catalog; they override the configured ones.
        properties: the tables' properties, which each commit sets.
        sort_by: as for `FileStore`.
    """

    way_to_delete = (
        "Iceberg's expire_snapshots deletes the files of snapshots that are older than the "
        "table's history.expire.max-snapshot-age-ms, 5 days by default; a tag or another branch "
        "keeps its snapshots."
    )

    def __init__(
        self,
        name: str,
        namespace: str,
        options: Mapping[str, str] = {},
        properties: Mapping[str, str] = {},
        sort_by: tuple[str, ...] = (),
    ) -> None:
        super().__init__(properties, sort_by)
        self.name = name
        self.namespace = tuple(namespace.split("."))
        self._options = options
        self._logs: dict[str, IcebergLog] = {}

    @cached_property
    def catalog(self) -> Catalog:
        """The catalog.

        Raises:
            TableError: it is not configured, fails, or can't be written to.
        """
        opened = open_catalog(self.name, self._options, field="tables.catalog")
        if isinstance(opened, HadoopCatalog):
            opened.check_writable()
        return opened

    def log(self, name: str) -> IcebergLog:
        """As `FileStore` has it.

        Each call returns the same object: a catalog may choose another place each time it is asked
        where a table will be.
        """
        if name not in self._logs:
            identifier = (*self.namespace, checked_name(name, "table"))
            self._logs[name] = IcebergLog(self.catalog, identifier, self.properties)
        return self._logs[name]

    def fitted(self, frame: DataFrame | StructType) -> DataFrame | StructType:
        """As `FileStore` has it: `tinyint` and `smallint` become `int`."""
        schema = frame if isinstance(frame, StructType) else frame.schema
        wanted = widened(schema)
        assert isinstance(wanted, StructType)
        if isinstance(frame, StructType):
            return wanted
        if [field.dataType for field in wanted] == [field.dataType for field in schema]:
            return frame
        return frame.select(
            *(column(field.name).cast(field.dataType).alias(field.name) for field in wanted)
        )
