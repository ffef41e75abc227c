"""Counts, sums, extremes and moments: states of fixed width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import Column, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill.aggregates.base import MOST_DIGITS, Aggregate, Input, Running, States

_LOW_BITS = 0xFFFF_FFFF
#: Spark rounds a decimal that is too long only if it has more digits than this after the point.
_NEVER_ROUNDED = 6
#: The share of a variance that the order of its events can change. One more event changes it by
#: more, unless there are millions of millions.
_ROUNDED = 1e-12


@dataclass(frozen=True)
class Count(Running):
    """Events; with an expression, events where it is not NULL."""

    name: ClassVar[str] = "count"
    python: ClassVar[str | None] = "count"

    def lift(self, given: Input) -> dict[str, Column]:
        return {"n": one(given.value)}

    def subtracts(self, type: T.DataType) -> bool:
        return True

    def finish(self, states: States, events: Column) -> Column:
        return F.coalesce(states["n"], F.lit(0)) if states else events

    def is_empty(self, value: Column) -> Column:
        return value == 0


@dataclass(frozen=True)
class Sum(Running):
    """A sum; NULL if there is no value.

    A sum of 64-bit integers is carried as two sums, of the high and of the low halves, so that
    only the total can overflow (which raises an error) and never a part of it: the order of events
    does not matter. Decimals have up to 38 digits; in windows merged from parts of each other
    (sliding and count windows, metrics), 37 if more than six of them are after the point.
    """

    name: ClassVar[str] = "sum"
    python: ClassVar[str | None] = "sum"

    def check(self, type: T.DataType) -> None:
        self._check_numeric(type)

    def lift(self, given: Input) -> dict[str, Column]:
        if isinstance(given.type, T.LongType):
            return {
                "high": F.shiftright(given.value, 32),
                "low": given.value.bitwiseAND(F.lit(_LOW_BITS)),
            }
        if isinstance(given.type, T.IntegralType):
            return {"sum": given.value.cast("long")}
        total = total_type(given.type)
        # Spark widens decimals by ten digits at each sum; the name says which type to restore.
        name = f"sum_{total.precision}_{total.scale}" if isinstance(total, T.DecimalType) else "sum"
        return {name: given.value.cast(total)}

    def merge(self, states: States, start: Column) -> dict[str, Column]:
        return {name: _as_first(F.sum(state), name) for name, state in states.items()}

    def merge_over(self, states: States, frame: WindowSpec) -> dict[str, Column]:
        merged = super().merge_over(states, frame)
        return {name: _as_first(state, name) for name, state in merged.items()}

    def combine(self, left: States, right: States) -> dict[str, Column]:
        merged = super().combine(self._with_room(left), self._with_room(right))
        return {name: _as_first(state, name) for name, state in merged.items()}

    def subtracts(self, type: T.DataType) -> bool:
        return isinstance(type, T.IntegralType) or _has_room(type)

    def subtract(self, whole: States, rest: States) -> dict[str, Column]:
        less = super().subtract(self._with_room(whole), self._with_room(rest))
        return {name: _as_first(state, name) for name, state in less.items()}

    def finish(self, states: States, events: Column) -> Column:
        if "high" in states:
            carry = F.shiftright(states["low"], 32)
            low = states["low"].bitwiseAND(F.lit(_LOW_BITS))
            # The cast raises if the total overflows; not every runtime does when it multiplies.
            high = (states["high"] + carry).cast("int").cast("long")
            return high * F.lit(_LOW_BITS + 1) + low
        return next(iter(states.values()))

    def revert(self, value: Column, states: Sequence[str]) -> dict[str, Column]:
        if "high" in states:
            return {
                "high": F.shiftright(value, 32),
                "low": value.bitwiseAND(F.lit(_LOW_BITS)),
            }
        return super().revert(value, states)

    def _with_room(self, states: States) -> dict[str, Column]:
        widened = {}
        for name, state in states.items():
            type = _type_of(name)
            self._check_room(type)
            widened[name] = with_room(state, type)
        return widened


def total_type(type: T.DataType) -> T.DataType:
    """The type of a total: doubles, or decimals with ten more digits, as in Spark."""
    if not isinstance(type, T.DecimalType):
        return T.DoubleType()
    return T.DecimalType(min(type.precision + 10, MOST_DIGITS), type.scale)


def _has_room(type: T.DataType) -> bool:
    """Whether totals of decimals have ten more digits, so that no total of a key is too long."""
    return isinstance(type, T.DecimalType) and type.precision + 10 <= MOST_DIGITS


def one(value: Column) -> Column:
    """What a value adds to a number of values."""
    return F.when(value.isNotNull(), F.lit(1)).otherwise(F.lit(0)).cast("long")


def with_room(total: Column, type: T.DataType | None) -> Column:
    """Prepares a total for adding or subtracting another one; `type` if it is a decimal.

    Spark gives the result one more digit. If that made 39, it would round the last digit, unless no
    more than six are after the point. Totals with more than six may have 37; more is an overflow.
    """
    if not isinstance(type, T.DecimalType) or type.precision < MOST_DIGITS:
        return total
    shorter = T.DecimalType(MOST_DIGITS - 1, type.scale)
    return total.cast(shorter) if type.scale > _NEVER_ROUNDED else total


def _as_first(total: Column, name: str) -> Column:
    type = _type_of(name)
    return total if type is None else total.cast(type)


def _type_of(name: str) -> T.DecimalType | None:
    """The decimal type that the name of a state shows; None if it shows none."""
    kind, *size = name.split("_")
    return T.DecimalType(*map(int, size)) if kind == "sum" and size else None


@dataclass(frozen=True)
class Min(Running):
    """The smallest value, of any type that can be ordered; NULL if empty. NaN is largest."""

    name: ClassVar[str] = "min"
    python: ClassVar[str | None] = "min"
    running: ClassVar[str] = "min"

    def check(self, type: T.DataType) -> None:
        self._check_sortable(type)

    def lift(self, given: Input) -> dict[str, Column]:
        return {"min": given.value}

    def finish(self, states: States, events: Column) -> Column:
        return states["min"]


@dataclass(frozen=True)
class Max(Running):
    """The largest value, of any type that can be ordered; NULL if empty. NaN is largest."""

    name: ClassVar[str] = "max"
    python: ClassVar[str | None] = "max"
    running: ClassVar[str] = "max"

    def check(self, type: T.DataType) -> None:
        self._check_sortable(type)

    def lift(self, given: Input) -> dict[str, Column]:
        return {"max": given.value}

    def finish(self, states: States, events: Column) -> Column:
        return states["max"]


@dataclass(frozen=True)
class Mean(Running):
    """The arithmetic mean, a double; for decimals, `DecimalMean`. NULL if there is no value."""

    name: ClassVar[str] = "mean"
    python: ClassVar[str | None] = "mean"
    kept: ClassVar[tuple[str, ...]] = ("n", "sum")

    def check(self, type: T.DataType) -> None:
        self._check_numeric(type)
        self._check_room(type)

    def lift(self, given: Input) -> dict[str, Column]:
        total = total_type(given.type)
        # Sail 0.7.2 names a sum after what is cast, and takes this one and `Sum`'s for the same.
        whole = isinstance(given.type, T.IntegralType)
        value = given.value * F.lit(1.0) if whole else given.value.cast(total)
        return {"n": one(given.value), "sum": value}

    def finish(self, states: States, events: Column) -> Column:
        return F.when(states["n"] > 0, states["sum"] / states["n"])


@dataclass(frozen=True)
class Variance(Aggregate):
    """The sample variance, a double; NULL for fewer than two values.

    The state is count, mean and spread (the mean of squared deviations), merged pairwise as Chan,
    Golub and LeVeque do, which stays accurate where a sum of squares cancels.
    """

    name: ClassVar[str] = "variance"
    python: ClassVar[str | None] = "variance"
    kept: ClassVar[tuple[str, ...]] = ("n", "mean", "spread")

    def check(self, type: T.DataType) -> None:
        self._check_numeric(type)

    def partial(self, given: Input) -> dict[str, Column]:
        value = given.value.cast("double")
        # Counted as `Mean` counts, so that sliding windows count once for both.
        n = F.sum(one(given.value))
        return {"n": n, "mean": F.avg(value), "spread": F.var_pop(value)}

    def merge(self, states: States, start: Column) -> dict[str, Column]:
        # As arrays of doubles: Sail 0.7.2 mixes up lists of structs whose fields have the same
        # names and types. A double holds a count up to 2^53.
        parts = F.collect_list(F.array(*(state.cast("double") for state in states.values())))
        some = F.filter(parts, lambda part: part[0] > 0)
        # With nothing on the left, its mean of 0 must not touch infinities on the right.
        merged = F.aggregate(
            some,
            F.array(*[F.lit(0.0)] * len(states)),
            lambda left, right: F.when(left[0] == 0, right).otherwise(
                F.array(
                    *_join_moments(
                        *({n: part[i] for i, n in enumerate(states)} for part in (left, right))
                    ).values()
                )
            ),
        )
        n, mean, spread = (merged[place] for place in range(len(states)))
        return {"n": n.cast("long"), "mean": mean, "spread": spread}

    def combine(self, left: States, right: States) -> dict[str, Column]:
        return {
            name: F.when(left["n"] == 0, right[name])
            .when(right["n"] == 0, left[name])
            .otherwise(state)
            for name, state in _join_moments(left, right).items()
        }

    def finish(self, states: States, events: Column) -> Column:
        return F.when(states["n"] > 1, states["spread"] * states["n"] / (states["n"] - 1))

    def is_same(self, one: Column, other: Column) -> Column:
        # Merged in another order, the same events give other last digits. Strictly less: NaN and
        # infinities are only the same as themselves.
        close = F.abs(one - other) < F.greatest(F.abs(one), F.abs(other)) * _ROUNDED
        return one.eqNullSafe(other) | F.coalesce(close, F.lit(False))


@dataclass(frozen=True)
class Stddev(Variance):
    """The sample standard deviation: the square root of `Variance`."""

    name: ClassVar[str] = "stddev"
    python: ClassVar[str | None] = "stddev"

    def finish(self, states: States, events: Column) -> Column:
        return F.sqrt(super().finish(states, events))


def _join_moments(left: States | Column, right: States | Column) -> dict[str, Column]:
    count = left["n"] + right["n"]
    apart = right["mean"] - left["mean"]
    share = right["n"] / count
    between = apart * apart * (1 - share) * share
    return {
        "n": count,
        "mean": left["mean"] + apart * share,
        "spread": left["spread"] * (1 - share) + right["spread"] * share + between,
    }
