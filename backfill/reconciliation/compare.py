"""Both sides of a window's table beside each other: which keys differ, by a checksum of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill.columns import END, START, column
from backfill.history.exchange import of_keys
from backfill.reconciliation.gathering import SIDE

#: A double is told from another from its tenth digit on, before both are looked at exactly.
_DIGITS = 10
_ROWS, _BITS, _SUM = "_rows", "_bits", "_sum"


@dataclass(frozen=True)
class Sides:
    """What is compared.

    Attributes:
        batch: key columns, START and END (µs), values by name; one row per window.
        stream: the same.
        keys: the key columns.
        values: the values, with their types.
    """

    batch: DataFrame
    stream: DataFrame
    keys: Sequence[str]
    values: Mapping[str, T.DataType]

    def differing(self) -> DataFrame:
        """The keys whose windows are not all alike."""
        ours, theirs = (self._summed(each) for each in (self.batch, self.stream))
        renamed = theirs.select(*(F.col(each).alias(f"_their{each}") for each in theirs.columns))
        same = [F.col(each).eqNullSafe(F.col(f"_their{each}")) for each in self.keys]
        sums = (_ROWS, _BITS, _SUM)
        apart = [~F.col(each).eqNullSafe(F.col(f"_their{each}")) for each in sums]
        joined = ours.join(renamed, reduce(and_, same, F.lit(True)), "full_outer")
        here = F.col(_ROWS).isNotNull()
        keys = [
            F.when(here, F.col(each)).otherwise(F.col(f"_their{each}")).alias(each)
            for each in self.keys
        ]
        return joined.where(reduce(or_, apart)).select(*keys)

    def counted(self) -> tuple[int, int]:
        """The numbers of windows on both sides."""
        return self.batch.count(), self.stream.count()

    def both(self, differing: DataFrame) -> DataFrame:
        """The windows of these keys, those of the stream marked in SIDE."""
        ours, theirs = (
            of_keys(side, differing, self.keys, "left_semi").withColumn(SIDE, F.lit(streams))
            for side, streams in ((self.batch, False), (self.stream, True))
        )
        return ours.unionByName(theirs)

    def _summed(self, side: DataFrame) -> DataFrame:
        """A checksum of each key's windows that does not depend on their order."""
        parts = [F.col(START), F.col(END)]
        parts += [_canonical(column(name), type) for name, type in self.values.items()]
        row = side.select(*self.keys, F.xxhash64(*parts).alias(_BITS))
        return row.groupBy(*self.keys).agg(
            F.count(F.lit(1)).alias(_ROWS),
            F.bit_xor(_BITS).alias(_BITS),
            # Two rows that are alike cancel each other out above; here they do not.
            F.sum(F.shiftrightunsigned(_BITS, 32)).alias(_SUM),
        )


def _canonical(value: Column, type: T.DataType) -> Column:
    if not isinstance(type, T.DoubleType | T.FloatType):
        return value
    number = value.cast("double")
    usual = number.isNotNull() & ~F.isnan(number) & (number != 0) & (F.abs(number) < 1e300)
    scale = F.floor(F.log10(F.abs(F.when(usual, number))))
    digits = F.round(number / F.pow(F.lit(10.0), scale), _DIGITS)
    return F.when(usual, F.struct(digits, scale.cast("double"))).otherwise(
        F.struct(F.when(number == 0, F.lit(0.0)).otherwise(number), F.lit(0.0))
    )
