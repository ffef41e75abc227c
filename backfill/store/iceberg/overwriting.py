"""The commit that adds and removes files of an Iceberg table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock

from pyiceberg.manifest import ManifestFile
from pyiceberg.table import TableProperties, Transaction
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _ManifestMergeManager, _OverwriteFiles
from pyiceberg.utils.properties import property_as_bool, property_as_int

from backfill.iceberg.snapshots import has_files


class Overwrite(_OverwriteFiles):
    """The library's own commit, which also keeps manifests few, as Iceberg's other libraries do.

    Each run adds a manifest of the files that it adds, and one of those that it removes. Without
    merging, every later run would read all of the former and carry along the latter.

    Args:
        transaction: the transaction that the commit is part of.
        properties: the snapshot's properties.
    """

    def __init__(self, transaction: Transaction, properties: Mapping[str, str]) -> None:
        first = transaction.table_metadata.current_snapshot() is None
        super().__init__(
            Operation.APPEND if first else Operation.OVERWRITE,
            transaction,
            transaction._table.io,
            snapshot_properties=dict(properties),
        )

    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        properties = self._transaction.table_metadata.properties
        size = property_as_int(
            properties,
            TableProperties.MANIFEST_TARGET_SIZE_BYTES,
            TableProperties.MANIFEST_TARGET_SIZE_BYTES_DEFAULT,
        )
        count = property_as_int(
            properties,
            TableProperties.MANIFEST_MIN_MERGE_COUNT,
            TableProperties.MANIFEST_MIN_MERGE_COUNT_DEFAULT,
        )
        # By default this library does not merge manifests, but Iceberg does.
        wanted = property_as_bool(properties, TableProperties.MANIFEST_MERGE_ENABLED, True)
        assert size is not None
        assert count is not None
        own = [
            manifest
            for manifest in manifests
            if has_files(manifest) or manifest.added_snapshot_id == self.snapshot_id
        ]
        return _ManifestMergeManager(size, count, wanted, self).merge_manifests(own)

    def _build_manifest_evaluator(self, spec_id: int) -> Callable[[ManifestFile], bool]:
        """The library calls it in several threads, but it can serve only one at a time."""
        evaluate, lock = super()._build_manifest_evaluator(spec_id), Lock()

        def one_by_one(manifest: ManifestFile) -> bool:
            with lock:
                return evaluate(manifest)

        return one_by_one
