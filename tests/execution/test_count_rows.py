"""Tables of windows by number of events or messages: what a run changes and reports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from backfill import CountWindow
from backfill.cli import main
from backfill.errors import SourceError, WindowError
from backfill.execution import late_keys
from tests.drawn import SEEDS
from tests.engines.recordings import FOLDER, Recording, recordings
from tests.execution.world import COUNTS, DAY, HOUR, World, at, day
from tests.memory_store import MemoryStore
from tests.printed import plan
from tests.reference import Event
from tests.reference_counts import held

pytestmark = pytest.mark.usefixtures("interpreted")

JOB = """
source: {path: src, format: parquet}
events: {key: user, time: at, id: id, arrival: offset}
windows:
  fours: {count: {size: 4, advance: 4, order: time}, aggregates: {n: count, total: sum(value)}}
  latest: {count: {size: 3}, aggregates: {n: count, total: sum(value)}}
  together: {count: {size: 5, advance: 5, order: time, per: stream}, aggregates: {n: count}}
  chats: {session: {gap: 2 messages}, aggregates: {n: count}}
tables: {path: out}
checks: {builtin: {quarantined_share: off}}
"""


STORM = """
source: {path: src, format: parquet}
events: {key: [], time: at, arrival: offset}
engine: storm
windows:
  counted: {%s, aggregates: {events: count, amount: sum(value)}}
tables: {path: out}
checks: {builtin: off}
"""
COUNTED_BY_STORM = [
    recording
    for recording in recordings("windowed-bolt")
    if isinstance(recording.window, CountWindow)
]


def of_each_day(key: str, days: int, partition: int) -> list[Event]:
    """Three events a day, with offsets next to each other."""
    return [
        Event(key, at(d, hour), d, f"{key}{d}{i}", partition + 10 * d + i)
        for d in range(days)
        for i, hour in enumerate((6, 12, 18))
    ]


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("counts")
    world = World(folder, spark, with_id=True, windows=COUNTS)
    (folder / "job.yaml").write_text(JOB)
    world.job = type(world.job).load(folder / "job.yaml")
    world.write("all", [*of_each_day("a", 4, 1), *of_each_day("b", 4, 101)])
    world.job.run(spark)
    return world


@pytest.fixture
def world(made: World, tmp_path: Path) -> World:
    copy = made.copied(tmp_path)
    (tmp_path / "job.yaml").write_text(JOB)
    copy.job = type(copy.job).load(tmp_path / "job.yaml")
    return copy


def rows(world: World, name: str) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, world.job.table(name, world.spark).collect()), key=repr)


def changes_of(world: World, name: str) -> list[tuple[Any, ...]]:
    """What the last run changed: the kind of change, the key, the number of the last event."""
    changes = world.job.changes(name, spark=world.spark)
    side = F.coalesce(F.col("new"), F.col("old"))
    return sorted(map(tuple, changes.select("change", "key.user", side["last_event"]).collect()))


def test_tables(world: World) -> None:
    fours = world.job.table("fours", world.spark)
    assert fours.columns == [
        *("user", "window_start", "window_end", "first_event", "last_event", "n", "total"),
        *("is_open", "date"),
    ]
    ends = F.unix_micros("window_end")
    windows = fours.where("user = 'a'").select("first_event", "last_event", ends, "date", "is_open")
    assert sorted(map(tuple, windows.collect())) == [
        (1, 4, at(1, 6), day(1), False),
        (5, 8, at(2, 12), day(2), False),
        (9, 12, at(3, 18), day(3), False),
    ]
    # A window of the last three events at each event, the first two partial.
    latest = world.job.table("latest", world.spark).where("user = 'b'")
    assert sorted(row.n for row in latest.collect()) == [1, 2, *[3] * 10]
    together = world.job.table("together", world.spark)
    assert together.columns[:2] == ["window_start", "window_end"]
    last = {row.last_event: (row.n, row.is_open) for row in together.collect()}
    assert last == {5: (5, False), 10: (5, False), 15: (5, False), 20: (5, False), 24: (4, True)}
    chats = world.job.table("chats", world.spark)
    assert chats.columns[:4] == ["user", "session_id", "window_start", "window_end"]
    open_ = {(row.user, row.date) for row in chats.where("is_open").collect()}
    assert open_ == {("a", day(3)), ("b", day(3))}
    assert chats.count() == 8


@pytest.mark.spark_only
@pytest.mark.slow
def test_a_late_event_moves_later_windows(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    job, path = world.job, str(world.folder / "job.yaml")
    # The last event of `a` on the first day, and a redelivered event, which changes nothing.
    world.write("late", [Event("a", at(0, 20), 9, "late", 4), Event("b", at(1, 12), 1, "b11", 112)])
    text, document = plan(capsys, path, "--recompute")
    # It is not known to be a copy before the run looks for it, so its key counts, too.
    assert "fours: a late event moves every later window of its key; for 2 keys 24 events" in text
    assert "together: a late event moves every later window of the whole stream; 24" in text
    assert "chats: a late message can join sessions of its key anywhere; for 2 keys" in text
    (late,) = document["stages"][0]["late"]
    assert {move["table"]: move["rows"] for move in late["moved"]} == {
        **{"fours": 6, "latest": 24, "together": 5, "chats": 8},
    }
    before = rows(world, "chats")
    result = job.recompute(world.spark)
    assert result is not None
    assert (result.accepted, result.duplicates) == (1, 1)
    # The windows from the one that holds it on; those before it are as they were.
    assert changes_of(world, "fours") == [
        ("inserted", "a", 13),
        *(("updated", "a", last) for last in (4, 8, 12)),
    ]
    # It is the fourth event; in windows far behind it only the numbers change.
    assert changes_of(world, "latest") == [
        ("inserted", "a", 13),
        *(("updated", "a", last) for last in range(4, 13)),
    ]
    chats = rows(world, "chats")
    assert len(chats) == len(before)
    assert len(set(chats) - set(before)) == 1
    assert all(outcome.success for outcome in job.validate(spark=world.spark))

    assert main(["show", path, "fours", "--key", "a", "--from", "2026-01-04"]) == 0
    shown = capsys.readouterr().out
    assert "first_event" in shown
    assert "2 windows" in shown
    assert main(["show", path, "together", "--limit", "1"]) == 0
    assert "there are more" in capsys.readouterr().out
    assert main(["changes", path, "together"]) == 0
    assert "last_event" in capsys.readouterr().out

    everything = {name: rows(world, name) for name in job.spec.windows}
    text, document = plan(capsys, path, "--date", str(day(1)))
    assert "fours: 6 rows outside [2026-01-02, 2026-01-03) are computed again: all rows" in text
    job.run(world.spark, date=day(1))
    assert {name: rows(world, name) for name in job.spec.windows} == everything
    job.run(world.spark)
    assert {name: rows(world, name) for name in job.spec.windows} == everything
    job.restore(job.history()[-1]["run_id"])
    job.clean("0s", world.spark)


@pytest.mark.spark_only
def test_streams_of_the_same_rows(world: World, tmp_path: Path) -> None:
    job, spark = world.job, world.spark
    for name, format in (("latest", "flink"), ("fours", "storm"), ("latest", "table")):
        out = str(tmp_path / f"{name}-{format}")
        given = job.table(name, spark).drop("window_start", "first_event", "last_event", "is_open")
        given.write.parquet(out)
        if format == "storm":
            # Storm orders by arrival only.
            with pytest.raises(WindowError, match="storm has no such window"):
                job.reconcile(name, spark, stream=out, format=format)
            continue
        reconciled = job.reconcile(name, spark, stream=out, format=format)
        assert (reconciled.matched, list(reconciled.differences)) == (24, [])
    lacking = str(tmp_path / "lacking")
    given.where("window_end < '2026-01-04T10:00:00Z' or user = 'b'").write.parquet(lacking)
    reconciled = job.reconcile("latest", spark, stream=lacking, format="flink")
    assert reconciled.matched == 22
    # As if the last two events had not reached Flink.
    assert {difference.explanation.causes for difference in reconciled.differences} == {
        ("missing_in_stream",)
    }
    for name, message in (
        ("together", "whole stream can't be compared"),
        ("chats", "flink has no such windows"),
    ):
        with pytest.raises(WindowError, match=message):
            job.reconcile(name, spark, stream=lacking, format="flink")


@pytest.mark.spark_only
@pytest.mark.parametrize(
    "recording", COUNTED_BY_STORM, ids=lambda recording: recording.settings["name"]
)
def test_what_storm_wrote(spark: SparkSession, tmp_path: Path, recording: Recording) -> None:
    """A task of Storm's bolt takes all events as one group, in the order in which they came."""
    world = World(tmp_path, spark, windows=("pairs",))
    window = recording.window
    assert isinstance(window, CountWindow)
    counted = f"count: {{size: {window.size}, advance: {window.advance}}}"
    (tmp_path / "job.yaml").write_text(STORM % counted)
    world.job = type(world.job).load(tmp_path / "job.yaml")
    given = [
        Event("", row["time"] * 1_000, row["amount"], None, row["arrival"] + 1)
        for row in recording.input()
    ]
    world.write("all", given)
    world.job.run(spark)
    out = str(FOLDER / recording.name / "output.jsonl.gz")
    reconciled = world.job.reconcile("counted", spark, stream=out, format="storm")
    assert reconciled.matched == len(recording.rows("output")) > 100
    assert not list(reconciled.differences)


@pytest.mark.spark_only
def test_structured_streaming_has_no_such_windows(world: World, tmp_path: Path) -> None:
    with pytest.raises(
        WindowError, match=r"windows.fours: .*has no windows by number of events or"
    ):
        world.job.stream(world.spark, to=tmp_path / "live")


def test_a_source_that_lacks_what_was_counted_is_not_merged(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write("late", [Event("a", at(1, 13), 9, "late", 99)])
    real = late_keys.people

    def forgetful(*arguments: Any) -> Any:
        people = real(*arguments)
        return replace(people, events=people.events.where("id != 'a12'"))

    monkeypatch.setattr(late_keys, "people", forgetful)
    with pytest.raises(SourceError, match="no longer holds events that were counted"):
        world.job.recompute(world.spark)


@pytest.mark.spark_only
@pytest.mark.slow
def test_retention(spark: SparkSession, tmp_path: Path) -> None:
    world = World(tmp_path, spark, windows=COUNTS, retention="24h", gate=True)
    world.store = MemoryStore()
    world.write_job()
    limit = at(2, 12)
    old = [Event("a", limit - age, 1) for age in (DAY, 2 * HOUR + 2, HOUR, 1)]
    world.write("all", [*old, Event("a", limit, 2), Event("a", at(3, 12), 3)])
    # The numbers of all later events depend on an old one, so no event is quarantined.
    assert not world.job.run(spark).quarantined
    check_lasting(world, limit)
    world.write("late", [Event("a", limit - 10, 5), Event("a", limit + HOUR, 5)])
    world.job.recompute(spark)
    check_lasting(world, limit)
    world.retention = "2h"
    world.write_job()
    world.job.expire(spark)
    check_lasting(world, at(3, 10))


def check_lasting(world: World, limit: int) -> None:
    """Checks for exactly the rows that all events make and that do not end before the limit."""
    expected = world.expected(world.usable())
    for name in world.windows:
        end = 1 if name == "together" else 2
        assert sorted(world.rows(name), key=repr) == sorted(
            (row for row in expected[name] if row[end] >= limit), key=repr
        ), name


@pytest.mark.slow
@pytest.mark.parametrize("with_id", [False, True])
def test_late_events_of_a_hundred_keys(spark: SparkSession, tmp_path: Path, with_id: bool) -> None:
    world = World(tmp_path, spark, with_id=with_id, windows=COUNTS, store=MemoryStore())
    world.write_job()
    random = Random(SEEDS[with_id])

    def some(count: int) -> list[Event]:
        return [
            Event(
                f"{random.choice('abcdefghij')}{random.randrange(10)}",
                at(random.randrange(4), random.randrange(24)) + random.randrange(3),
                random.randrange(-3, 3),
                random.choice(["1", "2", None]),
            )
            for _ in range(count)
        ]

    print("seed", SEEDS[with_id])
    world.write_alike("0", some(400))
    # Only some dates at first: windows that end on the others are in no table yet.
    world.run(1, 3)
    world.check()
    world.write_alike("1", some(40))
    world.recompute()
    world.check()
    world.run(0, 4)
    world.check()
    world.write_alike("2", some(5))
    world.recompute()
    world.check()


def test_no_events_change_nothing(spark: SparkSession, tmp_path: Path) -> None:
    world = World(tmp_path, spark, with_id=True, windows=COUNTS)
    world.store = MemoryStore()
    world.write_job()
    world.write("a", [Event("a", at(1, 1), 1, "1"), Event("b", at(1, 1), 1, "1")])
    world.run(0, 4)
    world.write("again", [Event("a", at(1, 1), 1, "1")])
    result = world.recompute()
    assert result is not None
    assert (result.accepted, result.duplicates) == (0, 1)
    world.check()


@pytest.mark.parametrize(("size", "advance"), [("2h", 3), ("2h", 1), ("1h", 2)])
def test_windows_up_to_a_time_that_events_share(
    spark: SparkSession, tmp_path: Path, size: str, advance: int
) -> None:
    """Such a window holds all events at its last event's time, and counts none of them twice."""
    hours = [0, 9, 10, 10, 10, 10, 10, 10, 12]
    events = [Event("a", at(1, hour), 1, f"{i}", i) for i, hour in enumerate(hours)]
    world = World(tmp_path, spark, with_id=True, windows=COUNTS)
    (tmp_path / "job.yaml").write_text(
        f"""
source: {{path: src, format: parquet}}
events: {{key: user, time: at, id: id, arrival: offset}}
windows:
  some: {{count: {{size: {size}, advance: {advance}, order: time}}, aggregates: {{n: count}}}}
tables: {{path: out}}
checks: {{builtin: {{quarantined_share: off}}}}
"""
    )
    world.job = type(world.job).load(tmp_path / "job.yaml")
    world.write("first", [event for i, event in enumerate(events) if i != 4])
    world.job.run(spark)
    world.write("late", [events[4]])
    world.job.recompute(spark)
    published = world.job.table("some", spark).select("window_end", "n").collect()
    window = CountWindow(size=size, advance=advance, order="time")
    expected = [len(places) for places in held(events, window)]
    assert sorted(row.n for row in published) == sorted(expected)
    assert all(outcome.success for outcome in world.job.validate(spark=spark))
