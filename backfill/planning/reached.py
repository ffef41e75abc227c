"""Which published windows late events can change."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from backfill.columns import END, FIRST, LAST, START, TIME
from backfill.kinds.standing import Standing
from backfill.ledger.state import State
from backfill.planning.context import Context
from backfill.planning.replaced_windows import sent
from backfill.planning.time_spans import touched
from backfill.planning.touched_files import touched_files
from backfill.rows.compute import Built, Sliced
from backfill.windows import SessionWindow

_BEGINS = "_begins"


def reached_rows(late: Sliced, kind: Standing) -> DataFrame:
    """Where the rows stand that events can affect: key, start and end (µs), disjoint by key."""
    assert late.events is not None
    return _apart(late.events, late, *kind.reached(F.col(TIME)))


def reached_files(
    context: Context, state: State, late: Sliced, count: int, span: tuple[int, int], horizon: int
) -> dict[str, int] | None:
    """The files of published windows that late events can change, in one job; copies count too.

    Args:
        context: the run's context.
        state: the table.
        late: the late events.
        count: how many there are.
        span: the span that they are in, [low, high) in µs.
        horizon: the largest time of an event once they are merged, µs.

    Returns:
        How many windows of each file, by path; None for sessions with rules: one event can cut
        them anew up to their end.
    """
    definition = context.definitions[state.name]
    if definition.ruled:
        return None
    late = late.of(definition)
    built = Built(late.frame, definition, late)
    low: int | None
    high: int | None
    if isinstance(definition.window, SessionWindow):
        gap = definition.window.gap.us
        extents = _apart(late.frame, late, F.col(FIRST) - gap, F.col(LAST) + gap)
        low, high = span[0] - gap, span[1] + gap
    else:
        kind = built.kind
        low, high = touched(context, span, definition)
        if isinstance(kind, Standing):
            extents = reached_rows(late, kind)
        else:
            extents = late.build(replace(definition, aggregates={})).frame
    hull = low, None if high is None else high - 1
    return touched_files(context, state, built, sent(extents, count), hull, horizon)


def _apart(rows: DataFrame, late: Sliced, start: Column, end: Column) -> DataFrame:
    """Spans of time, with overlapping spans of a key joined: key, start and end, µs."""
    keys = late.key.inner
    spans = rows.select(*keys, start.alias(START), end.alias(END))
    in_order = Over.partitionBy(*keys).orderBy(START)
    earlier = F.max(END).over(in_order.rowsBetween(Over.unboundedPreceding, -1))
    begins = F.when(F.coalesce(F.col(START) > earlier, F.lit(True)), F.col(START))
    begun = spans.withColumn(_BEGINS, begins)
    so_far = in_order.rowsBetween(Over.unboundedPreceding, Over.currentRow)
    joined = begun.withColumn(START, F.max(_BEGINS).over(so_far))
    return joined.groupBy(*keys, START).agg(F.max(END).alias(END))
