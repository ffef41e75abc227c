"""The log of an Iceberg table, as the store needs it: its snapshots, and their properties.

A version is a snapshot's sequence number less one, so it starts at 0. Versions grow but can have
gaps, because other branches of a table take numbers, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
    ValidationException,
)
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table, TableProperties, Transaction
from pyiceberg.table.snapshots import Snapshot

from backfill.errors import BackfillError, TableError
from backfill.folders import Folder, LocalFolder, folder_at
from backfill.iceberg.failures import answering, refused, said
from backfill.iceberg.schema import iceberg_schema, store_schema
from backfill.iceberg.snapshots import local_path, number, snapshots
from backfill.printable import shown
from backfill.store.files.commit import check_partitions
from backfill.store.files.log import RECORD, RUN_ID, CommitFailedError, FileChanges
from backfill.store.files.staging import StagedFiles
from backfill.store.iceberg.once import once
from backfill.store.iceberg.overwriting import Overwrite
from backfill.store.iceberg.snapshots import (
    DATA_CHANGE,
    PREFIX,
    RECORD_PROPERTY,
    IcebergVersion,
    as_commit,
    changes_of,
    mentioned,
    newest_record,
    partitioned_by,
)
from backfill.store.iceberg.writing import data_files, fit_schema, partitioning
from backfill.store.protocol import Commit

Identifier = tuple[str, ...]


class IcebergLog:
    """The log of one table of a catalog: `backfill.store.files.log.Log`.

    Args:
        catalog: the catalog.
        identifier: the table's name, after the parts of its namespace.
        properties: the properties that commits give to the table.
    """

    def __init__(
        self, catalog: Catalog, identifier: Identifier, properties: Mapping[str, str]
    ) -> None:
        self.catalog = catalog
        self.identifier = identifier
        self._properties = properties
        self.uncertain: set[str] = set()
        self._known: Table | None = None
        self._opened: IcebergVersion | None = None

    @property
    def name(self) -> str:
        """As `Log` has it."""
        return ".".join(self.identifier)

    @property
    def may_have_files(self) -> bool:
        """As `Log` has it."""
        with answering(self.name, self.catalog):
            return self.catalog.namespace_exists(self.identifier[:-1])

    @cached_property
    def folder(self) -> Folder:
        """As `Log` has it; the catalog says where a table will be.

        Raises:
            TableError: no table can be in that place, or the catalog does not answer.
        """
        location = self._place()
        path = local_path(location)
        if path is None and "://" in location:
            return folder_at(location, self.name)
        if path is None:
            raise TableError(
                "a table must be in a local folder, or at a URL of an object store",
                field=self.name,
                value=shown(location),
                way_out="Use a catalog with another warehouse, such as file:///data/lake",
            )
        if set(path) & set("#?"):
            raise TableError(
                "a table can't be in a folder with # or ? in its path",
                field=self.name,
                value=shown(location),
                way_out="Use a catalog whose warehouse is another folder",
            )
        return LocalFolder(Path(path))

    def forgotten(self, version: int) -> str | None:
        """As `Log` has it: a property of the table names the newest record."""
        table = self._known
        run, made = (None, -1) if table is None else newest_record(table)
        oldest = min(self.versions(), default=0)
        if run is None or oldest == 0:
            return None
        # A record of a later version, or of one that was rolled back, says nothing about this one.
        if made < oldest:
            return run
        raise TableError(
            "what this version has counted is not known any more: the snapshot that says it has "
            "expired",
            field=self.name,
            value=version,
            way_out="Use a newer version; if this is the newest one, drop the table and run the "
            "whole backfill",
        )

    def versions(self) -> list[int]:
        """As `Log` has it."""
        table = self._loaded()
        return (
            [] if table is None else [number(snapshot) for snapshot in reversed(snapshots(table))]
        )

    def since(self, version: int) -> list[int]:
        """As `Log` has it."""
        known = self.versions()
        if version >= 0 and version not in known:
            raise TableError(
                f"version {version} is no longer in the table's history: its snapshot has "
                "expired, or the table was rolled back",
                field=self.name,
                way_out="Run again.",
            )
        return [later for later in known if later > version]

    def commit(self, version: int) -> Commit:
        """As `Log` has it."""
        return as_commit(self._snapshot(version))

    def changes(self, version: int) -> FileChanges:
        """As `Log` has it."""
        snapshot = self._snapshot(version)
        assert self._known is not None
        return changes_of(self._known, snapshot)

    def mentioned(self) -> tuple[set[str], set[str]]:
        """As `Log` has it."""
        table = self._loaded()
        return (set(), set()) if table is None else mentioned(table)

    def open(self, version: int | None = None) -> IcebergVersion | None:
        """As `Log` has it; a table that nothing was ever published into does not count.

        A run opens it twice, at its start and to publish. If nothing has changed in between, the
        manifests are read only once.
        """
        table = self._loaded()
        if table is None or (current := table.current_snapshot()) is None:
            return None
        snapshot = current if version is None else self._snapshot(version)
        last = self._opened
        if last is None or (last.table, last.snapshot) != (table, snapshot):
            self._opened = last = IcebergVersion(table, snapshot)
        return last

    def write(
        self,
        below: IcebergVersion | None,
        staged: StagedFiles,
        removed: Sequence[str] | None,
        metadata: Mapping[str, str],
        *,
        data_change: bool,
    ) -> int:
        """As `Log` has it."""
        if below is None:
            return self._create(staged, metadata)
        gone = below.entries if removed is None else dict.fromkeys(removed)
        files = [below.entries[path] for path in gone]
        if removed is not None and store_schema(below.table.schema()) != staged.schema:
            raise TableError(
                "another writer has changed the table's columns",
                field=self.name,
                way_out="Run the whole backfill again, which sets the columns of the job.",
            )
        return self._replace(below.table, staged, files, metadata, data_change)

    def check_restore(self, below: IcebergVersion, version: int) -> None:
        """As `Log` has it."""
        old = IcebergVersion(below.table, self._snapshot(version))
        # The table's own schema: others can have changed its columns since the newest snapshot.
        if old.schema != store_schema(below.table.schema()):
            raise TableError(
                "the table has other columns now, and an Iceberg table can't go back to old ones",
                field=self.name,
                value=version,
                way_out="Restore a version with the columns that it has now, or run the whole "
                "backfill with the job file as it was",
            )

    def restore(self, below: IcebergVersion, version: int, metadata: Mapping[str, str]) -> int:
        """As `Log` has it."""
        old = IcebergVersion(below.table, self._snapshot(version))
        back = [file for path, file in old.entries.items() if path not in below.entries]
        gone = [file for path, file in below.entries.items() if path not in old.entries]

        def change(transaction: Transaction) -> None:
            _overwrite(transaction, back, gone, metadata, True)

        return self._committed(once(below.table).transaction(), change, metadata)

    def _create(self, staged: StagedFiles, metadata: Mapping[str, str]) -> int:
        table = self._loaded()
        if table is None:

            def fill(transaction: Transaction) -> None:
                _name_columns(transaction)
                _overwrite(transaction, self._added(staged, transaction), [], metadata, True)

            return self._committed(self._new(staged), fill, metadata)
        if table.current_snapshot() is not None:
            raise CommitFailedError("another run has made the table")
        # Someone has made the table beforehand, perhaps with properties of their own.
        check_partitions(partitioned_by(table), staged)
        return self._replace(table, staged, [], metadata, True)

    def _replace(
        self,
        table: Table,
        staged: StagedFiles,
        removed: Sequence[DataFile],
        metadata: Mapping[str, str],
        data_change: bool,
    ) -> int:
        def change(transaction: Transaction) -> None:
            schema = table.schema()
            required = any(field.required for field in schema.fields)
            if required or store_schema(schema) != staged.schema:
                with transaction.update_schema(allow_incompatible_changes=True) as update:
                    fit_schema(update, schema, staged.schema, self.name)
            if TableProperties.DEFAULT_NAME_MAPPING not in table.properties:
                _name_columns(transaction)
            added = self._added(staged, transaction)
            _overwrite(transaction, added, removed, metadata, data_change)

        return self._committed(once(table).transaction(), change, metadata)

    def _place(self) -> str:
        """Where the table is, or will be."""
        table = self._known or self._loaded()
        if table is None:
            try:
                return self._new().table_metadata.location
            except CommitFailedError as error:
                # Another run has made it meanwhile.
                table = self._loaded()
                if table is None:
                    raise TableError(
                        f"the catalog does not create the table: {error}",
                        field=self.name,
                        way_out="Publish into another schema, or remove what has its name",
                    ) from None
        return table.location()

    def _new(self, staged: StagedFiles | None = None) -> Transaction:
        """A transaction that makes the table; its namespace is made at once.

        Raises:
            CommitFailedError: the table exists already: some catalogs check that at once.
        """
        namespace = self.identifier[:-1]
        with answering(self.name, self.catalog):
            if not self.catalog.namespace_exists(namespace):
                try:
                    self.catalog.create_namespace_if_not_exists(namespace)
                except Exception:
                    # Catalogs fail in different ways if another run has just made the namespace.
                    if not self.catalog.namespace_exists(namespace):
                        raise
            try:
                if staged is None:
                    return self.catalog.create_table_transaction(self.identifier, Schema())
                schema = iceberg_schema(staged.schema)
                return self.catalog.create_table_transaction(
                    self.identifier,
                    schema,
                    location=_location(self.folder),
                    partition_spec=partitioning(schema, staged.partition_by),
                )
            except TableAlreadyExistsError as error:
                known = said(error, self.catalog)
        raise CommitFailedError(known)

    def _committed(
        self,
        transaction: Transaction,
        change: Callable[[Transaction], None],
        metadata: Mapping[str, str],
    ) -> int:
        """The version that a transaction makes."""
        try:
            if self._properties:
                transaction.set_properties(dict(self._properties))
            change(transaction)
        except BackfillError:
            raise
        except Exception as error:
            raise CommitFailedError(said(error, self.catalog)) from None
        made = transaction.table_metadata.current_snapshot()
        assert made is not None
        try:
            transaction.commit_transaction()
        except (CommitFailedException, ValidationException, TableAlreadyExistsError) as error:
            raise CommitFailedError(said(error, self.catalog)) from None
        except Exception as error:
            if refused(error):
                raise CommitFailedError(said(error, self.catalog)) from None
            self.uncertain.add(metadata[RUN_ID])
            raise TableError(
                f"it is not known whether the commit was made: {said(error, self.catalog)}",
                field=self.name,
                way_out="Check with `backfill history`, and run again if it was not; `backfill "
                "clean` then removes the files",
            ) from None
        return number(made)

    def _added(self, staged: StagedFiles, transaction: Transaction) -> list[DataFile]:
        return list(data_files(staged, self.folder, transaction.table_metadata))

    def _snapshot(self, version: int) -> Snapshot:
        table = self._known
        for _ in range(2):
            for snapshot in [] if table is None else snapshots(table):
                if number(snapshot) == version:
                    return snapshot
            table = self._loaded()
        raise TableError(
            f"the table has no version {version}",
            field=self.name,
            way_out="`backfill history` lists its versions.",
        )

    def _loaded(self) -> Table | None:
        """The table as it is now; None if there is none."""
        with answering(self.name, self.catalog):
            try:
                table = self.catalog.load_table(self.identifier)
            except (NoSuchTableError, NoSuchNamespaceError):
                self._known = None
                return None
        if table.format_version != 2:
            raise TableError(
                "only tables of Iceberg's format version 2 can be written",
                field=self.name,
                value=table.format_version,
                way_out="Set its property format-version to 2, or publish into another table",
            )
        self._known = table
        return table


def _location(folder: Folder) -> str:
    return f"file://{folder}" if isinstance(folder, LocalFolder) else folder.uri


def _name_columns(transaction: Transaction) -> None:
    """Lets readers find the columns of our files by name, since these have no ids."""
    names = transaction.table_metadata.schema().name_mapping.model_dump_json()
    transaction.set_properties({TableProperties.DEFAULT_NAME_MAPPING: names})


def _overwrite(
    transaction: Transaction,
    added: Sequence[DataFile],
    removed: Sequence[DataFile],
    metadata: Mapping[str, str],
    data_change: bool,
) -> None:
    named = {f"{PREFIX}{name}": value for name, value in metadata.items()}
    if not data_change:
        named[DATA_CHANGE] = "false"
    with Overwrite(transaction, named) as snapshot:
        for file in added:
            snapshot.append_data_file(file)
        for file in removed:
            snapshot.delete_data_file(file)
    made = transaction.table_metadata.current_snapshot()
    assert made is not None
    record = json.dumps({"run": metadata[RECORD], "version": number(made)})
    transaction.set_properties({RECORD_PROPERTY: record})
