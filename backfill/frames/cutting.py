"""From usable events to the slices that the windows of a job are built from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from types import MappingProxyType

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.aggregates.bound import running
from backfill.columns import EVENTS, FIRST, LAST, ROWS, TIME, column
from backfill.engines import Engine
from backfill.frames.event_inputs import BoundEvents, with_inputs
from backfill.operators.aligned import layout, takes_events
from backfill.operators.grids import Cutting, Grid, fewest
from backfill.operators.last_seen import last_seen, with_distances
from backfill.operators.rule_inputs import predicate, rule_inputs
from backfill.operators.session_rules import rule_columns
from backfill.rows import slices as slicing
from backfill.rows.compute import Sliced
from backfill.rows.definition import Definition
from backfill.rows.fitting import (
    check_arrival,
    check_dimensions,
    check_framed,
    check_looked_at,
    check_names,
    check_subtracted,
)
from backfill.time.durations import DAY_US
from backfill.windows import (
    AnyWindow,
    EventWindow,
    JoinWindow,
    RollingWindow,
    SessionWindow,
    SlidingWindow,
    TableWindow,
    by_place,
    key_of,
)
from backfill.windows.join_window import LEFT, RIGHT


def slice_events(
    events: DataFrame,
    definitions: Sequence[Definition],
    *,
    key: Sequence[str],
    engine: Engine,
    zone: str,
    id: str | None,
    arrival: Sequence[str],
    combine: bool | None = True,
    dimensions: Sequence[str] = (),
    sides: Mapping[str, str] = MappingProxyType({}),
    keep: Callable[[DataFrame], DataFrame] = lambda events: events,
) -> Sliced:
    """Cuts usable events into the slices that all the definitions are built from.

    Args:
        events: normalised events (with `TIME`), without those that can't be used.
        definitions: the windows of one job.
        key: the key's columns; empty for a single group.
        engine: the engine whose rules apply.
        zone: for calendar windows and dates.
        id: rows with equal key, time and id are one event.
        arrival: columns that give the order of arrival.
        combine: combine the events of a slice first. If false, each event is a slice of its own,
            where all aggregates have states of a single event. None: what suits the only window.
        dimensions: columns to keep besides those of the definitions' metrics and joins.
        sides: predicates whose values to keep besides those of the definitions' joins, as
            `sides_of` returns them.
        keep: keeps the events from which windows around single events are computed. The slices
            are cut from them too, so the source is read once.

    Raises:
        AggregateError: if an aggregate does not fit the events, or its name is taken.
        WindowError: if the engine refuses a window.
    """
    for definition in definitions:
        check_names(definition.aggregates, key, definition.window)
        check_arrival(events, definition.window, arrival)
        check_dimensions(events, definition.window)
        check_looked_at(events, definition.window)
    wanted = [
        aggregate for definition in definitions for aggregate in definition.aggregates.values()
    ]
    inputs = partial(with_inputs, events, wanted, key=key, id=id, arrival=arrival)
    wanted_by = [*dimensions, *dimensions_of(definitions)]
    by = {name: f"_by{i}" for i, name in enumerate(dict.fromkeys(wanted_by)) if name not in key}
    predicates = {**sides, **sides_of(definitions)}
    held = {text: f"_side{i}" for i, text in enumerate(predicates)}
    also = [column(name).alias(inner) for name, inner in by.items()]
    also += [predicate(events, predicates[text], text).alias(inner) for text, inner in held.items()]
    bound_events = inputs(also=also)
    frame, keys, bound = bound_events.frame, bound_events.key, bound_events.bound
    for definition in definitions:
        mine = [bound[aggregate] for aggregate in definition.aggregates.values()]
        if isinstance(definition.window, SlidingWindow | RollingWindow):
            mine = [binding.sliding() for binding in mine]
        if isinstance(definition.window, EventWindow | RollingWindow):
            check_framed(events, mine)
        if isinstance(definition.window, EventWindow):
            check_subtracted(events, mine)
    spans = [definition for definition in definitions if not definition.of_events]
    own = dict.fromkeys(aggregate for one in spans for aggregate in one.aggregates.values())
    aggregates = [bound[aggregate] for aggregate in own]
    deduplicate, single = id is not None, None
    if len(spans) < len(definitions):
        if not id:
            single = frame.withColumn(ROWS, F.lit(1).cast("bigint"))
        elif any(by_place(definition.window) or definition.blanks for definition in definitions):
            # Windows group these by another key, by no key, or by key and time.
            single = slicing.distinct_by_hour(frame, keys.inner)
        else:
            single = slicing.distinct(frame, keys.inner)
        counted = last_seen(
            bound[aggregate].sliding()
            for definition in definitions
            if isinstance(definition.window, SlidingWindow)
            for aggregate in definition.aggregates.values()
        )
        single = frame = keep(with_distances(single, keys.inner, counted, bound_events.arrival))
        deduplicate = False
    singles: dict[AnyWindow, DataFrame] = {
        definition.window: _singles(
            inputs(also=rule_inputs(events, definition.window)), definition.window, id
        )
        for definition in definitions
        if isinstance(definition.window, SessionWindow) and definition.ruled
    }
    sliced = Sliced(
        frame,
        keys,
        engine,
        zone,
        bound,
        events=single,
        id=id,
        arrival=bound_events.arrival,
        dimensions=by,
        sides=held,
        singles=singles,
    )
    if combine is None:
        window = definitions[0].window
        combine = (
            id is not None
            or isinstance(window, EventWindow | SessionWindow | TableWindow)
            or not takes_events(layout(window, engine, zone), aggregates)
        )
    if not combine and single is None and running(aggregates) is not None:
        states = [state for binding in aggregates for state in binding.lift()]
        slices = slicing.apart(frame, keys=keys.inner, states=states, deduplicate=deduplicate)
        return replace(sliced, frame=slices, last=FIRST)
    slices = slicing.cut(
        frame,
        keys=keys.inner,
        cuttings=cuttings(definitions, engine, zone),
        aggregates=aggregates,
        deduplicate=deduplicate,
    )
    return replace(sliced, frame=slices)


def _singles(events: BoundEvents, window: SessionWindow, id: str | None) -> DataFrame:
    """The single events, with the columns that the window's rules look at."""
    frame = events.frame
    if id is not None:
        # If copies differ, take the same one as other windows do.
        looked_at = rule_columns(window)
        frame = frame.select(*(name for name in frame.columns if name not in looked_at), *looked_at)
        frame = slicing.distinct(frame, events.key.inner)
    else:
        frame = frame.withColumn(ROWS, F.lit(1).cast("long"))
    one = F.lit(1).cast("long")
    return frame.withColumns({FIRST: F.col(TIME), LAST: F.col(TIME), EVENTS: one})


def dimensions_of(definitions: Iterable[Definition]) -> list[str]:
    """The dimensions of metrics and the columns that joins look at, each once."""
    every = (
        definition.window.looked_at
        if isinstance(definition.window, JoinWindow)
        else key_of(definition.window, ())
        for definition in definitions
    )
    return list(dict.fromkeys(chain.from_iterable(every)))


def sides_of(definitions: Iterable[Definition]) -> dict[str, str]:
    """The predicates of the joins' sides, each once, with a side that it belongs to."""
    joins = [
        definition.window for definition in definitions if isinstance(definition.window, JoinWindow)
    ]
    return {text: side for join in joins for side, text in ((RIGHT, join.right), (LEFT, join.left))}


def cuttings(definitions: Sequence[Definition], engine: Engine, zone: str) -> list[Cutting]:
    """The fewest grids that serve all the definitions."""
    every = [
        layout(definition.window, engine, zone).cutting()
        for definition in definitions
        if not isinstance(definition.window, SessionWindow | EventWindow | TableWindow)
    ]
    gaps = [
        definition.window.gap.us
        for definition in definitions
        if isinstance(definition.window, SessionWindow) and not definition.of_events
    ]
    if any(definition.of_events for definition in definitions):
        # No windows are built from their slices, which only count events and show dates with any.
        gaps.append(DAY_US // 2)
    grids = fewest((cutting for cutting in every if isinstance(cutting, Grid)), gaps)
    return [*grids, *(cutting for cutting in every if not isinstance(cutting, Grid))]
