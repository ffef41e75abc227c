"""Rolling metrics, the slow and obvious way: every step of every window, in plain Python."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from backfill import Metric
from backfill import aggregates as agg
from backfill.aggregates import Aggregate
from tests.on_sail import computed


@dataclass(frozen=True)
class Payment:
    account: str | None
    country: str | None
    time: int  # µs
    amount: int | None
    arrival: int | None = None
    id: str | None = None


Fold = Callable[[Sequence[Payment]], Any]


def amounts(payments: Iterable[Payment]) -> list[int]:
    return [payment.amount for payment in payments if payment.amount is not None]


def _of(function: Callable[[list[int]], Any], empty: Any = None) -> Fold:
    return lambda payments: function(amounts(payments)) if amounts(payments) else empty


#: Aggregates, and what they give for payments in order of time, arrival and amount.
_FOLDS: dict[str, tuple[Aggregate, Fold]] = {
    "n": (agg.count(), len),
    "paid": (agg.count("amount"), _of(len, 0)),
    "large": (agg.count(where="amount > 2"), lambda own: sum(a > 2 for a in amounts(own))),
    "total": (agg.sum("amount"), _of(sum)),
    "exact": (agg.sum("cast(amount as decimal(9, 2))"), _of(sum)),
    "double": (agg.sum("cast(amount as double)"), _of(sum)),
    "least": (agg.min("amount"), _of(min)),
    "most": (agg.max("amount", where="amount < 5"), lambda own: _most(own)),
    "middle": (agg.mean("amount"), _of(statistics.mean)),
    "spread": (agg.stddev("amount"), lambda own: _spread(own)),
    "first": (agg.first("amount"), lambda own: own[0].amount if own else None),
    "last": (agg.last("amount"), lambda own: own[-1].amount if own else None),
    "distinct": (agg.count_distinct("amount"), _of(lambda values: len(set(values)), 0)),
    "about": (
        agg.count_distinct("amount", approximate=True, where="amount > 0"),
        lambda own: len({a for a in amounts(own) if a > 0}),
    ),
    "median": (agg.quantile("amount", 0.5, exact=True), _of(statistics.median)),
    "near": (agg.quantile("amount", 0.5), _of(statistics.median_low)),
    "listed": (agg.collect_list("amount"), _of(tuple, ())),
}
FOLDS = {name: fold for name, fold in _FOLDS.items() if computed(fold[0], of_events=True)}


def _most(own: Sequence[Payment]) -> int | None:
    return max((a for a in amounts(own) if a < 5), default=None)


def _spread(own: Sequence[Payment]) -> float | None:
    return statistics.stdev(amounts(own)) if len(amounts(own)) > 1 else None


def order(each: Payment) -> Any:
    """By time, arrival, then amount; NULL comes first."""
    return (each.time, *place(each.arrival), *place(each.amount))


def place(value: int | None) -> tuple[bool, int]:
    return (value is not None, value or 0)


def group(each: Payment, by: Sequence[str]) -> tuple[Any, ...]:
    return tuple(getattr(each, name) for name in by)


def groups(payments: Iterable[Payment], by: Sequence[str]) -> dict[tuple[Any, ...], list[Payment]]:
    """The payments by their values of the dimensions, unless these are all NULL; in order."""
    by_group: dict[tuple[Any, ...], list[Payment]] = {}
    for payment in sorted(payments, key=order):
        if not by or any(value is not None for value in group(payment, by)):
            by_group.setdefault(group(payment, by), []).append(payment)
    return by_group


def at_step(own: Sequence[Payment], metrics: Sequence[Metric], window: int, at: int) -> list[Any]:
    """The metrics' values at a step: of [at - window, at)."""
    inside = [payment for payment in own if at - window <= payment.time < at]
    return [FOLDS[metric.name][1](inside) for metric in metrics]


def steps_of(
    own: Sequence[Payment], metrics: Sequence[Metric], window: int, *, dense: bool = False
) -> list[tuple[Any, ...]]:
    """Step and values wherever a value changes, or with `dense` from there to the last change."""
    step, offset = metrics[0].step.us, metrics[0].offset.us
    first = (own[0].time - offset) // step * step + offset
    last = own[-1].time + window + step
    before = at_step([], metrics, window, 0)
    steps = []
    for at in range(first, last + 1, step):
        values = at_step(own, metrics, window, at)
        steps.append((at, values, values != before))
        before = values
    changed = [place for place, (_, _, changed) in enumerate(steps) if changed]
    kept = range(changed[0], changed[-1] + 1) if dense and changed else changed
    return [(steps[number][0], *steps[number][1]) for number in kept]


def as_of(
    asked: Payment, own: Sequence[Payment], window: int, *, before: bool, ordered: bool
) -> list[Payment]:
    """The payments that count as of this one."""
    start = asked.time - window
    mine = (asked.time, *place(asked.arrival if ordered else None))
    payments = []
    for payment in own:
        theirs = (payment.time, *place(payment.arrival if ordered else None))
        if payment.time >= start and (theirs < mine if before else theirs <= mine):
            payments.append(payment)
    return payments


def wide(own: Sequence[Payment], metric: Metric) -> list[tuple[Any, ...]]:
    """Step and the values of all windows, wherever one of them changes."""
    step, offset = metric.step.us, metric.offset.us
    windows = [window.us for window in metric.windows]
    first = (own[0].time - offset) // step * step + offset
    before = [at_step([], [metric], window, 0)[0] for window in windows]
    rows = []
    for at in range(first, own[-1].time + max(windows) + step + 1, step):
        values = [at_step(own, [metric], window, at)[0] for window in windows]
        if values != before:
            rows.append((at, *values))
        before = values
    return rows
