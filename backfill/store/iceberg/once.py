"""A commit that is tried once; then the catalog is asked whether it was made."""

from __future__ import annotations

from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.update import AddSnapshotUpdate, TableRequirement, TableUpdate

from backfill.iceberg.failures import refused


class OnceTable(Table):
    """A table whose commits are not made twice, and not undone if they were made.

    Amazon's library sends a commit again if no answer comes. If the first one was made, the second
    is refused; pyiceberg would take the commit as failed and delete its manifests.
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
                # For any other error, the library would delete the manifests of the commit.
                raise CommitStateUnknownException(str(error)) from None
            added = [update for update in updates if isinstance(update, AddSnapshotUpdate)]
            known = {snapshot.snapshot_id for snapshot in self.snapshots()}
            if added and known.issuperset(update.snapshot.snapshot_id for update in added):
                return
            if refused(error):
                # The library then deletes the manifests that it has written.
                raise CommitFailedException(str(error)) from None
            raise


def once(table: Table) -> OnceTable:
    """The table as the library should see it during a commit; the real table keeps everything.

    It has no retries, because they would go on top of commits that contradict this one; for other
    writers, this property of the table stays. And it has no older snapshots, because the library
    copies them some twenty times per commit.
    """
    current = table.current_snapshot()
    changed = {
        "properties": {**table.properties, TableProperties.COMMIT_NUM_RETRIES: "0"},
        "snapshots": [] if current is None else [current],
        "snapshot_log": [],
    }
    metadata = table.metadata.model_copy(update=changed)
    return OnceTable(table.name(), metadata, table.metadata_location, table.io, table.catalog)
