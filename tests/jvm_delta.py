"""Statements for Delta tables that Spark's own Delta Lake makes, tends and reads."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

#: The columns of the tables that `tests.store.by_hand` writes for.
COLUMNS = (
    "user_id STRING, window_start TIMESTAMP, window_end TIMESTAMP, events BIGINT, "
    "is_open BOOLEAN, date DATE"
)


def table_in(folder: Path) -> str:
    """The table in a folder as SQL names it."""
    return f"delta.`{folder}`"


def create(folder: Path, columns: str = COLUMNS, properties: str = "") -> str:
    """Makes a table, partitioned by date."""
    more = f"TBLPROPERTIES ({properties})" if properties else ""
    return f"CREATE TABLE {table_in(folder)} ({columns}) USING delta PARTITIONED BY (date) {more}"


def insert(folder: Path, key: str, date: str) -> str:
    """Adds a row."""
    return f"INSERT INTO {table_in(folder)} (user_id, date) VALUES ('{key}', DATE'{date}')"


def read(*folders: Path) -> str:
    """Reads the key and the date of every row of tables."""
    return " UNION ALL ".join(f"SELECT user_id, date FROM {table_in(folder)}" for folder in folders)


def read_versions(folder: Path, versions: Iterable[int]) -> str:
    """Reads the same from versions of a table, each row with its version."""
    name = table_in(folder)
    return " UNION ALL ".join(
        f"SELECT {number}, user_id, date FROM {name} VERSION AS OF {number}" for number in versions
    )
