"""The files that `plan` names for late events, against those that `recompute` then replaces."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from backfill.job import Job
from backfill.planning.stages import MergeStage, RangeStage, Rewritten
from backfill.store import Store
from tests.tables import files_of, version_of

pytestmark = pytest.mark.usefixtures("interpreted")

HOUR = 3_600_000_000
DAY = 24 * HOUR
START = 1_767_225_600_000_000  # 2026-01-01
JOB = """\
source: {path: src, format: parquet}
events: {key: user, time: at, id: id}
windows:
  sessions: {session: {gap: 30m}, aggregates: {n: count}}
  around: {sliding: {size: 1h}, aggregates: {n: count}}
  numbered: {count: {size: 2, order: time}, aggregates: {n: count}}
  days: {count: {size: 3, advance: 6h, order: time}, aggregates: {n: count}}
tables: {path: out}
checks: {builtin: {quarantined_share: off}}
"""


def write(folder: Path, name: str, *events: tuple[str, int]) -> None:
    columns = {
        "user": [user for user, _ in events],
        "at": pa.array([START + at for _, at in events], pa.timestamp("us", "UTC")),
        "id": [f"{name}{number}" for number in range(len(events))],
    }
    (folder / "src").mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), folder / "src" / f"{name}.parquet")


def test_the_files_that_a_plan_names_are_replaced(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    days = [("a", day * DAY + 10 * HOUR) for day in range(4)]
    write(tmp_path, "all", *days, *(("b", at) for _, at in days))
    job = Job.load(tmp_path / "job.yaml")
    job.run(spark)
    # In a session of the second date, and on a new one, so that nothing before it is still open.
    write(tmp_path, "late", ("a", DAY + 10 * HOUR + HOUR // 4), ("a", 9 * DAY))
    [stage] = job.plan(spark, recompute=True).stages
    assert isinstance(stage, MergeStage)
    [late] = stage.late
    store, tables = job.spec.store(), ["sessions", "around", "numbered", "days"]
    assert sorted(late.rewritten) == sorted(tables)
    job.recompute(spark)
    # On the second date only a session changes; windows by number move on all later dates.
    dates = {"sessions": [2, 4], "around": [4], "numbered": [3, 4], "days": [2, 3, 4]}
    for name in tables:
        gone, expected = replaced(store, name)
        assert (late.rewritten[name], gone) == (expected, dates[name]), name
    # A new day, in files of its own: the day before is not open any more.
    job.run(spark, date=dt.date(2026, 1, 10))
    write(tmp_path, "next", ("a", 12 * DAY + 10 * HOUR))
    [following] = job.plan(spark, date=dt.date(2026, 1, 13)).stages
    assert isinstance(following, RangeStage)
    job.run(spark, date=dt.date(2026, 1, 13))
    assert following.beyond is not None
    found_now = {beyond.window: beyond.rewritten for beyond in following.beyond}
    # Whether a window by number is open depends on time only if it moves by time.
    dates = {"sessions": [10], "around": [10], "numbered": [], "days": [10]}
    assert {name: replaced(store, name) for name in tables} == {
        name: (dates[name], found_now[name]) for name in tables
    }


def replaced(store: Store, name: str) -> tuple[list[int], Rewritten]:
    """The days of the files that the newest version no longer has, and how much they held."""
    newest = version_of(store, name)
    assert newest is not None
    before, now = (files_of(store, name, version=version) for version in (newest - 1, newest))
    kept = {file.path for file in now}
    gone = [file for file in before if file.path not in kept]
    sizes = sum(file.rows for file in gone), sum(file.size for file in gone)
    days = sorted({file.minimum["date"].day for file in gone})
    return days, Rewritten(len(gone), *sizes, len(before))
