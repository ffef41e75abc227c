"""Catalogs of Iceberg tables: two in folders, and those that are servers."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from pyiceberg.catalog import Catalog

from backfill.store import DeltaStore
from backfill.store.files.store import FileStore
from backfill.store.iceberg.store import IcebergStore

#: The catalogs that are servers: `tests.catalog_servers`.
SERVED = ("rest", "glue", "hive")


def options(folder: Path) -> dict[str, str]:
    """A catalog in SQLite whose tables are in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return {
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": f"file://{folder}/warehouse",
    }


def hadoop_options(folder: Path) -> dict[str, str]:
    """A catalog that is only the folder."""
    return {"type": "hadoop", "warehouse": f"file://{folder}"}


def lake(folder: Path) -> IcebergStore:
    """Tables of the namespace `web` in such a catalog."""
    return IcebergStore("lake", "web", options(folder))


def lake_with_sources(folder: Path) -> Catalog:
    """Such a catalog, with the namespace `raw`, in which tables of events are."""
    made = lake(folder).catalog
    made.create_namespace("raw")
    return made


def store_in(folder: Path | str) -> FileStore:
    """Iceberg tables in a folder named lake, hadoop, or like a server; Delta tables elsewhere.

    Those of a server are in a namespace of the folder's own, and not in the folder.
    """
    if isinstance(folder, Path) and folder.name == "lake":
        return lake(folder)
    if isinstance(folder, Path) and folder.name == "hadoop":
        return IcebergStore("hadoop", "web", hadoop_options(folder))
    if isinstance(folder, Path) and folder.name in SERVED:
        own = sha256(str(folder).encode()).hexdigest()[:12]
        return IcebergStore(folder.name, f"web_{own}")
    return DeltaStore(folder)
