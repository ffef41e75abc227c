"""The inputs of metrics: from events, and from the rows as of which values are computed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill.aggregates.bound import Bound
from backfill.columns import REASON, TIME, any_given, column, named_twice
from backfill.errors import AggregateError, ColumnError
from backfill.events import EventRules, check_column, normalise
from backfill.frames.arguments import check_frame, check_metrics
from backfill.frames.event_inputs import BoundEvents, with_inputs
from backfill.frames.metric import TIES, Metric, value_names
from backfill.rows.fitting import check_framed
from backfill.rows.slices import distinct_by_hour

#: A row as it was given, as a struct.
ROW = "_backfill_row"
#: How many events are at a row's place in the order of time and arrival.
TIED = "_ties"


@dataclass(frozen=True)
class BoundMetrics:
    """Events with the metrics' inputs.

    Attributes:
        frame: the events, each once, with all dimensions under inner names.
        events: their key, arrival columns and bound aggregates.
    """

    frame: DataFrame
    events: BoundEvents

    def inner(self, by: Sequence[str]) -> list[str]:
        """The columns that hold these dimensions."""
        key = self.events.key
        return [key.inner[key.names.index(dimension)] for dimension in by]

    def usable(self, by: Sequence[str]) -> DataFrame:
        """The events, without those whose dimensions are all NULL."""
        return self.frame.where(any_given(self.inner(by)))

    def aggregates(self, metrics: Iterable[Metric]) -> dict[str, Bound]:
        """The bound aggregates, by metric name."""
        return {metric.name: self.events.bound[metric.aggregate].sliding() for metric in metrics}


def bind_metrics(
    events: DataFrame,
    metrics: Sequence[Metric],
    time: str,
    time_format: str | None,
    timezone: str,
    id: str | None,
    arrival: tuple[str, ...],
    *,
    whole: bool = False,
) -> BoundMetrics:
    """Evaluates the metrics' inputs for each event.

    `whole`: keep all rows, even unusable ones, each with ROW and with no ties yet. In unusable
    rows everything else is NULL.

    Raises:
        AggregateError: if the metrics can't be used together, or one does not fit the events.
        ColumnError: if a column is missing or has an unsuitable type.
    """
    check_frame(events)
    check_metrics(metrics)
    dimensions = _dimensions(metrics)
    for name in dimensions:
        check_column(events, "by", name)
    rules = EventRules(
        key=tuple(dimensions),
        time=time,
        time_format=time_format,
        timezone=timezone,
        id=id,
        arrival=arrival,
        # A row without one dimension may have others.
        null_key=True,
    )
    usable = F.col(REASON).isNull()
    placed = normalise(events, rules)
    if whole:
        row = F.struct(*map(column, events.columns)).alias(ROW)
        names = (*events.columns, TIME)
        placed = placed.select(
            row, *(F.when(usable, column(column_name)).alias(column_name) for column_name in names)
        )
    else:
        placed = placed.where(usable)
    bound_events = with_inputs(
        placed,
        [metric.aggregate for metric in metrics],
        key=dimensions,
        id=id,
        arrival=arrival,
        also=[F.col(ROW), F.lit(0).cast("long").alias(TIED)] if whole else [],
    )
    check_framed(events, [binding.sliding() for binding in bound_events.bound.values()])
    frame = (
        bound_events.frame
        if id is None
        else distinct_by_hour(bound_events.frame, bound_events.key.inner)
    )
    return BoundMetrics(frame, bound_events)


def check_names(rows: DataFrame, metrics: Sequence[Metric]) -> None:
    """Raises a ColumnError if the rows already have a column that would be added to them."""
    for name in (*value_names(metrics), TIES):
        if name in rows.columns:
            raise ColumnError(
                "the rows already have a column with this name",
                field="at",
                value=name,
                way_out="Drop or rename it",
            )


def place_rows(
    rows: DataFrame,
    bound_metrics: BoundMetrics,
    time: str,
    time_format: str | None,
    timezone: str,
    arrival: tuple[str, ...],
) -> tuple[DataFrame, tuple[str, ...]]:
    """Reads the time and dimensions of the rows as of which metrics are computed.

    Args:
        rows: the rows as of which metrics are computed.
        bound_metrics: the events.
        time: as for the events.
        time_format: the same.
        timezone: the same.
        arrival: the columns of the events' arrival.

    Returns:
        ROW, the dimensions, TIME (NULL where it is unusable) and arrival under inner names, and
        no ties yet; and the inner names of the arrival columns, empty if one is missing.

    Raises:
        ColumnError: if a column is missing or unsuitable.
    """
    _check_dimensions(rows, bound_metrics)
    known = all(name in rows.columns for name in arrival)
    named = dict(zip(bound_metrics.events.key.names, bound_metrics.events.key.inner, strict=True))
    arrived = dict(zip(arrival, bound_metrics.events.arrival, strict=True)) if known else {}
    rules = EventRules(
        key=bound_metrics.events.key.names,
        time=time,
        time_format=time_format,
        timezone=timezone,
        arrival=tuple(arrived),
        null_key=True,
    )
    usable = F.col(REASON).isNull()
    placed = normalise(rows, rules).select(
        F.struct(*map(column, rows.columns)).alias(ROW),
        *(column(name).alias(inner) for name, inner in (named | arrived).items()),
        F.when(usable, F.col(TIME)).alias(TIME),
        F.lit(0).cast("long").alias(TIED),
    )
    return placed, tuple(arrived.values())


def _check_dimensions(rows: DataFrame, bound_metrics: BoundMetrics) -> None:
    """Refuses a dimension that Spark would cast for comparisons: some values can't be cast."""
    types = {field.name: field.dataType for field in rows.schema}
    key = bound_metrics.events.key
    for name, wanted in zip(key.names, key.types, strict=True):
        type = types.get(name, wanted)
        numbers = isinstance(type, T.NumericType) and isinstance(wanted, T.NumericType)
        if type != wanted and not numbers:
            raise ColumnError(
                f"is {type.simpleString()}, and {wanted.simpleString()} in the events",
                field="at",
                value=name,
                way_out="Cast it to the events' type",
            )


def _dimensions(metrics: Sequence[Metric]) -> list[str]:
    """The columns of all dimensions, each once, after checking that the metrics go together."""
    names = [metric.name for metric in metrics]
    if not names:
        raise AggregateError(
            "is empty", field="metrics", way_out="Give at least one metric: [Metric(...)]"
        )
    dimensions = list(dict.fromkeys(name for metric in metrics for by in metric.by for name in by))
    twice = named_twice([*names, *dimensions])
    if twice is not None:
        raise AggregateError(
            "two columns of the result would have this name",
            field="metrics",
            value=twice,
            way_out="Give each metric its own name, different from those of dimensions",
        )
    return dimensions
