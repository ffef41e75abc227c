"""Rows of single events: those of a key at the same time are distinguished by their number.

Of windows around each event there is a row for each event, and nothing that both sides have tells
rows of the same time apart. So they are numbered from 1 in the order of their values, and a row is
[time, time + number), which no other row of the key is. Rows that are alike on both sides have the
same numbers, for all rows of a time that look back to the same events are alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from backfill.columns import END, START, quoted
from backfill.reconciliation.rows import Row


def numbered(rows: DataFrame, keys: Sequence[str], names: Sequence[str]) -> DataFrame:
    """Rows whose END is START, made distinct.

    Args:
        rows: of one side.
        keys: the key columns.
        names: the values.
    """
    values = F.to_json(F.struct(*map(quoted, names)))
    alike = Over.partitionBy(*keys, START).orderBy(values)
    return rows.withColumn(END, F.col(START) + F.row_number().over(alike))


def numbered_rows(rows: Iterable[Row]) -> list[Row]:
    """The same of one key's rows, each of which ends at its event's time."""
    seen: Counter[int] = Counter()
    found = []
    for row in sorted(rows, key=lambda each: (each.end, repr(sorted(each.values.items())))):
        seen[row.end] += 1
        found.append(row._replace(start=row.end, end=row.end + seen[row.end]))
    return found


def at_their_time(rows: Iterable[Row]) -> tuple[Row, ...]:
    """The rows without their numbers."""
    return tuple(row._replace(end=row.start) for row in rows)
