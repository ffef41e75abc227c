"""Windows that merging cannot produce, built from their events.

These are windows with an aggregate that needs all their events, and sessions that reach dates that
are not covered, where no sessions are published. Here every input counts on every date.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill.columns import END, START
from backfill.errors import SourceError
from backfill.execution.lost_events import fewer
from backfill.ledger.record import Record
from backfill.ledger.state import State
from backfill.planning.bots import People, people, people_within
from backfill.planning.closure import follow
from backfill.planning.computed import computed_extents, hull
from backfill.planning.context import Context
from backfill.planning.extents import extents_of, limits
from backfill.planning.published_windows import published_extents
from backfill.planning.replaced_windows import ReplacedWindows, match_rows, of_keys
from backfill.planning.slicing import slices
from backfill.planning.time_spans import dates_between
from backfill.printable import shown
from backfill.rows.compute import Built, Sliced
from backfill.rows.definition import Definition
from backfill.runtimes.differences import computed_once
from backfill.windows import SessionWindow


def behind(context: Context, record: Record, definition: Definition) -> Column:
    """Whether something that is not published could belong to the window.

    Sessions that start on a date that is not covered are in no table, however far they reach. So
    the test holds for every window that ends after the start of such a date, if the date can have
    events. And windows that ended before a limit of retention were dropped.

    Args:
        context: the run's context.
        record: what was counted and covered before.
        definition: the window's definition.
    """
    window = definition.window
    if definition.ruled:
        # A late event can move any cut between two gaps.
        return F.lit(True)
    if not isinstance(window, SessionWindow):
        # Windows that had ended were dropped. To keep one after all, its events are needed.
        return F.lit(False) if record.expired is None else F.col(END) < record.expired
    least, most = context.reader.limits(list(context.inputs))
    tests = [F.lit(False)]
    if record.expired is not None:
        tests.append(F.col(START) - window.gap.us <= record.expired)
    for low, high in record.covered.rest().spans(context.spec.timezone):
        empty = (high is not None and least is not None and least >= high) or (
            low is not None and most is not None and most < low
        )
        if not empty:
            tests.append(F.lit(True) if low is None else F.col(END) + window.gap.us >= low)
    return reduce(or_, tests)


@dataclass(frozen=True)
class Rebuild:
    """Which table's windows are built from events, and with which slices.

    Attributes:
        context: the run's context.
        state: the table.
        names: the tables whose slices are made.
        sliced: the slices of the late events.
        known: people of all keys whose windows are built, if bots were looked for before.
    """

    context: Context
    state: State
    names: Sequence[str]
    sliced: Sliced
    known: People | None = None

    @property
    def definition(self) -> Definition:
        """The window and its aggregates."""
        return self.context.definitions[self.state.name]

    def slices(self, events: DataFrame) -> Sliced:
        """Slices of some events."""
        return slices(self.context, events, self.names)

    def events(self, span: tuple[int | None, int | None], wanted: DataFrame) -> DataFrame:
        """The events of some keys in a span."""
        key = self.sliced.key
        own = key, wanted.select(*key.inner)
        return people(self.context, self.context.all_dates, span, own, self.known).events

    def published(self, low: int | None, high: int | None, keys: DataFrame) -> DataFrame | None:
        """Published sessions of some keys that overlap [low, high): key, start, end."""
        return published_extents(self.context, self.state, self.sliced, (low, high), keys)


def rebuilt(of: Rebuild, wanted: DataFrame) -> tuple[DataFrame, DataFrame]:
    """The final windows, and the extents of the windows that they replace.

    Args:
        of: the table.
        wanted: merged windows. They are final if states could be merged and no session reaches
            a date that is not covered.

    Raises:
        SourceError: the source no longer holds events that were counted.
    """
    final, extents = _rebuilt(of, wanted)
    final = computed_once(final)
    check_none_gone(of.context, fewer(wanted, Built(final, of.definition, of.sliced)))
    return final, extents


def check_none_gone(context: Context, lost: DataFrame) -> None:
    """Checks that the source still holds what was counted.

    Args:
        context: the run's context.
        lost: start and end (µs) of windows that now lack events.

    Raises:
        SourceError: there are such windows.
    """
    bounds = hull(lost)
    if bounds is not None:
        (low, high), *_ = dates_between(*bounds, context.spec.timezone).ranges
        raise SourceError(
            "no longer holds events that were counted; they cannot be removed by merging",
            field="source",
            value=shown(context.spec.source.path),
            way_out=f"Run these dates: backfill run JOB --from {low} --to {high}",
        )


def _rebuilt(of: Rebuild, wanted: DataFrame) -> tuple[DataFrame, DataFrame]:
    definition, keys = of.definition, of.sliced.key.inner
    bounds = [*keys, START, END]
    columns = of.sliced.build(definition).frame.columns
    if not isinstance(definition.window, SessionWindow):
        return from_events(of, wanted).select(*columns), wanted.select(*bounds)
    if definition.ruled:
        windows, over = followed(of, wanted.select(*bounds))
        return windows.select(*columns), over
    reaching = behind(of.context, of.state.settled, definition)
    followed_keys = computed_once(wanted.where(reaching).select(*keys))
    settled = of_keys(wanted, followed_keys, keys, "left_anti")
    edge = of_keys(wanted, followed_keys, keys, "left_semi").select(*bounds)
    final = settled if definition.mergeable else from_events(of, settled)
    final, extents = final.select(*columns), wanted.select(*bounds)
    if not followed_keys.count():
        return final, extents
    windows, over = followed(of, edge)
    return final.unionByName(windows.select(*columns)), extents.unionByName(over)


def from_events(of: Rebuild, windows: DataFrame) -> DataFrame:
    """Builds windows with known bounds from their own events only."""
    key = of.sliced.key
    wanted, bounds = computed_extents(windows.select(*key.inner, START, END))
    low, high = bounds if bounds is not None else (0, -1)
    events = people_within(of.context, of.context.all_dates, (low, high + 1), key, wanted, of.known)
    built = of.slices(events).build(of.definition)
    return match_rows(built.frame, built, ReplacedWindows(None, wanted), "left_semi")


def followed(of: Rebuild, edge: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Builds the sessions of these extents from events, following them outward until they close.

    Returns:
        The sessions, and the extents of the sessions that they replace.
    """
    definition, key = of.definition, of.sliced.key
    window = definition.window
    assert isinstance(window, SessionWindow)
    edge, bounds = computed_extents(edge)
    # Late rows need not be events of the table: they can be copies, or have no key.
    low, high = bounds if bounds is not None else (0, -1)
    gap = window.gap.us
    span = (low - gap - 1, high + gap + 2)

    def read(low: int | None, high: int | None, wanted: DataFrame) -> Sliced:
        new_slices = of.slices(of.events((low, high), wanted))
        return replace(new_slices, frame=computed_once(new_slices.frame))

    inside = of.slices(of.events(span, edge))
    kept = replace(inside, frame=computed_once(inside.frame))
    crossing = follow(
        extents_of(kept, definition, edge, of.published(*span, edge)),
        window,
        of.context.spec.engine.rules_for(window),
        key.inner,
        span=span,
        limits=limits(of.context, of.state),
        read=read,
        published=of.published,
    )
    built = kept.joined(crossing.slices).build(definition)
    over = computed_once(crossing.extents)
    return match_rows(built.frame, built, ReplacedWindows(None, over), "left_semi"), over
