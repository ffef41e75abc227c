"""The published rows that are compared with a stream's, and which windows can be compared."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.columns import column
from backfill.errors import WindowError
from backfill.planning.context import Context
from backfill.store import Table
from backfill.windows import (
    AnyWindow,
    CountWindow,
    EventWindow,
    JoinWindow,
    RollingWindow,
    Window,
)

_PARTS = 10_000


def published_table(context: Context, name: str) -> Table:
    """A window's table.

    Raises:
        TableError: nothing is published, or the table is stale.
    """
    state = context.tables[name]
    _ = state.settled
    assert state.table is not None
    return state.table


def compared(name: str, window: AnyWindow) -> Window | EventWindow:
    """Refuses windows that no stream's output can be compared with.

    Args:
        name: the window's, for the message.
        window: its definition.

    Returns:
        The same window.

    Raises:
        WindowError: the window is of the whole stream, so its rows have no key to compare by; or it
            is a metric's.
    """
    if isinstance(window, RollingWindow):
        raise WindowError(
            "no streaming operator writes rows like a metric's: one at each change of a value",
            field=f"metrics ({name})",
            value=str(window),
            way_out="Compare a sliding or hopping window of the job with the stream",
        )
    assert not isinstance(window, JoinWindow)
    if isinstance(window, CountWindow) and window.per == "stream":
        raise WindowError(
            "windows of the whole stream can't be compared with a stream's output",
            field=f"windows.{name}",
            value=str(window),
            way_out="In a job with key: [], use per: key: the window is the same, and can be "
            "compared",
        )
    return window


def sampled(rows: DataFrame, keys: Sequence[str], share: float) -> DataFrame:
    """The rows of a share of the keys; the same keys in every frame.

    Args:
        rows: with the key's columns.
        keys: the columns; without any, there is one key, which is in the share.
        share: up to 1.
    """
    if not keys:
        return rows
    return rows.where(F.pmod(F.xxhash64(*map(column, keys)), F.lit(_PARTS)) < round(share * _PARTS))
