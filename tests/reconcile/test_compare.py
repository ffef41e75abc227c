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
        "user": [each.key for each in events],
        "at": [each.time for each in events],
        "amount": [each.value["amount"] for each in events],
        "price": [each.value["price"] for each in events],
        "id": [each.value["id"] for each in events],
        "partition": [each.partition for each in events],
        "offset": [each.arrival[1] for each in events],
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
        (each.key, each.start, each.end, *(each.values[name] for name in AGGREGATES))
        for each in made.final
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
    found = reconciled(job, spark, stream)
    causes = {
        each.key[0]: (each.explanation.causes, each.explanation.proved)
        for each in found.differences
    }
    assert causes == {
        "late": (("late",), True),
        "twice": (("redelivered",), True),
        "lost": (("missing_in_stream",), True),
        "broken": (("unexplained",), False),
    }
    evidence = {each.key[0]: each.explanation.evidence for each in found.differences}
    late = {"time_us": 130 * SECOND, "partition": "0", "place": 5, "id": "late130"}
    assert evidence["late"]["dropped"][1] == {**late, "late_by_us": 700 * SECOND}
    assert [each["place"] for each in evidence["twice"]["copies"]] == [7]
    assert [each["id"] for each in evidence["lost"]["left_out"]] == ["lost1100", "lost1130"]
    # Both sessions of fine, those of clock and other, and the one of lost that is left are alike.
    assert (found.matched, found.batch, found.stream) == (5, 9, 7)
    assert sum(found.causes.values()) == len(found.differences) == 4
    assert (found.possible, found.unexplained) == (0, 1)
    assert not found.ok(["late", "redelivered", "missing_in_stream", "possible"])

    again = reconciled(job, spark, written(EVENTS))
    assert again.causes == {"late": 1, "redelivered": 1}
    assert again.ok(["late", "redelivered"])
    assert not again.ok(["late"])

    # Without the order of arrival nothing that depends on it is proved.
    text = (tmp_path / "job.yaml").read_text()
    (tmp_path / "job.yaml").write_text(text.replace(", arrival: [partition, offset]", ""))
    unordered = Job.load(tmp_path / "job.yaml")
    unordered.run(spark)
    found = reconciled(unordered, spark, written(EVENTS))
    assert {each.key[0]: each.explanation.proved for each in found.differences} == {
        "late": False,
        "twice": True,
    }
    assert found.ok(["redelivered", "possible"])


def test_keys_that_hang_on_each_other_are_replayed_together(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_of(tmp_path, EVENTS, "[partition, offset]")
    job.run(spark)
    # With on_close, events of other keys decide what is sent at all.
    stream = written(EVENTS, emit="on_close")
    said: list[str] = []
    found = reconciled(job, spark, stream, said, emit="on_close")
    assert f"replaying {len(EVENTS)} events of all keys together" in said
    assert found.ordered
    causes = {
        each.key[0]: (each.explanation.causes, each.explanation.proved)
        for each in found.differences
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
    found = reconciled(job, spark, stream, said, emit="on_close")
    assert not found.ordered
    assert len(found.differences) == 4
    assert not any(each.explanation.proved for each in found.differences)


@pytest.mark.slow
def test_what_is_alike(spark: SparkSession, tmp_path: Path) -> None:
    events = [replace(each) for each in EVENTS if each.key in ("fine", "other")]
    job = job_of(tmp_path, events, "[partition, offset]")
    job.run(spark)
    found = reconciled(job, spark, written(events))
    assert (found.matched, list(found.differences), found.ok()) == (3, [], True)
