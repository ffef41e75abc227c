"""Tables that are found by their folders, as in Iceberg's Java library with `type: hadoop`.

There is no server: a table is the folder of its name in the warehouse, and its newest version is
the file in `metadata` with the highest number. A commit writes the file with the next number if it
does not exist. pyiceberg has no such catalog. Source: Iceberg's spec, "File System Tables".
"""

from __future__ import annotations

import errno
import gzip
import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyiceberg.catalog import WAREHOUSE_LOCATION
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchTableError,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableResponse, CreateTableTransaction, StagedTable, Table
from pyiceberg.table.metadata import TableMetadataUtil, TableMetadataV1, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata
from pyiceberg.typedef import Identifier

from backfill.errors import TableError
from backfill.folders import Folder, LocalFolder, folder_at
from backfill.iceberg.snapshots import local_path
from backfill.printable import shown

_LOG = logging.getLogger(__name__)
#: Errors after which a link has certainly not been made; after others (network disks), it may be.
_NOTHING_DONE = frozenset(
    {
        *(errno.EPERM, errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EDQUOT),
        *(errno.EMLINK, errno.EXDEV, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOENT),
    }
)
#: The metadata that the first commit changes, before any rule of the format applies.
_NOTHING = TableMetadataV1.model_construct(last_column_id=-1, schema=Schema())
_VERSION = re.compile(r"v(\d+)(\.gz)?\.metadata\.json(\.gz)?")
#: Holds the number of a version that is or was the newest; readers look for higher ones.
_HINT = "version-hint.text"


class HadoopCatalog(NoopCatalog):
    """The tables below one folder; what neither runs nor sources need is not implemented.

    Args:
        name: the catalog's name.
        field: the setting that names it, for errors.
        properties: `warehouse`, the folder, and what pyiceberg needs for reading files.

    Raises:
        TableError: the warehouse is missing, or not a folder.
    """

    def __init__(self, name: str, field: str, properties: Mapping[str, str]) -> None:
        super().__init__(name, **properties)
        self._field = field
        self._location = properties.get(WAREHOUSE_LOCATION, "").rstrip("/")
        local = local_path(self._location)
        if local == "/" or (local is None and not re.match(r"[a-z0-9]+://[^/]", self._location)):
            raise TableError(
                "a catalog of type hadoop needs a warehouse: the absolute path or the URL of the "
                "folder of its tables",
                field=field,
                value=name,
                way_out="Set it beside the type, such as warehouse: file:///data/lake",
            )
        self._folder = folder_at(local or self._location, field)

    def check_writable(self) -> None:
        """Refuses a warehouse in which two commits at once could both be made.

        Raises:
            TableError: it is in an object store.
        """
        if not isinstance(self._folder, LocalFolder):
            raise TableError(
                "tables of a catalog of type hadoop can only be written on a disk: in an object "
                "store, one commit can overwrite another",
                field=self._field,
                value=shown(self._location),
                way_out="Use another type of catalog, or Delta tables (tables.path)",
            )

    def create_table_transaction(
        self,
        identifier: str | Identifier,
        schema: Any,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Mapping[str, str] = {},
    ) -> CreateTableTransaction:
        """A transaction that makes a table, which is always in the folder of its name."""
        name = self._named(identifier)
        location = "/".join([self._location, *name])
        metadata = new_table_metadata(
            schema=self._convert_schema_if_needed(schema),
            partition_spec=partition_spec,
            sort_order=sort_order,
            location=location,
            properties=dict(properties),
        )
        io = self._load_file_io(location=location)
        return CreateTableTransaction(StagedTable(name, metadata, f"{location}/metadata", io, self))

    def load_table(self, identifier: str | Identifier) -> Table:
        """The newest version of a table.

        Raises:
            NoSuchTableError: there is none.
        """
        name = self._named(identifier)
        folder = self._at(name) / "metadata"
        files = _versions(folder)
        if not files:
            raise NoSuchTableError(f"no table {'.'.join(name)} in {self._location}")
        newest = files[max(files)]
        content = folder.read(newest)
        if ".gz" in newest:
            content = gzip.decompress(content)
        metadata = TableMetadataUtil.parse_raw(content.decode())
        location = "/".join([self._location, *name, "metadata", newest])
        io = self._load_file_io(metadata.properties, location)
        return Table(name, metadata, location, io, self)

    def commit_table(
        self,
        table: Table,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> CommitTableResponse:
        """Writes the next version.

        Raises:
            CommitFailedException: a requirement is not met, or another writer came first.
        """
        name = self._named(table.name())
        try:
            now = self.load_table(name)
        except NoSuchTableError:
            now = None
        for requirement in requirements:
            requirement.validate(None if now is None else now.metadata)
        made = update_table_metadata(
            base_metadata=_NOTHING if now is None else now.metadata,
            updates=updates,
            enforce_validation=now is None,
            metadata_location=None if now is None else now.metadata_location,
        )
        number = 1
        if now is not None:
            number += _number(now.metadata_location.rpartition("/")[2]) or 0
        folder = self._at(name) / "metadata"
        assert isinstance(folder, LocalFolder)
        file = f"v{number}.metadata.json"
        _create(folder.local / file, made.model_dump_json(exclude_none=True).encode())
        try:
            folder.write(_HINT, str(number).encode())
            # Hadoop's checksum of the previous content.
            folder.delete([f".{_HINT}.crc"])
        except TableError as error:
            # The commit is made: readers look for higher numbers than the hint's.
            _LOG.warning("%s was not written: %s", folder / _HINT, error)
        location = "/".join([self._location, *name, "metadata", file])
        return CommitTableResponse.model_validate({"metadata": made, "metadata-location": location})

    def namespace_exists(self, namespace: str | Identifier) -> bool:
        """Whether there is a folder of this name that is not a table's."""
        folder = self._at(self._named(namespace))
        return not folder.missing([""]) and not _versions(folder / "metadata")

    def create_namespace(
        self, namespace: str | Identifier, properties: Mapping[str, str] = {}
    ) -> None:
        """Makes its folder.

        Raises:
            TableError: a folder that it is in, or its own, is a table's.
        """
        name = self._named(namespace)
        for length in range(1, len(name) + 1):
            if _versions(self._at(name[:length]) / "metadata"):
                raise TableError(
                    "there is a table of this name, and other tables can't be in its folder",
                    field=self._field,
                    value=".".join(name[:length]),
                    way_out="Publish into another schema",
                )
        self._at(name).make()

    def _named(self, identifier: str | Identifier) -> Identifier:
        """The parts of a name, each of them the name of a folder."""
        parts = self.identifier_to_tuple(identifier)
        if not all(parts) or any(set(part) & set("/\\") for part in parts):
            raise TableError(
                "in a catalog of type hadoop, each part of a name must be the name of a folder",
                field=self._field,
                value=shown(".".join(parts)),
                way_out="Write it like schema.table",
            )
        return parts

    def _at(self, name: Identifier) -> Folder:
        return self._folder / "/".join(name)


def _versions(metadata: Folder) -> dict[int, str]:
    """The names of a table's versions, by their numbers."""
    # If a version has several files, the uncompressed one counts, as in Iceberg's own library.
    names = sorted(metadata.names(), key=lambda name: ".gz" not in name)
    by_number = {_number(name): name for name in names}
    return {number: name for number, name in by_number.items() if number is not None}


def _number(name: str) -> int | None:
    """The number of a version's file; None for files of other kinds."""
    match = _VERSION.fullmatch(name)
    return int(match[1]) if match else None


def _create(path: Path, content: bytes) -> None:
    """Writes a file, as a whole, if it does not exist.

    Raises:
        CommitFailedException: it exists, or can't be written.
        CommitStateUnknownException: the disk does not say whether it has been written.
    """
    unfinished = path.with_name(f"{uuid4()}.metadata.json")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with unfinished.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise CommitFailedException(f"{path} can't be written: {error.strerror}") from None
    try:
        # Unlike a rename, it does not replace what another writer has just made.
        os.link(unfinished, path)
    except FileExistsError:
        raise CommitFailedException(f"another writer has made {path.name}") from None
    except OSError as error:
        problem = f"{path} can't be made by a hard link: {error.strerror}"
        if error.errno in _NOTHING_DONE:
            raise CommitFailedException(problem) from None
        raise CommitStateUnknownException(problem) from None
    finally:
        unfinished.unlink(missing_ok=True)
