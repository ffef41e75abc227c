"""The embedded tables of a job: Delta Lake tables in one folder, local or of an object store.

Spark writes the files, and the `deltalake` library commits them: no extra jar is needed, and any
Delta reader can open the tables.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from backfill.folders import Folder, folder_at
from backfill.store.delta.log import DeltaLog
from backfill.store.files.names import checked_name
from backfill.store.files.store import FileStore


class DeltaStore(FileStore):
    """The tables of one job, each a Delta table in a folder of its name.

    Args:
        root: the folder.
        properties: the tables' properties; a separate commit sets those that a table lacks.
        sort_by: as for `FileStore`.
    """

    way_to_delete = (
        "Delta Lake's VACUUM deletes the files that the newest version has not had for a week, or "
        "for the table's delta.deletedFileRetentionDuration."
    )

    def __init__(
        self,
        root: str | os.PathLike[str],
        properties: Mapping[str, str] = {},
        sort_by: tuple[str, ...] = (),
    ) -> None:
        super().__init__(properties, sort_by)
        self.root = folder_at(root)

    def folder(self, name: str) -> Folder:
        """The folder of a table, whether the table exists or not."""
        return self.root / checked_name(name, "table")

    def log(self, name: str) -> DeltaLog:
        """As `FileStore` has it."""
        return DeltaLog(self.folder(name), self.properties)
