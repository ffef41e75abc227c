"""The definition of a rolling metric: which events, over which windows, how often it moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd

from pyspark.sql import Column

from backfill.aggregates import parse
from backfill.aggregates.base import Aggregate, Expression, Given, expression, to_column
from backfill.columns import HOLDS_FROM, named_twice
from backfill.errors import AggregateError, ColumnError, WindowError
from backfill.time.durations import Fixed, fixed
from backfill.windows.arguments import positive, set_fields

#: The result's own columns.
BY, WINDOW, STEP, VALID_FROM = "by", "window", "step", "valid_from"
AT, TIES = HOLDS_FROM, "ties"
#: A window of one microsecond is a single instant, which sliding windows can't express.
_SHORTEST_US = 2
_TAKEN = frozenset({BY, WINDOW, STEP, VALID_FROM, AT, TIES})


@dataclass(frozen=True)
class Metric:
    """An aggregate over the last minutes, hours or days, for each value of its dimensions.

    At each multiple T of the step, it is the aggregate over the events from T - window on and
    before T.

    Args:
        name: the name of its column.
        aggregate: from `backfill.aggregates`, or text as in a job file, such as "sum(amount)".
        by: the dimensions, any columns: ["account"], or [] for all events together. A list of lists
            gives several groupings of the same metric: [["partner"], ["partner", "country"]].
        windows: fixed durations, each a whole number of steps, such as ["1h", "1d"]; 1d is 24
            hours.
        step: a fixed duration.
        where: a predicate; events for which it is false or NULL are left out.
        offset: shifts the steps, which are multiples of `step` since 1970 in UTC; may be negative.

    Raises:
        AggregateError: if the name is that of another column of the result, or the aggregate can't
            be read.
        ColumnError: if a dimension is named twice, or they are not a list.
        WindowError: if a duration is not fixed or not above zero, a window is not a whole number of
            steps, or there is no window.

    Example:
        >>> from backfill import aggregates as agg
        >>> cards = agg.count_distinct("card")
        >>> print(Metric("cards", cards, by=["account"], windows=["1d", "7d"], step="1h"))
        cards = count_distinct(card) by account over 1d, 7d every 1h
    """

    name: str
    aggregate: Aggregate
    by: tuple[tuple[str, ...], ...]
    windows: tuple[Fixed, ...]
    step: Fixed
    offset: Fixed

    def __init__(
        self,
        name: str,
        aggregate: Aggregate | str,
        *,
        by: Sequence[str] | Sequence[Sequence[str]],
        windows: Sequence[object],
        step: object,
        where: str | Column | None = None,
        offset: object = Fixed(0),
    ) -> None:
        set_fields(
            self,
            name=_name(name),
            aggregate=_filtered(
                parse(aggregate) if isinstance(aggregate, str) else aggregate, expression(where)
            ),
            by=_groupings(by),
            step=positive(fixed(step, field="step"), field="step"),
            offset=fixed(offset, field="offset"),
        )
        set_fields(self, windows=_windows(windows, self.step))
        if any(name.lower() == dimension.lower() for group in self.by for dimension in group):
            raise AggregateError("the name is that of a dimension", field="name", value=name)

    def __str__(self) -> str:
        by = " and ".join(f"({', '.join(group)})" for group in self.by)
        by = ", ".join(self.by[0]) if len(self.by) == 1 else by
        windows = ", ".join(map(str, self.windows))
        shift = f" from {self.offset}" if self.offset.us else ""
        grouped = f" by {by}" if by else ""
        return f"{self.name} = {self.aggregate}{grouped} over {windows} every {self.step}{shift}"


def grouped_name(metric: Metric, by: tuple[str, ...]) -> str:
    """The metric's name, with the grouping if it has several."""
    return f"{metric.name}_by_{'_'.join(by) or 'all'}" if len(metric.by) > 1 else metric.name


def value_name(metric: Metric, by: tuple[str, ...], window: Fixed) -> str:
    """The column of a metric's value as of an event."""
    return f"{grouped_name(metric, by)}_{window}"


def value_names(metrics: Sequence[Metric]) -> list[str]:
    """The columns of all values as of an event, in the metrics' order.

    Raises:
        AggregateError: if two of them are the same.
    """
    names = [
        value_name(metric, by, window)
        for metric in metrics
        for by in metric.by
        for window in metric.windows
    ]
    name = named_twice(names)
    if name is not None:
        raise AggregateError(
            "two columns of the result would have this name",
            field="metrics",
            value=name,
            way_out="Rename a metric",
        )
    return names


def _name(name: object) -> str:
    if not isinstance(name, str) or not name or name.startswith("_") or name.lower() in _TAKEN:
        raise AggregateError(
            "the name is reserved for the result's own columns",
            field="name",
            value=name,
            way_out="Choose another name, not beginning with an underscore",
        )
    return name


def _filtered(aggregate: Aggregate, where: Expression) -> Aggregate:
    """The aggregate of the events that both its own predicate and the metric's let through."""
    own = aggregate.where
    if where is None or own is None:
        return replace(aggregate, where=own if where is None else where)
    if isinstance(own, str) and isinstance(where, str):
        return replace(aggregate, where=f"({own}) AND ({where})")
    return replace(aggregate, where=Given(to_column(own) & to_column(where)))


def _groupings(by: object) -> tuple[tuple[str, ...], ...]:
    if not isinstance(by, Sequence) or isinstance(by, str):
        raise ColumnError(
            "must be a list of columns",
            field="by",
            value=by,
            way_out='Write it like ["account"], or [] for all events together',
        )
    several = bool(by) and all(isinstance(grouping, list | tuple) for grouping in by)
    groups = tuple(tuple(grouping) for grouping in by) if several else (tuple(by),)
    for group in groups:
        twice = named_twice([dimension for dimension in group if isinstance(dimension, str)])
        for name in group:
            if not isinstance(name, str) or name == twice or name.lower() in _TAKEN:
                raise ColumnError(
                    "must be a column's name, given once, and not one of the result's own columns",
                    field="by",
                    value=name,
                    way_out="Rename the column, or give each grouping as a list of its own: "
                    '[["partner"], ["partner", "country"]]',
                )
    return tuple(dict.fromkeys(groups))


def _windows(windows: object, step: Fixed) -> tuple[Fixed, ...]:
    if isinstance(windows, str) or not isinstance(windows, Sequence) or not windows:
        raise WindowError(
            "needs a list of durations",
            field="windows",
            value=windows,
            way_out='Write it like ["1h", "1d", "30d"]',
        )
    durations = [positive(fixed(window, field="windows"), field="windows") for window in windows]
    for duration in durations:
        if duration.us < _SHORTEST_US:
            raise WindowError(
                f"must be at least {_SHORTEST_US}us",
                field="windows",
                value=str(duration),
                way_out='Use a value such as "1h"',
            )
        if duration.us % step.us:
            raise WindowError(
                f"must be a whole number of steps of {step}",
                field="windows",
                value=str(duration),
                way_out=f"Use a step that divides it, such as {Fixed(gcd(duration.us, step.us))}",
            )
    return tuple(dict.fromkeys(durations))
