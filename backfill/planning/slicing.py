"""Events as slices: lazy, or counted and kept for what follows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill.columns import LAST
from backfill.conservation import Totals, check_rows, total_columns, totals_from
from backfill.frames.cutting import dimensions_of, sides_of, slice_events
from backfill.planning.combining import choose
from backfill.planning.computed import computed_with
from backfill.planning.context import Context
from backfill.quality.events import slice_checks
from backfill.rows.compute import Sliced
from backfill.rows.definition import Definition
from backfill.runtimes.differences import computed_once, observed
from backfill.time.spans import EVERYTHING, Span
from backfill.windows import AnyWindow


def with_combining(context: Context, paths: Iterable[str], names: Sequence[str]) -> Context:
    """The context, with the choice of how the events of these inputs become slices.

    Args:
        context: the run's context.
        paths: the inputs that the run reads; a sample of them is read if they are large.
        names: the tables whose windows are built from the slices.
    """
    definitions = [context.definitions[name] for name in names]
    combining = choose(
        context.spec, context.reader, paths, definitions, lambda rows: slices(context, rows, names)
    )
    return replace(context, combining=combining)


def slices(
    context: Context,
    events: DataFrame,
    names: Sequence[str],
    keep: Callable[[DataFrame], DataFrame] = lambda events: events,
) -> Sliced:
    """The slices that these tables' windows are built from; lazy.

    Args:
        context: the run's context.
        events: normalised and usable.
        names: the tables.
        keep: as for `slice_events`.
    """
    spec = context.spec
    sliced = slice_events(
        events,
        [context.definitions[name] for name in names],
        key=spec.key,
        engine=spec.engine,
        zone=spec.timezone,
        id=spec.id,
        arrival=spec.arrival or context.source.arrival,
        combine=context.combining.combined,
        # Those of all tables: if copies differ in them, the same copy counts whatever is computed.
        dimensions=dimensions_of(context.definitions.values()),
        sides=sides_of(context.definitions.values()),
        keep=keep,
    )
    # Following sessions beyond the range needs both ends of every slice.
    frame = sliced.frame.withColumn(LAST, F.col(sliced.last))
    return replace(sliced, frame=frame, last=LAST)


def singles(
    context: Context, events: DataFrame, names: Sequence[str]
) -> Mapping[AnyWindow, DataFrame]:
    """The events by themselves, for each session with rules among these tables; lazy.

    They are read again when such a session is built. So if the slices are cut from events that are
    observed, these must be made from a frame that is not: what is observed twice counts twice.

    Args:
        context: the run's context.
        events: normalised and usable, and not observed.
        names: the tables; all of them, since aggregates are numbered.
    """
    if not any(context.definitions[name].ruled for name in names):
        return {}
    return slices(context, events, names).singles


def counted_slices(
    context: Context,
    events: DataFrame,
    names: Sequence[str],
    *,
    span: Span = EVERYTHING,
    also: Sequence[Column] = (),
    of_events: Sequence[Column] = (),
) -> tuple[Sliced, Totals]:
    """The slices, computed once; and their totals, checked against the number of rows.

    The totals also have the values of `slice_checks`, and of anything else that is asked for.

    Args:
        context: the run's context.
        events: normalised and usable.
        names: the tables.
        span: the span that the events were read for.
        also: further aggregates over slices, with names.
        of_events: the same over the events, if `Sliced.events` has them.

    Raises:
        ConservationError: the slices do not hold as many rows as were read.
    """
    watched, counted = observed(events, F.count(F.lit(1)).alias("rows"))
    seen: dict[str, Any] = {}

    def keep(unique: DataFrame) -> DataFrame:
        if not of_events:
            return computed_once(unique)
        kept, counts = computed_with(unique, *of_events)
        seen.update(counts)
        return kept

    sliced = slices(context, watched, names, keep).by_key()
    definitions = of(context, names)
    columns = [*total_columns(sliced, definitions), *slice_checks(sliced, span), *also]
    frame, facts = computed_with(sliced.frame, *columns)
    kept = replace(sliced, frame=frame, singles=singles(context, events, names))
    sums = totals_from({**facts, **seen}, definitions)
    # Spark does not execute what it knows to be empty, and then observes nothing; nor does a
    # checkpoint over Spark Connect.
    rows = counted().get("rows") if sums.rows else None
    check_rows(events.count() if rows is None else rows, sums, 0)
    return kept, sums


def of(context: Context, names: Sequence[str]) -> Mapping[str, Definition]:
    """The definitions of some tables."""
    return {name: context.definitions[name] for name in names}
