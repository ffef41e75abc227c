"""Late events of windows by number or by offset: all events of their keys are read again.

A late event moves every later window of its key, or of the stream if windows have no key. Of pairs
by number, it changes those near it. Here every input counts on every date.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.columns import END, START, TIME
from backfill.conservation import Totals, assigned_to, check_held
from backfill.execution.change import ComputedWindows
from backfill.execution.rebuild import check_none_gone
from backfill.execution.retention import lasting
from backfill.execution.rewrite import rewrite_files
from backfill.execution.staging import Staging
from backfill.kinds.placed import FAR, Placed
from backfill.ledger.state import State
from backfill.planning.bots import people
from backfill.planning.computed import computed_with
from backfill.planning.computed import hull as hull_of_extents
from backfill.planning.context import Context
from backfill.planning.published_windows import candidates, published
from backfill.planning.reached_pairs import reached_pairs
from backfill.planning.replaced_windows import ReplacedWindows, match_rows, of_keys, sent
from backfill.planning.slicing import slices
from backfill.planning.time_spans import dates_of_span, starts_on
from backfill.rows.compute import Built, Sliced
from backfill.runtimes.differences import computed_once, stacked
from backfill.time.dates import NONE
from backfill.time.spans import EVERYTHING, Span
from backfill.windows import JoinWindow

_BEFORE, _NOW, _LATE = "_before", "_now", "_late"


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
        context: the run's context.
        staging: where to write.
        state: the table, of windows by number or by offset, or of pairs by number.
        late: the late events.
        sums: their totals.
        horizon: the largest event time, µs.
        went: events that are no longer counted.

    Raises:
        ConservationError: an event has no row.
        SourceError: the source no longer holds events that were counted.
    """
    name, zone = state.name, context.spec.timezone
    late = late.of(context.definitions[name])
    keys = late.key.inner
    lost = None if went is None else went.of(context.definitions[name])
    touched, came = computed_with(_touched(late, lost), F.min(START).alias("first"))
    few = sent(touched, sums.accepted) if lost is None else touched
    if not sums.accepted and lost is None:
        events = context.reader.events(context.all_dates).where(F.lit(False))
    else:
        own = (late.key, few.select(*keys)) if keys else None
        events = people(context, context.all_dates, EVERYTHING, own).events
    sliced = slices(context, events, [name])
    assert sliced.events is not None
    there, seen = computed_with(
        sliced.events, F.count(F.lit(1)).alias("count"), F.min(TIME).alias("first")
    )
    built = replace(sliced, events=there, count=seen["count"]).build(context.definitions[name])
    kind = built.kind
    assert isinstance(kind, Placed)
    frame, facts = computed_with(built.frame, F.sum(kind.held).alias("held"))
    built, held = replace(built, frame=frame), facts["held"] or 0
    assigned = _checked(context, state, built, touched, held)
    hull: Span
    if isinstance(built.definition.window, JoinWindow):
        extents = computed_once(reached_pairs(built.sliced, built.definition.window, touched))
        hull = hull_of_extents(extents) or (0, -1)
    else:
        # If events are in order of time, earlier rows of the key stay as they were.
        first = F.lit(-FAR) if kind.reach.behind is None else F.col(START) - kind.reach.behind
        extents = few.select(*keys, first.alias(START), F.lit(FAR).alias(END))
        low = _first_row(kind, came["first"], seen["first"])
        hull = (0, -1) if low is None else (low, None)
    limit = context.limit(horizon)
    if limit is not None:
        extents = extents.withColumn(START, F.greatest(START, F.lit(limit)))
    replaced = ReplacedWindows(None, extents)
    reached = match_rows(built.frame, built, replaced, "left_semi")
    wanted = starts_on(state.settled.covered, zone) & lasting(context, built, horizon)
    ours = replace(built, frame=reached.where(wanted))
    rewrite = rewrite_files(context, staging, state, ours, replaced, hull, horizon)
    first_row, last_row = hull
    span = first_row, None if last_row is None else last_row + 1
    closure = NONE if hull == (0, -1) else dates_of_span(span, zone)
    return ComputedWindows(
        rewrite=rewrite, closure=closure, every=built, held=held, assigned=assigned
    )


def _touched(late: Sliced, went: Sliced | None) -> DataFrame:
    """The keys of events that came or went, with START, END and _LATE.

    These are the times of the first and the last such event (µs), and how many more events the
    key has now.
    """
    assert late.events is not None
    keys = late.key.inner
    rows = late.events.select(*keys, TIME, F.lit(1).alias(_LATE))
    if went is not None:
        assert went.events is not None
        rows = rows.unionByName(went.events.select(*keys, TIME, F.lit(-1).alias(_LATE)))
    spans = rows.groupBy(*keys).agg(
        F.min(TIME).alias(START), F.max(TIME).alias(END), F.sum(_LATE).alias(_LATE)
    )
    # For the whole stream there is a row even if there are no events.
    return spans.where(F.col(START).isNotNull())


def _first_row(kind: Placed, first: int | None, least: int | None) -> int | None:
    """The time (µs) before which no row is replaced; None if no event came or went.

    Args:
        kind: the kind of the rows.
        first: the time of the first event that came or went, µs.
        least: the least time of the events that are there now, µs.
    """
    if first is None or kind.reach.behind is not None:
        return first if first is None else first - (kind.reach.behind or 0)
    # Rows of events that went can lie before all events that are left.
    return first if least is None else min(first, least)


def _checked(context: Context, state: State, built: Built, touched: DataFrame, held: int) -> int:
    """How many events the rows must hold as their own; checks that they hold as many.

    Raises:
        ConservationError: the rows hold another number.
        SourceError: the source has fewer events than the published rows hold.
    """
    events = built.sliced.events
    assert events is not None
    kind = built.kind
    assert isinstance(kind, Placed)
    assigned = assigned_to(built.sliced, built.definition)
    check_held(state.name, held, assigned)
    files = candidates(context, state, built, None, None)
    if files:
        keys = built.sliced.key.inner
        rows = of_keys(published(context, state, built, files), touched, keys, "left_semi")
        before = rows.select(*keys, START, END, F.col(kind.held).alias(_BEFORE))
        now = events.select(*keys, F.lit(1).alias(_NOW))
        # Grouping all together takes one exchange; joins would take several.
        both = reduce(
            stacked,
            (before, now, touched.select(*keys, _LATE)),
        )
        counts = both.groupBy(*keys).agg(
            F.sum(_BEFORE).alias(_BEFORE),
            F.min(START).alias(START),
            F.max(END).alias(END),
            (F.count(_NOW) - F.sum(_LATE)).alias(_NOW),
        )
        check_none_gone(context, counts.where(kind.owned(F.col(_NOW)) < F.col(_BEFORE)))
    return assigned
