"""The log of an Iceberg table, as the store needs it: its snapshots, and their properties.

A version is the sequence number of a snapshot, from 0 on, so versions grow and need not follow each
other without a gap: other branches of a table have some, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table, TableProperties, Transaction
from pyiceberg.table.snapshots import Snapshot

from backfill.errors import BackfillError, TableError
from backfill.printable import shown
from backfill.store.files.log import RECORD, CommitFailedError, FileChanges
from backfill.store.files.names import first_line
from backfill.store.files.staging import StagedFiles
from backfill.store.iceberg.schema import iceberg_schema, store_schema
from backfill.store.iceberg.snapshots import (
    DATA_CHANGE,
    PREFIX,
    RECORD_PROPERTY,
    IcebergVersion,
    as_commit,
    changes_of,
    local_path,
    mentioned,
    number,
    partitioned_by,
    snapshots,
)
from backfill.store.iceberg.writing import data_files, fit_schema, partitioning
from backfill.store.protocol import Commit

Identifier = tuple[str, ...]


class IcebergLog:
    """The log of one table of a catalog: `backfill.store.files.log.Log`.

    Args:
        catalog: the catalog.
        identifier: the table, after its namespace.
    """

    def __init__(self, catalog: Catalog, identifier: Identifier) -> None:
        self.catalog = catalog
        self.identifier = identifier
        self._known: Table | None = None

    @cached_property
    def folder(self) -> Path:
        """As `Log` has it; the catalog says where a table will be.

        Raises:
            TableError: it is not on a local disk, or the catalog does not answer.
        """
        table = self._loaded()
        location = self._new().table_metadata.location if table is None else table.location()
        path = local_path(location)
        if path is None:
            raise TableError(
                "tables of a catalog have to be on a local or mounted disk so far",
                field=self._name,
                value=shown(location),
                way_out="Use a catalog whose warehouse is a folder, such as file:///data/lake",
            )
        return Path(path)

    @property
    def forgotten(self) -> str | None:
        """As `Log` has it: a property of the table names the newest record."""
        table = self._known
        if table is None or any(RECORD in as_commit(each).metadata for each in snapshots(table)):
            return None
        return table.properties.get(RECORD_PROPERTY) or None

    def versions(self) -> list[int]:
        """As `Log` has it."""
        table = self._loaded()
        return [] if table is None else [number(each) for each in reversed(snapshots(table))]

    def since(self, version: int) -> list[int]:
        """As `Log` has it."""
        known = self.versions()
        if version >= 0 and version not in known:
            raise TableError(
                f"version {version} is in the table's history no longer: its snapshot has "
                "expired, or the table was rolled back",
                field=self._name,
                way_out="Nothing was published. Run again.",
            )
        return [each for each in known if each > version]

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
        """As `Log` has it; a table that nothing was ever published into is none."""
        table = self._loaded()
        if table is None or (current := table.current_snapshot()) is None:
            return None
        return IcebergVersion(table, current if version is None else self._snapshot(version))

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
        fits = removed is not None
        return self._replace(below.table, staged, files, metadata, fits, data_change)

    def restore(self, below: IcebergVersion, version: int, metadata: Mapping[str, str]) -> int:
        """As `Log` has it."""
        old = IcebergVersion(below.table, self._snapshot(version))
        if old.schema != below.schema:
            raise TableError(
                "the table has other columns since, and an Iceberg table can't bring back those "
                "that it has dropped",
                field=self._name,
                value=version,
                way_out="Restore a version with the columns that it has now, or run the whole "
                "backfill with the job file as it was",
            )
        back = [each for path, each in old.entries.items() if path not in below.entries]
        gone = [each for path, each in below.entries.items() if path not in old.entries]

        def change(transaction: Transaction) -> None:
            _overwrite(transaction, back, gone, metadata, True)

        return self._committed(below.table, change, metadata)

    def _create(self, staged: StagedFiles, metadata: Mapping[str, str]) -> int:
        table = self._loaded()
        if table is not None:
            # Somebody has made it, perhaps with properties of their own.
            if partitioned_by(table) != staged.partition_by:
                raise TableError(
                    "the table is partitioned by other columns: "
                    + (", ".join(partitioned_by(table)) or "none"),
                    field=self._name,
                    value=staged.partition_by,
                    way_out="Drop it, or publish elsewhere.",
                )
            return self._replace(table, staged, [], metadata, False, True)
        with _failing():
            transaction = self._new(staged)
            mapping = transaction.table_metadata.schema().name_mapping.model_dump_json()
            transaction.set_properties({TableProperties.DEFAULT_NAME_MAPPING: mapping})
            added = data_files(staged, transaction.table_metadata)
            _overwrite(transaction, list(added), [], metadata, True)
            transaction.commit_transaction()
        return self._made(metadata)

    def _replace(
        self,
        table: Table,
        staged: StagedFiles,
        removed: Sequence[DataFile],
        metadata: Mapping[str, str],
        fits: bool,
        data_change: bool,
    ) -> int:
        """Adds files and removes others; `fits`: they have the table's columns."""

        def change(transaction: Transaction) -> None:
            if not fits and store_schema(table.schema()) != staged.schema:
                with transaction.update_schema(allow_incompatible_changes=True) as update:
                    fit_schema(update, table.schema(), staged.schema, self._name)
            if TableProperties.DEFAULT_NAME_MAPPING not in table.properties:
                mapping = transaction.table_metadata.schema().name_mapping.model_dump_json()
                transaction.set_properties({TableProperties.DEFAULT_NAME_MAPPING: mapping})
            added = data_files(staged, transaction.table_metadata)
            _overwrite(transaction, list(added), removed, metadata, data_change)

        return self._committed(table, change, metadata)

    def _new(self, staged: StagedFiles | None = None) -> Transaction:
        """What would make the table."""
        namespace = self.identifier[:-1]
        try:
            self.catalog.create_namespace_if_not_exists(namespace)
            if staged is None:
                return self.catalog.create_table_transaction(self.identifier, Schema())
            schema = iceberg_schema(staged.schema)
            return self.catalog.create_table_transaction(
                self.identifier,
                schema,
                location=f"file://{self.folder}",
                partition_spec=partitioning(schema, staged.partition_by),
            )
        except TableAlreadyExistsError as error:
            raise CommitFailedError(first_line(error)) from error
        except Exception as error:
            raise unanswered(self._name, error) from error

    def _committed(
        self, table: Table, change: Callable[[Transaction], None], metadata: Mapping[str, str]
    ) -> int:
        # Its own retries would go on top of commits that contradict this one. They are a property
        # of the table, for other writers too, so it is set in this copy alone.
        once = {**table.properties, TableProperties.COMMIT_NUM_RETRIES: "0"}
        alone = Table(
            table.name(),
            table.metadata.model_copy(update={"properties": once}),
            table.metadata_location,
            table.io,
            table.catalog,
        )
        transaction = alone.transaction()
        with _failing():
            change(transaction)
            transaction.commit_transaction()
        return self._made(metadata)

    def _made(self, metadata: Mapping[str, str]) -> int:
        """The version of the run with this metadata, which has just been committed."""
        table = self._loaded()
        assert table is not None
        return next(
            number(each) for each in snapshots(table) if as_commit(each).metadata == metadata
        )

    def _snapshot(self, version: int) -> Snapshot:
        for table in (self._known, self._loaded):
            loaded = table() if callable(table) else table
            for each in [] if loaded is None else snapshots(loaded):
                if number(each) == version:
                    return each
        raise TableError(
            f"the table has no version {version}",
            field=self._name,
            way_out="`backfill history` lists its versions.",
        )

    def _loaded(self) -> Table | None:
        """The table as it is now; None where there is none."""
        try:
            found = self.catalog.load_table(self.identifier)
        except (NoSuchTableError, NoSuchNamespaceError):
            self._known = None
            return None
        except Exception as error:
            raise unanswered(self._name, error) from error
        if found.format_version != 2:
            raise TableError(
                "only tables of Iceberg's format version 2 are written",
                field=self._name,
                value=found.format_version,
                way_out="Set its property format-version to 2, or publish into another table",
            )
        self._known = found
        return found

    @property
    def _name(self) -> str:
        return ".".join(self.identifier)


def unanswered(field: str, error: Exception) -> TableError:
    """What is said where a catalog fails; its library's errors have no type in common."""
    return TableError(f"the catalog fails: {shown(first_line(error))}", field=field)


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
    with transaction.update_snapshot(snapshot_properties=named).overwrite() as snapshot:
        for each in added:
            snapshot.append_data_file(each)
        for each in removed:
            snapshot.delete_data_file(each)
    transaction.set_properties({RECORD_PROPERTY: metadata[RECORD]})


@contextmanager
def _failing() -> Iterator[None]:
    """Whatever a library of a catalog raises, the log then shows whether there was a commit."""
    try:
        yield
    except (BackfillError, CommitFailedError):
        raise
    except Exception as error:
        raise CommitFailedError(shown(first_line(error))) from error
