"""The log of a Delta table, as the store needs it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError as Refused
from deltalake.exceptions import DeltaError

from backfill.errors import TableError
from backfill.folders import Folder, at_once, is_url
from backfill.printable import one_line
from backfill.store.delta import writing
from backfill.store.delta.data_files import live_with_statistics
from backfill.store.delta.entries import read_changes, read_commit, versions
from backfill.store.delta.opening import live_files, open_table
from backfill.store.delta.writable import check_writable
from backfill.store.files.log import RECORD, CommitFailedError, FileChanges, newest
from backfill.store.files.record import expired_records
from backfill.store.files.staging import StagedFiles
from backfill.store.protocol import Commit, DataFile

_log = logging.getLogger(__name__)


class DeltaVersion:
    """One version: `backfill.store.files.log.Version`."""

    def __init__(self, folder: Folder, table: DeltaTable) -> None:
        self._folder = folder
        self.table = table
        self.number = table.version()

    @cached_property
    def schema(self) -> str:
        """As `Version` has it."""
        return self.table.schema().to_json()

    @cached_property
    def partition_by(self) -> tuple[str, ...]:
        """As `Version` has it."""
        return tuple(self.table.metadata().partition_columns)

    @cached_property
    def live(self) -> Mapping[str, int]:
        """As `Version` has it."""
        return live_files(self._folder, self.table)

    #: None of Delta's files contains the partition columns.
    whole: Collection[str] = ()

    def statistics(self) -> tuple[DataFile, ...]:
        """As `Version` has it."""
        return live_with_statistics(self._folder, self.table)

    def check_writable(self) -> None:
        """As `Table` has it."""
        check_writable(self._folder, self.table)


class DeltaLog:
    """The log in a table's folder: `backfill.store.files.log.Log`."""

    may_have_files = True

    def __init__(self, folder: Folder, properties: Mapping[str, str]) -> None:
        self.folder = folder
        self.uncertain: set[str] = set()
        self._properties = properties
        self._commits: dict[int, Commit] = {}

    @property
    def name(self) -> str:
        """As `Log` has it."""
        return str(self.folder)

    def forgotten(self, version: int) -> None:
        """As `Log` has it: a table that others have made lets old commits expire."""
        if not expired_records(self):
            return
        raise TableError(
            "what this version has counted is not known any more: the commit that says it has "
            "expired",
            field=self.name,
            value=version,
            way_out="Move the table away or drop it, and run the whole backfill. Set the table's "
            "delta.enableExpiredLogCleanup to false, or its delta.logRetentionDuration to longer "
            "than the time between runs",
        )

    def versions(self) -> list[int]:
        """As `Log` has it."""
        return versions(self.folder)

    def since(self, version: int) -> list[int]:
        """As `Log` has it; a missing version among them is an error when it is read."""
        return list(range(version + 1, newest(self) + 1))

    def commit(self, version: int) -> Commit:
        """As `Log` has it; a commit is read once."""
        if version not in self._commits:
            self._commits[version] = read_commit(self.folder, version)
        return self._commits[version]

    def changes(self, version: int) -> FileChanges:
        """As `Log` has it."""
        return read_changes(self.folder, version)

    def mentioned(self) -> tuple[set[str], set[str]]:
        """As `Log` has it."""
        table = self.open()
        files = set() if table is None else set(table.live)
        records = set()
        versions = self.versions()
        for changes in at_once(self.changes, versions):
            files |= changes.added | changes.removed
        for commit in at_once(self.commit, versions):
            run_id = commit.metadata.get(RECORD)
            if run_id:
                records.add(run_id)
        return files, records

    def open(self, version: int | None = None) -> DeltaVersion | None:
        """As `Log` has it."""
        table = open_table(self.folder, version)
        return None if table is None else DeltaVersion(self.folder, table)

    def write(
        self,
        below: DeltaVersion | None,
        staged: StagedFiles,
        removed: Sequence[str] | None,
        metadata: Mapping[str, str],
        *,
        data_change: bool,
    ) -> int | None:
        """As `Log` has it."""
        properties = writing.commit_properties(metadata)
        try:
            if below is None:
                writing.create(self.folder, staged, properties)
                self._set_properties()
                return 0
            below.check_writable()
            if writing.set_properties(below.table, self._properties):
                return None
            if removed is None:
                if writing.allow_types(below.table, staged):
                    return None
                writing.overwrite(below.table, staged, properties)
            else:
                writing.exchange(self.folder, below.table, staged, removed, properties, data_change)
        except (DeltaError, OSError) as error:
            if is_url(self.folder.uri) and not isinstance(error, Refused):
                # An object store can still carry out a request that we have given up.
                self.uncertain.add(staged.run_id)
            raise CommitFailedError(one_line(error)) from error
        return below.number + 1

    def _set_properties(self) -> None:
        """Gives a new table its properties; the run that made it does not depend on that."""
        if not self._properties:
            return
        try:
            made = DeltaTable(self.folder.uri, storage_options=dict(self.folder.options))
            writing.set_properties(made, self._properties)
        except (DeltaError, OSError) as error:
            _log.warning(
                "%s: the next run sets the table's properties: %s", self.name, one_line(error)
            )

    def check_restore(self, below: DeltaVersion, version: int) -> None:
        """As `Log` has it."""
        below.check_writable()

    def restore(self, below: DeltaVersion, version: int, metadata: Mapping[str, str]) -> int:
        """As `Log` has it."""
        properties = writing.commit_properties(metadata)
        try:
            below.table.restore(version, commit_properties=properties)
        except (DeltaError, OSError) as error:
            raise CommitFailedError(one_line(error)) from error
        return below.number + 1
