"""Which sessions of a region must come out whole, and how far they can reach."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.columns import END, EVENTS, FIRST, LAST, START
from backfill.ledger.state import State
from backfill.operators.session import sessions
from backfill.planning.closure import as_span
from backfill.planning.context import Context
from backfill.planning.replaced_windows import overlaps
from backfill.rows.compute import Built, Sliced
from backfill.rows.definition import Definition
from backfill.windows import SessionWindow

_WHOLE = "_whole"


def extents_of(
    sliced: Sliced,
    definition: Definition,
    whole: DataFrame | None,
    beside: DataFrame | None,
    span: tuple[int, int] | None = None,
) -> DataFrame:
    """The sessions that must come out whole, as far as they are known here: key, start, end, µs.

    Args:
        sliced: slices of all events of a region.
        definition: a session window.
        whole: key, start and end of what must be followed, though not all of it is in slices.
        beside: the same for published sessions that are followed only if they touch such a one.
        span: every session that overlaps it must come out whole, too.
    """
    window, keys = definition.window, sliced.key.inner
    assert isinstance(window, SessionWindow)
    parts = sliced.frame.select(*keys, FIRST, LAST, EVENTS, F.lit(0).alias(_WHOLE))
    zero = F.lit(0).cast("bigint").alias(EVENTS)
    for extents, flag in ((whole, 1), (beside, 0)):
        if extents is not None:
            rows = as_span(extents, keys).select("*", zero, F.lit(flag).alias(_WHOLE))
            parts = parts.unionByName(rows)
    rules = sliced.engine.rules_for(window)
    also = [F.max(_WHOLE).alias(_WHOLE)]
    seen = sessions(parts, window, rules, keys, [], overlapping=True, also=also)
    wanted = F.col(_WHOLE) == 1
    if span is not None:
        wanted |= overlaps(Built(seen, definition, sliced), span)
    return seen.where(wanted).select(*keys, START, END)


def limits(context: Context, state: State) -> tuple[int | None, int | None]:
    """The least and the largest time of events that are there now or were counted before, µs.

    None if they are not known.
    """
    before = [replacement.bounds for replacement in context.replaced(state)]
    low, high = context.reader.limits(list(context.inputs))
    if low is None or high is None or None in before:
        return None, None
    known = [(low, high), *(bounds for bounds in before if bounds is not None)]
    return min(first for first, _ in known), max(last for _, last in known)
