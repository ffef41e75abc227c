"""The job's joins as real streaming queries, compared with the replay of Spark's join."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backfill import Job
from backfill.errors import JobFileError, ReplayError, WindowError
from backfill.reconciliation.result import Reconciled
from backfill.replay import Event, JoinReplayed, replay_join
from backfill.session_conf import session_conf
from backfill.stream import Streamed
from backfill.stream.streaming_aggregation import check_streamed
from backfill.windows.join_window import JoinWindow
from tests.drawn import SEEDS

S = 1_000_000
JOB = """\
sources:
  clicks: {path: clicks, format: json, schema: "user string, at bigint, event string, ad int"}
  buys: {path: buys, format: json, schema: "user string, at bigint, event string, price int"}
events: {key: user, time: at, time_format: epoch_us, id: event}
engine: spark
joins:
tables: {path: out}
checks: {builtin: off}
stream: {watermark_delay: 5s, right_watermark_delay: 2s}
"""
#: The joins of the job; for the other policy one is enough.
EVERY = "  every: {left: clicks, right: buys, within: [-1500us, 700us], how: full}"
JOINS = f"""\
  paired: {{left: clicks, right: buys, within: [-3s, 7s], where: right.price > left.ad,
           columns: {{ad: left.ad, price: right.price}}}}
  kept: {{left: clicks, right: buys, within: [-3s, 7s], how: left, columns: {{ad: left.ad}}}}
  some: {{left: clicks, right: buys, within: [-3s, 7s], how: semi}}
{EVERY}"""
BATCHES = 5
Pair = tuple[str | None, str | None]


def drawn(random: Random) -> dict[str, list[list[dict[str, Any]]]]:
    """For each source, the rows of each batch: some late, some about as far apart as allowed."""
    away = [0, 1, 3, 5, 7, 10, 12, -6, -10, -20]
    more = [0, 0, 1, -1, 500, 700, 1_000, 1_500, -1_000]
    batches: dict[str, list[list[dict[str, Any]]]] = {"clicks": [], "buys": []}
    for batch in range(BATCHES):
        for name, value in (("clicks", "ad"), ("buys", "price")):
            rows = [
                {
                    "user": random.choice(["a", "b", "c", None]),
                    "at": (batch * 9 + random.choice(away)) * S + random.choice(more),
                    "event": f"{name}{batch}-{place}",
                    value: random.randrange(3),
                }
                for place in range(15)
            ]
            # One side can have fewer batches than the other.
            if batch == 0 or random.random() > 0.15:
                batches[name].append(rows)
    return batches


@dataclass
class World:
    """The queries of a job over two sources, and the events that they read."""

    job: Job
    folder: Path
    events: dict[str, list[Event]]
    rows: dict[str, dict[str, Any]]
    done: dict[str, Streamed]
    policy: str

    def replayed(self, how: str, within: tuple[str, str]) -> JoinReplayed:
        return replay_join(
            self.events["clicks"],
            self.events["buys"],
            engine="spark",
            how=how,
            within=within,
            watermark_delay="5s",
            right_watermark_delay="2s",
            watermark_policy=self.policy,
        )

    def wrote(self, spark: SparkSession, name: str) -> Counter[Pair]:
        rows = spark.read.parquet(str(self.folder / "live" / name)).collect()
        return Counter((row["event"], row.asDict().get("event_right")) for row in rows)

    def reconciled(self, spark: SparkSession, name: str) -> Reconciled:
        """A table compared with what the query wrote, using its checkpoint."""
        live = self.folder / "live"
        return self.job.reconcile(
            name,
            spark,
            stream=str(live / name),
            checkpoint=str(live / "_checkpoints" / name),
            format="spark-append",
        )


@pytest.fixture(scope="module", params=["min", "max"])
def world(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> World:
    folder, policy = tmp_path_factory.mktemp("joins"), request.param
    seed = SEEDS[0]
    print("seed", seed)
    batches = drawn(Random(seed))
    for name, own in batches.items():
        (folder / name).mkdir()
        for batch, rows in enumerate(own):
            path = folder / name / f"{batch}.json"
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
            os.utime(path, (batch + 1, batch + 1))
    text = JOB.replace("joins:", "joins:\n" + (JOINS if policy == "min" else EVERY))
    if policy == "max":
        text += "windows: {tens: {tumbling: {size: 10s}, aggregates: {n: count}}}\n"
    (folder / "job.yaml").write_text(text)
    job = Job.load(folder / "job.yaml")
    conf = {
        "spark.sql.streaming.multipleWatermarkPolicy": policy,
        "spark.sql.shuffle.partitions": "2",
    }
    with session_conf(spark, conf):
        done = job.stream(spark, to=folder / "live", files_per_batch=1)
    events = {
        name: [
            Event(key=row["user"], time=row["at"], arrival=(batch, name, place), batch=batch)
            for batch, rows in enumerate(own)
            for place, row in enumerate(rows)
        ]
        for name, own in batches.items()
    }
    rows = {
        row["event"]: row for own in batches.values() for micro_batch in own for row in micro_batch
    }
    return World(job, folder, events, rows, done, policy)


def id_of(arrival: Any) -> str | None:
    return None if arrival is None else f"{arrival[1]}{arrival[0]}-{arrival[2]}"


def pairs(found: JoinReplayed) -> Counter[Pair]:
    return Counter((id_of(emission.left), id_of(emission.right)) for emission in found.emissions)


@pytest.mark.slow
@pytest.mark.spark_only
def test_what_spark_writes_is_what_the_replay_gives(spark: SparkSession, world: World) -> None:
    expected = pairs(world.replayed("full", ("1500us", "700us")))
    assert world.wrote(spark, "every") == expected
    assert {None} < {side for pair in expected for side in pair}
    read = sum(map(len, world.events.values()))
    assert world.done["every"].read == read
    if world.policy == "max":
        # A window over several sources has one watermark.
        assert world.done["tens"].read == read
        (n,) = spark.read.parquet(str(world.folder / "live/tens")).selectExpr("sum(n)").collect()[0]
        assert 0 < n < read
        return
    assert world.wrote(spark, "kept") == pairs(world.replayed("left", ("3s", "7s")))
    # A condition on one side alone is filtered before the watermark; this one is on both sides.
    every = world.replayed("inner", ("3s", "7s"))
    assert every.dropped
    met = pairs(every)
    wanted = {
        pair: times
        for pair, times in met.items()
        if world.rows[str(pair[1])]["price"] > world.rows[str(pair[0])]["ad"]
    }
    assert world.wrote(spark, "paired") == wanted
    assert world.wrote(spark, "some") == Counter({(left, None): 1 for left, _ in met})


@pytest.mark.slow
@pytest.mark.spark_only
def test_the_job_s_tables_are_compared_with_it(spark: SparkSession, world: World) -> None:
    world.job.run(spark)
    if world.policy == "max":
        # The delay of a join's right side does not affect a window.
        reconciled = world.reconciled(spark, "tens")
        assert reconciled.matched
        return
    late = {id_of(drop.arrival) for drop in world.replayed("left", ("3s", "7s")).dropped}
    for name in ("paired", "kept", "every"):
        reconciled = world.reconciled(spark, name)
        assert reconciled.matched > 0
        assert {cause for one in reconciled.differences for cause in one.explanation.causes} <= {
            "late",
            "pending",
        }
        assert reconciled.ok(["late", "pending"]), name
    assert late
    check_unread(spark, world, late)
    with pytest.raises(JobFileError, match="does not say which micro-batch read an event"):
        world.job.reconcile(
            "kept", spark, stream=str(world.folder / "live/kept"), format="spark-append"
        )
    with pytest.raises(ReplayError, match=r"joins\.some\.how: .*no such join \(got 'semi'\)"):
        world.job.reconcile(
            "some", spark, stream=str(world.folder / "live/some"), format="spark-append"
        )
    with pytest.raises(ReplayError, match=r"joins\.paired\.where: Spark filters a side before"):
        world.job.reconcile(
            "paired", spark, stream=str(world.folder / "live/paired"), format="spark-append"
        )
    # Spark has dropped its first log.
    kept = world.folder / "live/_checkpoints/kept"
    trimmed = shutil.copytree(kept, world.folder / "trimmed")
    (trimmed / "offsets" / "0").unlink()
    with pytest.raises(JobFileError, match="checkpoint: has no logs of the batches before 1"):
        world.job.reconcile(
            "kept",
            spark,
            stream=str(world.folder / "live/kept"),
            checkpoint=str(trimmed),
            format="spark-append",
        )


def check_unread(spark: SparkSession, world: World, late: Collection[str | None]) -> None:
    """Events of a file that the query has never read are missing, however late they are.

    If their partner came late, they would be in no pair either.
    """
    name = "clicks/unread.json"
    rows = [
        {"user": user, "at": at * S, "event": f"unread-{user}-{at}", "ad": -1}
        for user in "abc"
        for at in (0, 20, 40)
    ]
    (world.folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    world.job.run(spark)
    reconciled = world.reconciled(spark, "paired")
    unread = Counter(
        (values["event_right"] in late, explained.explanation.causes, explained.explanation.proved)
        for explained in reconciled.differences
        for row in explained.difference.batch
        if (values := row.values)["event"].startswith("unread")
    )
    missing, overtaken = (False, ("missing_in_stream",), True), (True, ("late",), True)
    assert {missing} <= unread.keys() <= {missing, overtaken}
    assert reconciled.causes["missing_in_stream"] == unread[missing]
    assert reconciled.ok(["late", "pending", "missing_in_stream"])


@pytest.mark.one_lane
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            {"how": "anti"},
            r"joins\.sold\.how: Structured Streaming has no anti join of two streams",
        ),
        ({"within": "5 messages"}, r"joins\.sold\.within: .*in time, not by number of messages"),
    ],
)
def test_what_spark_can_not_join_is_refused_by_name(change: dict[str, Any], problem: str) -> None:
    window = JoinWindow(**{"left": "a", "right": "b", "within": "5m", **change})
    with pytest.raises(WindowError, match=problem):
        check_streamed("sold", window)
