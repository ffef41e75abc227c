"""Under Comet (`make test-comet`), the plans of the other tests are really run by Comet."""

from __future__ import annotations

import os

import pytest
from pyspark.sql import SparkSession

from backfill import SessionWindow, aggregate
from backfill import aggregates as agg
from tests.plans import explained

pytestmark = pytest.mark.skipif(
    "CometPlugin" not in os.environ.get("PYSPARK_SUBMIT_ARGS", ""), reason="make test-comet"
)


def test_comet_runs_the_plan(spark: SparkSession) -> None:
    events = spark.sql("SELECT 'a' user, timestamp_seconds(id * 60) at FROM range(100)")
    sessions = aggregate(
        events,
        SessionWindow(gap="30m"),
        key="user",
        time="at",
        aggregates={"events": agg.count()},
    )
    assert [row.events for row in sessions.collect()] == [100]
    plan = explained(sessions)
    assert "CometExchange" in plan or "CometColumnarExchange" in plan
