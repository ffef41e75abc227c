"""The mean of decimals: its type and digits do not depend on how it was added up."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill.aggregates.base import States
from backfill.aggregates.numbers import Mean, total_type

_MOST_DIGITS = 38
#: A mean has so many digits more than its values, as Spark's `avg` has.
_MORE_DIGITS = 4
#: More events than a window has; Spark gives a quotient more digits where this is shorter.
_COUNT = T.DecimalType(13, 0)


@dataclass(frozen=True)
class DecimalMean(Mean):
    """As `Mean`, with the same states, each of one type.

    Spark gives a sum ten digits more each time it is merged, and a quotient a type that depends on
    those of both sides; Sail gives it another one, and cuts off what Spark rounds.

    Attributes:
        precision: of the values.
        scale: of the values.
    """

    precision: int = 10
    scale: int = 0

    def merge(self, states: States, start: Column) -> dict[str, Column]:
        return self._typed(super().merge(states, start))

    def merge_over(self, states: States, frame: WindowSpec) -> dict[str, Column]:
        return self._typed(super().merge_over(states, frame))

    def combine(self, left: States, right: States) -> dict[str, Column]:
        return self._typed(super().combine(left, right))

    def finish(self, states: States, events: Column) -> Column:
        total, n = states["sum"], F.nullif(states["n"], F.lit(0)).cast(_COUNT)
        # The whole part by itself, exactly: a long quotient has few digits behind the point.
        rest = total % n
        digits = self.precision - self.scale
        whole = ((total - rest).cast(_decimal(_MOST_DIGITS, 0)) / n).cast(_decimal(digits, 0))
        # A digit more than is wanted, of a quotient that is cut off, is enough to round it.
        given = _decimal(_COUNT.precision + self.scale + 1, self.scale + 1)
        places = self.scale + _MORE_DIGITS
        part = (rest.cast(given) / n).cast(_decimal(places + 1, places))
        return (whole + part).cast(_decimal(self.precision + _MORE_DIGITS, places))

    def _typed(self, states: dict[str, Column]) -> dict[str, Column]:
        type = total_type(_decimal(self.precision, self.scale))
        return {**states, "sum": states["sum"].cast(type)}


def decimal_mean(aggregate: Mean, type: T.DecimalType) -> DecimalMean:
    """The mean of values of this type."""
    given = aggregate.expression, aggregate.where
    return DecimalMean(*given, precision=type.precision, scale=type.scale)


def _decimal(precision: int, scale: int) -> T.DecimalType:
    """The type, as long as there can be: as Spark bounds that of its `avg`."""
    return T.DecimalType(max(min(precision, _MOST_DIGITS), 1), min(scale, _MOST_DIGITS))
