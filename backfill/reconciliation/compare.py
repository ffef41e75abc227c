"""Both sides of a window's table beside each other: which keys differ.

By a count and two checksums of each key's windows, over exact values: what is called alike here is
alike to the bit. Whether values that differ are alike within a bound is for others to say, of the
keys that differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill.columns import END, START, column
from backfill.reconciliation.gathering import SIDE

#: Stands for a NULL, its place added: a number that no value happens to be.
_ABSENT = 0x5BD1E995_27D4EB2F
_TO_THE_MICROSECOND = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_KEY, _BATCH, _STREAM = "_key_bits", "_batch_windows", "_stream_windows"
_HASH, _XOR, _HIGH, _LOW, _DIFFERS = "_bits", "_xor", "_high", "_low", "_differs"


@dataclass(frozen=True)
class Compared:
    """What came of comparing all windows.

    Attributes:
        batch: how many windows there are.
        stream: how many the stream has.
        keys: how many keys differ.
        windows: those of these keys, the stream's marked in SIDE.
    """

    batch: int
    stream: int
    keys: int
    windows: DataFrame


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

    def compared(self, held: Callable[[DataFrame], DataFrame]) -> Compared:
        """Looks at all windows once, and once more for those of the keys that differ.

        Args:
            held: keeps a frame's rows.
        """
        marked = self._marked()
        sums = held(self._sums(marked))
        row = sums.agg(
            F.sum(_BATCH).alias(_BATCH),
            F.sum(_STREAM).alias(_STREAM),
            F.count_if(_DIFFERS).alias(_DIFFERS),
        ).collect()[0]
        off = sums.where(_DIFFERS).select(_KEY)
        windows = marked.join(off, _KEY, "left_semi").drop(_KEY)
        return Compared(row[_BATCH] or 0, row[_STREAM] or 0, row[_DIFFERS], windows)

    def _marked(self) -> DataFrame:
        ours, theirs = (
            side.withColumn(SIDE, F.lit(streams))
            for side, streams in ((self.batch, False), (self.stream, True))
        )
        types = {field.name: field.dataType for field in self.batch.schema.fields}
        # Keys that share a hash, if ever two do, differ together.
        key = F.xxhash64(*_parts([flat(F.col(each), types[each]) for each in self.keys]))
        return ours.unionByName(theirs).withColumn(_KEY, key)

    def _sums(self, rows: DataFrame) -> DataFrame:
        """Of each key the windows and their checksums, which do not depend on their order."""
        values = [flat(column(name), type) for name, type in self.values.items()]
        parts: list[Column | str] = [_KEY, START, END, *_parts(values)]
        # What both sides have cancels out: of one hash by xor, of the other by what is taken away,
        # in halves, whose sums fit. Rows of one side that are alike cancel each other out in the
        # first, and not in the second.
        signed = F.when(F.col(SIDE), F.lit(-1)).otherwise(F.lit(1))
        return (
            rows.select(
                _KEY,
                SIDE,
                F.xxhash64(F.lit(0), *parts).alias(_XOR),
                F.xxhash64(F.lit(1), *parts).alias(_HASH),
            )
            .groupBy(_KEY)
            .agg(
                F.count_if(~F.col(SIDE)).alias(_BATCH),
                F.count_if(SIDE).alias(_STREAM),
                F.bit_xor(_XOR).alias(_XOR),
                F.sum(F.shiftright(_HASH, 32) * signed).alias(_HIGH),
                F.sum(F.col(_HASH).bitwiseAND(0xFFFF_FFFF) * signed).alias(_LOW),
            )
            .select(
                _KEY,
                _BATCH,
                _STREAM,
                (
                    (F.col(_BATCH) != F.col(_STREAM))
                    | (F.col(_XOR) != 0)
                    | (F.col(_HIGH) != 0)
                    | (F.col(_LOW) != 0)
                ).alias(_DIFFERS),
            )
        )


def _parts(parts: Sequence[Column]) -> Sequence[Column]:
    """What is hashed, and the places of NULLs, which by themselves leave a hash as it was."""
    return [
        each
        for place, part in enumerate(parts)
        for each in (part, F.when(part.isNull(), F.lit(_ABSENT + place)))
    ]


def flat(value: Column, type: T.DataType) -> Column:
    """The value as something that Spark hashes and compares, exactly."""
    # Spark hashes no map, and ([1], [2]) as it does ([1, NULL], [[2]]).
    if isinstance(type, T.ArrayType | T.MapType | T.StructType | T.VariantType):
        return F.to_json(value, _TO_THE_MICROSECOND)
    return value
