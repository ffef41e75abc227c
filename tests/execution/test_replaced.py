"""Inputs that replace counted ones: what a run removes, it writes again."""

from __future__ import annotations

import datetime as dt
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from backfill import Job
from backfill.errors import ConservationError, SourceError
from backfill.execution import ranges
from backfill.planning import context
from backfill.planning.context import Context
from backfill.planning.range_input import RangeInput
from backfill.planning.stages import DateState
from backfill.time.dates import Dates
from backfill.time.epoch import moment_of
from tests import reference
from tests.execution.world import HOUR, World, at, day
from tests.files import write_rows
from tests.rebuilt import caught_up, job_of, same_as_rebuilt
from tests.reference import Event

pytestmark = pytest.mark.usefixtures("interpreted")

JOB = """
source: {path: "%s", format: %s}
events: {key: user, time: at}
engine: spark
windows:
  trailing: {hopping: {size: 24h, advance: 6h}, aggregates: {n: count}}
  sessions: {session: {gap: 6h}, aggregates: {n: count}}
  growing: {cumulating: {size: 36h, step: 12h}, aggregates: {n: count}}
  days: {tumbling: {size: 2 days}, aggregates: {n: count}}
  moving: {sliding: {size: 24h}, aggregates: {n: count}}
  shared: {sliding: {size: 20h, distinct: true}, aggregates: {n: count}}
tables: {path: out}
checks: {builtin: off}
"""
BEFORE = [
    *(Event("a", at(d, h)) for d, h in [(0, 12), (1, 12), (1, 20), (2, 6), (2, 12), (3, 6)]),
    *(Event("b", at(d, 5)) for d in range(4)),
]
AFTER = [e for e in BEFORE if not (e.key == "a" and at(1) <= e.time < at(2))]
Row = tuple[str | None, int, int]


def job(folder: Path, path: str, format: str) -> Job:
    (folder / "job.yaml").write_text(JOB % (path, format))
    return Job.load(folder / "job.yaml")


def rows(made: Job, name: str) -> list[Row]:
    table = DeltaTable(f"{made.spec.tables}/{name}").to_pyarrow_table()
    own = (
        ["event_time"] * 2 if "event_time" in table.column_names else ["window_start", "window_end"]
    )
    times = [
        table[column].cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist() for column in own
    ]
    return sorted(zip(table["user"].to_pylist(), *times, table["n"].to_pylist(), strict=True))


def expected(events: list[Event]) -> dict[str, list[Row]]:
    aligned = {
        "trailing": reference.hopping(24 * HOUR, 6 * HOUR),
        "growing": reference.cumulating(36 * HOUR, 12 * HOUR),
        "days": reference.calendar("UTC", (2, "day")),
    }
    tables = {
        name: sorted((*w, len(own)) for w, own in reference.grouped(events, windows).items())
        for name, windows in aligned.items()
    }
    gap = 6 * HOUR
    own = reference.sessions(events, gap)
    tables["sessions"] = sorted((e[0].key, e[0].time, e[-1].time + gap, len(e)) for e in own)
    surroundings = reference.surrounding(events, 24 * HOUR)
    tables["moving"] = sorted((e.key, e.time, e.time, len(own)) for e, own in surroundings)
    shared = reference.distinct_windows(events, 20 * HOUR)
    tables["shared"] = sorted(
        (k, end - 20 * HOUR, end, len(own)) for (k, end), own in shared.items()
    )
    return tables


def frame(spark: SparkSession, events: list[Event]):
    micros = spark.createDataFrame([(e.key, e.time) for e in events], "user string, us bigint")
    return micros.select("user", F.timestamp_micros("us").alias("at"))


@pytest.mark.parametrize(
    "source",
    ["delta", *(pytest.param(source, marks=pytest.mark.slow) for source in ("parquet", "table"))],
)
def test_windows_that_reach_out_of_the_range_are_written_again(
    spark: SparkSession, tmp_path: Path, source: str
) -> None:
    def write(events: list[Event]) -> None:
        table = frame(spark, events)
        if source == "table":
            table.createOrReplaceTempView("replaced")
        elif source == "delta":
            write_deltalake(str(tmp_path / "src"), table.toArrow(), mode="overwrite")
        else:
            table.coalesce(1).write.mode("overwrite").parquet(str(tmp_path / "src"))

    made = job(tmp_path, "replaced" if source == "table" else "src", source)
    write(BEFORE)
    made.run(spark, start=day(0), end=day(4))
    assert {name: rows(made, name) for name in made.spec.windows} == expected(BEFORE)
    write(AFTER)
    made.run(spark, start=day(1), end=day(2))
    assert {name: rows(made, name) for name in made.spec.windows} == expected(AFTER)


@pytest.mark.slow
def test_dates_of_replaced_inputs_are_named_until_they_are_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    world = World(tmp_path, spark, windows=("sessions",))
    world.write("all", [Event("a", at(d, 12), d) for d in range(5)])
    world.run(0, 5)
    # What was counted on the second to the fourth day is gone; a new day comes.
    world.write("all", [Event("a", at(d, 13), d) for d in (0, 4, 5)])
    messages: list[str] = []
    world.job.run(spark, start=day(0), end=day(2), progress=messages.append)
    left = "inputs of [2026-01-03, 2026-01-06) are missing or have changed: run these dates as well"
    assert left in messages
    states = [(state.dates[0], state.state, state.late) for state in planned(world)]
    assert states == [
        (day(0), "present", 0),
        (day(2), "changed", 0),
        (day(5), "missing", 0),
    ]
    assert [state.detail for state in planned(world) if state.state == "changed"] == [
        f"{tmp_path / 'src' / 'all.parquet'} has changed"
    ]
    with pytest.raises(SourceError, match=r"--from 2026-01-03 --to 2026-01-06"):
        world.recompute()
    world.job.run(spark, start=day(2), end=day(5))
    assert [state.state for state in planned(world)] == ["present", "missing"]
    world.job.run(spark, missing=True)
    merged = world.recompute()
    assert merged is not None
    assert merged.accepted == 0
    world.check()


def planned(world: World) -> list[DateState]:
    return list(world.job.plan(world.spark, explain=False).windows["sessions"])


def test_a_run_that_would_lose_events_fails(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame(spark, BEFORE).coalesce(1).write.parquet(str(tmp_path / "src"))
    made = job(tmp_path, "src", "parquet")
    made.run(spark)
    before = {name: rows(made, name) for name in made.spec.windows}
    frame(spark, AFTER).coalesce(1).write.mode("overwrite").parquet(str(tmp_path / "src"))
    real = ranges.range_inputs

    def forgetful(context: Context, dates: Dates) -> list[RangeInput]:
        counted = dict.fromkeys(context.inputs, dates)
        return [replace(range_input, counted=counted) for range_input in real(context, dates)]

    # As if only the range's events counted in an input that no run has seen.
    monkeypatch.setattr(ranges, "range_inputs", forgetful)
    with pytest.raises(ConservationError, match="not in any window that was written"):
        made.run(spark, start=day(1), end=day(2))
    assert {name: rows(made, name) for name in made.spec.windows} == before


def test_dates_on_which_nothing_is_left_can_be_run(spark: SparkSession, tmp_path: Path) -> None:
    def write(name: str, *days: int) -> None:
        rows = [{"user": "a", "at": moment_of(at(number, 12)), "value": number} for number in days]
        write_rows(tmp_path / "src" / f"{name}.parquet", rows)

    source = "path: src, format: parquet"
    made = job_of(tmp_path, source)
    # All four days count, and only the first is covered.
    write("all", 0, 1, 2, 3)
    made.run(spark, date="2026-01-01")
    write("all", 0)
    assert caught_up(made, spark) == ("2026-01-01", "2026-01-05")
    write("more", 2)
    made.recompute(spark)
    made.run(spark, missing=True)
    assert made.recompute(spark) is None
    same_as_rebuilt(made, spark, source)


@pytest.mark.spark_only
def test_a_log_that_grows_and_is_rotated(spark: SparkSession, tmp_path: Path) -> None:
    """Which dates a text file held is known only from the bounds of all that tables counted."""
    source = "path: src, format: csv, schema: 'user string, at timestamp, value int'"
    made = job_of(tmp_path, source)
    log, first = tmp_path / "src" / "a.csv", "user,at,value\na,2026-01-10T10:00:00Z,1\n"
    log.parent.mkdir()
    log.write_text(first)
    made.run(spark)
    log.write_text(f"{first}b,2026-01-11T09:00:00Z,2\n")
    assert caught_up(made, spark) == ("2026-01-10", "2026-01-11")
    made.run(spark, missing=True)
    log.rename(log.with_name("a.csv.1"))
    log.write_text("user,at,value\na,2026-01-12T10:00:00Z,1\n")
    assert caught_up(made, spark) == ("2026-01-10", "2026-01-12")
    made.run(spark, missing=True)
    log.with_name("b.csv").write_text("user,at,value\nb,2026-01-11T08:00:00Z,2\n")
    made.recompute(spark)
    assert made.recompute(spark) is None
    same_as_rebuilt(made, spark, source)


BOTS = """
source: {path: src, format: parquet}
events:
  key: user
  time: at
  time_format: iso
  bots: {gap: 30m, rules: [{name: many, events: 4}]}
windows:
  days: {tumbling: {size: 1 day}, aggregates: {n: count}}
tables: {path: out}
checks: {builtin: off}
"""


def times(folder: Path, name: str, *rows: tuple[str, str]) -> Path:
    """Events whose times are text, so that a file's bounds are not known without reading it."""
    path = folder / "src" / f"{name}.parquet"
    return write_rows(path, [{"user": user, "at": f"2026-01-{at}Z"} for user, at in rows])


def test_events_of_bots_that_are_gone(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(BOTS)
    made = Job.load(tmp_path / "job.yaml")
    gone = times(tmp_path, "a", *(("k", f"10T10:0{n}:00") for n in range(3)))
    times(tmp_path, "b", *(("k", f"10T10:0{n}:30") for n in range(2)))
    times(tmp_path, "c", ("p", "11T10:00:00"))
    made.run(spark, start="2026-01-10", end="2026-01-13")
    assert made.fetch("days")["n"].to_pylist() == [1]
    gone.unlink()
    # The two events left are not a bot's now, and they are on the first date.
    assert caught_up(made, spark) == ("2026-01-10", "2026-01-12")
    assert sorted(made.fetch("days")["n"].to_pylist()) == [1, 2]


@pytest.mark.parametrize("quarantine", [True, False])
def test_a_file_that_comes_back(spark: SparkSession, tmp_path: Path, quarantine: bool) -> None:
    (tmp_path / "job.yaml").write_text(BOTS)
    made = Job.load(tmp_path / "job.yaml")
    away, *_ = (
        times(tmp_path, user, *((user, f"{number}T10:00:00") for number in range(10, 14)))
        for user in "ab"
    )
    for number in (12, 13):
        made.run(spark, date=f"2026-01-{number}")
    away.rename(tmp_path / "away.parquet")
    made.run(spark, date="2026-01-13")
    if not quarantine:
        shutil.rmtree(tmp_path / "out/quarantine")
    (tmp_path / "away.parquet").rename(away)
    made.run(spark, start="2026-01-10", end="2026-01-12")
    made.recompute(spark)
    starts = made.fetch("days")["window_start"].to_pylist()
    assert sorted(start.day for start in starts) == [10, 10, 11, 11, 12, 12, 13, 13]


def test_events_that_were_in_the_future(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "job.yaml").write_text(
        BOTS.replace("  bots: {gap", "  max_future: 1h\n  bots: {gap")
    )
    made = Job.load(tmp_path / "job.yaml")

    class Then(dt.datetime):
        on = 10

        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> dt.datetime:
            return dt.datetime(2026, 1, cls.on, 12, tzinfo=tz)

    monkeypatch.setattr(context.dt, "datetime", Then)
    times(tmp_path, "a", ("a", "10T10:00:00"), ("a", "12T10:00:00"))
    times(tmp_path, "b", ("b", "10T10:00:00"))
    made.run(spark, date="2026-01-10")
    Then.on = 13
    assert made.run(spark, date="2026-01-12").horizon_us == at(11, 10)
    times(tmp_path, "a", ("a", "10T10:00:00"))
    assert caught_up(made, spark) == ("2026-01-10", "2026-01-13")
    starts = made.fetch("days")["window_start"].to_pylist()
    assert [start.day for start in starts] == [10, 10]
