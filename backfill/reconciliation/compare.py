"""Both sides of a window's table beside each other: which keys differ, by a checksum of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill.columns import END, START, column
from backfill.history.exchange import of_keys
from backfill.reconciliation.gathering import SIDE

#: A double is told from another from its tenth digit on, before both are looked at exactly.
_DIGITS = 10
#: Of each key: the numbers of windows, and whether these differ.
BATCH, STREAM, DIFFERS = "_batch_windows", "_stream_windows", "_differs"
_SIGN, _BITS, _SUM = "_sign", "_bits", "_sum"


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

    def beside(self) -> DataFrame:
        """Each key: how many windows both sides have of it, and whether they differ.

        By a checksum of its windows that does not depend on their order, and no join: what is
        alike on both sides cancels out.
        """
        parts = [F.col(START), F.col(END)]
        parts += [_canonical(column(name), type) for name, type in self.values.items()]
        ours, theirs = (
            side.select(*self.keys, F.lit(sign).alias(_SIGN), F.xxhash64(*parts).alias(_BITS))
            for side, sign in ((self.batch, 1), (self.stream, -1))
        )
        bits, sign = F.col(_BITS), F.col(_SIGN)
        counted = (
            ours.unionByName(theirs)
            .groupBy(*self.keys)
            .agg(
                F.count_if(sign > 0).alias(BATCH),
                F.count_if(sign < 0).alias(STREAM),
                F.bit_xor(bits).alias(_BITS),
                # Two rows of one side that are alike cancel each other out above; here they do not.
                F.sum(F.shiftrightunsigned(bits, 32) * sign).alias(_SUM),
            )
        )
        alike = (F.col(BATCH) == F.col(STREAM)) & (F.col(_BITS) == 0) & (F.col(_SUM) == 0)
        return counted.select(*self.keys, BATCH, STREAM, (~alike).alias(DIFFERS))

    def both(self, differing: DataFrame) -> DataFrame:
        """The windows of these keys, those of the stream marked in SIDE."""
        ours, theirs = (
            of_keys(side, differing, self.keys, "left_semi").withColumn(SIDE, F.lit(streams))
            for side, streams in ((self.batch, False), (self.stream, True))
        )
        return ours.unionByName(theirs)


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
