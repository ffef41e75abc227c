"""Whether tests run on the runtime Sail (`make test-sail`) rather than on Spark."""

from __future__ import annotations

import os

import pytest

from backfill.aggregates.base import Aggregate
from backfill.aggregates.custom import Custom
from backfill.aggregates.numbers import Variance
from backfill.aggregates.sketches import ApproximateCountDistinct, ApproximateQuantile

ON_SAIL = os.environ.get("BACKFILL_RUNTIME") == "sail"

#: The format of small files with a stream's rows: Sail reads no text.
ROWS = "parquet" if ON_SAIL else "json"

#: Marks a case that the runtime refuses.
spark_only = pytest.mark.spark_only
_REFUSED = Custom | ApproximateQuantile | ApproximateCountDistinct


def computed(aggregate: Aggregate, *, of_events: bool = False) -> bool:
    """Whether the tests' runtime computes an aggregate, or computes it in windows of events."""
    if not ON_SAIL:
        return True
    if of_events and (isinstance(aggregate, Variance) or aggregate.sliding().grows):
        return False
    return not isinstance(aggregate, _REFUSED)
