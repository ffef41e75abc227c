"""Tables of joins: which rows a run changes, how lost events are noticed, what people see."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from backfill import Job
from backfill.cli import main
from backfill.errors import ConservationError, JobFileError, ReplayError
from backfill.execution import late
from backfill.rows import compute
from tests.execution.joined import JOINS, MINUTE
from tests.execution.world import HOUR, World, at
from tests.memory_store import MemoryStore
from tests.reference import Event

pytestmark = pytest.mark.usefixtures("interpreted")


@pytest.mark.slow
def test_late_events_on_either_side(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The gate checks only rows of computed keys, as it does when there are many rows.
    monkeypatch.setattr(late, "MANY", 0)
    in_time = tuple(name for name, join in JOINS.items() if join.count is None)
    world = World(tmp_path, spark, True, in_time, store=MemoryStore(), gate=True)
    # Events across midnight, at exactly the reach, and a microsecond further.
    others = [Event("a", at(1, 1, 30) + tick, 0, f"{tick}") for tick in (0, 1)]
    world.write("0", [Event("a", at(1), 3, "x"), *others, Event("b", at(1, 9), 0, "y")])
    world.run(0, 2)
    world.check()
    assert {name: len(world.rows(name)) for name in world.windows} == {
        "sold": 1,
        "kept": 2,
        # The right events are more than half an hour after the left one.
        "every": 4,
        "some": 0,
        "none": 1,
    }
    world.write("1", [Event("b", at(1, 9, 30), 3, "l"), Event("a", at(0, 23, 15), 1, "r")])
    result = world.recompute()
    assert result is not None
    assert result.accepted == 2
    world.check()
    assert ("b", at(1, 9, 30), "l", at(1, 9), "y", 3, 0, True) in world.rows("sold")
    assert ("a", at(1), "x", 3, False) in world.rows("some")
    assert not [row for row in world.rows("none") if row[0] == "a"]


@pytest.mark.spark_only
def test_retention(spark: SparkSession, tmp_path: Path) -> None:
    tables = ("sold", "every", "none")
    world = World(tmp_path, spark, windows=tables, store=MemoryStore(), retention="24h", gate=True)
    limit = at(2, 12)
    old = [Event("a", limit - minutes * MINUTE, 3) for minutes in (300, 60, 1)]
    mine = [
        Event("a", limit + minutes * MINUTE, value) for minutes, value in ((0, 1), (40, 3), (90, 0))
    ]
    world.write("all", [*old, *mine, Event("b", at(3, 12), 3)])
    result = world.job.run(spark)
    # No row within retention depends on the first event.
    assert result.quarantined == {"beyond_retention": 1}
    check_lasting(world, limit)
    world.write("late", [Event("a", limit - 10, 1), Event("a", limit - 50 * MINUTE, 0)])
    world.job.recompute(spark)
    check_lasting(world, limit)
    world.retention = "12h"
    world.write_job()
    assert world.job.expire(spark)["sold"].rows
    check_lasting(world, limit + 12 * HOUR)


def check_lasting(world: World, limit: int) -> None:
    """Checks that the rows are those of all events from the limit on."""
    expected = world.expected(world.usable())
    for name in world.windows:
        wanted = [row for row in expected[name] if row[1] >= limit]
        assert sorted(world.rows(name), key=repr) == sorted(wanted, key=repr), name


@pytest.mark.parametrize("column", ["left_time", "right_time"])
def test_events_that_get_lost_are_not_published(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: str
) -> None:
    """`sold` has no row of a left event without a partner, nor of a right one."""
    world = World(tmp_path, spark, windows=("sold",), store=MemoryStore())
    pair = [Event("a", at(0, 10), 3), Event("a", at(0, 10), 1)]
    lost = {"left_time": 3, "right_time": 0}[column]
    world.write("all", [*pair, Event("b", at(0, 12), lost)])
    real = compute.join_rows

    def forgetful(*arguments: Any, **more: Any) -> Any:
        gone = F.coalesce(F.col(column) >= at(0, 12), F.lit(False))
        return real(*arguments, **more).where(~gone)

    monkeypatch.setattr(compute, "join_rows", forgetful)
    for run in (world.run_all, lambda: world.run(0, 1)):
        # An event on both sides counts once.
        with pytest.raises(
            ConservationError, match="its windows hold 2 events, but 3 were assigned"
        ):
            run()
    monkeypatch.undo()
    world.run_all()
    assert len(world.rows("sold")) == 1
    monkeypatch.setattr(compute, "join_rows", forgetful)
    world.write("late", [Event("c", at(0, 12, 1), lost)])
    with pytest.raises(ConservationError, match="its windows hold 0 events, but 1 were assigned"):
        world.recompute()


@pytest.mark.spark_only
@pytest.mark.slow
def test_on_the_command_line(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World(tmp_path, spark, with_id=True, windows=("sold", "every"))
    clicks = [Event("a", at(0, hour), 3, f"c{hour}") for hour in (9, 12, 23.5)]
    world.write("0", [*clicks, Event("a", at(0, 9, 30), 1, "b9"), Event("b", at(1, 1), 0, "d")])
    path = str(tmp_path / "job.yaml")

    def call(*arguments: str, code: int = 0) -> str:
        capsys.readouterr()
        assert main([arguments[0], path, *arguments[1:]]) == code
        said = capsys.readouterr()
        return said.out if code == 0 else said.err

    call("run")
    world._count_all()
    world.check()
    world.write("1", [Event("a", at(1, 0, 10), 0, "late")])
    # It is a partner of the click before midnight, and in `every` a right event alone.
    text = call("plan", "--recompute")
    assert "sold: up to 0 published rows are computed again." in text
    assert "every: up to 1 published rows are computed again." in text
    world.recompute()
    world.check()
    changes = json.loads(call("changes", "sold", "--json"))
    [change] = changes["changes"]
    assert change["change"] == "inserted"
    assert (change["new"]["id"], change["new"]["id_right"]) == ("c23.5", "late")
    # The click has a partner now, which is on both sides, and so its own partner, too.
    world.write("2", [Event("a", at(0, 12, 10), 1, "more")])
    world.recompute()
    counts = json.loads(call("changes", "every", "--json"))["counts"]
    assert {kind: count for kind, count in counts.items() if count} == {"inserted": 2, "deleted": 1}
    text = call("plan", "--date", "2026-01-02")
    assert "sold: 1 rows outside [2026-01-02, 2026-01-03) are computed again: rows" in text
    assert "2026-01-01 23:30:00" in call("show", "sold", "--key", "a")
    [row] = world.job.windows_covering("sold", "2026-01-02T00:10:00Z", key="a").to_pylist()
    assert row["id_right"] == "late"
    assert "checks succeeded" in call("validate")
    with pytest.raises(ReplayError, match=r"'plain'\). Known joins: flink, kafka-streams, spark"):
        world.job.reconcile("sold", spark, stream=str(tmp_path), format="table")
    with pytest.raises(JobFileError, match="a join's row itself identifies its events"):
        world.job.events_in("sold", row, spark)
    text = Path(path).read_text(encoding="utf-8")
    Path(path).write_text(text.replace("within: [-45m, 90m]", "within: [-45m, 91m]"))
    assert "joins.sold (was join(left=" in call("recompute", code=2)
    assert Job.load(path).run(spark).windows["sold"].rows == 3


@pytest.mark.spark_only
@pytest.mark.slow
def test_pairs_by_number(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World(tmp_path, spark, with_id=True, windows=("next", "lone"), gate=True)
    # A left event, 3, and a right one, 0, each day, of two keys; one key has no late events.
    daily = [
        Event(key, at(day, hour), value, f"{key}{day}{value}")
        for key, day in itertools.product("ab", range(4))
        for hour, value in ((6, 3), (12, 0))
    ]
    world.write("0", daily)
    path = str(tmp_path / "job.yaml")

    def call(*arguments: str, code: int = 0) -> str:
        capsys.readouterr()
        assert main([arguments[0], path, *arguments[1:]]) == code
        said = capsys.readouterr()
        return said.out if code == 0 else said.err

    world.run_all()
    world.check()
    # A right event after that of the second day; further below, a left one.
    world.write("1", [Event("a", at(1, 18), 0, "r")])
    text = call("plan", "--recompute")
    assert "next: a late event changes the neighboring pairs of its key; for 1 keys" in text
    assert "read again and 12 rows computed again." in text
    before = world.rows("next")
    world.recompute()
    world.check()
    # It pairs with the last two left events before it; the next two get it for another partner.
    counts = json.loads(call("changes", "next", "--json"))["counts"]
    assert {kind: count for kind, count in counts.items() if count} == {"inserted": 4, "deleted": 2}
    kept = set(before) & set(world.rows("next"))
    assert len(kept) == len(before) - 2
    world.write("2", [Event("a", at(3, 18), 3, "l"), Event("c", at(0, 1), 3, "c")])
    world.recompute()
    world.check()
    text = call("plan", "--date", "2026-01-02")
    assert "rows outside [2026-01-02, 2026-01-03) are computed again: all rows that" in text
    world.run(1, 2)
    world.check()
    assert "2026-01-04 18:00:00" in call("show", "next", "--key", "a")
    assert "checks succeeded" in call("validate")
    message = call("show", "next", "--key", "a", "--at", "2026-01-02T06:00:00Z", code=2)
    assert "which pairs an instant is near depends on the events between" in message
