"""How a job's events are cut into slices, and what of them is kept as single events."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill import slices as slicing
from backfill.aggregates.base import Aggregate
from backfill.aggregates.bound import bind
from backfill.columns import EVENTS, FIRST, LAST, ROWS, TIME
from backfill.engines import Engine
from backfill.operators.aligned import layout
from backfill.operators.grids import Cutting, Grid, fewest
from backfill.operators.rule_inputs import rule_inputs
from backfill.operators.session_rules import rule_columns
from backfill.time.durations import DAY_US
from backfill.windows import (
    AnyWindow,
    EventWindow,
    SessionWindow,
    SlidingWindow,
    by_place,
)


def singles_of(
    events: DataFrame,
    window: SessionWindow,
    columns: Sequence[Column],
    wanted: Sequence[Aggregate],
    arrival: int,
    keys: Sequence[str],
    id: str | None,
) -> DataFrame:
    """The events by themselves, with what the rules of a window look at."""
    frame, _ = bind(events, [*columns, *rule_inputs(events, window)], wanted, arrival)
    if id is not None:
        # Of copies that differ the one is taken that other windows take.
        looked_at = rule_columns(window)
        frame = frame.select(*(each for each in frame.columns if each not in looked_at), *looked_at)
        frame = slicing.distinct(frame, list(keys))
    else:
        frame = frame.withColumn(ROWS, F.lit(1).cast("long"))
    one = F.lit(1).cast("long")
    return frame.withColumns({FIRST: F.col(TIME), LAST: F.col(TIME), EVENTS: one})


def cuttings(windows: Sequence[AnyWindow], engine: Engine, zone: str) -> list[Cutting]:
    """The fewest grids that serve all the windows."""
    every = [
        layout(each, engine, zone).cutting()
        for each in windows
        if not isinstance(each, SessionWindow | EventWindow)
    ]
    gaps = [
        each.gap.us for each in windows if isinstance(each, SessionWindow) and not by_place(each)
    ]
    if any(isinstance(each, SlidingWindow) or by_place(each) for each in windows):
        # Nothing is built from their slices, which are counted, and tell which dates have events.
        gaps.append(DAY_US // 2)
    grids = fewest((each for each in every if isinstance(each, Grid)), gaps)
    return [*grids, *(each for each in every if not isinstance(each, Grid))]
