"""A catalog of Iceberg tables in a folder."""

from __future__ import annotations

from pathlib import Path

from backfill.store import DeltaStore
from backfill.store.files.store import FileStore
from backfill.store.iceberg.store import IcebergStore


def options(folder: Path) -> dict[str, str]:
    """A catalog in SQLite whose tables are in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return {
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": f"file://{folder}/warehouse",
    }


def lake(folder: Path) -> IcebergStore:
    """Tables of the namespace `web` in such a catalog."""
    return IcebergStore("lake", "web", options(folder))


def store_in(folder: Path | str) -> FileStore:
    """Iceberg tables in a folder named lake, Delta tables in others and at URLs."""
    if isinstance(folder, Path) and folder.name == "lake":
        return lake(folder)
    return DeltaStore(folder)
