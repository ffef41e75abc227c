"""Aggregates over the events of a window.

Each function here returns an aggregate. An `expression` is Spark SQL text or a column, evaluated
for each event; `where` is a predicate, and events for which it is false or NULL are left out. NULL
values are ignored as in SQL, except by `first`, `last` and `fold`, which treat NULL like any other
value. NaN is a value: sums, means and variances that include it are NaN (as they are if infinities
cancel out), and it sorts as the largest value; an approximate `quantile` ignores NaN. Integer
overflow raises an error at run time.

`Aggregate.mergeable` says whether late events can be merged into a published window without
reading its other events again, `Aggregate.grows` whether the state grows with the window.

In the examples, `value_of` returns the value of an aggregate over one window with three events: at
10:00 amount 2 and page "a", at 10:20 amount 3 and page "b", at 10:40 amount 4 and page "a".

Example:
    >>> print(sum("price * quantity", where="country = 'NO'"))
    sum(price * quantity) where country = 'NO'
    >>> count().mergeable, quantile("ms", 0.5, exact=True).mergeable
    (True, False)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from types import MappingProxyType

from pyspark.sql import Column

from backfill.aggregates.base import Aggregate, Expression, expression
from backfill.aggregates.custom import custom, fold
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
from backfill.aggregates.visits import Bounce, Duration, Funnel, Path
from backfill.errors import AggregateError

__all__ = [
    "FACTORIES",
    "Aggregate",
    "bounce",
    "collect_list",
    "collect_set",
    "count",
    "count_distinct",
    "custom",
    "duration",
    "first",
    "fold",
    "funnel",
    "last",
    "max",
    "mean",
    "min",
    "parse",
    "path",
    "quantile",
    "stddev",
    "sum",
    "variance",
]


def count(
    expression: str | Column | None = None, *, where: str | Column | None = None
) -> Aggregate:
    """The number of events; with an expression, of those for which it is not NULL.

    Example:
        >>> value_of(count()), value_of(count(where="amount > 2"))
        (3, 2)
    """
    if isinstance(expression, str) and expression == "*":
        expression = None
    return Count(_expr(expression), _expr(where))


def sum(expression: str | Column, *, where: str | Column | None = None) -> Aggregate:
    """The sum: a long for integers, a decimal for decimals, otherwise a double; NULL if empty.

    An overflow of an integer or decimal total raises an error at run time.

    Example:
        >>> value_of(sum("amount")), value_of(sum("amount", where="page = 'a'"))
        (9, 6)
    """
    return Sum(_needed(expression), _expr(where))


def min(expression: str | Column, *, where: str | Column | None = None) -> Aggregate:
    """The smallest value, of any type that can be ordered.

    Example:
        >>> value_of(min("amount"))
        2
    """
    return Min(_needed(expression), _expr(where))


def max(expression: str | Column, *, where: str | Column | None = None) -> Aggregate:
    """The largest value, of any type that can be ordered.

    Example:
        >>> value_of(max("page"))
        'b'
    """
    return Max(_needed(expression), _expr(where))


def mean(expression: str | Column, *, where: str | Column | None = None) -> Aggregate:
    """The arithmetic mean: a double; for decimals, a decimal with up to four more digits.

    Example:
        >>> value_of(mean("amount"))
        3.0
    """
    return Mean(_needed(expression), _expr(where))


def variance(expression: str | Column, *, where: str | Column | None = None) -> Aggregate:
    """The sample variance, a double; NULL for fewer than two values.

    Example:
        >>> value_of(variance("amount"))
        1.0
    """
    return Variance(_needed(expression), _expr(where))


def stddev(expression: str | Column, *, where: str | Column | None = None) -> Aggregate:
    """The sample standard deviation, a double; NULL for fewer than two values.

    Example:
        >>> value_of(stddev("amount"))
        1.0
    """
    return Stddev(_needed(expression), _expr(where))


def first(expression: str | Column, *, where: str | Column | None = None) -> Aggregate:
    """The value of the first event by time, then arrival, then value, NULL included.

    Example:
        >>> value_of(first("amount"))
        2
    """
    return First(_needed(expression), _expr(where))


def last(expression: str | Column, *, where: str | Column | None = None) -> Aggregate:
    """The value of the last event by time, then arrival, then value, NULL included.

    Example:
        >>> value_of(last("amount"))
        4
    """
    return Last(_needed(expression), _expr(where))


def collect_list(expression: str | Column, *, where: str | Column | None = None) -> Aggregate:
    """All values, ordered by event time, arrival, then value. The state grows with the window.

    Example:
        >>> value_of(collect_list("page"))
        ['a', 'b', 'a']
    """
    return CollectList(_needed(expression), _expr(where))


def collect_set(expression: str | Column, *, where: str | Column | None = None) -> Aggregate:
    """The distinct values, sorted. The state grows with their number.

    Example:
        >>> value_of(collect_set("page"))
        ['a', 'b']
    """
    return CollectSet(_needed(expression), _expr(where))


def count_distinct(
    expression: str | Column,
    approximate: bool = False,
    *,
    where: str | Column | None = None,
) -> Aggregate:
    """The number of distinct values.

    By default exact, with a state that grows with their number. With `approximate`, a HyperLogLog
    sketch with a relative standard error of 1.6 %.

    Example:
        >>> value_of(count_distinct("page")), value_of(count_distinct("page", approximate=True))
        (2, 2)
    """
    kind = ApproximateCountDistinct if approximate else CountDistinct
    return kind(_needed(expression), _expr(where))


def quantile(
    expression: str | Column,
    share: float,
    exact: bool = False,
    *,
    where: str | Column | None = None,
) -> Aggregate:
    """The value below which this share of the values lies, a double.

    Args:
        expression: a number.
        share: from 0 to 1; 0.5 is the median.
        exact: by linear interpolation between all values, which cannot merge late events. By
            default, a KLL sketch with a rank error of at most 1.65 % (99 % confidence).
        where: a predicate; events for which it is false or NULL are left out.

    Raises:
        AggregateError: if the share is not between 0 and 1.

    Example:
        >>> print(quantile("ms", 0.95))
        quantile(ms, 0.95)
    """
    if isinstance(share, bool) or not isinstance(share, Real) or not 0 <= share <= 1:
        raise AggregateError("must be between 0 and 1", field="share", value=share)
    kind = ExactQuantile if exact else ApproximateQuantile
    return kind(_needed(expression), _expr(where), float(share))


def funnel(steps: Sequence[str] | str, *, where: str | Column | None = None) -> Aggregate:
    """How many steps of a funnel the events reach, in order of time; 0 if not the first.

    A step is reached by an event for which its predicate holds, after the event of the step
    before it; so an event counts for one step only, and other events may come between. The order
    is that of time, then arrival. The state holds every event for which a step holds.

    Args:
        steps: predicates in Spark SQL; or an expression whose value is an array of booleans, one
            for each step.
        where: a predicate; events for which it is false or NULL are left out.

    Raises:
        AggregateError: if there is no step.

    Example:
        >>> value_of(funnel(["page = 'a'", "page = 'b'", "page = 'c'"]))
        2
    """
    if isinstance(steps, str):
        return Funnel(_expr(steps), _expr(where))
    if not steps or not all(isinstance(step, str) and step.strip() for step in steps):
        raise AggregateError(
            "needs a list of predicates",
            field="steps",
            value=steps,
            way_out="Write it like funnel([page = '/', page = '/cart'])",
        )
    holds = ", ".join(f"coalesce(({step}), false)" for step in steps)
    return Funnel(f"array({holds})", _expr(where), tuple(step.strip() for step in steps))


def path(expression: str | Column, limit: int, *, where: str | Column | None = None) -> Aggregate:
    """The first values, ordered by event time, arrival, then value; NULL is left out.

    Args:
        expression: such as the page.
        limit: the largest number of values; the state holds no more.
        where: a predicate; events for which it is false or NULL are left out.

    Raises:
        AggregateError: if the limit is not a whole number from 1 on.

    Example:
        >>> value_of(path("page", 2))
        ['a', 'b']
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise AggregateError(
            "must be a whole number, at least 1",
            field="limit",
            value=limit,
            way_out="Write it like path(page, 10)",
        )
    return Path(_needed(expression), _expr(where), limit)


def duration(*, where: str | Column | None = None) -> Aggregate:
    """The seconds from the first event to the last one, a double.

    Example:
        >>> value_of(duration()), value_of(duration(where="page = 'b'"))
        (2400.0, 0.0)
    """
    return Duration(None, _expr(where))


def bounce(*, where: str | Column | None = None) -> Aggregate:
    """Whether there is only one event, such as one page view; NULL if there is none.

    Example:
        >>> value_of(bounce()), value_of(bounce(where="page = 'b'"))
        (False, True)
    """
    return Bounce(None, _expr(where))


_expr = expression


def _needed(value: str | Column) -> Expression:
    if value is None:
        raise AggregateError("needs an expression, such as a column's name", value=value)
    return _expr(value)


#: The functions that a job file may name.
FACTORIES: Mapping[str, Callable[..., Aggregate]] = MappingProxyType(
    {
        factory.__name__: factory
        for factory in (
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
            funnel,
            path,
            duration,
            bounce,
        )
    }
)


def parse(text: str) -> Aggregate:
    """Parses an aggregate in the notation of the job file.

    Args:
        text: such as "sum(amount) where paid".

    Raises:
        AggregateError: with the text, what is wrong in it, and what is allowed.

    Example:
        >>> parse("sum(amount) where paid") == sum("amount", where="paid")
        True
    """
    return _parse(text, FACTORIES)
