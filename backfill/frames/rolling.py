"""Rolling metrics: aggregates over the last minutes, hours or days, by dimensions.

In the examples, `spark` is a session such as `backfill.spark.session()`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill.aggregates.bound import Bound
from backfill.columns import TIME, any_given, arrival_of, column
from backfill.errors import ColumnError, WindowError
from backfill.events import time_column
from backfill.frames.arguments import check_frame
from backfill.frames.metric import AT as GIVEN
from backfill.frames.metric import (
    BY,
    STEP,
    TIES,
    VALID_FROM,
    WINDOW,
    Metric,
    value_name,
    value_names,
)
from backfill.frames.metric_inputs import ROW, BoundMetrics, bind_metrics, check_names, place_rows
from backfill.frames.metric_inputs import TIED as _TIES
from backfill.operators.rolling_rows import PEERS, rolling_rows
from backfill.operators.rolling_steps import BLOCK, SPAN
from backfill.operators.sliding import AT
from backfill.operators.steps import INSTANT, at_instants, changes, every_step
from backfill.rows.step_rows import step_rows
from backfill.runtimes.differences import needs_spark, stacked
from backfill.time.durations import Fixed

#: Whether a row is an event; other rows only ask for values.
_COUNTS = "_counts"


def metrics(
    events: DataFrame,
    metrics: Sequence[Metric],
    *,
    time: str,
    id: str | None = None,
    arrival: str | Sequence[str] | None = None,
    time_format: str | None = None,
    timezone: str = "UTC",
    dense: bool = False,
    at: DataFrame | None = None,
) -> DataFrame:
    """Returns the values of metrics as step functions, with a row wherever a value changes.

    At each step T a metric is its aggregate over the events of [T - window, T): an event that
    happens at T itself counts from the next step on. A row holds until the next one of the same
    grouping, dimensions, window and step. The last row of each step function says that the values
    have fallen back to those without events, 0 or NULL; it may lie a window's length after the
    last event.

    The result is lazy, like any DataFrame. Rows with an unusable time are left out. A grouping also
    leaves out rows whose dimensions are all NULL.

    Args:
        events: any DataFrame.
        metrics: what to compute; metrics with the same dimensions, window and step share rows.
        time: the event time, as for `aggregate`.
        id: rows with equal dimensions, time and id are one event and count once.
        arrival: the column or columns that order events with equal times, for `first` and `last`.
        time_format: as for `aggregate`.
        timezone: for times without a zone.
        dense: a row for every step from the first row of a step function to its last one.
        at: give the values at these instants instead of at the steps: a DataFrame with one column,
            read like the event time. There is a row where at least one value differs from that of
            a window without events. Every instant is sent to every task, so there should be no
            more than a few thousand.

    Returns:
        `by`, the names of the row's dimensions joined by ", "; a column for each dimension of any
        metric, NULL where the row has another grouping; `window` and `step` as text, such as "7d";
        `valid_from`, a timestamp (with `at`: the instant, in the column `at`); and a column for
        each metric, NULL where it lacks the row's grouping, window or step. Approximate numbers of
        distinct values are exact here.

    Raises:
        ColumnError: if a column is missing or has an unsuitable type.
        AggregateError: if there are no metrics, two have the same name, or an aggregate does not
            fit the events.
        WindowError: if both `dense` and `at` are given.
        JobFileError: if the time zone does not exist.
        SetupError: as for `aggregate`.

    Example:
        >>> from backfill import Metric, aggregates as agg
        >>> payments = spark.sql(
        ...     "SELECT account, card, timestamp_seconds(m * 60) AS at"
        ...     " FROM VALUES ('a', 'x', 1), ('a', 'y', 17), ('a', 'x', 18) t(account, card, m)"
        ... )
        >>> cards = Metric(
        ...     "cards", agg.count_distinct("card"), by=["account"], windows=["1h"], step="10m"
        ... )
        >>> found = metrics(payments, [cards], time="at")
        >>> found.columns
        ['by', 'account', 'window', 'step', 'valid_from', 'cards']
        >>> minute = "unix_seconds(valid_from) div 60 AS minute"
        >>> sorted(tuple(row) for row in found.selectExpr(minute, "cards").collect())
        [(10, 1), (20, 2), (80, 0)]
    """
    if dense and at is not None:
        raise WindowError(
            "can't be combined with at",
            field="dense",
            value=dense,
            way_out="Leave one out: `at` gives the values at its own instants only",
        )
    arrived = arrival_of(arrival)
    bound_metrics = bind_metrics(events, metrics, time, time_format, timezone, id, arrived)
    instants = None if at is None else _instants(at, time_format, timezone)
    instant_name = VALID_FROM if at is None else GIVEN
    parts = []
    for family in _families(metrics):
        inner = bound_metrics.inner(family.by)
        steps, keys = _steps(bound_metrics, family, inner), [*inner, SPAN]
        if dense:
            steps = every_step(steps, keys, family.step.us)
        elif instants is not None:
            steps = at_instants(steps, keys, instants).where(~_all_empty(family, bound_metrics))
        parts.append(_as_rows(steps, bound_metrics, family, instant_name))
    together = reduce(stacked, parts)
    names = (metric.name for metric in metrics)
    return together.select(
        *map(column, (BY, *bound_metrics.events.key.names, WINDOW, STEP, instant_name, *names))
    )


def metrics_at(
    events: DataFrame,
    metrics: Sequence[Metric],
    *,
    time: str,
    at: DataFrame | None = None,
    before: bool = False,
    id: str | None = None,
    arrival: str | Sequence[str] | None = None,
    time_format: str | None = None,
    timezone: str = "UTC",
) -> DataFrame:
    """Returns rows with the values that metrics have as of each row: what a rule saw then.

    For a row at t, a metric is its aggregate over the events from t - window up to the row itself,
    in the order of time and arrival. Nothing that came later counts, so training sets made of it
    are correct in time. The metrics' steps have no meaning here.

    Without `arrival`, or with equal arrivals, the order of events at the same time is unknown. Then
    all of them count for each of them, or with `before` none of them; `ties` says how many.

    Args:
        events: any DataFrame.
        metrics: what to compute.
        time: the event time, as for `aggregate`.
        at: rows with the metrics' dimensions and `time`, such as labels; by default the events
            themselves. If it lacks a column of `arrival`, its order among events of the same
            time is unknown.
        before: leave out the row's own event, and all others at the same place in the order.
        id: as for `metrics`.
        arrival: the column or columns that order events with equal times.
        time_format: as for `aggregate`.
        timezone: for times without a zone.

    Returns:
        All rows of `at` with all their columns; for each metric and window its value, in a column
        such as `cards_7d`, or `cards_by_partner_country_7d` if the metric has several groupings;
        and `ties`, the number of other events at the same place in the order, in the grouping with
        most of them. In rows with an unusable time all added columns are NULL; so are values by
        dimensions that are all NULL.

    Raises:
        ColumnError: if a column is missing or has an unsuitable type, or `at` already has one of
            the result's columns.
        AggregateError, JobFileError: as for `metrics`.
        SetupError: as for `aggregate`; also with `before` if the session's runtime is not Spark.

    Example:
        >>> from backfill import Metric, aggregates as agg
        >>> payments = spark.sql(
        ...     "SELECT account, card, timestamp_seconds(m * 60) AS at"
        ...     " FROM VALUES ('a', 'x', 1), ('a', 'y', 17), ('a', 'x', 18) t(account, card, m)"
        ... )
        >>> cards = Metric(
        ...     "cards", agg.count_distinct("card"), by=["account"], windows=["1h"], step="10m"
        ... )
        >>> found = metrics_at(payments, [cards], time="at", before=True)
        >>> sorted((row.card, row.cards_1h) for row in found.collect())
        [('x', 0), ('x', 2), ('y', 1)]
    """
    check_frame(events)
    if at is not None:
        check_frame(at, field="at")
    if before:
        # `Order.spread` copies the first row's values to its whole place: rows must keep order.
        needs_spark(events, "values from before an event are computed", field="before")
    arrived = arrival_of(arrival)
    rows = events if at is None else at
    # With an id, copies of an event are rows too, at places where there is no event.
    itself = at is None and id is None
    bound_metrics = bind_metrics(
        events, metrics, time, time_format, timezone, id, arrived, whole=itself
    )
    check_names(rows, metrics)
    placed, known = bound_metrics.frame, bound_metrics.events.arrival
    if not itself:
        placed, known = place_rows(rows, bound_metrics, time, time_format, timezone, arrived)
    for by in dict.fromkeys(by for metric in metrics for by in metric.by):
        placed = _with_values(placed, bound_metrics, by, metrics, known, before, itself)
    ties = F.greatest(F.lit(0), F.col(_TIES) - F.lit(1 if at is None else 0))
    return placed.select(
        *(F.col(ROW)[name].alias(name) for name in rows.columns),
        *(column(name) for name in value_names(metrics)),
        F.when(F.col(TIME).isNotNull(), ties).alias(TIES),
    )


@dataclass(frozen=True)
class _Family:
    """Metrics that share rows: those with the same dimensions and steps."""

    by: tuple[str, ...]
    step: Fixed
    offset: int
    metrics: tuple[Metric, ...]

    @property
    def windows(self) -> list[Fixed]:
        """The windows of all the metrics, each once."""
        return list(dict.fromkeys(window for metric in self.metrics for window in metric.windows))


def _families(metrics: Sequence[Metric]) -> list[_Family]:
    groups: dict[tuple[tuple[str, ...], Fixed, int], list[Metric]] = {}
    for metric in metrics:
        for by in metric.by:
            place = (by, metric.step, metric.offset.us % metric.step.us)
            groups.setdefault(place, []).append(metric)
    return [_Family(*place, tuple(own)) for place, own in groups.items()]


def _steps(bound_metrics: BoundMetrics, family: _Family, keys: Sequence[str]) -> DataFrame:
    """Keys, SPAN, AT and values by name, wherever a value changes."""
    events, arrival = bound_metrics.usable(family.by), bound_metrics.events.arrival
    bound = bound_metrics.aggregates(family.metrics)
    own = list({binding.index: binding for binding in bound.values()}.values())
    rows = step_rows(
        events,
        family.windows,
        keys,
        own,
        step=family.step.us,
        offset=family.offset,
        arrival=arrival,
    )
    values = [
        F.when(F.col(SPAN).isin([window.us for window in metric.windows]), value).alias(metric.name)
        for metric in family.metrics
        for value in [bound[metric.name].finish(metric.name)]
    ]
    aggregates = {name: binding.aggregate for name, binding in bound.items()}
    placed = rows.select(*keys, SPAN, BLOCK, AT, *values)
    # In the order that the rows already have, so that nothing is sorted again.
    return changes(placed, [*keys, SPAN], [BLOCK, AT], aggregates).drop(BLOCK)


def _with_values(
    rows: DataFrame,
    bound_metrics: BoundMetrics,
    by: tuple[str, ...],
    metrics: Sequence[Metric],
    arrival: Sequence[str],
    before: bool,
    itself: bool,
) -> DataFrame:
    """Adds the values of a grouping to the rows, and its number of ties if that is larger.

    `itself`: the rows are the events.
    """
    keys = bound_metrics.inner(by)
    own = [metric for metric in metrics if by in metric.by]
    bound = bound_metrics.aggregates(own)
    values: dict[int, dict[str, Bound]] = {}
    for metric in own:
        for window in metric.windows:
            values.setdefault(window.us, {})[value_name(metric, by, window)] = bound[metric.name]
    usable = F.col(TIME).isNotNull() & any_given(keys)
    both = rows.withColumn(_COUNTS, usable)
    if not itself:
        events = bound_metrics.usable(by).withColumn(_COUNTS, F.lit(True))
        both = stacked(rows.withColumn(_COUNTS, F.lit(False)), events)
    placed = rolling_rows(both, values, keys, arrival, counts=_COUNTS, before=before)
    if not itself:
        placed = placed.where(~F.col(_COUNTS))
    names = [name for named in values.values() for name in named]
    usable_values = {name: F.when(usable, column(name)) for name in names}
    most = F.greatest(F.when(usable, F.col(PEERS)).otherwise(0), F.col(_TIES))
    return placed.withColumns({**usable_values, _TIES: most}).drop(PEERS, _COUNTS)


def _all_empty(family: _Family, bound_metrics: BoundMetrics) -> Column:
    bound = bound_metrics.aggregates(family.metrics)
    empty = (binding.aggregate.is_empty(column(name)) for name, binding in bound.items())
    # A metric without the row's window counts as empty.
    return reduce(and_, (F.coalesce(condition, F.lit(True)) for condition in empty))


def _as_rows(steps: DataFrame, bound_metrics: BoundMetrics, family: _Family, at: str) -> DataFrame:
    """The columns of the result."""
    spans = F.create_map(
        *(F.lit(literal) for span in family.windows for literal in (span.us, str(span)))
    )
    return steps.select(
        F.lit(", ".join(family.by)).alias(BY),
        *(
            F.col(inner).alias(name)
            for inner, name in zip(bound_metrics.inner(family.by), family.by, strict=True)
        ),
        spans[F.col(SPAN)].alias(WINDOW),
        F.lit(str(family.step)).alias(STEP),
        F.timestamp_micros(AT).alias(at),
        *(column(metric.name) for metric in family.metrics),
    )


def _instants(at: DataFrame, time_format: str | None, timezone: str) -> DataFrame:
    check_frame(at, field="at")
    if len(at.columns) != 1:
        raise ColumnError(
            "must have one column, of instants",
            field="at",
            value=", ".join(at.columns),
            way_out="Select that column; for values at the times of a key's events, use metrics_at",
        )
    instant = time_column(at, at.columns[0], time_format, timezone)
    return at.select(instant.alias(INSTANT)).where(F.col(INSTANT).isNotNull()).distinct()
