"""No join builds a key's cross product or exchanges a side more than once: read from the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from backfill import SessionWindow, as_of, join, session_join
from tests.plans import explained, nodes

COMMON: dict[str, Any] = {"on": "user", "time": "at"}


@pytest.fixture(scope="module", autouse=True)
def _no_broadcasts(spark: SparkSession) -> Iterator[None]:
    """As if the sides were too large for broadcasts."""
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    yield
    spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")


@pytest.fixture(scope="module")
def events(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    path = str(tmp_path_factory.mktemp("plans") / "events")
    rows = spark.range(100).selectExpr(
        "concat('u', id % 20) user", "timestamp_seconds(id * 17) at", "id amount", "'wide' unused"
    )
    rows.write.parquet(path)
    return spark.read.parquet(path)


def paired(how: str, **more: Any) -> Callable[[DataFrame], DataFrame]:
    return lambda events: join(events, events, how=how, within="5m", **COMMON, **more)


def in_sessions(how: str) -> Callable[[DataFrame], DataFrame]:
    window = SessionWindow(gap="30m")
    return lambda events: session_join(events, events, window=window, how=how, **COMMON)


#: What is built, and how many exchanges and sorts it takes.
PLANS: dict[str, tuple[Callable[[DataFrame], DataFrame], int, int]] = {
    **{how: (paired(how), 2, 2) for how in ("inner", "left", "semi", "anti")},
    # The events without a partner take one more join for each side.
    "full": (paired("full"), 4, 4),
    "where": (paired("left", where="left.amount > right.amount"), 2, 2),
    "as_of": (lambda events: as_of(events, events, tolerance="5m", **COMMON), 1, 1),
    # Sessions alone take two exchanges and a sort; here one more exchange sorts them again.
    "sessions": (in_sessions("left"), 3, 2),
}


@pytest.mark.parametrize("name", PLANS)
def test_exchanges_and_sorts(events: DataFrame, name: str) -> None:
    build, exchanges, sorts = PLANS[name]
    operators = nodes(build(events))
    assert (operators["Exchange"], operators["Sort"]) == (exchanges, sorts)
    assert not [operator for operator in operators if "Python" in operator or "Arrow" in operator]
    assert operators["CartesianProduct"] + operators["BroadcastNestedLoopJoin"] == 0


def test_rows_meet_by_one_number(events: DataFrame) -> None:
    """The sort is by a long alone; with a text as well it would take several times as long."""
    text = explained(paired("inner")(events))
    assert "SortMergeJoin [_join_place#" in text
    assert text.count("Sort [_join_place#") == 2
    # The key and further conditions are checked where two rows meet.
    assert "hashpartitioning(_join_place#" in text


def test_columns_that_are_not_asked_for_are_not_read(events: DataFrame) -> None:
    joined = paired("left")(events).select("user", "amount", "amount_right")
    assert "unused" not in explained(joined)
