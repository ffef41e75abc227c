"""A commit that is tried once: whether it was made is for the catalog to say."""

from __future__ import annotations

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.update import AddSnapshotUpdate, TableRequirement, TableUpdate


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
        except CommitFailedException:
            self.refresh()
            added = [each for each in updates if isinstance(each, AddSnapshotUpdate)]
            known = {each.snapshot_id for each in self.snapshots()}
            if not added or not known.issuperset(each.snapshot.snapshot_id for each in added):
                raise


def once(table: Table) -> OnceTable:
    """The table without the library's retries, which go on top of commits that contradict this one.

    They are a property of the table, for other writers too, so it is set in this copy alone.
    """
    properties = {**table.properties, TableProperties.COMMIT_NUM_RETRIES: "0"}
    metadata = table.metadata.model_copy(update={"properties": properties})
    return OnceTable(table.name(), metadata, table.metadata_location, table.io, table.catalog)
