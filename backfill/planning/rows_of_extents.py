"""Windows of some extents, built from only the events in these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from operator import and_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.columns import END, START, TIME
from backfill.planning.bots import people, people_within
from backfill.planning.context import Context
from backfill.planning.slicing import slices
from backfill.rows.compute import Built, Key
from backfill.runtimes.differences import computed_once
from backfill.time.dates import Dates
from backfill.time.spans import Span


def rows_of(
    context: Context,
    name: str,
    counted: Mapping[str, Dates],
    span: Span,
    key: Key,
    extents: DataFrame,
) -> Built:
    """The rows that the events of some extents make; correct if a row needs no other events.

    Args:
        context: the run's context.
        name: the table.
        counted: the dates on which each input counts.
        span: the span that the extents are in, [low, high) in µs.
        key: the table's.
        extents: the inner key columns, start and end, both inclusive.
    """
    spec, definition = context.spec, context.definitions[name]
    if set(key.names) <= set(spec.key) or (spec.id is None and spec.bots is None):
        events = people_within(context, counted, span, key, extents)
        return slices(context, events, [name], computed_once).build(definition)
    # Copies of an event can differ in a metric's dimensions, and so can events of a bot. Only all
    # events of the job's key show which copy counts, and what is a bot's.
    events = people(context, counted, span).events
    sliced = slices(context, events, [name], computed_once).of(definition)
    assert sliced.events is not None
    theirs = extents.select(
        *(F.col(column).alias(f"_wanted{column}") for column in extents.columns)
    )
    same = [F.col(inner).eqNullSafe(F.col(f"_wanted{inner}")) for inner in key.inner]
    inside = F.col(TIME).between(F.col(f"_wanted{START}"), F.col(f"_wanted{END}"))
    near = sliced.events.join(theirs, reduce(and_, same, inside), "left_semi")
    return replace(sliced, events=near).build(definition)
