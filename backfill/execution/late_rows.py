"""Late events of windows around single events, of metrics and joins: recomputes the rows in reach.

Only these rows of a key with a late event are computed, from the events that they need. Here every
input counts on every date.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import and_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.columns import END, OWN, START, TIME
from backfill.conservation import Totals, assigned_to, check_held
from backfill.engines import Engine
from backfill.execution.change import ComputedWindows
from backfill.execution.rebuild import check_none_gone
from backfill.execution.retention import lasting
from backfill.execution.rewrite import rewrite_files
from backfill.execution.staging import Staging
from backfill.kinds.standing import Standing
from backfill.ledger.state import State
from backfill.planning.context import Context
from backfill.planning.published_windows import candidates, published
from backfill.planning.reached import reached_rows
from backfill.planning.replaced_windows import ReplacedWindows, match_rows, sent
from backfill.planning.rows_of_extents import rows_of
from backfill.planning.time_spans import dates_of_span, starts_on
from backfill.rows.compute import Built, Sliced
from backfill.rows.event_rows import own_end
from backfill.runtimes.differences import computed_once, stacked
from backfill.time.dates import NONE
from backfill.time.spans import Span
from backfill.windows import AnyWindow, RollingWindow, SlidingWindow, TableWindow, is_distinct

_NOW, _OTHER = "_now", "_other"


def late_rows(
    context: Context,
    staging: Staging,
    state: State,
    late: Sliced,
    sums: Totals,
    horizon: int,
    went: Sliced | None = None,
) -> ComputedWindows:
    """The rows that late events affect, written with the other rows of their files.

    Args:
        context: the run's context.
        staging: where to write.
        state: the table, of windows around single events, of a metric or of a join.
        late: the late events.
        sums: their totals.
        horizon: the largest event time, µs.
        went: events that are no longer counted.

    Raises:
        ConservationError: a late event has no row.
        SourceError: the source no longer holds events that were counted.
    """
    name, zone = state.name, context.spec.timezone
    definition = context.definitions[name]
    late, went = late.of(definition), None if went is None else went.of(definition)
    kind = Built(late.frame, definition, late).kind
    assert isinstance(kind, Standing)
    changed = late if went is None else _both(late, went)
    extents = computed_once(reached_rows(changed, kind))
    span: Span = (0, 0)
    if went is not None:
        first, last = _events(changed).agg(F.min(TIME), F.max(TIME)).collect()[0]
        if first is not None:
            span = kind.reach.rows((first, last + 1))
    else:
        if sums.first is not None and sums.horizon is not None:
            span = kind.reach.rows((sums.first, sums.horizon + 1))
        extents = sent(extents, sums.accepted)
    every = _computed(context, state, kind, late, extents, span, went)
    assigned = assigned_to(late, definition) if definition.blanks else sums.assigned[name]
    held = _with_row(late, every)
    check_held(name, held, assigned)
    limit = context.limit(horizon)
    first = F.col(START) if limit is None else F.greatest(START, F.lit(limit))
    replaced = ReplacedWindows(None, extents.withColumn(START, first))
    between = (span[0], None if span[1] is None else span[1] - 1)
    starts = starts_on(state.settled.covered, zone) & lasting(context, every, horizon)
    ours = replace(every, frame=every.frame.where(starts))
    rewrite = rewrite_files(context, staging, state, ours, replaced, between, horizon)
    closure = dates_of_span(span, zone) if sums.accepted or went is not None else NONE
    return ComputedWindows(
        rewrite=rewrite, closure=closure, every=every, held=held, assigned=assigned
    )


def _computed(
    context: Context,
    state: State,
    kind: Standing,
    late: Sliced,
    extents: DataFrame,
    span: Span,
    went: Sliced | None,
) -> Built:
    """The rows that stand in extents, built from only the events that they need."""
    start, end = kind.needs(F.col(START), F.col(END))
    wanted = extents.withColumns({START: start, END: end})
    needed = kind.reach.events(span)
    built = rows_of(context, state.name, context.all_dates, needed, late.key, wanted)
    gone = _gone(context, state, built, wanted, needed, went)
    if gone is not None:
        check_none_gone(context, gone)
    rows = match_rows(built.frame, built, ReplacedWindows(None, extents), "left_semi")
    return replace(built, frame=computed_once(rows))


def _gone(
    context: Context,
    state: State,
    built: Built,
    extents: DataFrame,
    span: Span,
    went: Sliced | None,
) -> DataFrame | None:
    """Where the source has fewer events than the published rows hold: start and end, µs.

    Args:
        context: the run's context.
        state: the table.
        built: the rows, with the events of these extents.
        extents: key, start and end, µs.
        span: the span that they are in.
        went: events that are no longer counted.

    Returns:
        None if no file can hold published rows of them.
    """
    window, sliced = built.definition.window, built.sliced
    assert sliced.events is not None
    assert isinstance(window, SlidingWindow | TableWindow)
    low, high = span
    files = candidates(context, state, built, low, None if high is None else high - 1)
    if not files:
        return None
    rows = published(context, state, built, files)
    if isinstance(window, RollingWindow):
        # The events of a row's own step begin one step before the row.
        extents = extents.withColumn(START, F.col(START) + window.step.us)
    elif _clipped(window, sliced.engine):
        # Events before the extent share the first window with events in it.
        assert isinstance(window, SlidingWindow)
        assert window.size is not None
        rows = rows.where(F.col(END) > window.size.us)
    rows = match_rows(rows, built, ReplacedWindows(None, extents), "left_semi")
    same = [*sliced.key.inner, END]
    known = sliced if went is None else _both(sliced, went)
    ends = _events(known).withColumn(END, own_end(window, sliced.engine))
    now = ends.select(*same, F.lit(1).alias(_NOW))
    # Grouping both together takes one exchange; a join would take two.
    both = stacked(rows.select(*same, OWN), now).groupBy(*same)
    counts = both.agg(F.sum(OWN).alias(OWN), F.count(_NOW).alias(_NOW))
    return counts.where(F.col(_NOW) < F.col(OWN)).select(F.col(END).alias(START), END)


def _clipped(window: AnyWindow, engine: Engine) -> bool:
    """Whether the first windows begin at 1970, however far back they would reach."""
    return is_distinct(window) and engine.rules.clips_at_epoch


def _both(one: Sliced, other: Sliced) -> Sliced:
    """The events of both, with key and time only."""
    columns = [*one.key.inner, TIME]
    rows = _events(one).select(*columns).unionByName(_events(other).select(*columns))
    return replace(one, events=rows)


def _events(sliced: Sliced) -> DataFrame:
    assert sliced.events is not None
    return sliced.events


def _with_row(late: Sliced, rows: Built) -> int:
    """How many of the late events have a row of their own."""
    window = rows.definition.window
    assert late.events is not None
    assert isinstance(window, SlidingWindow | TableWindow)
    keys = late.key.inner
    own = late.events.select(*keys, own_end(window, late.engine).alias(END))
    others = rows.frame.select(*(F.col(name).alias(f"{_OTHER}{name}") for name in (*keys, END)))
    same = [F.col(name).eqNullSafe(F.col(f"{_OTHER}{name}")) for name in (*keys, END)]
    return own.join(others, reduce(and_, same), "left_semi").count()
