"""A key is erased: of every table, the quarantine, failed runs and the examples of checks."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backfill import Job
from backfill.errors import ColumnError, JobFileError, TableError
from backfill.execution.forget import Forgotten
from backfill.quality.errors import ChecksFailed
from tests.execution.world import World, at
from tests.lake import lake
from tests.memory_store import MemoryStore
from tests.reference import Event
from tests.tables import paths_of

pytestmark = pytest.mark.usefixtures("interpreted")

WINDOWS = ("sessions", "growing", "users", "values", "kept")
#: Of the tables these have no user.
NOBODYS = ("values",)


def _rows(world: World) -> dict[str, list[tuple[Any, ...]]]:
    return {name: sorted(world.rows(name), key=repr) for name in world.windows}


def _raw(world: World) -> list[str]:
    return sorted(each["raw"] for each in world._table("quarantine").to_pylist())


@pytest.mark.parametrize("place", [pytest.param("delta", marks=pytest.mark.slow), "lake", "memory"])
def test_the_rows_of_a_key_go_and_no_others(
    spark: SparkSession, tmp_path: Path, place: str
) -> None:
    store = {"delta": None, "lake": lake(tmp_path / "lake"), "memory": MemoryStore()}[place]
    windows = WINDOWS if place == "delta" else ("sessions", "values")
    world = World(tmp_path / "job", spark, windows=windows, store=store)
    events = [
        *(
            Event(key, at(d, h), v)
            for key in "abc"
            for d, h, v in [(0, 12, 3), (0, 13, 0), (1, 3, 1)]
        ),
        Event("b", at(3, 5), 3),
        Event("ab", at(0, 23, 50), 3),
    ]
    unusable = [Event(None, at(0), 7), Event("a", None, 8), Event("ab", None, 9)]
    world.write("0", [*events, *unusable])
    world.run_all()
    before, quarantined = _rows(world), _raw(world)
    assert len(quarantined) == 3
    old = {name: world.job.store.open(name).version for name in (*windows, "quarantine")}

    done = world.job.forget("a", spark)

    assert set(done) == {*windows, "quarantine"} - set(NOBODYS)
    for name, rows in before.items():
        left = [row for row in rows if name in NOBODYS or row[0] != "a"]
        assert _rows(world)[name] == left, name
        if name not in NOBODYS:
            gone = len(rows) - len(left)
            assert gone > 0
            assert done[name] == Forgotten(gone, old[name] + 1, (), (0, old[name]))
    assert _raw(world) == [each for each in quarantined if '"user":"a"' not in each]
    assert done["quarantine"].rows == 1

    # Once more there is nothing to delete, and older versions are all but the newest.
    again = world.job.forget({"user": "a"}, spark)
    assert {each.rows for each in again.values()} == {0}
    assert {each.version for each in again.values()} == {None}
    assert all(again[name].older == (0, old[name]) for name in again)
    latest = world.job.history()[0]
    assert (latest["kind"], latest["tables"]["sessions"]["changed"]) == (
        "forget",
        done["sessions"].rows,
    )

    # Later runs go on from what was counted.
    world.write("1", [Event("b", at(1, 4), 1), Event("d", at(2), 0)])
    world.recompute()
    expected = world.expected(world.usable())
    for name in windows:
        known = world.on_covered(name, expected[name])
        wanted = [row for row in known if name in NOBODYS or row[0] != "a"]
        assert sorted(world.rows(name), key=repr) == sorted(wanted, key=repr), name


def test_only_files_that_hold_the_key_are_rewritten(spark: SparkSession, tmp_path: Path) -> None:
    world = World(tmp_path, spark, windows=("hopping",))
    world.write("0", [Event("a", at(1, 12), 1), *(Event("b", at(d, 12), 1) for d in range(4))])
    world.run_all()
    before = set(paths_of(world.job.store, "hopping"))
    world.job.forget("a", spark)
    gone = before - set(paths_of(world.job.store, "hopping"))
    assert gone
    assert {path.partition("/")[0] for path in gone} == {"date=2026-01-02"}


JOB = """
source: {path: events.json, format: json, schema: "shop int, user string, at string, n int"}
events: {key: [shop, user], time: at, time_format: iso}
windows: {daily: {tumbling: {size: 1 day}, aggregates: {n: count, most: max(n)}}}
tables: {path: out}
checks:
  builtin: off
  daily: [{expect_column_values_to_be_between: {column: most, max_value: 5}}]
"""


def _job(folder: Path, lines: list[str]) -> Job:
    (folder / "events.json").write_text("\n".join(lines))
    (folder / "job.yaml").write_text(JOB)
    return Job.load(folder / "job.yaml")


def _line(shop: int | None, user: str, at: str, n: int = 1) -> str:
    return json.dumps({"shop": shop, "user": user, "at": at, "n": n})


def test_keys_of_several_columns_and_lines_that_are_none(
    spark: SparkSession, tmp_path: Path
) -> None:
    day = "2026-01-01T10:00:00Z"
    job = _job(
        tmp_path,
        [
            _line(1, "u.1", day),
            _line(2, "u.1", day),
            _line(1, "u.2", day),
            _line(1, "u.1", "soon"),
            _line(11, "u.1", "soon"),
            _line(None, "u.1", "soon"),
            '{"shop": 1, "user": "u.1", "at',
            '{"shop": 1, "user": "u.11", "at',
        ],
    )
    job.run(spark)
    done = job.forget([1, "u.1"], spark)
    assert {name: each.rows for name, each in done.items()} == {"daily": 1, "quarantine": 2}
    rows = [(row.shop, row.user) for row in job.table("daily", spark).collect()]
    assert sorted(rows) == [(1, "u.2"), (2, "u.1")]
    left = [row.raw for row in job.table("quarantine", spark).collect()]
    assert sorted(json.loads(each)["shop"] or 0 for each in left if each[-1] == "}") == [0, 11]
    assert [each for each in left if each[-1] != "}"] == ['{"shop": 1, "user": "u.11", "at']
    # NULL is a value of a column, too.
    assert job.forget([None, "u.1"], spark)["quarantine"].rows == 1


def test_what_failed_runs_left_goes_too(spark: SparkSession, tmp_path: Path) -> None:
    day = "2026-01-01T10:00:00Z"
    job = _job(tmp_path, [_line(1, "marked", day), _line(1, "other", day)])
    job.run(spark)
    lines = [_line(1, "marked", day, 9), _line(1, "other", day), _line(1, "marked", "soon")]
    (tmp_path / "events.json").write_text("\n".join(lines))
    for _ in range(2):
        with pytest.raises(ChecksFailed):
            job.run(spark)
    job.docs()
    (tmp_path / "events.json").write_text(_line(1, "other", day, 9))
    with pytest.raises(ChecksFailed):
        job.run(spark)
    assert len(job.store.unpublished("daily")) == 3
    (tmp_path / "events.json").unlink()
    shown = [each for each in (tmp_path / "out/_quality").rglob("*") if _has(each, "marked")]
    assert len(shown) == 2

    done = job.forget([1, "marked"], spark)

    assert len(done["daily"].unpublished) == len(done["quarantine"].unpublished) == 2
    [other] = job.store.unpublished("daily")
    assert other not in done["daily"].unpublished
    older = [tmp_path / "out/daily", tmp_path / "out/quarantine"]
    left = [each for each in (tmp_path / "out").rglob("*") if _has(each, "marked")]
    # Its rows in older versions, and Delta's bounds of their values, are all that is left.
    assert all(any(each.is_relative_to(folder) for folder in older) for each in left)
    assert not [each for each in left if "_staging" in each.parts]
    assert not (tmp_path / "out/_quality/docs").exists()
    assert job.docs().exists()
    assert [each for each in (tmp_path / "out/_quality").rglob("*") if _has(each, "other")]


def _has(path: Path, text: str) -> bool:
    return path.is_file() and text.encode() in path.read_bytes()


@pytest.mark.parametrize(
    ("key", "kind", "problem"),
    [
        ("u", JobFileError, "1 given, but the key's columns are: shop, user"),
        (["x", "u"], ColumnError, "shop: the value is not of type int (got 'x')"),
        (["1.5", "u"], ColumnError, "the value is not of type int (got '1.5')"),
    ],
)
def test_values_that_are_no_key(
    spark: SparkSession, tmp_path: Path, key: Any, kind: type[Exception], problem: str
) -> None:
    job = _job(tmp_path, [_line(1, "u", "2026-01-01T10:00:00Z")])
    job.run(spark)
    with pytest.raises(kind) as error:
        job.forget(key, spark)
    assert problem in str(error.value)
    assert job.store.open("daily").version == 0


def test_nothing_published(spark: SparkSession, tmp_path: Path) -> None:
    assert _job(tmp_path, []).forget([1, "u"], spark) == {}


def test_another_run_meanwhile(spark: SparkSession, tmp_path: Path, monkeypatch: Any) -> None:
    world = World(tmp_path, spark, windows=("hopping",))
    world.write("0", [Event("a", at(0, 12), 1), Event("b", at(0, 12), 1)])
    world.run_all()
    stage = world.job.store.stage

    def staged(*given: Any, **options: Any) -> Any:
        monkeypatch.undo()
        world.write("1", [Event("b", at(0, 13), 1)])
        world.recompute()
        return stage(*given, **options)

    monkeypatch.setattr(world.job.store, "stage", staged)
    with pytest.raises(TableError, match="meanwhile"):
        world.job.forget("a", spark)
    world.check()
    world.job.forget("a", spark)
    assert {row[0] for row in world.rows("hopping")} == {"b"}
    assert dt.date(2026, 1, 1) in world.covered("hopping")
