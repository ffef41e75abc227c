"""Compares both sides of a window's table to find which keys differ.

It compares checksums of exact values: first of buckets of keys, then of the keys in the buckets
that differ. Alike means alike to the bit here; whether values that differ are alike within a bound
is decided elsewhere. If no more than two keys of a bucket differ, its sums tell which
(`syndromes`), like those of an invertible Bloom lookup table (Goodrich and Mitzenmacher 2011). So
hardly any rows that are alike are sent anywhere, and none of them are joined. Plain checksums of
each key take more than twice as long; checksums of buckets without these sums take a third longer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import mul

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill.columns import END, START, column
from backfill.reconciliation.arrow_rows import SIDE
from backfill.reconciliation.syndromes import POWERS, weights
from backfill.runtimes.differences import needs_spark

#: Each key is in one of 2^15 buckets: few enough for Spark's fast map and the processor's cache,
#: and so many that two keys that differ seldom share one.
_BUCKET_BITS = 15
#: How many further bits of a key's hash are its weight, and how many bits of a window's hash are
#: summed: a long holds the sum of 2^24 identical windows with the highest power of a weight.
_WEIGHT_BITS, _SUMMED_BITS = 8, 24
#: Stands for a NULL, with its place added: an arbitrary number that no value is likely to be.
_ABSENT = 0x5BD1E995_27D4EB2F
_TO_THE_MICROSECOND = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_BATCH, _STREAM, _WINDOWS = "_batch_windows", "_stream_windows", "_windows"
_KEY, _BITS, _PART = "_key_bits", "_bits", "_part"
_BUCKET, _WEIGHT = "_bucket", "_weight"
_MORE, _XOR, _SUMS = "_more", "_xor", [f"_sum{power}" for power in range(POWERS)]


@dataclass(frozen=True)
class Totals:
    """What all windows add up to.

    Attributes:
        batch: how many windows the batch has.
        stream: how many the stream has.
        off: for each bucket of keys that differs, what must be accounted for: the XOR of its
            hashes, and how many more windows the stream has.
        weights: for each of these buckets, the weights of the keys that differ, if its sums tell.
    """

    batch: int
    stream: int
    off: Mapping[int, tuple[int, int]]
    weights: Mapping[int, Sequence[int]]


@dataclass(frozen=True)
class Found:
    """Where the sides differ.

    Attributes:
        windows: those of the keys that differ, the stream's marked in SIDE.
        keys: how many keys differ.
        differing: these keys.
        few: the windows, if the driver has them.
    """

    windows: DataFrame
    keys: int
    differing: DataFrame
    few: pa.Table | None = None


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
        """Reads all windows once.

        Raises:
            SetupError: the runtime can't tell values of such a type apart.
        """
        for name, type in self.values.items():
            if not _distinguishable(type):
                what = f"tables with values of type {type.simpleString()} are compared"
                needs_spark(self.batch, what, field=name)
        # Each side by itself: Spark would write out each row of a union before summing it.
        ours, theirs = (
            self._summed(rows.withColumn(_BUCKET, _leading(_BUCKET_BITS)), _BUCKET, POWERS)
            for rows in map(self._keyed, self._marked())
        )
        table = ours.unionAll(theirs).toArrow()
        places = table[_BUCKET].to_numpy()

        def of_buckets(name: str, add: np.ufunc = np.add) -> npt.NDArray[np.int64]:
            sums = np.zeros(1 << _BUCKET_BITS, np.int64)
            add.at(sums, places, table[name].to_numpy())
            return sums

        batch, stream, *sums = (of_buckets(name) for name in (_BATCH, _STREAM, *_SUMS))
        xor, more = of_buckets(_XOR, np.bitwise_xor), stream - batch
        off = np.flatnonzero((more != 0) | (xor != 0) | (sums[0] != 0))
        left = zip(xor[off].tolist(), more[off].tolist(), strict=True)
        known = weights([total[off] for total in sums], _WEIGHT_BITS)
        return Totals(
            int(batch.sum()),
            int(stream.sum()),
            off=dict(zip(off.tolist(), left, strict=True)),
            weights=dict(zip(off.tolist(), known, strict=True)),
        )

    def differing(self, totals: Totals, held: Callable[[DataFrame], DataFrame]) -> Found:
        """Reads all windows once more to find those of the keys that differ.

        Args:
            totals: what the first reading gave.
            held: keeps a frame's rows.
        """
        if not totals.off:
            return self._differing(self.both().where(F.lit(False)), 0)
        differences, missed = self._looked(totals, (), held)
        if missed:
            # What a key leaves in its bucket's sums may be 0 by chance, so that its weight is not
            # seen.
            differences, _ = self._looked(totals, missed, held)
        return differences

    def _looked(
        self, totals: Totals, whole: Collection[int], held: Callable[[DataFrame], DataFrame]
    ) -> tuple[Found, Collection[int]]:
        """Where the sides differ, and the buckets that this does not account for."""
        near = held(self._near(totals, whole))
        # By the keys' hashes, because numbers group faster than text.
        off = held(self._summed(near, _KEY).where(_differs()).select(_KEY, _XOR, _MORE))
        left = off.groupBy(_leading(_BUCKET_BITS)).agg(
            F.count(F.lit(1)), F.bit_xor(_XOR), F.sum(_MORE)
        )
        buckets, keys, xor, more = (array.to_pylist() for array in left.toArrow())
        remainders = dict(zip(buckets, zip(xor, more, strict=True), strict=True))
        # A table has no window twice. So whatever differs leaves something of the hashes, or the
        # stream has more windows: no difference leaves nothing of both.
        missed = {bucket for bucket, due in totals.off.items() if remainders.get(bucket) != due}
        windows = near.join(off.select(_KEY), _KEY, "left_semi").drop(_KEY)
        return self._differing(windows, sum(keys)), missed

    def _differing(self, windows: DataFrame, keys: int) -> Found:
        return Found(windows, keys, windows.select(*self.keys).distinct())

    def _near(self, totals: Totals, whole: Collection[int]) -> DataFrame:
        """The windows of the keys that may differ."""
        off = [
            {"_off_bucket": bucket, "_off_weight": weight}
            for bucket, known in totals.weights.items()
            for weight in ([None] if bucket in whole or not known else known)
        ]
        schema = pa.schema([("_off_bucket", pa.int64()), ("_off_weight", pa.int64())])
        wanted = self.batch.sparkSession.createDataFrame(pa.Table.from_pylist(off, schema))
        one = F.col("_off_weight").isNull() | (F.col("_off_weight") == _weight())
        same = (F.col("_off_bucket") == _leading(_BUCKET_BITS)) & one
        ours, theirs = (
            self._keyed(rows).join(F.broadcast(wanted), same, "left_semi")
            for rows in self._marked()
        )
        return ours.unionByName(theirs)

    def both(self) -> DataFrame:
        """The windows of both sides, the stream's marked in SIDE."""
        ours, theirs = self._marked()
        return ours.unionByName(theirs)

    def _marked(self) -> tuple[DataFrame, DataFrame]:
        return (
            self.batch.withColumn(SIDE, F.lit(False)),
            self.stream.withColumn(SIDE, F.lit(True)),
        )

    def _keyed(self, rows: DataFrame) -> DataFrame:
        types = {field.name: field.dataType for field in rows.schema.fields}
        key = F.xxhash64(
            F.lit(0), *_hashed([_flat(F.col(name), types[name]) for name in self.keys])
        )
        return rows.withColumn(_KEY, key)

    def _summed(self, rows: DataFrame, by: str, powers: int = 1) -> DataFrame:
        """A checksum of windows that does not depend on their order: what is alike cancels out."""
        values = [_flat(column(name), type) for name, type in self.values.items()]
        # Hashes the key too: windows of two keys in a bucket may differ only in it.
        window = F.xxhash64(_KEY, START, END, *_hashed(values))
        part = F.shiftright(_BITS, 64 - _SUMMED_BITS)
        return (
            rows.select(by, SIDE, _weight().alias(_WEIGHT), window.alias(_BITS))
            .select("*", F.when(F.col(SIDE), -part).otherwise(part).alias(_PART))
            .groupBy(by)
            .agg(
                # Both counts in one sum, because fewer sums are faster.
                F.sum(F.when(F.col(SIDE), 1 << 32).otherwise(1)).alias(_WINDOWS),
                F.bit_xor(_BITS).alias(_XOR),
                # Two rows of one side that are alike cancel each other out above; here they do not.
                *(
                    F.sum(reduce(mul, [F.col(_WEIGHT)] * power, F.col(_PART))).alias(_SUMS[power])
                    for power in range(powers)
                ),
            )
            .withColumns(
                {
                    _BATCH: F.col(_WINDOWS).bitwiseAND((1 << 32) - 1),
                    _STREAM: F.shiftrightunsigned(_WINDOWS, 32),
                }
            )
            .withColumn(_MORE, F.col(_STREAM) - F.col(_BATCH))
        )


def _leading(bits: int) -> Column:
    """The leading bits of a key's hash."""
    return F.shiftrightunsigned(_KEY, 64 - bits)


def _weight() -> Column:
    return _leading(_BUCKET_BITS + _WEIGHT_BITS).bitwiseAND((1 << _WEIGHT_BITS) - 1)


def _hashed(parts: Sequence[Column]) -> Sequence[Column]:
    """What is hashed, with marks for NULLs, which by themselves leave a hash unchanged."""
    return [
        argument
        for place, part in enumerate(parts)
        for argument in (part, F.when(part.isNull(), F.lit(_ABSENT + place)))
    ]


def _differs() -> Column:
    alike = (F.col(_MORE) == 0) & (F.col(_XOR) == 0) & (F.col(_SUMS[0]) == 0)
    return ~alike


def _distinguishable(type: T.DataType) -> bool:
    """Whether JSON tells values of a type apart, even where it loses digits of decimals."""
    if isinstance(type, T.ArrayType):
        return isinstance(type.elementType, T.StringType | T.IntegralType | T.BooleanType)
    return not isinstance(type, T.MapType | T.StructType | T.VariantType)


def _flat(value: Column, type: T.DataType) -> Column:
    # Spark can't hash maps, and hashes ([1], [2]) like ([1, NULL], [[2]]).
    if isinstance(type, T.ArrayType | T.MapType | T.StructType | T.VariantType):
        return F.to_json(value, _TO_THE_MICROSECOND)
    return value
