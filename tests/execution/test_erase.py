"""A key is erased from every table, the quarantine, failed runs and the examples of checks."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from backfill import Job
from backfill.errors import ColumnError, JobFileError, TableError
from backfill.execution.erase import Erased
from backfill.quality.errors import ChecksFailed
from backfill.quality.store import word_pattern
from backfill.store import Cleaned
from tests.execution.world import World, at
from tests.files import write_rows
from tests.lake import lake
from tests.memory_store import MemoryStore
from tests.on_sail import ON_SAIL, spark_only
from tests.reference import Event
from tests.tables import paths_of

pytestmark = pytest.mark.usefixtures("interpreted")

WINDOWS = ("sessions", "growing", "users", "values", "kept")
#: The tables that have no user.
NOBODYS = ("values",)


def _rows(world: World) -> dict[str, list[tuple[Any, ...]]]:
    return {name: sorted(world.rows(name), key=repr) for name in world.windows}


def _raw(world: World) -> list[str]:
    return sorted(row["raw"] for row in world._table("quarantine").to_pylist())


@pytest.mark.parametrize(
    "place",
    [
        pytest.param("delta", marks=pytest.mark.slow),
        pytest.param("lake", marks=spark_only),
        "memory",
    ],
)
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
    slices = {"users_slices"} & {f"{name}_slices" for name in windows}
    tables = (*windows, *slices, "quarantine")
    old = {name: world.job.store.open(name).version for name in tables}

    done = world.job.forget("a", spark)

    assert set(done) == set(tables) - set(NOBODYS)
    for name, rows in before.items():
        left = [row for row in rows if name in NOBODYS or row[0] != "a"]
        assert _rows(world)[name] == left, name
        if name not in NOBODYS:
            gone = len(rows) - len(left)
            assert gone > 0
            nothing = Cleaned(0, 0, 0, 0)
            assert done[name] == Erased(gone, old[name] + 1, nothing, (0, old[name]))
    assert _raw(world) == [line for line in quarantined if '"user":"a"' not in line]
    assert done["quarantine"].rows == 1

    # The second time there is nothing to delete; all versions but the newest are older ones.
    again = world.job.forget({"user": "a"}, spark)
    assert {erased.rows for erased in again.values()} == {0}
    assert {erased.version for erased in again.values()} == {None}
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


@spark_only
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
    assert {name: erased.rows for name, erased in done.items()} == {"daily": 1, "quarantine": 2}
    rows = [(row.shop, row.user) for row in job.table("daily", spark).collect()]
    assert sorted(rows) == [(1, "u.2"), (2, "u.1")]
    left = [row.raw for row in job.table("quarantine", spark).collect()]
    assert sorted(json.loads(line)["shop"] or 0 for line in left if line[-1] == "}") == [0, 11]
    assert [line for line in left if line[-1] != "}"] == ['{"shop": 1, "user": "u.11", "at']
    # NULL is a value of a column, too.
    assert job.forget([None, "u.1"], spark)["quarantine"].rows == 1


@spark_only
def test_what_failed_runs_left_goes_too(spark: SparkSession, tmp_path: Path) -> None:
    day = "2026-01-01T10:00:00Z"
    job = _job(tmp_path, [_line(1, "marked", day, 9), _line(1, "marked", "soon")])
    out = tmp_path / "out"
    # A run that fails before anything is published.
    with pytest.raises(ChecksFailed):
        job.run(spark)
    assert _shown(out, "marked")
    assert job.forget([1, "marked"], spark, older_than="0s") == {}
    assert not _shown(out, "marked")

    (tmp_path / "events.json").write_text("\n".join([_line(1, "marked", day), _line(1, "b", day)]))
    job.run(spark)
    lines = [_line(1, "marked", day, 9), _line(1, "b", day), _line(1, "marked", "soon")]
    (tmp_path / "events.json").write_text("\n".join(lines))
    with pytest.raises(ChecksFailed):
        job.run(spark)
    # A file as a killed run leaves it.
    killed = out / "daily/_staging/killed/_temporary/0/part-0.parquet"
    killed.parent.mkdir(parents=True)
    killed.touch()
    pages = out / "_quality/docs"
    pages.mkdir()
    (pages / "index.html").write_text("marked")
    (tmp_path / "events.json").write_text(_line(1, "other", day, 9))
    with pytest.raises(ChecksFailed):
        job.run(spark)
    assert {path.suffix for path in _shown(out / "_quality", "marked")} >= {".json"}

    young = job.forget([1, "marked"], spark)
    assert young["daily"].removed.staged == 0
    assert len(list((out / "daily/_staging").iterdir())) == 3
    done = job.forget([1, "marked"], spark, older_than="0s")
    assert done["daily"].removed.staged == 3
    # All that is left are the key's rows in older versions, and bounds in the log.
    left = _shown(out, "marked")
    assert left
    assert {path.relative_to(out).parts[0] for path in left} == {"daily"}
    assert {path.relative_to(out).parts[1] for path in left} <= {"_delta_log", "date=2026-01-01"}
    assert not pages.exists()
    assert _shown(out / "_quality", "other")


def _shown(folder: Path, text: str) -> list[Path]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if text.encode() in path.read_bytes()]


#: Lines that name u-1, and lines that name something longer.
NAMING = ["u-1 10", "of u-1.", "u-1-", '"u-1"', "{u-1}", "-u-1", " -u-1@", "xu-1 u-1", "a\nu-1\n"]
NOT_NAMING = ["u-1-2 10", "xu-1", "x.u-1", "u-1é", "éu-1", "u-1@b", "u-1.5", "U-1", "1-u-1"]

#: A key's columns: name, type, a value, a similar value, and something that is no value.
TYPED: list[tuple[str, pa.DataType, Any, Any, Any]] = [
    ("number", pa.decimal128(10, 2), Decimal("1.23"), Decimal("1.24"), "1.234"),
    ("day", pa.date32(), dt.date(999, 1, 1), dt.date(999, 1, 2), "2026"),
    ("moment", pa.timestamp("us", "UTC"), "2026-01-01T10:00:00.000001Z", "2026-01-01T10:00Z", "x"),
    ("clock", pa.timestamp("us"), "2026-01-01 02:30:00", "2026-01-01 02:30:01", "noon"),
    ("flag", pa.bool_(), True, False, "perhaps"),
    *([] if ON_SAIL else [("raw", pa.binary(), b"\xff\x00", b"\xff\x01", None)]),
    ("a.b", pa.string(), 'ünï "q"', 'unï "q"', None),
]


def test_keys_of_every_type(spark: SparkSession, tmp_path: Path) -> None:
    names = [name for name, *_ in TYPED]
    schema = pa.schema([*((name, kind) for name, kind, *_ in TYPED), ("at", pa.string())])

    def value(place: int, near: bool) -> Any:
        _, kind, own, other, _ = TYPED[place]
        chosen = other if near else own
        if pa.types.is_timestamp(kind):
            chosen = dt.datetime.fromisoformat(chosen.replace("Z", "+00:00"))
        return chosen

    ats = ["2026-01-01T00:00:00Z", "soon"]
    keys = [[value(i, i == near) for i in range(len(TYPED))] for near in range(-1, len(TYPED))]
    rows = [dict(zip(schema.names, [*key, at], strict=True)) for key in keys for at in ats]
    rows.append({**rows[0], **dict.fromkeys(names)})
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), tmp_path / "events.parquet")
    text = JOB.replace("events.json, format: json, schema: ", "events.parquet, format: parquet} #")
    text = text.replace("[shop, user]", str(names)).replace("n: count, most: max(n)", "most: count")
    (tmp_path / "job.yaml").write_text(text)
    job = Job.load(tmp_path / "job.yaml")
    job.run(spark)
    # A session's zone must not move a time.
    done = job.forget([own for _, _, own, _, _ in TYPED], spark)
    assert {name: erased.rows for name, erased in done.items()} == {"daily": 1, "quarantine": 1}
    assert job.table("daily", spark).count() == len(TYPED)
    for name, _, _, _, wrong in TYPED:
        if wrong is not None:
            with pytest.raises(ColumnError, match=f"^{name}: the value is not of type "):
                job.forget({**{column: own for column, _, own, _, _ in TYPED}, name: wrong}, spark)
    assert job.forget(dict.fromkeys(names), spark)["quarantine"].rows == 0


def test_a_name_among_words(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(line,) for line in NAMING + NOT_NAMING], "raw string")
    matches = rows.where(F.col("raw").rlike(f"(?U){word_pattern('u-1')}")).collect()
    assert sorted(row.raw for row in matches) == sorted(NAMING)


@spark_only
def test_words_of_lines_that_are_none(spark: SparkSession, tmp_path: Path) -> None:
    text = JOB.replace(
        '"shop int, user string, at string, n int"', '"user string, at string, n int"'
    )
    (tmp_path / "job.yaml").write_text(text.replace("[shop, user]", "user"))
    whole = ['{"user": "u-1", "n": 1.5}', '{"user": "b", "n": 1.5, "at": "u-1"}']
    good = '{"user": "b", "at": "2026-01-01T10:00:00Z", "n": 1}'
    lines = [line for line in (*NAMING, *NOT_NAMING) if "\n" not in line]
    (tmp_path / "events.json").write_text("\n".join([*lines, *whole, good]))
    job = Job.load(tmp_path / "job.yaml")
    job.run(spark)
    for nothing in ("", "-"):
        assert job.forget(nothing, spark)["quarantine"].rows == 0
    assert job.forget("u-1", spark)["quarantine"].rows == len({*lines} & {*NAMING}) + 1
    left = {row.raw for row in job.table("quarantine", spark).collect()}
    assert left == {*NOT_NAMING, whole[1]}


def test_a_job_file_that_has_changed(spark: SparkSession, tmp_path: Path) -> None:
    world = World(tmp_path, spark, windows=("hopping",))
    world.write("0", [Event("a", at(0, 12), 1), Event("b", at(0, 12), 1)])
    world.run_all()
    path = tmp_path / "job.yaml"
    path.write_text(
        path.read_text().replace("{hopping: {size: 3h, advance: 1h}", "{sliding: {size: 3h}")
    )
    assert Job.load(path).forget("a", spark)["hopping"].rows == 3
    assert {row[0] for row in world.rows("hopping")} == {"b"}


@spark_only
@pytest.mark.parametrize(
    ("key", "kind", "problem"),
    [
        (None, JobFileError, "key (--key): is missing"),
        ("u", JobFileError, "1 given, but the key's columns are: shop, user"),
        (["x", "u"], ColumnError, "shop: the value is not of type int32 (got 'x')"),
        (["1.5", "u"], ColumnError, "the value is not of type int32 (got '1.5')"),
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
    assert {job.store.open(name).version for name in ("daily", "quarantine")} == {0}


@spark_only
def test_one_table_that_fails_does_not_keep_the_others(spark: SparkSession, tmp_path: Path) -> None:
    day = "2026-01-01T10:00:00Z"
    job = _job(tmp_path, [_line(1, "u", day), _line(2, "u", day), _line(1, "u", "soon")])
    job.run(spark)
    for record in (tmp_path / "out/daily/_record").iterdir():
        record.write_text("{")
    with pytest.raises(TableError, match="damaged"):
        job.forget([1, "u"], spark)
    assert job.table("quarantine", spark).count() == 0
    assert job.table("daily", spark).count() == 2


def test_a_key_that_is_called_as_a_column_of_the_quarantine(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = [{"source": "click", "at": "2026-01-01T10:00:00Z"}, {"source": "click", "at": "soon"}]
    write_rows(tmp_path / "events" / "a.parquet", rows)
    (tmp_path / "job.yaml").write_text(
        "source: {path: events, format: parquet}\n"
        "events: {key: source, time: at, time_format: iso}\n"
        "windows: {hourly: {tumbling: {size: 1h}, aggregates: {n: count}}}\n"
        "tables: {path: out}\n"
        "checks: {builtin: {quarantined_share: off}}\n"
    )
    job = Job.load(tmp_path / "job.yaml")
    job.run(spark)
    done = job.forget("click", spark)
    assert {name: erased.rows for name, erased in done.items()} == {"hourly": 1, "quarantine": 1}


@spark_only
def test_nothing_published(spark: SparkSession, tmp_path: Path) -> None:
    assert _job(tmp_path, []).forget([1, "u"], spark) == {}


@pytest.mark.parametrize("day", [0, 2])
def test_another_run_meanwhile(
    spark: SparkSession, tmp_path: Path, monkeypatch: Any, day: int
) -> None:
    world = World(tmp_path, spark, windows=("hopping",))
    world.write("0", [Event("a", at(0, 12), 1), Event("b", at(0, 12), 1)])
    world.run_all()
    stage = world.job.store.stage

    def staged(*given: Any, **options: Any) -> Any:
        monkeypatch.undo()
        world.write("1", [Event("a", at(day, 13), 1)])
        world.recompute()
        return stage(*given, **options)

    monkeypatch.setattr(world.job.store, "stage", staged)
    with pytest.raises(TableError, match="meanwhile"):
        world.job.forget("a", spark)
    world.check()
    world.job.forget("a", spark)
    assert {row[0] for row in world.rows("hopping")} == {"b"}
