"""Both sides of a window's table beside each other: which keys differ.

By checksums: of buckets of keys first, then of the keys in those that differ. What is alike is
read once, and neither sent anywhere nor joined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill.columns import END, START, column
from backfill.reconciliation.gathering import SIDE

#: Doubles are first told apart by 34 of their 53 bits, ten digits; then both are looked at exactly.
_SPLIT = 2.0**19 + 1
_LARGE = 1e300
#: A key's rows are of one bucket of 2^16: as many as Spark sums up in its fast map before any row
#: is sent, and so many that few rows are of one that differs.
_BUCKET_BITS = 16
_BATCH, _STREAM = "_batch_windows", "_stream_windows"
_KEY, _BITS, _BUCKET, _XOR, _SUM = "_key_bits", "_bits", "_bucket", "_xor", "_sum"


@dataclass(frozen=True)
class Totals:
    """What all windows add up to.

    Attributes:
        batch: how many there are.
        stream: how many the stream has.
        buckets: of keys, in which they differ.
    """

    batch: int
    stream: int
    buckets: Sequence[int]


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

    def totals(self) -> Totals:
        """Looks at all windows, once."""
        # Of the key too: windows of two keys in a bucket may be alike but for it.
        found = self._summed(self._marked(), [_BUCKET], [_KEY])
        batch, stream, buckets = found.agg(
            F.sum(_BATCH), F.sum(_STREAM), F.collect_list(F.when(_differs(), F.col(_BUCKET)))
        ).collect()[0]
        return Totals(batch or 0, stream or 0, buckets)

    def near(self, buckets: Sequence[int]) -> DataFrame:
        """The windows of some buckets, those of the stream marked in SIDE."""
        wanted = [(each,) for each in buckets]
        frame = self.batch.sparkSession.createDataFrame(wanted, f"{_BUCKET} long")
        rows = self._marked().join(F.broadcast(frame), _BUCKET, "left_semi")
        return rows.drop(_BUCKET, _KEY)

    def differing(self, near: DataFrame) -> DataFrame:
        """The keys of these windows that differ."""
        return self._summed(near, self.keys, ()).where(_differs()).select(*self.keys)

    def _marked(self) -> DataFrame:
        ours, theirs = (
            side.withColumn(SIDE, F.lit(streams))
            for side, streams in ((self.batch, False), (self.stream, True))
        )
        rows = ours.unionByName(theirs).withColumn(_KEY, _hash([F.col(each) for each in self.keys]))
        return rows.withColumn(_BUCKET, F.shiftrightunsigned(_KEY, 64 - _BUCKET_BITS))

    def _summed(self, rows: DataFrame, by: Sequence[str], also: Sequence[str]) -> DataFrame:
        """A checksum of windows that does not depend on their order: what is alike cancels out."""
        parts = [F.col(each) for each in (*also, START, END)]
        parts += [_canonical(column(name), type) for name, type in self.values.items()]
        upper = F.shiftrightunsigned(_BITS, 32)
        return (
            rows.select(*by, SIDE, _hash(parts).alias(_BITS))
            .groupBy(*by)
            .agg(
                F.count_if(~F.col(SIDE)).alias(_BATCH),
                F.count_if(SIDE).alias(_STREAM),
                F.bit_xor(_BITS).alias(_XOR),
                # Two rows of one side that are alike cancel each other out above; here they do not.
                F.sum(F.when(F.col(SIDE), -upper).otherwise(upper)).alias(_SUM),
            )
        )


def _hash(parts: Sequence[Column]) -> Column:
    # A NULL leaves a hash as it was: the places tell (NULL, 5) from (5, NULL).
    placed = [each for place, part in enumerate(parts) for each in (F.lit(place), part)]
    return F.xxhash64(F.lit(len(parts)), *placed)


def _differs() -> Column:
    alike = (F.col(_BATCH) == F.col(_STREAM)) & (F.col(_XOR) == 0) & (F.col(_SUM) == 0)
    return ~alike


def _canonical(value: Column, type: T.DataType) -> Column:
    if not isinstance(type, T.DoubleType | T.FloatType):
        return value
    number = value.cast("double")
    # Both products are rounded: what is left are the number's upper bits (Dekker 1971).
    # NaN and what is too large for the product stay as they are.
    wide = number * _SPLIT
    upper = wide - (wide - number)
    return F.when(F.abs(number) < _LARGE, upper).otherwise(number)
