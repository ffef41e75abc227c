"""The runtime Sail: it computes what Spark computes, and refuses what it can't."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import signal
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
import yaml
from deltalake import DeltaTable, write_deltalake
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill import (
    CountWindow,
    HoppingWindow,
    Job,
    Metric,
    SessionWindow,
    SlidingWindow,
    TumblingWindow,
    aggregate,
    aggregates,
    metrics,
    metrics_at,
    sessionize,
    updates,
)
from backfill.engines import engine
from backfill.errors import ColumnError, JobFileError, SetupError, SourceError
from backfill.events import SourceOptions, open_source, spark_errors
from backfill.reconciliation.output.decoded import Decoded, StreamOptions, decode
from backfill.rows.compute import Key
from backfill.runtimes import memory, sail
from backfill.runtimes.differences import (
    SPARK,
    Runtime,
    computed_once,
    is_of_this_process,
    kept,
    runtime_of,
)
from backfill.runtimes.folder_columns import inferred
from backfill.spark import session
from backfill.spec import JobSpec
from backfill.store.iceberg.store import IcebergStore
from tests import deletion_vectors
from tests.event_frames import from_rows, rows
from tests.lake import lake, options
from tests.on_sail import ON_SAIL

on_sail = pytest.mark.skipif(not ON_SAIL, reason="needs BACKFILL_RUNTIME=sail: make test-sail")
WINDOWS = ("sessions", "hourly", "trailing")
COUNTED = {"n": aggregates.count()}
COMMON: Any = {"key": "key", "time": "at", "time_format": "epoch_us"}


def command(folder: Path, *arguments: str, java: bool = True) -> str:
    """What a command prints, with or without a Java to be found."""
    # Without what the session of this process has set, but with the options of each JVM.
    environment = {
        name: value
        for name, value in os.environ.items()
        if "SPARK" not in name or name.endswith("_OPTS")
    }
    environment["PATH"] = str(Path(sys.executable).parent)
    if java:
        environment["PATH"] += os.pathsep + os.environ["PATH"]
    else:
        environment.pop("JAVA_HOME", None)
    done = subprocess.run(
        [Path(sys.executable).with_name("backfill"), *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    # No log lines of other libraries.
    assert "INFO" not in done.stderr
    assert "WARN" not in done.stderr
    return done.stdout


def published(folder: Path) -> dict[str, list[dict[str, Any]]]:
    tables = {}
    for name in WINDOWS:
        if (folder / "lake").is_dir():
            table = lake(folder / "lake").catalog.load_table(f"web.{name}").scan().to_arrow()
        else:
            table = DeltaTable(str(folder / "out" / name)).to_pyarrow_table()
        values = table.to_pylist()
        for row in values:
            # Doubles are added up in no fixed order.
            row.update({k: round(v, 6) for k, v in row.items() if isinstance(v, float)})
            row.update({k: sorted(v) for k, v in row.items() if isinstance(v, list)})
        tables[name] = sorted(values, key=repr)
    return tables


@on_sail
@pytest.mark.slow
def test_a_job_without_java(samples: Path) -> None:
    """The samples: a full run, some dates and late events; then Spark goes on with the tables."""
    sail = ("run", "job.yaml", "--runtime", "sail")
    read = json.loads(command(samples, *sail, "--json", java=False))
    assert (read["read"], read["accepted"]) == (5_058, 5_000)
    first = published(samples)
    assert [len(first[name]) for name in WINDOWS] == [406, 467, 6_346]
    command(samples, *sail, "--date", "2026-01-11", java=False)
    assert published(samples) == first
    text = (samples / "job.yaml").read_text()
    (samples / "job.yaml").write_text(text + "runtime: sail\n")
    plan = command(samples, "plan", "job.yaml", "--date", "2026-01-12", java=False)
    assert "sessions: up to" in plan
    assert "matches" not in command(samples, "validate", "job.yaml", java=False)
    streamed = DeltaTable(str(samples / "out" / "hourly")).to_pyarrow_table()
    pq.write_table(streamed, samples / "streamed.parquet")
    against = ("--stream", "streamed.parquet", "--format", "table")
    same = command(samples, "reconcile", "job.yaml", "hourly", *against, java=False)
    assert "467 windows match, 0 differ." in same
    (samples / "job.yaml").write_text(text)
    command(samples, "run", "job.yaml", "--date", "2026-01-12")
    command(samples, "run", "job.yaml")
    assert published(samples) == first
    of_hourly = ("changes", "job.yaml", "hourly", "--runtime", "sail", "--json")
    changes = json.loads(command(samples, *of_hourly, java=False))
    assert changes["changes"] == []


@on_sail
@pytest.mark.slow
def test_tables_in_a_catalog_without_java(samples: Path) -> None:
    """The samples' tables in Iceberg: one date is computed again on Sail, and one on Spark."""
    settings = yaml.safe_load((samples / "job.yaml").read_text())
    own = options(samples / "lake")
    settings["tables"] = {"catalog": "lake", "schema": "web", "options": own}
    (samples / "job.yaml").write_text(yaml.safe_dump(settings))
    sail = ("run", "job.yaml", "--runtime", "sail")
    command(samples, *sail, java=False)
    first = published(samples)
    assert [len(first[name]) for name in WINDOWS] == [406, 467, 6_346]
    command(samples, *sail, "--date", "2026-01-11", java=False)
    assert published(samples) == first
    command(samples, "run", "job.yaml", "--date", "2026-01-12")
    assert published(samples) == first


@on_sail
def test_what_it_lacks_is_found_by_asking(spark: SparkSession) -> None:
    assert runtime_of(spark) == Runtime(
        is_spark=False,
        observes=False,
        names_files=False,
        sketches=False,
        reports_overflow=False,
        orders_nan=False,
        orders_nulls=False,
        cuts_bytes=False,
    )


@on_sail
@pytest.mark.slow
def test_many_files_and_folders(spark: SparkSession, tmp_path: Path) -> None:
    """A source of a hundred files, and a table of as many dates: more than one chain."""
    for number in range(100):
        folder = tmp_path / "events" / f"part={number // 2}" / f"name=x{number}"
        folder.mkdir(parents=True)
        at = dt.datetime(2026, 1, 1, 12, tzinfo=dt.timezone.utc) + dt.timedelta(days=number)
        table = pa.table({"user": ["a"], "at": pa.array([at], pa.timestamp("us", "UTC"))})
        pq.write_table(table, folder / "one.parquet")
    (tmp_path / "job.yaml").write_text(
        """
source: {path: events, format: parquet}
events: {key: user, time: at}
windows: {daily: {tumbling: {size: 1 day}, aggregates: {n: count, parts: "count_distinct(part)"}}}
tables: {path: out}
"""
    )
    job = Job.load(tmp_path / "job.yaml")
    for _ in range(2):
        assert job.run(spark).windows["daily"].rows == 100
    assert job.table("daily", spark).agg({"date": "max", "n": "sum"}).collect()[0][:] == (
        dt.date(2026, 4, 10),
        100,
    )


@on_sail
def test_timestamps_as_spark_writes_them_are_instants(spark: SparkSession, tmp_path: Path) -> None:
    """So are the older ones (INT96), whatever the job's zone is; also in a stream's struct."""
    times = [dt.datetime(year, 6, 1, 12) for year in (1600, 2026, 2500)]
    lists = pa.array([[{"at": time}] for time in times])
    (tmp_path / "events").mkdir()
    pq.write_table(
        pa.table({"user": ["a", "b", "c"], "at": times, "lists": lists, "on": [1, 2, 3]}),
        tmp_path / "events" / "a.parquet",
        use_deprecated_int96_timestamps=True,
    )
    (tmp_path / "job.yaml").write_text(
        """
source: {path: events, format: parquet}
events: {key: user, time: at, timezone: America/New_York}
windows: {daily: {tumbling: {size: 24h}, aggregates: {n: count, at: "first(lists[0].at)"}}}
tables: {path: out}
"""
    )
    job = Job.load(tmp_path / "job.yaml")
    job.run(spark)
    daily = job.table("daily", spark).orderBy("user").collect()
    instants = [time.replace(tzinfo=dt.timezone.utc).timestamp() for time in times]
    assert [round(row["at"].timestamp()) for row in daily] == instants
    midnight = [at - at % 86_400 for at in instants]
    assert [round(row.window_start.timestamp()) for row in daily] == midnight
    days = [time.replace(hour=0) for time in times]
    windows = [{"start": day, "end": day + dt.timedelta(days=1)} for day in days]
    pq.write_table(
        pa.table({"user": ["a", "b", "c"], "window": windows, "n": [1, 1, 2], "at": times}),
        tmp_path / "stream.parquet",
        use_deprecated_int96_timestamps=True,
    )
    stream = str(tmp_path / "stream.parquet")
    compared = job.reconcile("daily", spark, stream=stream, format="table")
    assert (compared.matched, [difference.key for difference in compared.differences]) == (
        2,
        [("c",)],
    )


@on_sail
def test_numbers_without_a_sign_have_sparks_types(spark: SparkSession, tmp_path: Path) -> None:
    largest = {8: 255, 16: 65_535, 32: 2**32 - 1, 64: 2**64 - 1}
    columns = {f"u{bits}": pa.array([n], f"uint{bits}") for bits, n in largest.items()}
    at = pa.array([0], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"user": ["a"], "at": at, **columns}), tmp_path / "a.parquet")
    firsts = ", ".join(f"{name}: first({name})" for name in columns)
    (tmp_path / "job.yaml").write_text(
        f"""
source: {{path: a.parquet, format: parquet}}
events: {{key: user, time: at}}
windows: {{daily: {{tumbling: {{size: 24h}}, aggregates: {{{firsts}}}}}}}
tables: {{path: out}}
"""
    )
    job = Job.load(tmp_path / "job.yaml")
    job.run(spark)
    rows = job.table("daily", spark).select(*columns)
    assert [field.dataType.simpleString() for field in rows.schema] == [
        *("smallint", "int", "bigint", "decimal(20,0)")
    ]
    assert [*rows.collect()[0]] == [*largest.values()]


@on_sail
@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array(["a"]).dictionary_encode(), r"cannot be read: Dictionary\(Int32, Utf8\)\."),
        (
            pa.array([[1]], pa.large_list(pa.int32())),
            "value: Sail can't read the column's type, LargeList",
        ),
    ],
)
def test_types_of_arrow_that_are_not_read(
    spark: SparkSession, tmp_path: Path, column: pa.Array, message: str
) -> None:
    pq.write_table(pa.table({"value": column}), tmp_path / "a.parquet")
    source = SourceOptions(path=str(tmp_path), format="parquet")
    with pytest.raises(SourceError, match=message):
        open_source(spark, source)


@on_sail
@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("1 / id", "division by zero"),
        ("1 % id", "division by zero"),
        ("cast(text as int)", r"the value 'abc' of type \"STRING\" cannot be cast to Int32"),
        ("cast(text as boolean)", "'abc' .* cannot be cast to Boolean"),
        ("to_timestamp(text)", '\'abc\' of type "STRING" cannot be cast to "TIMESTAMP"'),
        ("cast(id + 3000000000 as int)", "too large for its type"),
        ("cast(id + 1000 as decimal(2, 0))", "too large for its type"),
    ],
)
def test_errors_in_expressions(spark: SparkSession, expression: str, message: str) -> None:
    frame = spark.range(1).withColumn("text", F.lit("abc"))
    with pytest.raises(ColumnError, match=message), spark_errors():
        frame.selectExpr(expression).collect()


@on_sail
def test_rows_of_a_file_are_in_its_order(spark: SparkSession, tmp_path: Path) -> None:
    """Even if nothing else says which row of a window is the last, over many row groups."""
    for part in range(3):
        rows = [
            {"user": f"u{n % 500}", "window_start": 0, "window_end": 60_000, "n": part * 30_000 + n}
            for n in range(30_000)
        ]
        path = tmp_path / f"part-{part}.parquet"
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=700)
    decoded = decode(
        spark,
        StreamOptions(path=f"{tmp_path}/", format="table"),
        TumblingWindow(size="60s"),
        key=Key(("user",), (T.StringType(),)),
        aggregates={"n": T.LongType()},
        engine=engine("plain"),
        zone="UTC",
    )
    by_key = {row[0]: row for row in decoded.frame.select("_key0", "n", "_written").collect()}
    assert {key: row.n for key, row in by_key.items()} == {f"u{n}": 89_500 + n for n in range(500)}
    assert by_key["u0"]["_written"] == str(tmp_path / "part-2.parquet")


def test_what_folders_say_has_sparks_types() -> None:
    cases = {
        ("1", "-2", None): "int",
        ("1", "3000000000"): "bigint",
        ("2026-01-01", None): "date",
        ("a", "b c"): "string",
        (None,): "string",
        ("2026-13-45",): None,
        ("1.5",): None,
        ("2026-01-01 00:00:00",): None,
    }
    for given, wanted in cases.items():
        data_type = inferred(given)
        assert (None if data_type is None else data_type.simpleString()) == wanted, given


@on_sail
def test_sessions_that_are_refused(spark: SparkSession) -> None:
    """Those of a server elsewhere, and those in another time zone."""
    other = SparkSession.builder.config("spark.remote", sail.address()).create()
    with pytest.raises(SetupError, match="remote: the server lacks parts of Spark"):
        runtime_of(other)
    other.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    with pytest.raises(SetupError, match="timeZone: must be UTC"):
        is_of_this_process(other)


@on_sail
def test_days_of_bots_in_a_range(spark: SparkSession, tmp_path: Path) -> None:
    """When Sail judged a range, it looked into an empty array."""
    first = dt.datetime(2011, 12, 26, tzinfo=dt.timezone.utc)
    times = [first + dt.timedelta(minutes=50 * n) for n in range(123)]
    pq.write_table(pa.table({"t": times}), tmp_path / "events.parquet")
    (tmp_path / "job.yaml").write_text("""
source: {path: events.parquet, format: parquet}
events: {key: [], time: t, timezone: Pacific/Apia,
         bots: {gap: 1h, rules: [{name: many, events: 6, remove: day}]}}
windows: {s: {session: {gap: 30m}, aggregates: {n: count}}}
checks: {builtin: off}
tables: {path: out}
""")
    job = Job.load(tmp_path / "job.yaml")
    done = job.run(spark, start="2011-12-28", end="2011-12-29")
    assert any("many" in reason for reason in done.quarantined), done.quarantined


@on_sail
def test_the_session_that_is_there_is_used_again(spark: SparkSession, samples: Path) -> None:
    assert session() is session(runtime="sail") is spark
    job = Job.load(samples / "job.yaml")
    job.run()
    assert all(outcome.success for outcome in job.validate())


def test_a_server_has_a_runtime_of_its_own() -> None:
    with pytest.raises(SetupError, match=r"runtime: is for a session in this process.*'sail'"):
        session(runtime="sail", remote="sc://127.0.0.1:1")


def test_there_is_no_such_runtime() -> None:
    with pytest.raises(SetupError, match=r"runtime: there is no such runtime .*sail"):
        session(runtime="sial")


@pytest.mark.skipif(ON_SAIL, reason="of Spark")
def test_spark_has_everything(spark: SparkSession) -> None:
    assert runtime_of(spark) is SPARK


@on_sail
def test_a_sum_that_overflows_is_an_error(spark: SparkSession) -> None:
    most = (1 << 63) - 1
    for last, fits in ((0, True), (1, False), (most, False)):
        events = from_rows(
            spark,
            [("a", 0, most), ("a", 1, last), ("b", 0, most), ("b", 1, 1), ("b", 2, -1)],
            "key string, at bigint, value bigint",
        )
        kinds = {"total": aggregates.sum("value")}
        sessions = aggregate(events, SessionWindow(gap="1s"), aggregates=kinds, **COMMON)
        if fits:
            assert {row.key: row.total for row in sessions.collect()} == {"a": most, "b": most}
        else:
            with pytest.raises(PySparkException, match=r"[Cc]ast"):
                sessions.collect()


@on_sail
def test_of_copies_that_differ_the_same_one_counts_as_on_spark(spark: SparkSession) -> None:
    values = [(None, 3), (3, None), (float("nan"), 1.0), (1.0, float("nan"))]
    events = from_rows(
        spark,
        [(f"{n}", 0, "x", value) for n, pair in enumerate(values) for value in pair],
        "key string, at bigint, id string, value double",
    )
    kinds = {"total": aggregates.sum("value")}
    sessions = aggregate(events, SessionWindow(gap="1s"), aggregates=kinds, id="id", **COMMON)
    totals = {row.key: row.total for row in sessions.collect()}
    assert totals == {"0": None, "1": None, "2": 1.0, "3": 1.0}


@on_sail
def test_rows_are_kept_without_their_plan(spark: SparkSession) -> None:
    """Also sorted ones, for which Sail's own checkpoints give wrong results."""
    events = spark.range(2_000).selectExpr("string(id % 7) AS key", "id * 37 % 5000 AS at")
    in_order = events.repartition("key").sortWithinPartitions("key", "at")
    for frame, release in ((computed_once(in_order), lambda: None), kept(in_order)):
        sessions = aggregate(frame, SessionWindow(gap="3us"), aggregates=COUNTED, **COMMON)
        expected = aggregate(events, SessionWindow(gap="3us"), aggregates=COUNTED, **COMMON)
        assert sorted(rows(sessions)) == sorted(rows(expected))
        release()


REFUSED: dict[str, Any] = {
    "sum of doubles around events": lambda e: aggregate(
        e, SlidingWindow(size="1s"), aggregates={"x": aggregates.sum("value")}, **COMMON
    ),
    "mean of BIGINT around events": lambda e: aggregate(
        e, CountWindow(size=3, order="time"), aggregates={"x": aggregates.mean("at")}, **COMMON
    ),
    "dimension": lambda e: metrics(
        e,
        [Metric("n", aggregates.count(), by=["value"], windows=["1h"], step="1m")],
        time="at",
        time_format="epoch_us",
    ),
    "new_when": lambda e: sessionize(e, SessionWindow(gap="1s", new_when="value"), **COMMON),
    "arrival": lambda e: aggregate(
        e, SessionWindow(gap="1s"), aggregates=COUNTED, arrival="value", **COMMON
    ),
    "lists around events": lambda e: aggregate(
        e, SlidingWindow(size="1s"), aggregates={"x": aggregates.collect_list("at")}, **COMMON
    ),
    "distinct values of the last events": lambda e: aggregate(
        e,
        CountWindow(size=3, order="time"),
        aggregates={"x": aggregates.count_distinct("at")},
        **COMMON,
    ),
    "key": lambda e: aggregate(
        e, SessionWindow(gap="1s"), aggregates=COUNTED, **{**COMMON, "key": "value"}
    ),
    "quantile": lambda e: hopping(e, aggregates.quantile("value", 0.5)),
    "first": lambda e: hopping(e, aggregates.first("value")),
    "stddev around events": lambda e: aggregate(
        e, SlidingWindow(size="1s"), aggregates={"x": aggregates.stddev("at")}, **COMMON
    ),
    "min": lambda e: hopping(e, aggregates.min("value")),
    "max of structs": lambda e: hopping(e, aggregates.max("struct(at, value AS x)")),
    "distinct": lambda e: hopping(e, aggregates.count_distinct("value", approximate=True)),
    "decimals": lambda e: hopping(e, aggregates.sum("cast(value as decimal(38, 2))")),
    "lists of metrics": lambda e: metrics(
        e,
        [Metric("x", aggregates.collect_list("at"), by=["key"], windows=["1h"], step="1m")],
        time="at",
        time_format="epoch_us",
    ),
    "before": lambda e: metrics_at(
        e,
        [Metric("n", aggregates.count(), by=["key"], windows=["1h"], step="1m")],
        time="at",
        time_format="epoch_us",
        before=True,
    ),
    "updates": lambda e: updates(
        e,
        SessionWindow(gap="1s"),
        aggregates=COUNTED,
        arrival="at",
        engine="flink",
        **COMMON,
    ),
}


def hopping(events: Any, kind: Any) -> Any:
    return aggregate(
        events, HoppingWindow(size="2s", advance="1s"), aggregates={"x": kind}, **COMMON
    )


@on_sail
@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(spark: SparkSession, what: str) -> None:
    events = from_rows(spark, [("a", 0, 1.0)], "key string, at bigint, value double")
    with pytest.raises(SetupError, match="on Spark only"):
        REFUSED[what](events)


JOB = """
source: {path: events, format: FORMAT}
events: {key: user_id, time: event_time, id: event_id MORE}
windows: {hourly: {tumbling: {size: 1h}, aggregates: {events: count}}}
tables: TABLES
"""


@on_sail
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("FORMAT", "json", "source.format: the format json is read on Spark only"),
        (
            "TABLES",
            "{path: out}\nchecks: {hourly: [{expect_column_median_to_be_between: "
            "{column: events, min_value: 1}}]}",
            "checks.hourly: expect_column_median_to_be_between is evaluated on Spark only",
        ),
    ],
)
def test_jobs_that_are_refused(
    spark: SparkSession, samples: Path, old: str, new: str, message: str
) -> None:
    text = JOB.replace(old, new).replace("FORMAT", "parquet").replace(" MORE", "")
    (samples / "job.yaml").write_text(text.replace("TABLES", "{path: out}"))
    with pytest.raises(SetupError, match=message):
        Job(JobSpec.load(samples / "job.yaml")).run(spark)


@on_sail
def test_warehouses_that_are_refused(spark: SparkSession, samples: Path, tmp_path: Path) -> None:
    """Only the catalog knows where they are."""
    (samples / "job.yaml").write_text(
        JOB.replace("FORMAT", "parquet")
        .replace(" MORE", "")
        .replace("TABLES", "{catalog: lake, schema: web}")
    )
    refused = {
        "s3://bucket/lake": "object stores are read and written on Spark only",
        f"file://{tmp_path}/[ab]": "paths with special characters are read on Spark only",
    }
    for number, (warehouse, message) in enumerate(refused.items()):
        own = {**options(tmp_path / str(number)), "warehouse": warehouse}
        job = Job(JobSpec.load(samples / "job.yaml"), IcebergStore("lake", "web", own))
        with pytest.raises(SetupError, match=message):
            job.run(spark)


@on_sail
def test_tables_with_deletions_beside_their_files_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_deltalake(str(tmp_path), pa.table({"k": ["a", "b", "c"]}))
    assert open_source(spark, SourceOptions(path=str(tmp_path), format="delta")).frame.count() == 3
    [file] = deletion_vectors.live(tmp_path)
    deletion_vectors.delete_places(tmp_path, "i", {file: [1]})
    with pytest.raises(SetupError, match="without rewriting their files are read on Spark only"):
        open_source(spark, SourceOptions(path=str(tmp_path), format="delta"))


@on_sail
@pytest.mark.parametrize("name", ["{a,b}", "[ab]", "a*", "?", "a\\b"])
@pytest.mark.parametrize("first", ["0", "z"])
def test_names_that_are_patterns_are_refused(
    spark: SparkSession, tmp_path: Path, name: str, first: str
) -> None:
    for stem in ("a", "b", first, name):
        pq.write_table(pa.table({"k": [stem]}), tmp_path / f"{stem}.parquet")
    with pytest.raises(SetupError, match="files with such names are read on Spark only"):
        open_source(spark, SourceOptions(path=str(tmp_path), format="parquet"))


def job_with_ids(folder: Path, columns: dict[str, Any], windows: str) -> Job:
    """A job over events with k, at (µs) and id; `windows` is YAML, with what follows."""
    pq.write_table(pa.table(columns), folder / "events.parquet")
    (folder / "job.yaml").write_text(
        "source: {path: events.parquet, format: parquet}\n"
        "events: {key: k, time: at, time_format: epoch_us, id: id}\n"
        f"tables: {{path: out}}\nwindows:\n{windows}"
    )
    return Job.load(folder / "job.yaml")


def test_the_first_of_copies_without_an_arrival(spark: SparkSession, tmp_path: Path) -> None:
    rows = [("a", 0, "1", "x"), ("a", 0, "1", "x"), ("a", 0, "2", None), ("a", 1, "3", "y")]
    columns = dict(zip(("k", "at", "id", "page"), map(list, zip(*rows, strict=True)), strict=True))
    settings = (
        "  hourly: {tumbling: {size: 1h}, aggregates: {n: count, last: last(page)}}\n"
        "  visits: {session: {gap: 1h}, aggregates: {n: count, last: last(page)}}\n"
        "checks: {builtin: {quarantined_share: off}}\n"
    )
    job = job_with_ids(tmp_path, columns, settings)
    job.run(spark)
    for name in ("hourly", "visits"):
        windows = job.table(name, spark).select("n", "last").collect()
        assert [tuple(row) for row in windows] == [(3, "y")]


@on_sail
@pytest.mark.parametrize(
    "keys",
    [
        pa.array([b"\xff"], pa.binary()),
        pa.array([Decimal("123456789012345660.00")], pa.decimal128(20, 2)),
    ],
    ids=["bytes", "decimals"],
)
def test_keys_that_are_not_deleted(spark: SparkSession, tmp_path: Path, keys: pa.Array) -> None:
    pq.write_table(pa.table({"k": keys, "at": [0]}), tmp_path / "events.parquet")
    (tmp_path / "job.yaml").write_text(
        "source: {path: events.parquet, format: parquet}\n"
        "events: {key: k, time: at, time_format: epoch_us}\n"
        "windows: {hourly: {tumbling: {size: 1h}, aggregates: {events: count}}}\n"
        "tables: {path: out}\n"
    )
    job = Job.load(tmp_path / "job.yaml")
    job.run(spark)
    with pytest.raises(SetupError, match=r"k: keys of type .* are deleted on Spark only"):
        job.forget(keys[0].as_py(), spark)


#: Columns of a stream's rows, the type of `x` in the job, how it is merged, and the message.
READ_OTHERWISE: list[tuple[dict[str, Any], T.DataType, str | None, str]] = [
    ({"x": ["5"]}, T.LongType(), None, "x: string is read as bigint"),
    ({"x": [1.5]}, T.StringType(), None, "x: double is read as string"),
    ({"x": [["5"]]}, T.ArrayType(T.LongType()), None, "x: array<string> is read as array<bigint>"),
    ({"x": [5], "order": [0.5]}, T.LongType(), None, "order: floating-point numbers put rows in"),
    ({"x": [1.5]}, T.DoubleType(), "max", "x: deltas of double are combined by max"),
    ({"x": [5], "is_retraction": ["on"]}, T.LongType(), "", "is_retraction: string is read as b"),
    ({"x": [5], "_number_in_file": [0]}, T.LongType(), None, "_number_in_file: a column of this"),
]


def decoded_of(
    spark: SparkSession, path: Path, columns: dict[str, Any], type: T.DataType, how: str | None
) -> Decoded:
    """Rows of Beam, or of a table if `how` is None."""
    window = {"user": ["a"], "window_start": [0], "window_end": [60_000], "pane_index": [0]}
    rows = {**{name: values * len(columns["x"]) for name, values in window.items()}, **columns}
    pq.write_table(pa.table(rows), path)
    panes = {None: {}, "": {"panes": "retracting"}}.get(how, {"panes": "discarding"})
    return decode(
        spark,
        StreamOptions(path=str(path), format="table" if how is None else "beam", **panes),
        TumblingWindow(size="60s"),
        key=Key(("user",), (T.StringType(),)),
        aggregates={"x": type},
        engine=engine("plain"),
        zone="UTC",
        merged_by={"x": how or None},
    )


@on_sail
@pytest.mark.parametrize(("columns", "type", "how", "message"), READ_OTHERWISE)
def test_what_would_be_read_otherwise_is_refused(
    spark: SparkSession,
    tmp_path: Path,
    columns: dict[str, Any],
    type: T.DataType,
    how: str | None,
    message: str,
) -> None:
    with pytest.raises(SetupError, match=f"{re.escape(message)}.* on Spark only"):
        decoded_of(spark, tmp_path / "a.parquet", columns, type, how)


@on_sail
def test_deltas_that_overflow_are_an_error(spark: SparkSession, tmp_path: Path) -> None:
    for last, total in ((-1, 2**63 - 2), (1, None)):
        columns = {"x": [2**63 - 1, last]}
        frame = decoded_of(spark, tmp_path / "a.parquet", columns, T.LongType(), "sum").frame
        if total is None:
            with pytest.raises(PySparkException):
                frame.collect()
        else:
            assert [row.x for row in frame.collect()] == [total]


@on_sail
def test_verbs_that_are_refused(spark: SparkSession, samples: Path) -> None:
    job = Job.load(samples / "job.yaml")
    job.run(spark)
    rows = {"user_id": ["u"], "window_start": [0], "window_end": [3_600_000], "events": ["5"]}
    pq.write_table(pa.table(rows), samples / "rows.parquet")
    (samples / "rows.json").write_text("{}")
    records = {"key": [b"u" + bytes(8)], "value": [b"{}"], "partition": [0], "offset": [0]}
    pq.write_table(pa.table(records), samples / "records.parquet")
    (samples / "a[b]").mkdir()
    pq.write_table(pa.table(rows), samples / "a[b]" / "rows.parquet")
    for name, given, message in (
        ("a[b]", {"format": "table"}, "paths with special characters are read"),
        ("rows.json", {"format": "table"}, "output in json files is read"),
        ("rows.parquet", {"format": "table"}, "string is read as bigint"),
        (
            "records.parquet",
            {"format": "kafka-streams", "value_format": "json"},
            "JSON is decoded",
        ),
    ):
        with pytest.raises(SetupError, match=f"{message} on Spark only"):
            job.reconcile("hourly", spark, stream=str(samples / name), **given)
    with pytest.raises(SetupError, match="streams run on Spark only"):
        job.stream(spark, to=samples / "streamed")


JOINED = """
from backfill.events import spark_errors
from backfill.spark import session

users = session(runtime="sail").range(1_000_000).selectExpr("md5(string(id)) AS user", "id")
with spark_errors():
    print(users.join(users.withColumnRenamed("id", "other"), "user").count())
"""
SORTED = """
from backfill import SessionWindow, aggregate, aggregates as agg
from backfill.events import spark_errors
from backfill.spark import session

users = session(runtime="sail").range(1_000_000).selectExpr(
    "md5(string(id)) AS user", "timestamp_micros(id) AS at"
)
with spark_errors():
    found = aggregate(
        users, SessionWindow(gap="1m"), key="user", time="at", aggregates={"n": agg.count()}
    )
    print(found.selectExpr("count(*)", "sum(n)").collect()[0][:])
"""


@on_sail
def test_what_is_too_large_for_memory_is_in_files() -> None:
    pool = "SAIL_RUNTIME__MEMORY_POOL__"

    def done(code: str, mib: int, **more: str) -> subprocess.CompletedProcess[str]:
        limit = {f"{pool}TYPE": "fair", f"{pool}FAIR__MAX_SIZE": str(mib << 20)}
        return subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | limit | more,
            capture_output=True,
            text=True,
            timeout=300,
        )

    assert done(SORTED, 150).stdout == "(1000000, 1000000)\n"
    without = done(SORTED, 150, SAIL_RUNTIME__TEMPORARY_FILES__MAX_SIZE="0")
    assert "DiskManager is disabled" in without.stderr
    # A join keeps one side in memory, whatever the limit. With a limit as small as this one, Sail
    # 0.7.2 can wait forever for what it sorts.
    assert "Sail needs more memory than the 20.0 MB that it may use" in done(JOINED, 20).stderr


INTERRUPTED = """
import signal, threading, time
from backfill.spark import session

def tell(begun):
    while time.process_time() < begun + 2:
        time.sleep(0.05)
    print("in the middle", flush=True)

# What a shell starts in the background ignores it.
signal.signal(signal.SIGINT, signal.default_int_handler)
spark = session(runtime="sail")
threading.Thread(target=tell, args=[time.process_time()], daemon=True).start()
try:
    spark.range(10**11).selectExpr("sum(id % 7)").collect()
except KeyboardInterrupt:
    print(spark.range(3).count())
"""


@on_sail
def test_many_events_with_an_id(spark: SparkSession, tmp_path: Path) -> None:
    """Sail 0.7.2 needs gigabytes to count so many distinct structs beside another aggregate."""
    places = range(40_000)
    columns = {"k": [f"u{n % 500}" for n in places], "at": places, "id": places}
    windows = "  daily: {tumbling: {size: 1d}, aggregates: {n: count}}\n"
    assert job_with_ids(tmp_path, columns, windows).run(spark).accepted == len(places)


@on_sail
def test_what_is_interrupted_ends_and_the_session_goes_on() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        # The query takes minutes; an interrupt before the server has it would not end it.
        assert process.stdout.readline() == "in the middle\n"
        process.send_signal(signal.SIGINT)
        try:
            assert process.communicate(timeout=60)[0] == "3\n"
        finally:
            process.kill()


@on_sail
def test_memory_has_a_limit() -> None:
    code = """
import os
from backfill.spark import session

session(runtime="sail")
print(*(f"{name}={value}" for name, value in sorted(os.environ.items()) if "SAIL_" in name))
"""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SAIL_")}

    def settings(**more: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", code], env=clean | more, capture_output=True, text=True
        ).stdout.strip()

    pool = "SAIL_RUNTIME__MEMORY_POOL__"
    assert settings() == f"{pool}FAIR__MAX_SIZE={memory.limit() // 2} {pool}TYPE=fair"
    assert settings(**{f"{pool}TYPE": "unbounded"}) == f"{pool}TYPE=unbounded"


@pytest.mark.skipif(pyspark.__version__.startswith("4.1."), reason="this pyspark is understood")
def test_another_pyspark_is_refused() -> None:
    """In another process, because an existing session in this one would be used."""
    code = "from backfill.spark import session; session(runtime='sail')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "the runtime sail needs pyspark 4.1, but this is" in done.stderr


def test_a_job_file_names_a_runtime(samples: Path) -> None:
    text = (samples / "job.yaml").read_text()
    for name in ("spark", "sail"):
        (samples / "job.yaml").write_text(f"{text}runtime: {name}\n")
        assert JobSpec.load(samples / "job.yaml").runtime == name
    (samples / "job.yaml").write_text(f"{text}runtime: snail\n")
    with pytest.raises(JobFileError, match=r"runtime: .*sail"):
        JobSpec.load(samples / "job.yaml")
