"""Where a job's tables go, and how: the part `tables` of a job file."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from backfill.errors import JobFileError
from backfill.spec import names
from backfill.spec.parts import Columns, Part, Text, one_of
from backfill.spec.table_properties import check_properties

_TABLE_FORMATS = ("delta", "iceberg")


@dataclass(frozen=True)
class CatalogEntries:
    """Where a catalog of Spark's has entries for Delta tables in a folder.

    Attributes:
        catalog: its name, as Spark is configured for it.
        schema: the schema in the catalog.
    """

    catalog: str
    schema: str


@dataclass(frozen=True)
class CatalogTables:
    """Where Iceberg tables are in a catalog.

    Attributes:
        catalog: its name, as it is configured.
        schema: the schema in the catalog.
        options: further settings of the catalog; a password may be among them.
    """

    catalog: str
    schema: str
    options: Mapping[str, str] = field(repr=False)


class Tables(Part):
    """Where the results go: into a folder, or into a schema of a catalog.

    With an Iceberg catalog, the path is where the outcomes of checks and their pages go.
    """

    path: Annotated[Text, AfterValidator(names.check_tables)] | None = None
    catalog: Annotated[Text, AfterValidator(names.check_source)] | None = None
    schema_: Text | None = Field(None, alias="schema")
    format: Annotated[str, one_of("format of tables", _TABLE_FORMATS)] | None = None
    options: dict[str, str] = Field(default_factory=dict, repr=False)
    properties: dict[str, str] = Field(default_factory=dict)
    sort_by: Columns = ()

    @model_validator(mode="after")
    def _somewhere(self) -> Tables:
        if self.catalog is None:
            if self.path is None:
                raise JobFileError(
                    "is missing",
                    field="path",
                    way_out="Write path: out, or catalog: lake and schema: web",
                )
            for name, given in (("schema", self.schema_), ("options", self.options)):
                if given:
                    raise JobFileError(
                        "has no meaning without a catalog", field=name, way_out="Leave it out"
                    )
            if self.format == "iceberg":
                raise JobFileError(
                    "Iceberg tables need a catalog",
                    field="format",
                    value=self.format,
                    way_out="Write catalog: and schema:, or leave out format",
                )
        elif self.schema_ is None:
            raise JobFileError(
                "is missing", field="schema", way_out="Name the schema of the catalog"
            )
        elif self.format == "delta":
            self._in_a_folder_too()
        iceberg = self.catalog is not None and self.format != "delta"
        check_properties(self.properties, iceberg=iceberg)
        return self

    def _in_a_folder_too(self) -> None:
        """Delta tables are in the folder, and the catalog only names them."""
        if self.path is None:
            raise JobFileError(
                "is missing",
                field="path",
                way_out="Write where the tables' files go; the catalog will register them as "
                "external tables",
            )
        if self.options:
            raise JobFileError(
                "does not apply to Delta tables: Spark's configuration defines their catalog",
                field="options",
                way_out="Leave it out",
            )

    @property
    def lake(self) -> CatalogTables | None:
        """Where Iceberg tables are; None for Delta tables."""
        if self.catalog is None or self.schema_ is None or self.format == "delta":
            return None
        return CatalogTables(self.catalog, self.schema_, types.MappingProxyType(self.options))

    @property
    def entries(self) -> CatalogEntries | None:
        """Where Delta tables are registered; None if they are not."""
        if self.catalog is None or self.schema_ is None or self.format != "delta":
            return None
        return CatalogEntries(self.catalog, self.schema_)
