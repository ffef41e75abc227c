"""What `plan` says of files for late events, against what `recompute` then replaces."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from backfill.job import Job
from backfill.planning.stages import MergeStage, Rewritten
from tests.tables import files_of

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
    # In a session of the second date; and on a new one, so that nothing before it is open any more.
    write(tmp_path, "late", ("a", DAY + 10 * HOUR + HOUR // 4), ("a", 9 * DAY))
    [stage] = job.plan(spark, recompute=True).stages
    assert isinstance(stage, MergeStage)
    [found] = stage.late
    store, tables = job.spec.store(), ["sessions", "around", "numbered"]
    assert sorted(found.rewritten) == sorted(tables)
    job.recompute(spark)
    dates = {}
    for name in tables:
        before, now = (files_of(store, name, version=version) for version in (0, 1))
        kept = {each.path for each in now}
        gone = [each for each in before if each.path not in kept]
        assert found.rewritten[name] == Rewritten(
            len(gone), sum(each.rows for each in gone), sum(each.size for each in gone), len(before)
        ), name
        dates[name] = sorted({each.minimum["date"].day for each in gone})
    # On the second date only a session changes; windows by number move on all later dates.
    assert dates == {"sessions": [2, 4], "around": [4], "numbered": [3, 4]}
