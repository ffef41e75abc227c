"""The mean of decimals: its type and digits do not depend on how it was added up."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from pyspark.sql import Column, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill.aggregates.base import States
from backfill.aggregates.numbers import Mean, total_type, with_room

#: The sum of two decimals has one more digit, and at most 38.
_LONGEST = 37
#: A mean has this many more digits than its values, like Spark's `avg`, if there is room.
_MORE = 4
#: A window has fewer events than ten to the power of this, and doubles hold such numbers.
_COUNTED = 13
#: A number of events in units of this many digits after the point is less than 1, and exact.
_FRACTION = 24


@dataclass(frozen=True)
class DecimalMean(Mean):
    """As `Mean`, with the same states, each of one type.

    Spark gives a sum ten more digits each time it is merged. It gives a quotient a type that
    depends on those of both sides, with few digits if they are long; Sail gives it another type,
    and cuts off what Spark rounds. So this is long division, rounded once.

    Attributes:
        precision: the values' precision.
        scale: the values' scale.
    """

    precision: int = 10
    scale: int = 0

    def merge(self, states: States, start: Column) -> dict[str, Column]:
        return self._typed(super().merge(states, start))

    def merge_over(self, states: States, frame: WindowSpec) -> dict[str, Column]:
        return self._typed(super().merge_over(states, frame))

    def combine(self, left: States, right: States) -> dict[str, Column]:
        return self._typed(super().combine(self._with_room(left), self._with_room(right)))

    def finish(self, states: States, events: Column) -> Column:
        precision, scale = min(self.precision, _LONGEST), self.scale
        more = min(_MORE, _LONGEST - precision)
        n = F.nullif(states["n"], F.lit(0))
        divisor = n.cast(T.DecimalType(_COUNTED, 0))
        # With as many digits as the values have, the quotient is exact, and there is a rest.
        total = states["sum"].cast(T.DecimalType(_LONGEST, scale))
        rest = total % _in_last_digits(n, _COUNTED, scale)
        mean = ((total - rest) / divisor).cast(T.DecimalType(precision, scale))
        # The rest in units of the last digit; there are fewer units than events.
        units = F.round(rest.cast("double") * F.lit(float(10**scale))).cast("long")
        units = units * F.lit(10**more)
        left = units % n
        up = F.when(F.abs(left) * 2 >= n, F.signum(units)).otherwise(F.lit(0.0))
        digits = F.round((units - left) / n) + up
        places = scale + more
        # At most one unit of the values' last digit. A longer type would cut off the sum.
        whole = 0 if scale else 1
        part = _in_last_digits(digits, more + 1, places).cast(T.DecimalType(places + whole, places))
        return (mean + part).cast(T.DecimalType(self.precision + more, places))

    def _typed(self, states: dict[str, Column]) -> dict[str, Column]:
        return {**states, "sum": states["sum"].cast(self._total)}

    def _with_room(self, states: States) -> dict[str, Column]:
        return {**states, "sum": with_room(states["sum"], self._total)}

    @property
    def _total(self) -> T.DataType:
        return total_type(T.DecimalType(self.precision, self.scale))


def decimal_mean(aggregate: Mean, type: T.DecimalType) -> DecimalMean:
    """The mean of values of this type."""
    given = aggregate.expression, aggregate.where
    return DecimalMean(*given, precision=type.precision, scale=type.scale)


def _in_last_digits(number: Column, digits: int, scale: int) -> Column:
    """A whole number of so many digits, in units of the last digit of a scale."""
    whole = number.cast(T.DecimalType(digits, 0))
    if digits + scale <= _LONGEST:
        return whole * _last_digit(scale)
    # The product would have more digits than a type can have, and lose the last ones.
    small = (whole * _last_digit(_FRACTION)).cast(T.DecimalType(_FRACTION, _FRACTION))
    return small * _last_digit(scale - _FRACTION)


def _last_digit(scale: int) -> Column:
    """The smallest positive number of a scale."""
    return F.lit(f"{Decimal(1).scaleb(-scale):f}").cast(T.DecimalType(max(scale, 1), scale))
