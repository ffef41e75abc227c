"""Whether events are combined before they are exchanged: chosen from a sample, never a result."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from backfill import Job
from backfill.planning import combining

pytestmark = pytest.mark.usefixtures("interpreted")

UTC = dt.timezone.utc
JOB = """
source: {{path: src, format: parquet}}
events: {{key: user, time: at{id}}}
windows:
  sessions: {{session: {{gap: 30m}}, aggregates: {{n: count, total: sum(value), most: max(value)}}}}
  hourly: {{tumbling: {{size: 1h}}, aggregates: {{n: count, mean: mean(value)}}}}
tables: {{path: out}}
checks: {{builtin: {checks}}}
"""


def events(count: int, users: int, days: int = 4) -> list[dict[str, Any]]:
    """Events at minutes of some days, of some users, each in two rows."""
    drawn = random.Random(count)
    rows = [
        {
            "user": f"u{drawn.randrange(users)}",
            "at": dt.datetime(2026, 1, 1, tzinfo=UTC)
            + dt.timedelta(minutes=drawn.randrange(days * 1440)),
            "value": drawn.randrange(-9, 9),
            "id": f"e{number}",
        }
        for number in range(count)
    ]
    return rows + rows


def job(folder: Path, *, id: str = ", id: id", checks: str = "off") -> Job:
    (folder / "src").mkdir(parents=True)
    (folder / "job.yaml").write_text(JOB.format(id=id, checks=checks))
    return Job.load(folder / "job.yaml")


def write(folder: Path, name: str, rows: list[dict[str, Any]]) -> None:
    at = pa.schema([("user", "string"), ("at", pa.timestamp("us", "UTC")), ("value", "int64")])
    table = pa.Table.from_pylist(rows, schema=at.append(pa.field("id", pa.string())))
    pq.write_table(table, folder / "src" / f"{name}.parquet")


@pytest.fixture
def sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes every input large enough for a sample."""
    monkeypatch.setattr(combining, "_LARGE", 0)


def chosen(job: Job, spark: SparkSession) -> combining.Combining:
    (stage,) = job.plan(spark).stages
    assert stage.combining is not None
    return stage.combining


def test_little_is_combined_without_a_look(spark: SparkSession, tmp_path: Path) -> None:
    small = job(tmp_path)
    write(tmp_path, "a", events(50, 9))
    assert chosen(small, spark) == combining.Combining(True, "the input is small")


@pytest.mark.usefixtures("sampled")
def test_a_sample_counts_all_that_a_slice_has(spark: SparkSession, tmp_path: Path) -> None:
    # Without an id copies are events: two to a slice, or slightly more.
    sparse = job(tmp_path / "sparse", id="")
    write(tmp_path / "sparse", "a", events(4_000, 100_000))
    choice = chosen(sparse, spark)
    assert choice.combined
    assert choice.per_slice is not None
    assert 2 <= choice.per_slice < 2.02
    assert 600 < choice.sampled < 1_400
    assert choice.why == f"{choice.per_slice:.2f} events per slice in a sample, not less than 1.5"

    write(tmp_path / "sparse", "a", events(4_000, 100_000)[:4_000])
    choice = chosen(sparse, spark)
    assert not choice.combined
    assert choice.why == "1.00 events per slice in a sample, less than 1.5"

    dense = job(tmp_path / "dense", id="")
    write(tmp_path / "dense", "a", events(4_000, 1))
    per_slice = chosen(dense, spark).per_slice
    # 8,000 events on the 192 half hours of four days.
    assert per_slice is not None
    assert 35 < per_slice < 49


@pytest.mark.usefixtures("sampled")
def test_what_cannot_be_exchanged_one_by_one(spark: SparkSession, tmp_path: Path) -> None:
    exact = job(tmp_path)
    write(tmp_path, "a", events(50, 100))
    text = (tmp_path / "job.yaml").read_text()
    (tmp_path / "job.yaml").write_text(text.replace("mean(value)", "variance(value)"))
    exact = Job.load(tmp_path / "job.yaml")
    assert chosen(exact, spark).why == "a window or an aggregate benefits in any case"


@pytest.mark.slow
@pytest.mark.usefixtures("sampled")
def test_the_choice_never_changes_a_result(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = {}
    for fewest in (0.0, 1e9):
        monkeypatch.setattr(combining, "FEWEST", fewest)
        folder = tmp_path / str(fewest)
        own = job(folder)
        first, second, late = events(300, 5), events(200, 5, days=3), events(40, 7)
        write(folder, "a", first)
        own.run(spark)
        steps = [shown(own, spark)]
        # A range whose sessions reach over both of its edges, then late events.
        write(folder, "b", second)
        own.run(spark, start="2026-01-02", end="2026-01-04")
        steps.append(shown(own, spark))
        write(folder, "c", late)
        own.recompute(spark)
        steps.append(shown(own, spark))
        tables[fewest] = steps
    assert tables[0.0] == tables[1e9]
    assert len(tables[0.0][-1]["sessions"]) > 20


def shown(job: Job, spark: SparkSession) -> dict[str, list[Any]]:
    return {
        name: sorted(map(tuple, job.table(name, spark).collect()), key=repr)
        for name in ("sessions", "hourly")
    }


@pytest.mark.usefixtures("sampled")
def test_the_gate_passes_what_was_exchanged_one_by_one(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(combining, "FEWEST", 1e9)
    own = job(tmp_path, checks="{}")
    write(tmp_path, "a", events(300, 5))
    published = own.run(spark)
    assert published.accepted == 300
    assert published.checks
    for outcomes in (published.checks, own.validate(spark=spark)):
        assert all(outcome.success for outcome in outcomes)
