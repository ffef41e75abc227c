"""Aggregates over the events of a window.

Every function here makes one. An `expression` is Spark SQL text or a column, evaluated for each
event; `where` is a predicate, and events for which it is false or NULL are left out. NULL values
are ignored as in SQL, but by `first`, `last` and `fold`, for which NULL is a value like others.
NaN counts as a value: sums, means and variances over it are NaN (as they are when infinities
cancel), and it is the largest for `min`, `max` and sorting; an approximate `quantile` leaves NaN
out. Integers that overflow raise.

`Aggregate.mergeable` says whether late events can be merged into a published window without
reading its events again, `Aggregate.grows` whether the state grows with the window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from pyspark.sql import Column

from backfill.aggregates.base import Aggregate, expression
from backfill.aggregates.custom import Custom, Fold
from backfill.aggregates.numbers import Count, Max, Mean, Min, Stddev, Sum, Variance
from backfill.aggregates.ordered import (
    CollectList,
    CollectSet,
    CountDistinct,
    ExactQuantile,
    First,
    Last,
)
from backfill.aggregates.parse import parse as _parse
from backfill.aggregates.sketches import ApproximateCountDistinct, ApproximateQuantile
from backfill.errors import AggregateError

__all__ = [
    "FACTORIES",
    "Aggregate",
    "collect_list",
    "collect_set",
    "count",
    "count_distinct",
    "custom",
    "first",
    "fold",
    "last",
    "max",
    "mean",
    "min",
    "parse",
    "quantile",
    "stddev",
    "sum",
    "variance",
]


def count(
    expression: str | Column | None = None, *, where: str | Column | None = None
) -> Aggregate:
    """The number of events; with an expression, of those where it is not NULL."""
    if isinstance(expression, str) and expression == "*":
        expression = None
    return Count(_expr(expression), _expr(where))


def sum(expression: str | Column, *, where: str | Column | None = None) -> Aggregate:
    """The sum: a long of integers, a decimal of decimals, else a double; NULL of no values.

    Raises, at run time, on integer and decimal overflow of the total.
    """
    return Sum(_expr(expression), _expr(where))


def min(expression: str | Column, *, where: str | Column | None = None) -> Aggregate:
    """The smallest value, of any type with an order."""
    return Min(_expr(expression), _expr(where))


def max(expression: str | Column, *, where: str | Column | None = None) -> Aggregate:
    """The largest value, of any type with an order."""
    return Max(_expr(expression), _expr(where))


def mean(expression: str | Column, *, where: str | Column | None = None) -> Aggregate:
    """The arithmetic mean: a decimal of decimals, else a double."""
    return Mean(_expr(expression), _expr(where))


def variance(expression: str | Column, *, where: str | Column | None = None) -> Aggregate:
    """The sample variance, a double; NULL of fewer than two values."""
    return Variance(_expr(expression), _expr(where))


def stddev(expression: str | Column, *, where: str | Column | None = None) -> Aggregate:
    """The sample standard deviation, a double; NULL of fewer than two values."""
    return Stddev(_expr(expression), _expr(where))


def first(expression: str | Column, *, where: str | Column | None = None) -> Aggregate:
    """The value of the first event by time, then arrival, then value, NULL included."""
    return First(_expr(expression), _expr(where))


def last(expression: str | Column, *, where: str | Column | None = None) -> Aggregate:
    """The value of the last event by time, then arrival, then value, NULL included."""
    return Last(_expr(expression), _expr(where))


def collect_list(expression: str | Column, *, where: str | Column | None = None) -> Aggregate:
    """All values by event time, then arrival, then value. Its state grows with the window."""
    return CollectList(_expr(expression), _expr(where))


def collect_set(expression: str | Column, *, where: str | Column | None = None) -> Aggregate:
    """The distinct values, sorted. Its state grows with them."""
    return CollectSet(_expr(expression), _expr(where))


def count_distinct(
    expression: str | Column,
    approximate: bool = False,
    *,
    where: str | Column | None = None,
) -> Aggregate:
    """The number of distinct values.

    Exactly, with a state that grows with them; or approximately by a HyperLogLog sketch with a
    relative standard error of 1.6 %.
    """
    kind = ApproximateCountDistinct if approximate else CountDistinct
    return kind(_expr(expression), _expr(where))


def quantile(
    expression: str | Column,
    share: float,
    exact: bool = False,
    *,
    where: str | Column | None = None,
) -> Aggregate:
    """The value below which this share of the values lies (0.5 is the median), a double.

    By a KLL sketch with a rank error of at most 1.65 % (99 % confidence); or exactly, by linear
    interpolation, which is not mergeable and keeps all values while it computes.

    Raises:
        AggregateError: if the share is not from 0 to 1.
    """
    if isinstance(share, bool) or not 0 <= share <= 1:
        raise AggregateError("must be from 0 to 1", field="share", value=share)
    kind = ExactQuantile if exact else ApproximateQuantile
    return kind(_expr(expression), _expr(where), float(share))


def custom(
    expression: str | Column,
    *,
    partial: Callable[[Column], Column],
    merge: Callable[[Column, Column], Column],
    finish: Callable[[Column], Column] = lambda state: state,
    where: str | Column | None = None,
) -> Aggregate:
    """An aggregate of your own (KIP-94's initializer, aggregator and merger).

    Args:
        expression: what is aggregated of each event; a struct for several columns.
        partial: makes the state of some events, as an aggregate expression over the column that
            it is given; that column is NULL for events that `where` leaves out.
        merge: joins two states, the earlier one first; associative.
        finish: makes the value of a state; NULL if no state was there.
        where: as for the others.
    """
    return Custom(_expr(expression), _expr(where), partial, merge, finish)


def fold(
    expression: str | Column,
    *,
    start: Callable[[], Column],
    step: Callable[[Column, Column], Column],
    finish: Callable[[Column], Column] = lambda state: state,
    where: str | Column | None = None,
) -> Aggregate:
    """A loop over the window's events by time, then arrival, then value; not mergeable.

    Args:
        expression: what the loop sees of each event; a struct for several columns.
        start: makes the state before the first event, of the type that `step` gives.
        step: makes the next state of the state and an event's value.
        finish: makes the value of the last state.
        where: as for the others.
    """
    return Fold(_expr(expression), _expr(where), start, step, finish)


_expr = expression

#: What a job file may name.
FACTORIES: Mapping[str, Callable[..., Aggregate]] = MappingProxyType(
    {
        each.__name__: each
        for each in (
            count,
            sum,
            min,
            max,
            mean,
            variance,
            stddev,
            first,
            last,
            collect_list,
            collect_set,
            count_distinct,
            quantile,
        )
    }
)


def parse(text: str) -> Aggregate:
    """Reads an aggregate as the job file writes it, such as "sum(amount) where paid".

    Raises:
        AggregateError: naming the text, what is wrong in it, and what is allowed.
    """
    return _parse(text, FACTORIES)
