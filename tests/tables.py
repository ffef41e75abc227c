"""What tests look up in the tables of any store, by name."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from backfill.folders import LocalFolder
from backfill.store import Commit, DataFile, Store
from backfill.store.files.store import FileStore


def version_of(store: Store, name: str) -> int | None:
    """The newest version; None where there is no table."""
    table = store.open(name)
    return None if table is None else table.version


def files_of(store: Store, name: str, version: int | None = None) -> Sequence[DataFile]:
    """The files of a version, with their statistics; none where there is no table."""
    table = store.open(name, version)
    return () if table is None else table.files


def paths_of(store: Store, name: str, version: int | None = None) -> list[str]:
    """The paths of these files, as `publish(replace=...)` takes them."""
    return [file.path for file in files_of(store, name, version)]


def commits_of(store: Store, name: str) -> Sequence[Commit]:
    """The commits, newest first; none where there is no table."""
    table = store.open(name)
    return () if table is None else table.commits


def record_of(store: Store, name: str, version: int | None = None) -> dict[str, Any] | None:
    """What a version has counted; None if that was not recorded, or where there is no table."""
    table = store.open(name, version)
    return None if table is None else table.record


def rows_of(
    store: Store,
    spark: SparkSession,
    name: str,
    version: int | None = None,
    files: Collection[str] | None = None,
) -> DataFrame:
    """The rows of a version, or of some of its files."""
    table = store.open(name, version)
    assert table is not None, f"there is no table {name}"
    return table.read(spark, files)


def folder_of(store: FileStore, name: str = "sessions") -> Path:
    """The folder of a table on the local disk."""
    folder = store.log(name).folder
    assert isinstance(folder, LocalFolder)
    return folder.local
