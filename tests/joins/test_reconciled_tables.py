"""The table of a job's join against what a streaming join wrote: `reconcile`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from backfill import Job
from backfill.cli import main
from backfill.errors import BackfillError
from backfill.reconciliation.result import Reconciled
from backfill.replay import Event, replay_join
from backfill.spec import JobSpec
from tests.files import write_rows
from tests.memory_store import MemoryStore
from tests.on_sail import ROWS, spark_only

pytestmark = pytest.mark.usefixtures("interpreted")

WROTE = f"wrote.{ROWS}"

MS = 1_000
JOB = """
source: {path: events, format: parquet}
events: {key: user, time: at, id: id, arrival: n}
engine: ENGINE
joins:
  sold: {left: kind = 'click', right: kind = 'buy', within: [3ms, 9ms], how: HOW,
         columns: {ad: left.ad, price: right.ad}WHERE}
tables: {path: out}
"""
Row = tuple[Any, ...]


@dataclass(frozen=True)
class Placed:
    """An event: its time (ms), its place in the order of arrival, and the rest."""

    key: str | None
    time: int
    n: int
    left: bool
    ad: int
    id: str | None


def drawn(random: Random, count: int, keys: int = 60) -> list[Placed]:
    """Events: some late, some before 1970, some without a key, some delivered twice."""
    events: list[Placed] = []
    for n in range(count):
        if events and random.random() < 0.05:
            events.append(replace(random.choice(events[-60:]), n=n))
            continue
        time = n // 5 + random.choice([0, 0, 0, 0, -7, -30, 4])
        key = None if random.random() < 0.02 else f"k{random.randrange(keys)}"
        left, ad = random.random() < 0.5, random.randrange(4)
        # Without an id, events are different ones, even at the same time.
        events.append(Placed(key, time, n, left, ad, None if n % 5 == 0 else f"e{n}"))
    return events


def write(folder: Path, events: Sequence[Placed]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.table(
        {
            "user": pa.array([e.key for e in events], pa.string()),
            "at": pa.array([e.time * MS for e in events], pa.timestamp("us", "UTC")),
            "kind": ["click" if e.left else "buy" for e in events],
            "ad": pa.array([e.ad for e in events], pa.int32()),
            "id": pa.array([e.id for e in events], pa.string()),
            "n": pa.array([e.n for e in events], pa.int64()),
        }
    )
    pq.write_table(table, folder / "part.parquet")


def job_in(folder: Path, engine: str, how: str, where: str = "") -> Job:
    text = JOB.replace("ENGINE", engine).replace("HOW", how)
    condition = f", where: {where}" if where else ""
    (folder / "job.yaml").write_text(text.replace("WHERE", condition))
    return Job(JobSpec.load(folder / "job.yaml"), MemoryStore())


def emitted(events: Sequence[Placed], how: str, **settings: Any) -> list[Row]:
    """What the stream wrote: user, time, the ids of both events, and their values."""
    by_place = {event.n: event for event in events}
    sides = [
        [Event(key=e.key, time=e.time * MS, arrival=e.n) for e in events if e.left == left]
        for left in (True, False)
    ]
    if settings.get("engine") == "flink":
        sides = [[event for event in side if event.key is not None] for side in sides]
    replayed = replay_join(*sides, within=("3ms", "9ms"), how=how, **settings)
    rows = []
    for emission in replayed.emissions:
        one, other = (None if n is None else by_place[n] for n in (emission.left, emission.right))
        first = one or other
        assert first is not None
        rows.append(
            (first.key, first.time, *(of(e) for of in (id_of, ad_of) for e in (one, other)))
        )
    return rows


def id_of(event: Placed | None) -> str | None:
    return event and event.id


def ad_of(event: Placed | None) -> int | None:
    return event and event.ad


def write_stream(path: Path, rows: Sequence[Row]) -> None:
    """Writes the rows with the stream's own names."""
    text, number = pa.string(), pa.int64()
    types = {"user": text, "event_time": number, "click": text, "id_right": text}
    schema = pa.schema({**types, "ad": number, "price": number})
    write_rows(path, (dict(zip(schema.names, row, strict=True)) for row in rows), schema)


def of_table(job: Job, spark: SparkSession) -> Counter[Row]:
    columns = ("user", "event_time", "id", "id_right", "ad", "price")
    rows = job.table("sold", spark).select(*columns).collect()
    return Counter((r[0], round(r[1].timestamp() * 1000), *r[2:]) for r in rows)


def differing(found: Reconciled, side: str) -> Counter[Row]:
    rows: Counter[Row] = Counter()
    for explained in found.differences:
        for row in getattr(explained.difference, side):
            values = row.values
            at = round(values["event_time"].timestamp() * 1000)
            names = ("id", "id_right", "ad", "price")
            rows[(explained.key[0], at, *(values[name] for name in names))] += 1
    return rows


CASES: list[tuple[str, str, str, dict[str, Any], set[str]]] = [
    (
        "kafka-streams",
        "full",
        "",
        {"grace": "4ms"},
        {"late", "redelivered", "pending", "missing_in_batch"},
    ),
    ("kafka-streams", "left", "", {"spurious": True, "store": "memory"}, {"spurious", "late"}),
    (
        "kafka-streams",
        "inner",
        "left.ad > right.ad",
        {"grace": "0s"},
        {"late", "redelivered"},
    ),
    ("flink", "inner", "", {"watermark_delay": "3ms"}, {"late", "redelivered"}),
]


@pytest.mark.parametrize(("engine", "how", "where", "settings", "causes"), CASES)
def test_a_table_and_what_the_stream_wrote(
    spark: SparkSession,
    tmp_path: Path,
    engine: str,
    how: str,
    where: str,
    settings: dict[str, Any],
    causes: set[str],
) -> None:
    events = drawn(Random(3), 1_500)
    write(tmp_path / "events", events)
    job = job_in(tmp_path, engine, how, where)
    job.run(spark)
    own = {"engine": engine, **settings}
    rows = [r for r in emitted(events, how, **own) if not where or r[4] > r[5]]
    write_stream(tmp_path / WROTE, rows)
    comparison = job.reconcile(
        "sold",
        spark,
        stream=str(tmp_path / WROTE),
        format="table",
        columns={"click": "id"},
        **settings,
    )
    table, wrote = of_table(job, spark), Counter(rows)
    assert differing(comparison, "batch") == table - wrote
    assert differing(comparison, "stream") == wrote - table
    assert (comparison.matched, comparison.batch, comparison.stream) == (
        (table & wrote).total(),
        table.total(),
        wrote.total(),
    )
    assert comparison.unexplained == comparison.possible == comparison.undecoded == 0
    assert causes <= set(comparison.causes), comparison.causes


def world(folder: Path, spark: SparkSession, events: Sequence[Placed], how: str = "left") -> Job:
    """A job of the events that has run, and what the stream wrote for them."""
    write(folder / "events", events)
    job = job_in(folder, "kafka-streams", how)
    job.run(spark)
    write_stream(folder / WROTE, emitted(events, how))
    return job


def reconciled(job: Job, spark: SparkSession, folder: Path, **more: Any) -> Reconciled:
    given = {"format": "table", "columns": {"click": "id"}, **more}
    return job.reconcile("sold", spark, stream=str(folder / WROTE), **given)


def pair(key: str, n: int, time: int) -> list[Placed]:
    return [Placed(key, time + i, n + i, not i, i, f"e{n + i}") for i in (0, 1)]


def test_rows_that_one_side_lacks(spark: SparkSession, tmp_path: Path) -> None:
    """An event that the stream never had, one that the table has not counted yet, and others."""
    keys = "abcdef"
    events = [event for i, key in enumerate(keys) for event in pair(key, 10 * i, 100 * i)]
    job = world(tmp_path, spark, events)
    rows = emitted(events, "left")
    write_stream(
        tmp_path / WROTE,
        [
            *(row for row in rows if row[0] not in "abd"),
            # Its click is alone, because the buy never came.
            ("a", 0, "e0", None, 0, None),
            # Nothing explains these.
            ("d", 300, "e30", "e31", 0, 7),
            ("e", 400, "e40", "e41", 0, 1),
        ],
    )
    comparison = reconciled(job, spark, tmp_path)
    causes = [
        (e.key[0], e.difference.status, *e.explanation.causes) for e in comparison.differences
    ]
    assert sorted(causes) == [
        ("a", "only_in_batch", "missing_in_stream"),
        ("a", "only_in_stream", "missing_in_stream"),
        ("b", "only_in_batch", "missing_in_stream"),
        ("d", "only_in_batch", "unexplained"),
        ("d", "only_in_stream", "unexplained"),
        ("e", "only_in_stream", "unexplained"),
    ]
    assert not comparison.ok(["missing_in_stream"])
    write(tmp_path / "events", [*events, *pair("g", 90, 900)])
    write_stream(tmp_path / WROTE, emitted([*events, *pair("g", 90, 900)], "left"))
    later = reconciled(job, spark, tmp_path)
    assert later.causes == {"missing_in_batch": 1}
    assert later.differences[0].difference.hull == (900_000, 900_000)
    # The table lacks the row, whatever the reason is.
    assert later.possible == 1
    assert not later.ok(["missing_in_batch"])
    assert later.ok(["possible"])
    share = reconciled(job, spark, tmp_path, sample=0.4)
    assert 0 < share.batch < 6
    for none in (0.0, -0.5, 1.5):
        with pytest.raises(BackfillError, match="sample: must be a share"):
            reconciled(job, spark, tmp_path, sample=none)


@spark_only
def test_rows_that_retention_has_removed(spark: SparkSession, tmp_path: Path) -> None:
    day = 86_400_000
    events = [*pair("a", 0, 0), *pair("b", 10, day), *pair("c", 20, 3 * day)]
    job = world(tmp_path, spark, events)
    text = (tmp_path / "job.yaml").read_text()
    (tmp_path / "job.yaml").write_text(text + "retention: 47h\n")
    kept = Job(JobSpec.load(tmp_path / "job.yaml"), job.store)
    assert kept.expire(spark)["sold"].rows == 2
    comparison = reconciled(kept, spark, tmp_path)
    assert (comparison.causes, comparison.matched) == ({"retention": 2}, 1)


def test_partitions_have_an_order_each(spark: SparkSession, tmp_path: Path) -> None:
    """One goes on a day later than the other, whose events are not late for that."""
    events = drawn(Random(5), 400, keys=20)
    later = [
        replace(event, time=event.time + 86_400_000) for event in drawn(Random(6), 400, keys=20)
    ]
    later = [
        replace(e, key=e.key and f"x{e.key}", id=e.id and f"x{e.id}", n=e.n + 400) for e in later
    ]
    write(tmp_path / "events", [*later, *events])
    job = job_in(tmp_path, "kafka-streams", "full")
    text = (tmp_path / "job.yaml").read_text()
    source = "source: {path: events/part.parquet, format: parquet}"
    table = pq.read_table(tmp_path / "events" / "part.parquet")
    part = [int(n >= 400) for n in table["n"].to_pylist()]
    pq.write_table(
        table.append_column("part", pa.array(part, pa.int32())),
        tmp_path / "events" / "part.parquet",
    )
    text = text.replace("source: {path: events, format: parquet}", source)
    (tmp_path / "job.yaml").write_text(text.replace("arrival: n", "arrival: [part, n]"))
    job = Job(JobSpec.load(tmp_path / "job.yaml"), MemoryStore())
    job.run(spark)
    rows = [*emitted(events, "full"), *emitted(later, "full")]
    write_stream(tmp_path / WROTE, rows)
    comparison = reconciled(job, spark, tmp_path)
    assert comparison.unexplained == 0
    assert comparison.causes["late"] > 0
    assert differing(comparison, "stream") == Counter(rows) - of_table(job, spark)


@spark_only
def test_on_the_command_line(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    late = Placed("b", 0, 60, True, 3, "late")
    events = [*pair("a", 0, 0), *pair("b", 10, 5), *pair("c", 50, 5_000), late]
    write(tmp_path / "events", events)
    job_in(tmp_path, "kafka-streams", "left")
    path = str(tmp_path / "job.yaml")
    stream = f"--stream={tmp_path / WROTE}"
    write_stream(tmp_path / WROTE, emitted(events, "left"))
    with (tmp_path / WROTE).open("a") as file:
        file.write('{"user": "c", "event_time": "never", "more": 1}\n')
    assert main(["run", path]) == 0

    def call(*more: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(["reconcile", path, "sold", stream, "--format=table", *more])
        return code, *capsys.readouterr()

    page = tmp_path / "page.html"
    code, out, messages = call("--columns=click=id", f"--html={page}")
    assert code == 1
    assert "3 rows match, 2 differ." in out
    assert "1 rows of the stream could not be decoded." in out
    assert "late" in out
    assert "comparing user, event_time, id, id_right, ad, price; the table has no more" in messages
    assert "<title>Reconciliation of sold</title>" in page.read_text()
    assert "rows alike" in page.read_text()
    code, out, _ = call("--columns=click=id", "--accept=late", "--json")
    document = json.loads(out)
    assert (code, document["causes"], document["undecoded"]) == (1, {"late": 2}, 1)
    (batch,) = (e["batch"] for e in document["differences"] if e["status"] == "only_in_batch")
    assert batch[0]["values"]["id"] == "late"
    assert batch[0]["start"] == "1970-01-01T00:00:00.000000Z"
    code, _, messages = call("--columns=click=id", "--allowed-lateness=3s")
    assert code == 2
    assert "stream.allowed_lateness: is not a setting of a join" in messages


SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"format": "flink"}, "stream.format: the output of a join is read as a table"),
    ({"checkpoint": "here"}, "checkpoint: belongs to a Spark query"),
    ({"panes": "accumulating"}, "stream.panes: has no meaning for the format table"),
    ({"columns": {}}, "stream.columns: the stream has no such key column"),
    (
        {"columns": {"id": "user"}},
        "stream.columns: the stream has no column of the join's table besides",
    ),
    ({"wall_clock": "nn"}, "stream.wall_clock: no such column"),
]
JOBS: list[tuple[str, str, str]] = [
    (", arrival: n", "", "events.arrival: is needed to compare a join"),
    ("arrival: n", "arrival: [kind, n]", "events.arrival: must be one column: the watermark"),
    ("engine: flink", "engine: storm", "engine: has no known join of two streams"),
    ("how: inner", "how: anti", "how: must be inner or left or full"),
    ("how: inner", "how: left, where: left.ad > right.ad", "joins.sold.where: no streaming join"),
]


@spark_only
def test_what_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "events", pair("a", 0, 0))
    job = job_in(tmp_path, "flink", "inner")
    (tmp_path / WROTE).write_text('{"who": "a", "id": "e0"}\n')
    text = (tmp_path / "job.yaml").read_text().replace("{ad: left.ad, price: right.ad}", "{}")

    def check(job: Job, given: dict[str, Any], message: str) -> None:
        own = {"columns": {"who": "user"}, **given}
        with pytest.raises(BackfillError, match=message):
            reconciled(job, spark, tmp_path, **own)

    for old, new, message in JOBS:
        (tmp_path / "job.yaml").write_text(text.replace(old, new))
        check(Job(JobSpec.load(tmp_path / "job.yaml"), job.store), {}, message)
    check(job, {}, "sold: nothing has been published|sold: .*not.*publish")
    job.run(spark)
    for given, message in SETTINGS:
        check(job, given, message)
