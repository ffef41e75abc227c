"""A sample of whole keys, for checks that cost too much over all keys."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

#: One of this many keys is sampled.
SAMPLED = 64
#: With no more rows than this, all keys are.
FEW = 1_000_000


def sampled(keys: Sequence[Column]) -> Column:
    """Whether a row's key is sampled; without a key, every row is."""
    return F.pmod(F.xxhash64(*keys), F.lit(SAMPLED)) == 0 if keys else F.lit(True)
