"""A published table against an operator's output, with the order of arrival from the source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from backfill import Job, SessionWindow
from backfill import aggregates as agg
from backfill.reconciliation import reconcile as run
from backfill.reconciliation.result import Reconciled
from backfill.replay import Event, replay

pytestmark = pytest.mark.usefixtures("interpreted")

SECOND = 1_000_000
JOB = """
source: {path: events, format: parquet}
events: {key: user, time: at, time_format: epoch_us, id: id, arrival: %s}
engine: kafka-streams
windows:
  sessions:
    session: {gap: 60s}
    aggregates: {n: count, big: "count where amount > 5", total: sum(amount), mean: mean(price)}
tables: {path: out}
"""
AGGREGATES = {
    "n": agg.count(),
    "big": agg.count(where="large"),
    "total": agg.sum("amount"),
    "mean": agg.mean("price"),
}
Stream = list[tuple[str, int, int, int, int, int, float]]


def event(key: str, seconds: int, arrival: int, partition: int = 0, amount: int = 1) -> Event:
    value = {"amount": amount, "price": amount / 3, "large": amount > 5, "id": f"{key}{seconds}"}
    return Event(
        key=key,
        time=seconds * SECOND,
        arrival=(partition, arrival),
        value=value,
        partition=partition,
    )


EVENTS = [
    *[event("fine", t, i) for i, t in enumerate([0, 10, 500])],
    # Another key moves the partition's clock, so this one's last event is late.
    event("late", 100, 3), event("clock", 900, 4), event("late", 130, 5, amount=9),
    # Another partition has a clock of its own.
    event("other", 100, 0, partition=1), event("other", 130, 1, partition=1),
    event("twice", 1_000, 6), event("twice", 1_000, 7),
    event("lost", 1_100, 8), event("lost", 1_130, 9, amount=7), event("lost", 2_000, 10),
    event("broken", 3_000, 11),
]  # fmt: skip


def job_of(folder: Path, events: Sequence[Event], arrival: str) -> Job:
    (folder / "events").mkdir(parents=True)
    columns = {
        "user": [record.key for record in events],
        "at": [record.time for record in events],
        "amount": [record.value["amount"] for record in events],
        "price": [record.value["price"] for record in events],
        "id": [record.value["id"] for record in events],
        "partition": [record.partition for record in events],
        "offset": [record.arrival[1] for record in events],
    }
    pq.write_table(pa.table(columns), folder / "events" / "a.parquet")
    (folder / "job.yaml").write_text(JOB % arrival)
    return Job.load(folder / "job.yaml")


def written(events: Sequence[Event], **settings: str) -> Stream:
    made = replay(
        events,
        SessionWindow(gap="60s"),
        engine="kafka-streams",
        aggregates=AGGREGATES,
        grace="10s",
        retention="1d",
        **settings,
    )
    return [
        (session.key, session.start, session.end, *(session.values[name] for name in AGGREGATES))
        for session in made.final
    ]


def reconciled(
    job: Job, spark: SparkSession, stream: Stream, said: list[str] | None = None, **settings: str
) -> Reconciled:
    names = ("user", "window_start", "window_end", *AGGREGATES)
    table = pa.table(dict(zip(names, map(list, zip(*stream, strict=True)), strict=True)))
    for place, name in enumerate(names[1:3], 1):
        table = table.set_column(place, name, table[name].cast(pa.timestamp("us", "UTC")))
    path = job.spec.path.parent / "stream.parquet"
    pq.write_table(table, path)
    progress = (said if said is not None else []).append
    given = {"grace": "10s", "retention": "1d", **settings}
    return job.reconcile(
        "sessions", spark, stream=str(path), format="table", progress=progress, **given
    )


def test_each_difference_has_its_cause(spark: SparkSession, tmp_path: Path) -> None:
    job = job_of(tmp_path, EVENTS, "[partition, offset]")
    job.run(spark)
    stream = [row for row in written(EVENTS) if row[:2] != ("lost", 1_100 * SECOND)]
    stream = [(*row[:3], 44, *row[4:]) if row[0] == "broken" else row for row in stream]
    result = reconciled(job, spark, stream)
    causes = {
        difference.key[0]: (difference.explanation.causes, difference.explanation.proved)
        for difference in result.differences
    }
    assert causes == {
        "late": (("late",), True),
        "twice": (("redelivered",), True),
        "lost": (("missing_in_stream",), True),
        "broken": (("unexplained",), False),
    }
    evidence = {
        difference.key[0]: difference.explanation.evidence for difference in result.differences
    }
    late = {"time_us": 130 * SECOND, "partition": "0", "place": 5, "id": "late130"}
    assert evidence["late"]["dropped"][1] == {**late, "late_by_us": 700 * SECOND}
    assert [copy["place"] for copy in evidence["twice"]["copies"]] == [7]
    assert [lost["id"] for lost in evidence["lost"]["left_out"]] == ["lost1100", "lost1130"]
    # Both sessions of fine, those of clock and other, and the one of lost that is left are alike.
    assert (result.matched, result.batch, result.stream) == (5, 9, 7)
    assert sum(result.causes.values()) == len(result.differences) == 4
    assert (result.possible, result.unexplained) == (0, 1)
    assert not result.ok(["late", "redelivered", "missing_in_stream", "possible"])

    again = reconciled(job, spark, written(EVENTS))
    assert again.causes == {"late": 1, "redelivered": 1}
    assert again.ok(["late", "redelivered"])
    assert not again.ok(["late"])

    # Without the order of arrival nothing that depends on it is proved.
    text = (tmp_path / "job.yaml").read_text()
    (tmp_path / "job.yaml").write_text(text.replace(", arrival: [partition, offset]", ""))
    unordered = Job.load(tmp_path / "job.yaml")
    unordered.run(spark)
    result = reconciled(unordered, spark, written(EVENTS))
    assert {
        difference.key[0]: difference.explanation.proved for difference in result.differences
    } == {
        "late": False,
        "twice": True,
    }
    assert result.ok(["redelivered", "possible"])


def test_keys_that_hang_on_each_other_are_replayed_together(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_of(tmp_path, EVENTS, "[partition, offset]")
    job.run(spark)
    # With on_close, events of other keys decide what is sent at all.
    stream = written(EVENTS, emit="on_close")
    said: list[str] = []
    result = reconciled(job, spark, stream, said, emit="on_close")
    assert f"replaying {len(EVENTS)} events of all keys together" in said
    assert result.ordered
    causes = {
        difference.key[0]: (difference.explanation.causes, difference.explanation.proved)
        for difference in result.differences
    }
    assert causes == {
        "late": (("late",), True),
        "twice": (("redelivered",), True),
        "other": (("pending",), True),
        "broken": (("pending",), True),
    }

    # If the driver has no room for all events, each key is replayed by itself, and no order of
    # its own events proves what became of it.
    monkeypatch.setattr(run, "MOST_EVENTS", len(EVENTS) - 1)
    result = reconciled(job, spark, stream, said, emit="on_close")
    assert not result.ordered
    assert len(result.differences) == 4
    assert not any(difference.explanation.proved for difference in result.differences)


@pytest.mark.slow
def test_what_is_alike(spark: SparkSession, tmp_path: Path) -> None:
    events = [replace(record) for record in EVENTS if record.key in ("fine", "other")]
    job = job_of(tmp_path, events, "[partition, offset]")
    job.run(spark)
    result = reconciled(job, spark, written(events))
    assert (result.matched, list(result.differences), result.ok()) == (3, [], True)
