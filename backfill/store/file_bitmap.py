"""Sets of files, with one bit per file: which files of a table the parts of a window come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill.store.protocol import FILE

# The sign's bit is left alone.
_BITS = 63


@dataclass(frozen=True)
class FileBitmap:
    """Files, each with the position of its bit.

    Spark aggregates such sets by hashing, since their columns have a fixed width; for sets of
    strings, as `collect_set` makes them, it would sort.

    Attributes:
        files: paths relative to the table.
    """

    files: Sequence[str]

    @property
    def columns(self) -> list[str]:
        """The columns that hold the bits."""
        return [f"_files{i}" for i in range(-(-len(self.files) // _BITS))]

    def with_bits(self, spark: SparkSession, rows: DataFrame) -> DataFrame:
        """The rows of these files, which have FILE, with the bit of their file."""
        places = range(len(self.files))
        words = {
            name: pa.array([1 << n % _BITS if n // _BITS == i else 0 for n in places], pa.int64())
            for i, name in enumerate(self.columns)
        }
        # Passed by Arrow: Python rows would be unpacked by Python workers.
        bits = pa.table({FILE: pa.array(self.files, pa.string()), **words})
        return rows.join(F.broadcast(spark.createDataFrame(bits)), FILE)

    def joined(self, where: Column | None = None) -> list[Column]:
        """The union of sets, of all rows or of some, as aggregates."""
        rows = F.lit(True) if where is None else where
        return [F.bit_or(F.when(rows, F.col(name))).alias(name) for name in self.columns]

    def none(self) -> list[Column]:
        """The empty set."""
        return [F.lit(0).cast("bigint").alias(name) for name in self.columns]

    def any(self) -> Column:
        """Whether the set holds a file."""
        return reduce(Column.bitwiseOR, map(F.col, self.columns), F.lit(0).cast("bigint")) != 0

    def of(self, row: Mapping[str, Any]) -> list[str]:
        """The files of a set."""
        words = [row[name] or 0 for name in self.columns]
        return [
            file
            for place, file in enumerate(self.files)
            if words[place // _BITS] >> place % _BITS & 1
        ]
