"""From events to metrics' values at each step at which an event begins or ceases to count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from backfill.aggregates.bound import Bound
from backfill.aggregates.last_seen import in_frames
from backfill.columns import CHANGED, END, EVENTS, OWN, START, TIME, column
from backfill.operators.coarse_steps import coarse_steps, steps_near
from backfill.operators.grids import floor_to
from backfill.operators.rolling_steps import BLOCK, SPAN, STATES, rolling_steps
from backfill.operators.sliding import AT, sliding
from backfill.operators.steps import with_changed
from backfill.runtimes.differences import stacked
from backfill.time.durations import Fixed
from backfill.time.spans import EVERYTHING, Span, inside_span
from backfill.windows import SlidingWindow
from backfill.windows.rolling_window import RollingWindow

#: The time of an event, µs, where TIME is the step at which it begins to count.
_OWN_TIME = "_own_time"
#: A row's number of events and value, for one window.
_HELD, _VALUE = "_held", "value"


def begins(step: int, offset: int) -> Column:
    """The step from which on an event counts, by its TIME; it does for the window's length."""
    return floor_to(F.col(TIME), step, offset) + step


def step_rows(
    events: DataFrame,
    windows: Sequence[Fixed],
    keys: Sequence[str],
    aggregates: Sequence[Bound],
    *,
    step: int,
    offset: int,
    arrival: Sequence[str],
    wanted: Span = EVERYTHING,
    kept: DataFrame | None = None,
) -> DataFrame:
    """Computes all windows at once where the aggregates allow it, and one by one if not.

    Args:
        events: key, TIME and arrival columns, and the aggregates' inputs.
        windows: the windows' lengths, whole numbers of steps.
        keys: the key columns.
        aggregates: the aggregates, as sliding windows compute them.
        step: the distance between steps, µs.
        offset: shifts the steps, µs.
        arrival: the columns that order events with equal times.
        wanted: where the wanted rows are, µs, [low, high). Others are left out, or are at a step
            near their own; each event is still counted in one row. A window that holds no event at
            the last step before the wanted rows may have no row up to there.
        kept: slices of further events: key, END, and STATES; only where `in_frames` holds.

    Returns:
        At least one row for each key, window and step at which something changes: key, SPAN (the
        window's length), BLOCK, AT (the step), the number of events, merged states. Rows of a key
        and SPAN are in order of BLOCK and AT.
    """
    near = steps_near(step, offset, wanted)
    at = _coarse(begins(step, offset), windows, step, near)
    placed = events.withColumns({_OWN_TIME: F.col(TIME), TIME: at})
    bound = [_in_order(binding, arrival) for binding in aggregates]
    if all(in_frames(binding.aggregate) for binding in bound):
        if kept is not None:
            at = _coarse(F.col(END), windows, step, near)
            kept = kept.select(*keys, at.alias(TIME), STATES)
        return rolling_steps(placed, [window.us for window in windows], keys, bound, kept, near)
    frames = (_of_window(placed, window, keys, bound, arrival) for window in windows)
    return reduce(DataFrame.unionByName, frames)


def slice_rows(
    events: DataFrame,
    window: RollingWindow,
    name: str,
    keys: Sequence[str],
    aggregate: Bound,
    *,
    arrival: Sequence[str],
) -> DataFrame:
    """Computes the rows of the table of a metric's slices.

    Args:
        events: as for `step_rows`, each once.
        window: the steps.
        name: the name of the states' column.
        keys: the key columns.
        aggregate: the aggregate, as sliding windows compute it.
        arrival: the columns that order events with equal times.

    Returns:
        Key, START and END (both the step from which on the events count, µs), the number of events,
        OWN (the same), CHANGED (true), and the states by name.
    """
    at = begins(window.step.us, window.offset.us)
    placed = events.withColumns({_OWN_TIME: F.col(TIME), TIME: at})
    packed = _in_order(aggregate, arrival).packed().alias(name)
    count = F.count(F.lit(1))
    slices = placed.groupBy(*keys, TIME).agg(count.alias(EVENTS), packed)
    return slices.select(
        *keys,
        F.col(TIME).alias(START),
        F.col(TIME).alias(END),
        EVENTS,
        F.col(EVENTS).alias(OWN),
        F.lit(True).alias(CHANGED),
        column(name),
    )


def metric_rows(
    events: DataFrame,
    window: RollingWindow,
    names: Sequence[str],
    keys: Sequence[str],
    aggregate: Bound,
    *,
    arrival: Sequence[str],
    wanted: Span,
    kept: DataFrame | None = None,
) -> DataFrame:
    """Computes the rows of a metric's table, including those in which nothing changes.

    Args:
        events: as for `step_rows`, each once.
        window: the windows and steps.
        names: the names of the values, one for each window.
        keys: the key columns.
        aggregate: the aggregate, as sliding windows compute it.
        arrival: the columns that order events with equal times.
        wanted: as for `step_rows`. No value changes in other rows.
        kept: as for `step_rows`.

    Returns:
        Key, START and END (both the step, µs), the number of events in the longest window, OWN
        (the number of events that count from this step on, so that each event is in one row),
        CHANGED (whether a value differs from that of a step before), and the values by name.
    """
    step, offset = window.step.us, window.offset.us
    rows = step_rows(
        events,
        window.windows,
        keys,
        [aggregate],
        step=step,
        offset=offset,
        arrival=arrival,
        wanted=wanted,
        kept=kept,
    )
    if OWN not in rows.columns:
        at = _coarse(begins(step, offset), window.windows, step, steps_near(step, offset, wanted))
        own = events.groupBy(*keys, at.alias(AT)).agg(F.count(F.lit(1)).alias(OWN))
        rows = stacked(rows, own)
    held = F.struct(EVENTS, aggregate.finish(_VALUE))
    spans = {f"{_HELD}{i}": length.us for i, length in enumerate(window.windows)}
    wide = rows.groupBy(*keys, AT).agg(
        # From one window only, if each has it.
        F.coalesce(F.sum(F.when(_of(window.longest_us), F.col(OWN))), F.lit(0)).alias(OWN),
        *(
            F.first(F.when(F.col(SPAN) == us, held), ignorenulls=True).alias(name)
            for name, us in spans.items()
        ),
    )
    # A window without a row so far is empty, at the last step before the wanted ones and later.
    empty = F.struct(F.lit(0).cast("long").alias(EVENTS), aggregate.empty(_VALUE, rows))
    in_order = Over.partitionBy(*keys).orderBy(AT)
    so_far = in_order.rowsBetween(Over.unboundedPreceding, Over.currentRow)
    filled = wide.withColumns(
        {name: F.coalesce(F.last(name, True).over(so_far), empty) for name in spans}
    )
    [largest] = [name for name, us in spans.items() if us == window.longest_us]
    valued = filled.select(
        *keys,
        F.col(AT),
        F.col(AT).alias(START),
        F.col(AT).alias(END),
        F.col(largest)[EVENTS].alias(EVENTS),
        OWN,
        *(F.col(held)[_VALUE].alias(name) for held, name in zip(spans, names, strict=True)),
    )
    aggregates = dict.fromkeys(names, aggregate.aggregate)
    marked = with_changed(valued, keys, [AT], aggregates).drop(AT)
    return marked.withColumn(CHANGED, F.col(CHANGED) & inside_span(F.col(END), wanted))


def _in_order(aggregate: Bound, arrival: Sequence[str]) -> Bound:
    """The aggregate, with events in the order of their own times."""
    return replace(aggregate, order=(_OWN_TIME, *arrival))


def _coarse(
    at: Column, windows: Sequence[Fixed], step: int, near: tuple[int, int] | None
) -> Column:
    """The step from which on an event counts, or one that the wanted rows can't tell from it."""
    return at if near is None else coarse_steps(at, [window.us for window in windows], step, near)


def _of(us: int) -> Column:
    """Whether a row belongs to the window of this length, or to none."""
    return F.col(SPAN).isNull() | (F.col(SPAN) == us)


def _of_window(
    events: DataFrame,
    window: Fixed,
    keys: Sequence[str],
    aggregates: Sequence[Bound],
    arrival: Sequence[str],
) -> DataFrame:
    """What `rolling_steps` returns, for one window and any aggregates: each event by itself."""
    rows = sliding(
        events,
        SlidingWindow(size=Fixed(window.us - 1), distinct=True),
        keys,
        aggregates,
        arrival=arrival,
        also=[],
        tick=1,
        clips=False,
        null_key=len(keys) > 1,
        empty=True,
    )
    return rows.withColumns({SPAN: F.lit(window.us).cast("long"), BLOCK: F.col(AT)}).drop(TIME)
