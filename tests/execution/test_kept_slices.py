"""Metrics whose slices are kept: what a run of some dates reads, and what an erasure leaves."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from backfill import Job, Metric
from backfill import aggregates as agg
from backfill.cli import main
from tests.execution.test_metric_rows import write
from tests.execution.world import HOUR, at, day
from tests.reference_metrics import Payment, groups, wide

pytestmark = pytest.mark.usefixtures("interpreted")

JOB = """
source: {path: src, format: parquet}
events: {key: user, time: at, id: id}
metrics:
  users: {by: [partner], value: count_distinct(user), windows: [2h, 2d], step: 1h, KEEP}
  last: {by: [], value: last(user), windows: [1d], step: 12h, KEEP}
tables: {path: out}
checks: {builtin: {quarantined_share: off}}
"""


def payments(days: range) -> list[dict[str, Any]]:
    """Two dozen payments on each day, some at midnight and just before it."""
    records = []
    for number in days:
        random = Random(number)
        times = [
            at(number),
            at(number + 1) - 1,
            *(at(number, random.random() * 24) for _ in range(22)),
        ]
        for place, time in enumerate(times):
            moment = dt.datetime.fromtimestamp(time / 1e6, dt.timezone.utc)
            own = {"id": f"{number}-{place}", "at": moment, "user": random.choice("abcdefgh")}
            records.append({**own, "partner": random.choice(["x", "y", None])})
    return records


def expected(given: list[dict[str, Any]], until: int) -> list[tuple[Any, ...]]:
    """The rows of `users` before an instant."""
    metric = Metric(
        "distinct", agg.count_distinct("user"), by=["partner"], windows=["2h", "2d"], step="1h"
    )
    kept = [
        Payment(
            payment["partner"],
            None,
            int(payment["at"].timestamp() * 1e6 + 0.5),
            ord(payment["user"]),
        )
        for payment in given
    ]
    return sorted(
        (*key, *row)
        for key, own in groups(kept, ("account",)).items()
        for row in wide(own, metric)
        if row[0] < until
    )


def rows(job: Job, spark: SparkSession) -> list[tuple[Any, ...]]:
    table = job.table("users", spark)
    return sorted(
        map(tuple, table.select("partner", F.unix_micros("at"), "users_2h", "users_2d").collect())
    )


@pytest.fixture
def job(tmp_path: Path) -> Job:
    (tmp_path / "job.yaml").write_text(JOB.replace("KEEP", "keep_slices: true"))
    for number in range(6):
        write(tmp_path / "src" / f"{number}.parquet", payments(range(number, number + 1)))
    return Job.load(tmp_path / "job.yaml")


def accepted(messages: list[str]) -> int:
    [line] = [message for message in messages if message.endswith("events accepted")]
    return int(line.split()[0])


def test_a_new_day_reads_no_old_events(
    spark: SparkSession, tmp_path: Path, job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "job.yaml")
    job.run(spark, start=day(0), end=day(3))
    assert main(["plan", path, "--date", str(day(3)), "--json"]) == 0
    beyond = {read["window"]: read for read in json.loads(capsys.readouterr().out)["beyond"]}
    slices = beyond["users"]["slices"]
    assert (slices["table"], slices["files"] > 0, slices["rows"] > 20) == (
        "users_slices",
        True,
        True,
    )
    assert beyond["users_slices"]["slices"] is None
    # From half a day, the longer of the two steps, before the day.
    assert beyond["users"]["read_from"] == "2026-01-03T12:00:00.000000Z"
    assert main(["plan", path, "--date", str(day(3))]) == 0
    text = capsys.readouterr().out
    assert (
        f"{slices['rows']} rows in {slices['files']} files of users_slices are read rather" in text
    )

    messages: list[str] = []
    job.run(spark, start=day(3), end=day(4), progress=messages.append)
    near = [
        payment
        for payment in payments(range(6))
        if at(3) - 12 * HOUR <= payment["at"].timestamp() * 1e6 < at(4) + 12 * HOUR
    ]
    assert accepted(messages) == len(near)
    assert rows(job, spark) == expected(payments(range(6)), at(4))
    # Also in the middle of the covered dates, and with a hole between a date and covered ones.
    job.run(spark, start=day(1), end=day(2))
    assert rows(job, spark) == expected(payments(range(6)), at(4))
    job.run(spark, start=day(5), end=day(6), progress=messages.append)
    assert accepted(messages[-9:]) > len(near)
    assert [row for row in rows(job, spark) if row[1] >= at(5)] == [
        row for row in expected(payments(range(6)), at(6)) if row[1] >= at(5)
    ]
    assert all(outcome.success for outcome in job.validate(spark=spark))


def test_a_key_is_taken_out_of_the_values(spark: SparkSession, job: Job) -> None:
    job.run(spark, start=day(0), end=day(3))
    before = rows(job, spark)

    def held() -> set[str]:
        table = job.table("users_slices", spark).select(F.explode("users.values").alias("user"))
        return {row.user for row in table.distinct().collect()}

    assert held() == set("abcdefgh")
    count = job.table("users_slices", spark).count()
    done = job.forget("c", spark)
    assert held() == set("abdefgh")
    assert done["users_slices"].rows > 0
    assert job.table("users_slices", spark).count() == count
    assert rows(job, spark) == before
    assert job.forget("c", spark)["users_slices"].rows == 0


def test_slices_that_do_not_reach_far_enough_back(
    spark: SparkSession, tmp_path: Path, job: Job
) -> None:
    """Events are read if slices have been dropped, or would be those of a file that changed."""
    job.run(spark, start=day(0), end=day(4))
    write(tmp_path / "src" / "2.parquet", payments(range(2, 3))[:5])
    messages: list[str] = []
    job.run(spark, start=day(4), end=day(5), progress=messages.append)
    given = [*payments(range(2)), *payments(range(2, 3))[:5], *payments(range(3, 6))]
    assert [row for row in rows(job, spark) if row[1] >= at(4)] == [
        row for row in expected(given, at(5)) if row[1] >= at(4)
    ]
    text = (tmp_path / "job.yaml").read_text()
    (tmp_path / "job.yaml").write_text(f"{text}retention: 36h\n")
    job = Job.load(tmp_path / "job.yaml")
    job.run(spark)
    job.run(spark, start=day(5), end=day(6))
    last = at(6) - 1
    assert rows(job, spark) == [row for row in expected(given, at(6)) if row[1] >= last - 36 * HOUR]
    # Dropped slices are missing also after retention has been extended.
    (tmp_path / "job.yaml").write_text(f"{text}retention: 90d\n")
    job = Job.load(tmp_path / "job.yaml")
    job.run(spark, start=day(5), end=day(6))
    assert [row for row in rows(job, spark) if row[1] >= at(5)] == [
        row for row in expected(given, at(6)) if row[1] >= at(5)
    ]


def test_a_quiet_date_is_not_covered_before_its_rows_are_there(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A hopping window of the third day begins on the second, on which a metric's values fall."""
    hopping = "windows: {hops: {hopping: {size: 3h, advance: 1h}, aggregates: {n: count}}}"
    job = JOB.replace("KEEP", "keep_slices: true").replace("metrics:", f"{hopping}\nmetrics:")
    (tmp_path / "job.yaml").write_text(job)
    given = [
        {**payment, "at": dt.datetime.fromtimestamp(time / 1e6, dt.timezone.utc), "partner": "x"}
        for payment, time in zip(payments(range(1)), (at(0, 23, 30), at(2, 0, 30)), strict=False)
    ]
    write(tmp_path / "src" / "all.parquet", given)
    quiet = Job.load(tmp_path / "job.yaml")
    quiet.run(spark, start=day(0), end=day(1))
    quiet.run(spark, start=day(2), end=day(3))
    assert "2026-01-02" not in str(quiet.table("hops", spark).select("date").distinct().collect())
    quiet.run(spark, missing=True)
    assert rows(quiet, spark) == expected(given, at(3))
    tables = ("hops", "users", "users_slices", "last", "last_slices")
    before = {name: set(map(str, quiet.table(name, spark).collect())) for name in tables}
    quiet.run(spark)
    assert before == {name: set(map(str, quiet.table(name, spark).collect())) for name in tables}
