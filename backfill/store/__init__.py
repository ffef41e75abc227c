"""Where results are kept: one protocol, for Delta tables in a folder or Iceberg tables."""

from backfill.store.catalogs import iceberg_store
from backfill.store.delta.store import DeltaStore
from backfill.store.file_bitmap import FileBitmap
from backfill.store.files.lookup import Bounds, key_value, look_up
from backfill.store.files.staging import StagedFile, StagedFiles
from backfill.store.protocol import (
    APART,
    FILE,
    Cleaned,
    Commit,
    DataFile,
    Staged,
    Store,
    Table,
)

__all__ = [
    "APART",
    "FILE",
    "Bounds",
    "Cleaned",
    "Commit",
    "DataFile",
    "DeltaStore",
    "FileBitmap",
    "Staged",
    "StagedFile",
    "StagedFiles",
    "Store",
    "Table",
    "iceberg_store",
    "key_value",
    "look_up",
]
