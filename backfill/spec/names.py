"""Checks of names in a job file: they become columns and folders, and some are taken."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from backfill.columns import FIRST_EVENT, LAST_EVENT, RESERVED
from backfill.errors import JobFileError, TableError
from backfill.folders import check_no_keys, folder_at, is_url
from backfill.windows import AnyWindow, CountWindow, SessionWindow, by_place

TABLES = frozenset({"builtin", "events", "quarantine", "reconciliation"})
_WINDOW = re.compile(r"[A-Za-z0-9-][A-Za-z0-9_-]*", re.ASCII)
_AGGREGATE = re.compile(r"[\w-]+")
_TAKEN = "is a name reserved for the tables' own columns"


def check_key(columns: tuple[str, ...]) -> tuple[str, ...]:
    """The key's columns; none of them may be a column that the tables have anyway."""
    for name in columns:
        if _is_ours(name):
            way_out = "Rename the column in the source, or select it under another name"
            raise JobFileError(_TAKEN, value=name, way_out=way_out)
    check_distinct(columns)
    return columns


def check_aggregate(name: str, key: Sequence[str]) -> str:
    """An aggregate's name, which becomes a column."""
    if _is_ours(name):
        raise JobFileError(_TAKEN, way_out="Choose another")
    if name.lower() in (column.lower() for column in key):
        raise JobFileError("is already a key column", way_out="Choose another name")
    if not _AGGREGATE.fullmatch(name):
        raise JobFileError("can't be used as a column name", way_out="Use letters, digits, _ and -")
    return name


def check_id(id: str | None, key: Sequence[str], aggregates: Iterable[str]) -> None:
    """The events' id, which is a column of tables with a row for each event."""
    if id is None or id in key:
        return
    if _is_ours(id):
        way_out = "Rename the column in the source, or select it under another name"
        raise JobFileError(f"the id {id!r} {_TAKEN}", way_out=way_out)
    if id.lower() in (name.lower() for name in aggregates):
        raise JobFileError(
            f"{id!r} names both an aggregate and the events' id, and the table has both columns",
            field="aggregates",
            way_out="Choose another name for the aggregate",
        )


def check_numbers(window: AnyWindow, key: Sequence[str], aggregates: Iterable[str]) -> None:
    """The numbers of the first and last event, which are columns of tables of count windows."""
    if not isinstance(window, CountWindow):
        return
    for name in aggregates:
        if name.lower() in (FIRST_EVENT, LAST_EVENT):
            raise JobFileError(_TAKEN, field=f"aggregates.{name}", way_out="Choose another")
    for name in key:
        if name.lower() in (FIRST_EVENT, LAST_EVENT):
            way_out = "Rename the column in the source, or select it under another name"
            raise JobFileError(f"the key {name!r} {_TAKEN}", field="count", way_out=way_out)


def check_arrival(window: AnyWindow, *, given: bool) -> None:
    """Checks that a window that needs the order of arrival has it; `given`: the job names it."""
    if given:
        return
    if isinstance(window, CountWindow) and window.order == "arrival":
        raise JobFileError(
            "depends on arrival, but the job does not say in which order events arrived",
            field="count.order",
            way_out="Name the columns in events.arrival, or use order: time",
        )
    if isinstance(window, SessionWindow) and by_place(window):
        raise JobFileError(
            "is a number of messages, but the job does not name the column of their offsets",
            field="session.gap",
            value=str(window.gap),
            way_out="Give events.arrival: [partition, offset], or the offset alone if there is one "
            "partition",
        )


def check_window(name: str) -> str:
    """A window's name, which becomes a folder and the name of a table."""
    if name.lower() in TABLES:
        raise JobFileError(_TAKEN, way_out="Choose another")
    if not _WINDOW.fullmatch(name):
        way_out = "Use letters, digits, _ and -, and do not begin with _"
        raise JobFileError("can't be used as a table name", way_out=way_out)
    return name


def check_source(name: str) -> str:
    """The name of a source, which becomes a value of a column, or of a catalog."""
    if not _WINDOW.fullmatch(name):
        way_out = "Use letters, digits, _ and -, and do not begin with _"
        raise JobFileError("can't be used as a name", way_out=way_out)
    return name


def check_distinct(names: Iterable[str]) -> None:
    """Names that differ in more than the case of letters, which Spark and some disks ignore."""
    seen: dict[str, str] = {}
    for name in names:
        if name.lower() in seen:
            first = seen[name.lower()]
            raise JobFileError(f"{first!r} and {name!r} differ only in case")
        seen[name.lower()] = name


def check_tables(path: str) -> str:
    """A folder on this machine, or in an object store."""
    if is_url(path):
        with _of_the_file():
            folder_at(path)
    return path


def check_source_path(path: str) -> str:
    """The path of events; it may not contain credentials."""
    with _of_the_file():
        check_no_keys(path, "path")
    return path


@contextmanager
def _of_the_file() -> Iterator[None]:
    try:
        yield
    except TableError as error:
        raise JobFileError(error.problem, value=error.value, way_out=error.way_out) from None


def _is_ours(column: str) -> bool:
    return column.lower() in RESERVED or column.startswith("_")


def some(what: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Checks that a mapping by names is not empty, and that names differ in more than case.

    Args:
        what: what an entry is called, for the error.
    """

    def check(value: dict[str, Any]) -> dict[str, Any]:
        if not value:
            raise JobFileError(f"needs at least one {what}")
        check_distinct(value)
        return value

    return check
