"""The tables of a job in a catalog of Iceberg tables.

Spark writes the files, the `pyiceberg` library commits them: no extra jar, and any reader of
Iceberg can open the tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.utils.config import Config
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from backfill.columns import column
from backfill.errors import TableError
from backfill.store.files.names import checked_name, first_line
from backfill.store.files.store import FileStore
from backfill.store.iceberg.failures import without
from backfill.store.iceberg.log import IcebergLog
from backfill.store.iceberg.schema import widened


class IcebergStore(FileStore):
    """The tables of one job, each an Iceberg table of a namespace.

    Args:
        name: of the catalog, as `pyiceberg` is configured: in `~/.pyiceberg.yaml`, or by
            environment variables such as PYICEBERG_CATALOG__LAKE__URI.
        namespace: in the catalog; parts are separated by dots.
        options: further settings of the catalog, or others.
    """

    way_to_delete = (
        "Iceberg's expire_snapshots deletes the files of snapshots that are older than the "
        "table's history.expire.max-snapshot-age-ms, 5 days by default."
    )

    def __init__(self, name: str, namespace: str, options: Mapping[str, str] = {}) -> None:
        self.name = name
        self.namespace = tuple(namespace.split("."))
        self._options = options
        self._logs: dict[str, IcebergLog] = {}

    @cached_property
    def catalog(self) -> Catalog:
        """The catalog.

        Raises:
            TableError: it is not configured, or fails.
        """
        try:
            return load_catalog(self.name, **self._options)
        except Exception as error:
            settings = {**(Config().get_catalog_config(self.name) or {}), **self._options}
            problem = without(first_line(error), {k: str(v) for k, v in settings.items()})
            # Not chained, for traces show messages, too.
            raise TableError(
                f"the catalog fails: {problem}",
                field="tables.catalog",
                value=self.name,
                way_out="Configure it as pyiceberg reads it: in ~/.pyiceberg.yaml, or by "
                f"PYICEBERG_CATALOG__{self.name.upper()}__URI and other variables",
            ) from None

    def log(self, name: str) -> IcebergLog:
        """As `FileStore` has it.

        The same for each call: a catalog may choose another place whenever it is asked where a
        table will be.
        """
        if name not in self._logs:
            identifier = (*self.namespace, checked_name(name, "table"))
            self._logs[name] = IcebergLog(self.catalog, identifier)
        return self._logs[name]

    def fitted(self, frame: DataFrame | StructType) -> DataFrame | StructType:
        """As `FileStore` has it: small whole numbers as `int`."""
        schema = frame if isinstance(frame, StructType) else frame.schema
        wanted = widened(schema)
        assert isinstance(wanted, StructType)
        if isinstance(frame, StructType):
            return wanted
        if [each.dataType for each in wanted] == [each.dataType for each in schema]:
            return frame
        return frame.select(
            *(column(each.name).cast(each.dataType).alias(each.name) for each in wanted)
        )
