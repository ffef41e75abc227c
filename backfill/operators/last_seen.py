"""Distinct values of sliding windows, counted by the spans in which each value is present.

An event begins a span of its value unless another one with this value came at most a window's
length before, and ends one unless another comes at most that long after. So the number of distinct
values of a window is the number of spans that have begun minus the number of those that have ended:
two running counts, however many values there are. No set of values is ever held or merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from backfill.aggregates.base import positive_zero
from backfill.aggregates.bound import Bound
from backfill.aggregates.last_seen import LastSeen
from backfill.columns import TIME
from backfill.time.spans import Span

#: Prefixes of an input: how long before, and after, another event had the same value, µs.
_SINCE, _UNTIL = "_since", "_until"


def last_seen(aggregates: Iterable[Bound]) -> list[Bound]:
    """The aggregates whose distinct values are counted this way."""
    return [binding for binding in aggregates if isinstance(binding.aggregate, LastSeen)]


def with_distances(
    events: DataFrame, keys: Sequence[str], seen: Iterable[Bound], arrival: Sequence[str]
) -> DataFrame:
    """Adds, for each aggregate, how far an event is from its neighbors with the same value.

    Skips what is there already: all windows of a job share the distances.

    Args:
        events: key, time and arrival columns, and the aggregates' inputs.
        keys: the key columns.
        seen: the aggregates whose distinct values are counted.
        arrival: the columns that order events with equal times.
    """
    time = F.col(TIME)
    for binding in seen:
        assert binding.input is not None
        if f"{_SINCE}{binding.input}" in events.columns:
            continue
        value = F.col(binding.input)
        # Events without a value need no distances; by time, they do not gather in one task.
        apart = F.when(value.isNull(), time)
        same = Over.partitionBy(*keys, positive_zero(value, binding.type), apart)
        same = same.orderBy(TIME, *arrival)
        events = events.withColumns(
            {
                f"{_SINCE}{binding.input}": time - F.lag(TIME).over(same),
                f"{_UNTIL}{binding.input}": F.lead(TIME).over(same) - time,
            }
        )
    return events


def cut_distances(events: DataFrame, aggregates: Iterable[Bound], span: Span) -> DataFrame:
    """Drops the distances to events outside a span, which have been left out.

    An event with such a neighbor would neither begin nor end a span of its value.

    Args:
        events: all events of the span; the distances are between more events.
        aggregates: some of them with distances.
        span: [low, high), µs; None for no bound.
    """
    low, high = span
    columns = {}
    for binding in aggregates:
        since, until = f"{_SINCE}{binding.input}", f"{_UNTIL}{binding.input}"
        if since not in events.columns:
            continue
        if low is not None:
            columns[since] = F.when(F.col(TIME) - F.col(since) >= low, F.col(since))
        if high is not None:
            columns[until] = F.when(F.col(TIME) + F.col(until) < high, F.col(until))
    return events.withColumns(columns) if columns else events


def begins(seen: Bound, span: int | None) -> Column:
    """Whether an event begins a span in which its value is present, after `with_distances`.

    Args:
        seen: an aggregate whose distinct values are counted.
        span: the length of a window, µs; None: it has no start.
    """
    return _alone(seen, _SINCE, span)


def ends(seen: Bound, span: int | None) -> Column:
    """Whether an event ends a span in which its value is present; arguments as for `begins`."""
    return _alone(seen, _UNTIL, span)


def _alone(seen: Bound, distance: str, span: int | None) -> Column:
    assert seen.input is not None
    far = F.col(f"{distance}{seen.input}")
    # A window without a start reaches back to every earlier event.
    alone = far.isNull() if span is None else far.isNull() | (far > span)
    return F.col(seen.input).isNotNull() & alone
