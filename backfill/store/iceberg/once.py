"""A commit that is tried once: whether it was made is for the catalog to say."""

from __future__ import annotations

from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.update import AddSnapshotUpdate, TableRequirement, TableUpdate

from backfill.iceberg.failures import refused


class OnceTable(Table):
    """A table whose commits are not made twice, and not undone if they were made.

    Amazon's library sends a commit again if no answer comes. Where the first one was made, the
    second is refused, and pyiceberg would delete the manifests of a commit that it takes as failed.
    """

    def _do_commit(
        self, updates: tuple[TableUpdate, ...], requirements: tuple[TableRequirement, ...]
    ) -> None:
        try:
            super()._do_commit(updates, requirements)
        except Exception as error:
            try:
                self.refresh()
            except Exception:
                # The library would delete the manifests of a commit that has failed.
                raise CommitStateUnknownException(str(error)) from None
            added = [each for each in updates if isinstance(each, AddSnapshotUpdate)]
            known = {each.snapshot_id for each in self.snapshots()}
            if added and known.issuperset(each.snapshot.snapshot_id for each in added):
                return
            if refused(error):
                # The library then deletes the manifests that it has written.
                raise CommitFailedException(str(error)) from None
            raise


def once(table: Table) -> OnceTable:
    """The table as the library is to see it during a commit, which is made on the whole table.

    Without its retries, which go on top of commits that contradict this one: they are a property of
    the table, for other writers too. And without older snapshots: the library copies them some
    twenty times a commit.
    """
    current = table.current_snapshot()
    changed = {
        "properties": {**table.properties, TableProperties.COMMIT_NUM_RETRIES: "0"},
        "snapshots": [] if current is None else [current],
        "snapshot_log": [],
    }
    metadata = table.metadata.model_copy(update=changed)
    return OnceTable(table.name(), metadata, table.metadata_location, table.io, table.catalog)
