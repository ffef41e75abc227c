"""Aggregates that Python has no form of: Spark says whether a cause holds for them too."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill import Job
from backfill.reconciliation import reconcile as run
from backfill.reconciliation import recount
from backfill.reconciliation.result import Reconciled
from tests.on_sail import spark_only

pytestmark = pytest.mark.usefixtures("interpreted")

JOB = """
source: {path: events, format: parquet}
events: {key: user, time: at, id: id, arrival: [partition, offset]}
engine: kafka-streams
windows:
  sessions:
    session: {gap: 1m}
    aggregates:
      n: count
      pages: collect_list(page)
      middle: quantile(price, 0.5, exact=true)
      about: count_distinct(page, approximate=true)
tables: {path: out}
"""
BEGAN = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
#: User, second, page, price, id: in order of arrival. By the event of `clock`, `late` loses one.
EVENTS: list[tuple[str, int, str, float, str]] = [
    ("fine", 0, "a", 1.5, "1"), ("fine", 10, "b", 2.5, "2"),
    ("late", 100, "a", 1.0, "3"), ("late", 110, "b", 2.0, "4"),
    ("wrong", 200, "a", 1.0, "5"), ("round", 300, "a", 1.26, "6"), ("round", 310, "b", 1.27, "7"),
    ("batch", 400, "a", 1.0, "8"), ("batch", 410, "c", 3.0, "9"),
    ("twice", 500, "a", 1.0, "10"), ("twice", 500, "a", 1.0, "10"), ("twice", 505, "b", 3.0, "11"),
    ("clock", 2_000, "a", 1.0, "12"),
    ("late", 120, "z", 9.0, "13"),
]  # fmt: skip


def job_of(folder: Path) -> Job:
    users, seconds, pages, prices, ids = zip(*EVENTS, strict=True)
    table = pa.table(
        {
            "user": users,
            "at": pa.array([BEGAN + dt.timedelta(seconds=second) for second in seconds]),
            "page": pages,
            "price": prices,
            "id": ids,
            "partition": [0] * len(EVENTS),
            "offset": list(range(len(EVENTS))),
        }
    )
    (folder / "events").mkdir(parents=True)
    pq.write_table(table, folder / "events" / "a.parquet")
    (folder / "job.yaml").write_text(JOB)
    return Job.load(folder / "job.yaml")


def compared(job: Job, spark: SparkSession, stream: DataFrame) -> Reconciled:
    path = str(job.spec.path.parent / "stream")
    stream.write.mode("overwrite").parquet(path)
    return job.reconcile(
        "sessions", spark, stream=path, format="table", grace="10s", retention="1d"
    )


def changed(rows: DataFrame, user: str, **values: Any) -> DataFrame:
    own = {
        name: F.when(F.col("user") == user, value).otherwise(F.col(name))
        for name, value in values.items()
    }
    return rows.withColumns(own)


@spark_only
@pytest.mark.slow
def test_causes_hold_for_aggregates_of_every_kind(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_of(tmp_path)
    job.run(spark)
    rows = job.table("sessions", spark)
    end = F.lit(BEGAN + dt.timedelta(seconds=110))
    both = F.array(F.lit("a"), F.lit("b"))
    rows = changed(rows, "late", window_end=end, n=2, pages=both, middle=1.5, about=2)
    rows = changed(
        rows, "twice", n=3, pages=F.array(F.lit("a"), F.lit("a"), F.lit("b")), middle=1.0
    )
    # Only what Python does not replay differs here: without a cause, or rounded.
    rows = changed(rows, "wrong", about=7)
    rows = changed(rows, "round", middle=1.3)
    expected = {
        "late": (("late",), True),
        "twice": (("redelivered",), True),
        "wrong": (("unexplained",), False),
        "round": (("rounded",), True),
    }

    def causes(found: Reconciled) -> dict[str, tuple[tuple[str, ...], bool]]:
        return {
            difference.key[0]: (difference.explanation.causes, difference.explanation.proved)
            for difference in found.differences
        }

    reconciled = compared(job, spark, rows)
    assert causes(reconciled) == expected, reconciled.differences
    evidence = {
        difference.key[0]: difference.explanation.evidence for difference in reconciled.differences
    }
    assert evidence["wrong"] == {"recounted": [{"about": 1}]}
    assert evidence["round"] == {"digits": 1, "how": "half_up", "of": ["middle"]}

    # What holds for the bounds and the count, but not for the other values, is no cause.
    spoiled = changed(rows, "late", pages=F.array(F.lit("a"), F.lit("z")))
    assert causes(compared(job, spark, spoiled)) == {**expected, "late": (("unexplained",), False)}

    # The same in parts.
    monkeypatch.setattr(run, "FEW_EVENTS", 5)
    monkeypatch.setattr(recount, "_TOGETHER", 3)
    again = compared(job, spark, rows)
    assert [repr(difference) for difference in again.differences] == [
        repr(difference) for difference in reconciled.differences
    ]

    # The source has changed since the table was published; the stream has what it holds now.
    source = tmp_path / "events" / "a.parquet"
    table = pq.read_table(source)
    pages = ["q" if page == "c" else page for page in table["page"].to_pylist()]
    place = table.schema.get_field_index("page")
    pq.write_table(table.set_column(place, "page", pa.array(pages)), source)
    moved = changed(rows, "batch", pages=F.array(F.lit("a"), F.lit("q")))
    expected["batch"] = (("missing_in_batch",), True)
    assert causes(compared(job, spark, moved)) == expected
