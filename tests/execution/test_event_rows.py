"""Tables of windows around single events: which rows a run changes and reports."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from backfill.cli import main
from backfill.errors import SourceError, WindowError
from backfill.planning import rows_of_extents
from tests import reference
from tests.execution.world import DAY, HOUR, SLIDING, World, at, day
from tests.memory_store import MemoryStore
from tests.printed import plan
from tests.reference import Event

pytestmark = pytest.mark.usefixtures("interpreted")

JOB = """
source: {path: src, format: parquet}
events: {key: user, time: at, id: id}
windows:
  moving: {sliding: {size: 24h}, aggregates: {n: count, total: sum(value)}}
  endless: {sliding: {size: null}, aggregates: {n: count}}
tables: {path: out}
checks: {builtin: {quarantined_share: off}}
"""


def of_each_day(key: str, days: int) -> list[Event]:
    """Two events at noon, and one at six."""
    return [
        Event(key, at(d, hour), d, f"{key}{d}{i}")
        for d in range(days)
        for i, hour in enumerate((6, 12, 12))
    ]


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> World:
    world = World(tmp_path, spark, with_id=True, windows=("moving",))
    (tmp_path / "job.yaml").write_text(JOB)
    world.job = type(world.job).load(tmp_path / "job.yaml")
    world.write("all", [*of_each_day("a", 4), *of_each_day("b", 4)])
    return world


def changes_of(world: World, name: str) -> list[tuple[Any, ...]]:
    """What the last run changed: the kind of change, key, time, id."""
    changes = world.job.changes(name, spark=world.spark)
    side = F.coalesce(F.col("new"), F.col("old"))
    rows = changes.select("change", "key.user", F.unix_micros(side["event_time"]), side["id"])
    return sorted(tuple(row) for row in rows.collect())


@pytest.mark.spark_only
@pytest.mark.slow
def test_only_rows_within_reach_change(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    job, path = world.job, str(world.folder / "job.yaml")
    job.run(world.spark)
    table = job.table("moving", world.spark)
    assert table.columns == ["user", "event_time", "id", "n", "total", "is_open", "date"]
    counts = {(row.user, row.id): row.n for row in table.collect()}
    assert counts["a", "a00"] == 1
    assert counts["a", "a12"] == counts["a", "a11"] == 5
    open_ = {row.id for row in table.where("is_open").collect()}
    assert open_ == {"a31", "a32", "b31", "b32"}

    late = [Event("a", at(1, 12), 9, "late"), Event("a", at(1, 12), 1, "a11")]
    world.write("late", late)
    text, document = plan(capsys, path, "--recompute")
    assert "moving: up to 5 published rows are computed again." in text
    assert "endless: a late event changes all later rows of its key" in text
    assert document["stages"][0]["late"][0]["affected"] == {"moving": 5, "endless": 8}
    result = job.recompute(world.spark)
    assert result is not None
    # Its own row, and its key's rows up to a day later; not the other key's, nor later ones.
    within = [("a", at(1, 12), "a11"), ("a", at(1, 12), "a12")]
    within += [("a", at(2, 6), "a20"), ("a", at(2, 12), "a21"), ("a", at(2, 12), "a22")]
    changed = [("inserted", "a", at(1, 12), "late"), *(("updated", *row) for row in within)]
    assert changes_of(world, "moving") == sorted(changed)
    assert result.windows["moving"].rows == len(changed)
    later = [("a", at(3, 6), "a30"), ("a", at(3, 12), "a31"), ("a", at(3, 12), "a32")]
    assert changes_of(world, "endless") == sorted([*changed, *(("updated", *row) for row in later)])

    text, document = plan(capsys, path, "--date", str(day(1)))
    assert "moving: 6 rows outside [2026-01-02, 2026-01-03) are computed again: rows" in text
    assert "endless: 12 rows outside [2026-01-02, 2026-01-03) are computed again: all l" in text
    moving, endless = document["beyond"]
    assert (moving["affected"], endless["affected"]) == (6, 12)
    assert (endless["read_from"], endless["read_to"]) == (None, None)
    before = sorted(map(tuple, job.table("moving", world.spark).collect()))
    job.run(world.spark, date=day(1))
    assert sorted(map(tuple, job.table("moving", world.spark).collect())) == before
    assert changes_of(world, "moving") == []
    assert all(outcome.success for outcome in job.validate(spark=world.spark))

    assert main(["show", path, "moving", "--key", "a", "--from", "2026-01-02T12:00:00Z"]) == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[0].split()[:3] == ["user", "event_time", "id"]
    assert "late" in shown
    assert "a10" not in shown
    assert main(["changes", path, "moving"]) == 0
    assert "Nothing changed" in capsys.readouterr().out

    first = job.history()[-1]["run_id"]
    job.restore(first)
    assert {(row.user, row.id): row.n for row in job.table("moving", world.spark).collect()} == (
        counts
    )
    job.clean("0s", world.spark)


@pytest.mark.spark_only
def test_streams_of_the_same_rows(world: World, tmp_path: Path) -> None:
    job, spark = world.job, world.spark
    job.run(spark)
    out = str(tmp_path / "streamed")
    rows = job.table("moving", spark)
    # Two rows of the same time differ only in their ids, which a stream need not have.
    rows.drop("id").write.parquet(out)
    reconciled = job.reconcile("moving", spark, stream=out, format="table")
    assert (reconciled.matched, list(reconciled.differences)) == (24, [])
    reconciled = job.reconcile("moving", spark, stream=out, format="flink")
    assert reconciled.matched == 24
    rows.where("id != 'a12'").write.parquet(str(tmp_path / "lacking"))
    reconciled = job.reconcile("moving", spark, stream=str(tmp_path / "lacking"), format="flink")
    assert reconciled.matched == 23
    (lost,) = reconciled.differences
    assert lost.difference.batch[0].bounds == (at(1, 12), at(1, 12))
    assert lost.explanation.causes == ("unexplained",)
    with pytest.raises(WindowError, match="kafka-streams has no such window"):
        job.reconcile("moving", spark, stream=out, format="kafka-streams")
    with pytest.raises(WindowError, match="has no windows around single events"):
        job.stream(spark, to=tmp_path / "live")


def test_a_source_that_lacks_what_was_counted_is_not_merged(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.job.run(world.spark)
    world.write("late", [Event("a", at(1, 13), 9, "late")])
    real = rows_of_extents.people_within

    def forgetful(*arguments: Any) -> Any:
        return real(*arguments).where("id != 'a12'")

    monkeypatch.setattr(rows_of_extents, "people_within", forgetful)
    with pytest.raises(SourceError, match="no longer holds events that were counted"):
        world.job.recompute(world.spark)


@pytest.mark.spark_only
@pytest.mark.slow
def test_retention(spark: SparkSession, tmp_path: Path) -> None:
    windows = ("moving", "around", "growing", "shared")
    world = World(tmp_path, spark, windows=windows, retention="24h", gate=True)
    world.store = MemoryStore()
    world.write_job()
    limit = at(2, 12)
    old = [Event("a", limit - age, 1) for age in (DAY, 2 * HOUR + 2, HOUR, 1)]
    world.write("all", [*old, Event("a", limit, 2), Event("a", at(3, 12), 3)])
    # `growing` looks back for ever, so every event is in some row's window.
    first = world.job.run(spark)
    assert not first.quarantined
    check_lasting(world, limit)
    world.write("late", [Event("a", limit - 10, 5), Event("a", limit + HOUR, 5)])
    world.job.recompute(spark)
    check_lasting(world, limit)
    world.windows = ("moving", "around", "shared")
    world.write_job()
    # Without it, an event is beyond retention if even the last row that can hold it has ended.
    result = world.job.run(spark)
    assert result.quarantined == {"beyond_retention": 2}
    check_lasting(world, limit)
    assert all(outcome.success for outcome in result.checks)


def check_lasting(world: World, limit: int) -> None:
    """Checks for exactly the rows that all events make and that do not end before the limit."""
    expected = world.expected(world.usable())
    for name in world.windows:
        end = 2 if name == "shared" else 1
        assert sorted(world.rows(name), key=repr) == sorted(
            (row for row in expected[name] if row[end] >= limit), key=repr
        ), name


@pytest.mark.spark_only
def test_expire_drops_rows_by_their_time(spark: SparkSession, tmp_path: Path) -> None:
    world = World(tmp_path, spark, windows=("moving", "shared"))
    world.write("all", [Event("a", at(d, hour), d) for d in range(4) for hour in (3, 12)])
    world.run_all()
    world.retention = "24h"
    world.write_job()
    before = {name: world.rows(name) for name in world.windows}
    done = world.job.expire(spark)
    for name, end in (("moving", 1), ("shared", 2)):
        ended = [row for row in before[name] if row[end] < at(2, 12)]
        assert done[name].rows == len(ended) > 0
        assert sorted(world.rows(name), key=repr) == sorted(
            (row for row in before[name] if row not in ended), key=repr
        )


def test_no_events_change_nothing(spark: SparkSession, tmp_path: Path) -> None:
    world = World(tmp_path, spark, with_id=True, windows=SLIDING)
    world.store = MemoryStore()
    world.write_job()
    world.write("a", [Event("a", at(1, 1), 1, "1")])
    world.run(0, 4)
    world.write("again", [Event("a", at(1, 1), 1, "1")])
    result = world.recompute()
    assert result is not None
    assert (result.accepted, result.duplicates) == (0, 1)
    world.check()


@pytest.mark.slow
def test_distinct_values_of_several_sizes(spark: SparkSession, tmp_path: Path) -> None:
    """The next event of a value is found once for all sizes; ranges and late events see others."""
    sizes = {"hours": 7 * HOUR, "days": 31 * HOUR}
    chance = Random(20261201)
    world = World(tmp_path, spark, with_id=True, windows=("moving",))
    text = JOB[: JOB.index("  moving:")] + "".join(
        f"  {name}: {{sliding: {{size: {size // HOUR}h}}, aggregates: "
        "{different: count_distinct(value)}}\n"
        for name, size in sizes.items()
    )
    (tmp_path / "job.yaml").write_text(text + JOB[JOB.index("tables:") :])
    world.job = type(world.job).load(tmp_path / "job.yaml")

    def drawn(count: int) -> list[Event]:
        places = (
            (chance.choice("abcdefghijklmnop"), at(0, chance.randrange(192) / 2))
            for _ in range(count)
        )
        return [Event(*place, chance.randrange(5), f"{chance.random()}") for place in places]

    events, late = drawn(500), drawn(30)
    world.write("all", events)

    def check(counted: list[Event]) -> None:
        for name, size in sizes.items():
            rows = world.job.table(name, spark).collect()
            expected = {
                e.id: len({o.value for o in own}) for e, own in reference.surrounding(counted, size)
            }
            assert {row.id: row.different for row in rows} == expected, name

    world.job.run(spark)
    check(events)
    # In a run of some dates one table needs fewer events before them than the other.
    world.job.run(spark, start=day(1), end=day(3), chunk=1)
    check(events)
    world.write("late", late)
    assert world.job.recompute(spark) is not None
    check([*events, *late])
