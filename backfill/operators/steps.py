"""Step functions: values that hold from one instant until the next one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from backfill.aggregates.base import Aggregate
from backfill.columns import CHANGED, column
from backfill.operators.sliding import AT

#: The instant at which another value begins to hold, µs; NULL where none does.
_UNTIL = "_until"
#: Whether a row is its key's first one; prefix of a number: the value that held before.
_FIRST, _BEFORE = "_first", "_before"
#: An instant that is asked for, µs.
INSTANT = "_instant"


def changes(
    rows: DataFrame,
    keys: Sequence[str],
    order: Sequence[str],
    aggregates: Mapping[str, Aggregate],
) -> DataFrame:
    """Only the rows at which a value changes.

    Args:
        rows: keys, AT (µs), values by name.
        keys: the key columns.
        order: columns that order the rows of a key in time.
        aggregates: the aggregate of each value, by the value's name.
    """
    return with_changed(rows, keys, order, aggregates).where(CHANGED).drop(CHANGED)


def with_changed(
    rows: DataFrame,
    keys: Sequence[str],
    order: Sequence[str],
    aggregates: Mapping[str, Aggregate],
) -> DataFrame:
    """Adds CHANGED, whether a value changes at a row; arguments as for `changes`."""
    in_order = Over.partitionBy(*keys).orderBy(*order)
    # As columns, since Spark would look up the row before for each use of it.
    before = {name: f"{_BEFORE}{i}" for i, name in enumerate(aggregates)}
    compared = rows.withColumns(
        {
            _FIRST: F.lag(F.lit(1)).over(in_order).isNull(),
            **{held: F.lag(column(name)).over(in_order) for name, held in before.items()},
        }
    )
    change = F.lit(False)
    for name, aggregate in aggregates.items():
        value = column(name)
        same = aggregate.is_same(F.col(before[name]), value)
        change |= ~F.when(F.col(_FIRST), aggregate.is_empty(value)).otherwise(same)
    return compared.withColumn(CHANGED, change).drop(_FIRST, *before.values())


def every_step(steps: DataFrame, keys: Sequence[str], step: int) -> DataFrame:
    """A row for every step, from the first to the last one of each key.

    Args:
        steps: keys, AT, values, as `changes` returns them.
        keys: the key columns.
        step: µs.
    """
    last = F.coalesce(F.col(_UNTIL) - step, F.col(AT))
    held = _with_until(steps, keys)
    return held.withColumn(AT, F.explode(F.sequence(AT, last, F.lit(step)))).drop(_UNTIL)


def at_instants(steps: DataFrame, keys: Sequence[str], instants: DataFrame) -> DataFrame:
    """The values that hold at each instant, with AT being the instant.

    Args:
        steps: keys, AT, values, as `changes` returns them.
        keys: the key columns.
        instants: INSTANT (µs); few enough to be sent to every task.
    """
    until = F.col(_UNTIL)
    holds = (F.col(AT) <= F.col(INSTANT)) & (until.isNull() | (F.col(INSTANT) < until))
    held = _with_until(steps, keys).join(F.broadcast(instants), holds)
    return held.withColumn(AT, F.col(INSTANT)).drop(_UNTIL, INSTANT)


def _with_until(steps: DataFrame, keys: Sequence[str]) -> DataFrame:
    return steps.withColumn(_UNTIL, F.lead(AT).over(Over.partitionBy(*keys).orderBy(AT)))
