"""Both sides of a window's table beside each other: which keys differ.

By checksums: of buckets of keys first, then of the keys in those that differ. Where one key of a
bucket is all that differs, its sums tell which: what is left of them is that key's alone, once
weighed and once not (invertible Bloom lookup tables: Goodrich and Mitzenmacher 2011). So hardly
anything that is alike is sent anywhere, and none of it is joined.
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
#: A key's rows are of one bucket of 2^15: few enough for Spark's fast map and the processor's
#: cache, and so many that seldom two keys that differ share one.
_BUCKET_BITS = 15
#: So many further bits of its hash are a key's weight: of 32 bits of a window's hash and these,
#: a long holds the sum of 2^24 windows at least.
_WEIGHT_BITS = 8
_BATCH, _STREAM, _WINDOWS = "_batch_windows", "_stream_windows", "_windows"
_KEY, _BITS, _BUCKET, _WEIGHT = "_key_bits", "_bits", "_bucket", "_weight"
_XOR, _SUM, _WEIGHED = "_xor", "_sum", "_weighed"


@dataclass(frozen=True)
class Totals:
    """What all windows add up to.

    Attributes:
        batch: how many there are.
        stream: how many the stream has.
        off: where they differ: a bucket of keys, and the weight of those of its keys that do;
            None: there are several.
    """

    batch: int
    stream: int
    off: Sequence[tuple[int, int | None]]


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
        found = self._summed(self._marked(), [_BUCKET], [_KEY], [_WEIGHT])
        off = F.struct(_BUCKET, _SUM, _WEIGHED)
        batch, stream, differing = found.agg(
            F.sum(_BATCH), F.sum(_STREAM), F.collect_list(F.when(_differs(), off))
        ).collect()[0]
        weights = [(each[_BUCKET], _weight(each[_SUM], each[_WEIGHED])) for each in differing]
        return Totals(batch or 0, stream or 0, weights)

    def near(self, off: Sequence[tuple[int, int | None]]) -> DataFrame:
        """The windows of keys where the sides differ, those of the stream marked in SIDE."""
        schema = "_off_bucket long, _off_weight long"
        wanted = self.batch.sparkSession.createDataFrame(list(off), schema)
        one = F.col("_off_weight").isNull() | (F.col("_off_weight") == F.col(_WEIGHT))
        same = (F.col("_off_bucket") == F.col(_BUCKET)) & one
        rows = self._marked().join(F.broadcast(wanted), same, "left_semi")
        return rows.drop(_BUCKET, _WEIGHT, _KEY)

    def differing(self, near: DataFrame) -> DataFrame:
        """The keys of these windows that differ."""
        return self._summed(near, self.keys).where(_differs()).select(*self.keys)

    def _marked(self) -> DataFrame:
        ours, theirs = (
            side.withColumn(SIDE, F.lit(streams))
            for side, streams in ((self.batch, False), (self.stream, True))
        )
        key = _hash([F.col(each) for each in self.keys])
        bits = F.shiftrightunsigned(_KEY, 64 - _BUCKET_BITS - _WEIGHT_BITS)
        return (
            ours.unionByName(theirs)
            .withColumn(_KEY, key)
            .withColumns(
                {
                    _BUCKET: F.shiftrightunsigned(bits, _WEIGHT_BITS),
                    _WEIGHT: bits.bitwiseAND((1 << _WEIGHT_BITS) - 1),
                }
            )
        )

    def _summed(
        self,
        rows: DataFrame,
        by: Sequence[str],
        also: Sequence[str] = (),
        weight: Sequence[str] = (),
    ) -> DataFrame:
        """A checksum of windows that does not depend on their order: what is alike cancels out."""
        parts = [F.col(each) for each in (*also, START, END)]
        parts += [_canonical(column(name), type) for name, type in self.values.items()]
        return (
            rows.select(*by, SIDE, *weight, _hash(parts).alias(_BITS))
            .groupBy(*by)
            .agg(
                # Both numbers in one, for the fewer sums the faster.
                F.sum(F.when(F.col(SIDE), 1 << 32).otherwise(1)).alias(_WINDOWS),
                F.bit_xor(_BITS).alias(_XOR),
                # Two rows of one side that are alike cancel each other out above; here they do not.
                F.sum(_signed()).alias(_SUM),
                *(F.sum(_signed() * F.col(each)).alias(_WEIGHED) for each in weight),
            )
            .withColumns(
                {
                    _BATCH: F.col(_WINDOWS).bitwiseAND((1 << 32) - 1),
                    _STREAM: F.shiftrightunsigned(_WINDOWS, 32),
                }
            )
        )


def _signed() -> Column:
    """Half of a window's hash, which the other side's takes away."""
    half = F.shiftright(_BITS, 32)
    return F.when(F.col(SIDE), -half).otherwise(half)


def _weight(total: int, weighed: int) -> int | None:
    """The weight of what is left of two sums; None where that is of several weights.

    Several are taken for one in a case of 2^31.
    """
    weight, rest = divmod(weighed, total) if total else (-1, 0)
    return weight if not rest and 0 <= weight < 1 << _WEIGHT_BITS else None


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
