"""Sessions with rules in jobs: what is counted, checked, reported and refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill import Job, SessionWindow, aggregates
from backfill.errors import WindowError
from backfill.execution.run_result import Dropped
from backfill.replay import Event as ReplayEvent
from backfill.replay import replay
from backfill.stream.streaming_aggregation import check_streamed
from tests.execution.world import World, at
from tests.files import write_rows
from tests.reference import Event

pytestmark = pytest.mark.usefixtures("interpreted")

CUT = SessionWindow(gap="30m", max_events=2)
#: Two events, then one beyond the maximum duration, alone too short a session; events of one
#: time that a change of `id` cuts apart, so that two sessions have the same start.
EVENTS = [
    Event("a", at(0, 10), 1, "1"),
    Event("a", at(0, 10, 20), 1, "1"),
    Event("a", at(0, 10, 45), 1, "1"),
    *[Event("b", at(0, 12), value, id) for id in ("1", "2") for value in (1, 2)],
]


def test_runs_count_what_is_too_short(spark: SparkSession, tmp_path: Path) -> None:
    world = World(tmp_path, spark, windows=("ruled",), gate=True)
    world.write("0", EVENTS)
    result = world.job.run(spark)
    assert result.windows["ruled"].dropped == Dropped(1, 1)
    assert (result.accepted, result.windows["ruled"].events) == (7, 6)
    rows = world.job.table("ruled", spark).collect()
    assert sorted((row["user"], row["n"]) for row in rows) == [("a", 2), ("b", 2), ("b", 2)]
    assert len({row["session_id"] for row in rows}) == 3

    # A late event makes the short session long enough, as it moves the cut before it.
    world.write("1", [Event("a", at(0, 9, 35), 1, "1")])
    late = world.job.recompute(spark)
    assert late is not None
    assert late.windows["ruled"].dropped == Dropped(0, 0)
    changed = world.job.table("ruled", spark).where("user = 'a'").collect()
    assert sorted(row["n"] for row in changed) == [2, 2]
    counts = world.job.history()[-1]["tables"]["ruled"]
    assert (counts["dropped_sessions"], counts["dropped_events"]) == (1, 1)


@pytest.mark.parametrize("late", [Event(None, at(0, 10, 5), 1, "1"), EVENTS[1]], ids=str)
def test_late_rows_that_are_no_events_of_the_table(
    spark: SparkSession, tmp_path: Path, late: Event
) -> None:
    world = World(tmp_path, spark, with_id=True, windows=("ruled",))
    world.write("0", EVENTS)
    world.run_all()
    world.write("1", [late])
    done = world.recompute()
    assert done is not None
    assert done.accepted == 0
    world.check()
    assert world.recompute() is None


def test_sessions_that_midnight_in_another_zone_splits(spark: SparkSession, tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(
        "source: {path: src, format: parquet}\n"
        "events: {key: user, time: at, time_format: iso, timezone: America/New_York}\n"
        "windows: {parts: {session: {gap: 26h, split: midnight}, aggregates: {n: count}}}\n"
        "tables: {path: out}\n"
    )
    parts = []
    for number, at_ in enumerate(["2026-11-02T04:00:59Z", "2026-11-05T03:00:00Z"]):
        write_rows(tmp_path / "src" / f"{number}.parquet", [{"user": "a", "at": at_}])
        (Job.load(job).recompute if number else Job.load(job).run)(spark)
        rows = Job.load(job).fetch("parts").to_pylist()
        parts.append([(row["window_start"].day, row["is_open"]) for row in rows])
    # The late event's date is not covered; it only ends the first event's session.
    assert parts == [[(2, True)], [(2, False)]]


def test_the_gate_knows_the_rules(spark: SparkSession, tmp_path: Path) -> None:
    world = World(tmp_path, spark, windows=("ruled",), gate=True)
    world.write("0", EVENTS)
    world.job.run(spark)
    outcomes = {outcome.check.name: outcome.success for outcome in world.job.validate(spark=spark)}
    assert outcomes["gap"]
    assert outcomes["unique"]
    assert outcomes["bounds"]


@pytest.mark.parametrize("engine", ["plain", "kafka-streams", "spark", "flink", "beam"])
def test_no_engine_has_rules(engine: str) -> None:
    with pytest.raises(WindowError, match="No engine has these rules") as error:
        replay(
            [ReplayEvent(key="a", time=0, arrival=0)],
            CUT,
            engine=engine,
            aggregates={"n": aggregates.count()},
        )
    assert error.value.field == "window"


def test_streams_have_no_rules() -> None:
    with pytest.raises(WindowError, match="has no rules that cut or drop sessions"):
        check_streamed("visits", CUT)


@pytest.mark.spark_only
def test_reconciling_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    world = World(tmp_path, spark, windows=("ruled",))
    world.write("0", EVENTS)
    world.job.run(spark)
    stream = str(tmp_path / "streamed")
    world.job.table("ruled", spark).drop("session_id").write.parquet(stream)
    with pytest.raises(WindowError, match="which no streaming engine has"):
        world.job.reconcile("ruled", spark, stream=stream, format="table")
