"""Late events of windows by number or by offset: all events of their keys are read again.

A late event moves every later window of its key; windows of the whole stream it moves all. Every
input counts on every date here.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import and_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.columns import END, START, TIME
from backfill.compute import Built, Sliced
from backfill.conservation import Totals, assigned_to, check_held
from backfill.execution.change import ComputedWindows
from backfill.execution.rebuild import check_none_gone
from backfill.execution.retention import lasting
from backfill.execution.rewrite import rewrite_files
from backfill.execution.staging import Staging
from backfill.ledger.reader import EVERYTHING
from backfill.ledger.state import State
from backfill.placed_kinds import FAR, Placed
from backfill.planning.bots import people
from backfill.planning.computed import computed_once
from backfill.planning.context import Context
from backfill.planning.published_windows import candidates, published
from backfill.planning.replaced_windows import ReplacedWindows, match_rows, of_keys, sent
from backfill.planning.slicing import slices
from backfill.planning.time_spans import dates_of_span, starts_on
from backfill.time.dates import ALL, NONE

_BEFORE, _NOW, _LATE, _OTHER = "_before", "_now", "_late", "_other"


def late_keys(
    context: Context,
    staging: Staging,
    state: State,
    late: Sliced,
    sums: Totals,
    horizon: int,
    went: Sliced | None = None,
) -> ComputedWindows:
    """The rows that late events can affect, written with the other rows of their files.

    Args:
        context: of the run.
        staging: where to write.
        state: the table, of windows by number or by offset.
        late: the late events.
        sums: of them.
        horizon: the largest event time, µs.
        went: events that are counted no more.

    Raises:
        ConservationError: an event has no row.
        SourceError: the source no longer holds events that were counted.
    """
    name, zone = state.name, context.spec.timezone
    late = late.of(context.definitions[name])
    keys = late.key.inner
    lost = None if went is None else went.of(context.definitions[name])
    touched = computed_once(_touched(late, lost))
    few = sent(touched, sums.accepted) if lost is None else touched
    counted = dict.fromkeys(context.inputs, ALL)
    if not sums.accepted and lost is None:
        events = context.reader.events(counted).where(F.lit(False))
    else:
        own = (late.key, few.select(*keys)) if keys else None
        events = people(context, counted, EVERYTHING, own).events
    sliced = slices(context, events, [name], computed_once)
    assert sliced.events is not None
    sliced = replace(sliced, count=sliced.events.count())
    built = sliced.build(context.definitions[name])
    built = replace(built, frame=computed_once(built.frame))
    held, assigned = _checked(context, state, built, touched)
    kind = built.kind
    assert isinstance(kind, Placed)
    # Earlier rows of the key are as they were, where events are in order of time.
    first = F.lit(-FAR) if kind.reach.behind is None else F.col(START) - kind.reach.behind
    limit = context.limit(horizon)
    if limit is not None:
        first = F.greatest(first, F.lit(limit))
    replaced = ReplacedWindows(None, few.select(*keys, first.alias(START), F.lit(FAR).alias(END)))
    low = _first_row(built, kind, touched)
    hull = (0, -1) if low is None else (low, None)
    reached = match_rows(built.frame, built, replaced, "left_semi")
    wanted = starts_on(state.settled.covered, zone) & lasting(context, built, horizon)
    ours = replace(built, frame=reached.where(wanted))
    rewrite = rewrite_files(context, staging, state, ours, replaced, hull, horizon)
    closure = NONE if low is None else dates_of_span((low, None), zone)
    return ComputedWindows(
        rewrite=rewrite, closure=closure, every=built, held=held, assigned=assigned
    )


def _touched(late: Sliced, went: Sliced | None) -> DataFrame:
    """The keys of events that came or went, the time of the first one (START), and their number.

    The number is how many more there are of a key.
    """
    assert late.events is not None
    keys = late.key.inner
    rows = late.events.select(*keys, TIME, F.lit(1).alias(_LATE))
    if went is not None:
        assert went.events is not None
        rows = rows.unionByName(went.events.select(*keys, TIME, F.lit(-1).alias(_LATE)))
    found = rows.groupBy(*keys).agg(F.min(TIME).alias(START), F.sum(_LATE).alias(_LATE))
    # Of no events, the whole stream is a row too.
    return found.where(F.col(START).isNotNull())


def _first_row(built: Built, kind: Placed, touched: DataFrame) -> int | None:
    """Before this, µs, no row is replaced; None where no event came or went."""
    first: int | None = touched.agg(F.min(START)).collect()[0][0]
    if first is None or kind.reach.behind is not None:
        return first if first is None else first - (kind.reach.behind or 0)
    # Rows of events that went can be before all that are left.
    assert built.sliced.events is not None
    least: int | None = built.sliced.events.agg(F.min(TIME)).collect()[0][0]
    return first if least is None else min(first, least)


def _checked(context: Context, state: State, built: Built, touched: DataFrame) -> tuple[int, int]:
    """How many events the rows hold as their own, and how many have to be: the same.

    Raises:
        ConservationError: they are not.
        SourceError: the source has fewer events than the published rows hold.
    """
    events = built.sliced.events
    assert events is not None
    kind = built.kind
    assert isinstance(kind, Placed)
    held = built.frame.agg(F.sum(kind.held)).collect()[0][0] or 0
    assigned = assigned_to(built.sliced, built.definition)
    check_held(state.name, held, assigned)
    files = candidates(context, state, built, None, None)
    if files:
        keys = built.sliced.key.inner
        rows = of_keys(published(context, state, built, files), touched, keys, "left_semi")
        before = rows.groupBy(*keys).agg(
            F.sum(kind.held).alias(_BEFORE), F.min(START).alias(START), F.max(END).alias(END)
        )
        now = events.groupBy(*keys).agg(F.count(F.lit(1)).alias(_NOW))
        joined = _joined(_joined(before, now, keys), touched.select(*keys, _LATE), keys)
        known = F.coalesce(F.col(_NOW), F.lit(0)) - F.col(_LATE)
        check_none_gone(context, joined.where(kind.owned(known) < F.col(_BEFORE)))
    return held, assigned


def _joined(rows: DataFrame, counts: DataFrame, keys: list[str]) -> DataFrame:
    """The rows with the other columns of their key; NULL equals NULL."""
    theirs = counts.withColumnsRenamed({each: f"{_OTHER}{each}" for each in keys})
    same = [F.col(each).eqNullSafe(F.col(f"{_OTHER}{each}")) for each in keys]
    joined = rows.join(theirs, reduce(and_, same, F.lit(True)), "left")
    return joined.drop(*(f"{_OTHER}{each}" for each in keys))
