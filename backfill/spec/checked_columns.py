"""Checks that tables have the columns that the job file names, as far as they are known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from backfill.columns import EVENT_TIME, HOLDS_FROM
from backfill.errors import JobFileError, did_you_mean
from backfill.quality.checks import Check
from backfill.windows import AnyWindow, JoinWindow, RollingWindow, key_of

#: Columns that only tables of other windows have.
_OF_OTHERS = frozenset({"window_start", "window_end", EVENT_TIME, "session_id"})
#: Expectations that use such columns by default.
_OF_SESSIONS = frozenset({"expect_sessions_to_be_apart"})


def check_columns(name: str, window: AnyWindow, checks: Iterable[Check]) -> None:
    """Refuses checks of a metric's or a join's table that need columns of other windows' tables.

    Args:
        name: the table's name, for the message.
        window: the table's definition.
        checks: the job file's checks of the table.

    Raises:
        JobFileError: a check needs such a column.
    """
    if isinstance(window, JoinWindow):
        absent, what = _OF_OTHERS - {EVENT_TIME}, "join"
        instead = f"{EVENT_TIME}, the time of a row's left event"
    elif isinstance(window, RollingWindow):
        absent, what = _OF_OTHERS, "metric"
        instead = f"{HOLDS_FROM}, the step from which a row's values hold"
    else:
        return
    for check in checks:
        missing = next((text for text in _texts(check.arguments) if text in absent), None)
        if missing is not None or check.expectation in _OF_SESSIONS:
            raise JobFileError(
                f"needs a column that a {what}'s table does not have",
                field=name,
                value=missing or check.expectation,
                way_out=f"Use {instead}",
            )


def check_order(
    names: Iterable[str], key: tuple[str, ...], windows: Iterable[tuple[AnyWindow, Iterable[str]]]
) -> None:
    """Refuses sort columns that no table has.

    Args:
        names: the sort columns.
        key: the job's key.
        windows: the windows of the job's tables, with the names of their aggregates.

    Raises:
        JobFileError: no table has one of them.
    """
    known = {"window_start", "window_end", EVENT_TIME, HOLDS_FROM}
    for window, aggregates in windows:
        if isinstance(window, JoinWindow):
            # Which columns a join has is known only from its streams.
            return
        known |= {*key_of(window, key), *aggregates}
    for name in names:
        if name not in known:
            way_out = did_you_mean(name, known)
            raise JobFileError("no table has such a column", value=name, way_out=way_out)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _texts(part)
