"""Rows of single events: those of a key at the same time are distinguished by their number.

Windows around events have a row for each event, and nothing that both sides have tells rows of the
same time apart. A count window's time is the largest one in it, and engines report no other time of
it. So the rows of a time are numbered from 1 in the order of their values, and a row's bounds are
[time, time + number), which no other row of the key has. Windows around events that are alike on
both sides have the same numbers, because all rows of a time that look back to the same events are
alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from backfill.columns import END, START, column, quoted
from backfill.kinds import of_each_event
from backfill.reconciliation.rows import Row
from backfill.runtimes.differences import runtime_of
from backfill.windows import AnyWindow, CountWindow


def interchangeable(window: AnyWindow) -> bool:
    """Whether a key can have several rows of the same time that nothing else tells apart."""
    return of_each_event(window) or isinstance(window, CountWindow)


def numbered(rows: DataFrame, keys: Sequence[str], names: Sequence[str]) -> DataFrame:
    """Rows whose END is START, made distinct by their numbers.

    Args:
        rows: of one side.
        keys: the key columns.
        names: the columns of the values.
    """
    values = [F.to_json(F.struct(*map(quoted, names)))]
    if not runtime_of(rows.sparkSession).is_spark:
        # Sail 0.7.2 writes only some 17 digits of a decimal as JSON.
        values = [column(name) for name in names]
    alike = Over.partitionBy(*keys, START).orderBy(*values)
    return rows.withColumn(END, F.col(START) + F.row_number().over(alike))


def numbered_rows(rows: Iterable[Row]) -> list[Row]:
    """The same for one key's rows, each of which ends at its event's time."""
    every = [row._replace(start=row.end) for row in rows]
    return numbered_again(every, {name for row in every for name in row.values})


def numbered_again(rows: Iterable[Row], names: Collection[str]) -> list[Row]:
    """Numbered rows, numbered again in the order of these values only.

    Rows of a replay have no other values, and Spark's text of a value does not sort as Python's
    does.
    """
    seen: Counter[int] = Counter()
    renumbered = []
    for row in sorted(rows, key=lambda window: (window.start, _ordered(window, names))):
        seen[row.start] += 1
        renumbered.append(row._replace(end=row.start + seen[row.start]))
    return renumbered


def _ordered(row: Row, names: Collection[str]) -> str:
    return repr(sorted((name, value) for name, value in row.values.items() if name in names))


def at_their_time(rows: Iterable[Row]) -> tuple[Row, ...]:
    """The rows without their numbers."""
    return tuple(row._replace(end=row.start) for row in rows)
