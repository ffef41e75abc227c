"""The published rows that are compared with a stream's."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.columns import column
from backfill.planning.context import Context
from backfill.store import Table

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


def sampled(rows: DataFrame, keys: Sequence[str], share: float) -> DataFrame:
    """The rows of a share of the keys, the same ones whatever the frame.

    Args:
        rows: with the key's columns.
        keys: these; without any, there is one key, which is in the share.
        share: up to 1.
    """
    if not keys:
        return rows
    return rows.where(F.pmod(F.xxhash64(*map(column, keys)), F.lit(_PARTS)) < round(share * _PARTS))
