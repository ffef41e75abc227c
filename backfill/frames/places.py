"""Binds the events from which `aggregate` computes windows by number or by offset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame

from backfill.aggregates.base import Aggregate
from backfill.frames.event_inputs import BoundEvents, with_inputs
from backfill.rows import slices as slicing


def bind_events(
    events: DataFrame,
    aggregates: Mapping[str, Aggregate],
    *,
    key: Sequence[str],
    id: str | None,
    arrival: Sequence[str],
) -> BoundEvents:
    """Evaluates the aggregates' inputs for each event, and leaves out copies.

    Args:
        events: normalised events (with `TIME`), without those that can't be used.
        aggregates: by the names of their columns.
        key: the key's columns; empty for a single group.
        id: rows with equal key, time and id are one event.
        arrival: columns that give the order of arrival.

    Returns:
        Each event once.

    Raises:
        AggregateError: if an aggregate does not fit the events.
    """
    bound_events = with_inputs(events, aggregates.values(), key=key, id=id, arrival=arrival)
    frame = bound_events.frame
    if id is not None:
        frame = slicing.distinct_by_hour(frame, bound_events.key.inner).select(*frame.columns)
    return replace(bound_events, frame=frame)
