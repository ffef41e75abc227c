"""A plan opens the source once, and reads each table's log once, however many stages it has."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backfill.planning import context
from backfill.store.delta import log
from tests.execution.world import World, at, day
from tests.reference import Event

pytestmark = pytest.mark.usefixtures("interpreted")

DAYS = 5
TABLES = ("sessions", "hopping", "quarantine")


@pytest.fixture(scope="module")
def run_once(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> World:
    world = World(tmp_path_factory.mktemp("opened"), spark)
    for number in range(DAYS):
        world.write(f"f{number}", [Event("a", at(number, 5), 1), Event("b", at(number, 23, 50), 1)])
    world.run(0, 2, chunk=1)
    return world


@pytest.fixture
def world(run_once: World, tmp_path: Path) -> World:
    return run_once.copied(tmp_path)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[Any]:
    """How often the source was opened, a table's log loaded, and each of its commits read."""
    seen: Counter[Any] = Counter()

    def watch(module: Any, name: str, key: Any) -> None:
        real = getattr(module, name)

        def called(*arguments: Any, **options: Any) -> Any:
            seen[key(*arguments)] += 1
            return real(*arguments, **options)

        monkeypatch.setattr(module, name, called)

    watch(context, "open_source", lambda *_: "source")
    watch(context, "inputs_of", lambda *_: "inputs")
    watch(log, "open_table", lambda folder, *_: folder.local.name)
    watch(log, "read_commit", lambda folder, version: (folder.local.name, version))
    return seen


@pytest.mark.parametrize("missing", [True, False])
def test_a_plan_of_many_stages(world: World, calls: Counter[Any], missing: bool) -> None:
    plan = world.job.plan(world.spark, start=day(0), end=day(DAYS), missing=missing, chunk=1)
    assert [stage.dates for stage in plan.stages] == [
        (day(number), day(number + 1)) for number in range(2 if missing else 0, DAYS)
    ]
    assert calls["source"] == calls["inputs"] == 1
    assert [calls[name] for name in TABLES] == [1, 1, 1]
    assert set(calls.values()) == {1}


def test_a_run_of_many_stages_opens_the_source_once(world: World, calls: Counter[Any]) -> None:
    result = world.job.run(world.spark, start=day(2), end=day(DAYS), chunk=1)
    assert len(result.chunks) == DAYS - 2
    assert calls["source"] == calls["inputs"] == 1


def test_recompute_opens_the_source_once(world: World, calls: Counter[Any]) -> None:
    world.write("late", [Event("a", at(1, 5, 10), 1)])
    assert world.job.recompute(world.spark) is not None
    assert calls["source"] == calls["inputs"] == 1
    # Once to compute, and once to commit on top of the version that is the newest then.
    assert [calls[name] for name in TABLES] == [2, 2, 2]
