"""A whole job, from source to published tables."""

from __future__ import annotations

import datetime as dt
import shutil
from pathlib import Path
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill import Job, SessionWindow, aggregate
from backfill import aggregates as agg
from backfill.errors import BackfillError, ConservationError, SourceError, TableError
from backfill.execution import publish
from backfill.rows.compute import Built
from tests import reference
from tests.tables import rows_of, version_of

SAMPLES = Path(__file__).parent.parent / "data" / "samples"
UTC = dt.timezone.utc

JOB = """
source: {{path: events, format: {format}{source}}}
events: {{key: user, time: at{events}}}
engine: {engine}
windows:
  sessions: {{session: {{gap: 30m}}, aggregates: {{events: count, mean: mean(amount)}}}}
  daily: {{tumbling: {{size: 1 day}}, aggregates: {{revenue: sum(amount), last: last(amount)}}}}
  trailing: {{hopping: {{size: 3h, advance: 1h}}, aggregates: {{events: count}}}}
tables: {{path: out}}
checks: {{builtin: {{quarantined_share: off}}}}
"""


def make(folder: Path, *, format: str = "parquet", engine: str = "plain", **parts: str) -> Job:
    text = JOB.format(
        format=format, engine=engine, source=parts.get("source", ""), events=parts.get("events", "")
    )
    (folder / "job.yaml").write_text(text)
    return Job.load(folder / "job.yaml")


def at(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=UTC)


def source(spark: SparkSession, folder: Path, rows: list[tuple[Any, ...]]) -> None:
    frame = spark.createDataFrame(rows, "user string, at timestamp, amount bigint, id string")
    frame.coalesce(2).write.mode("overwrite").parquet(str(folder / "events"))


ROWS = [
    ("ann", at("2026-01-10T23:50"), 5, "1"),
    ("ann", at("2026-01-11T00:10"), 7, "2"),
    ("ann", at("2026-01-11T00:10"), 7, "2"),
    ("ben", at("2026-01-11T09:00"), None, "3"),
    (None, at("2026-01-11T09:00"), 1, "4"),
    ("cat", None, 1, "5"),
]


@pytest.fixture(scope="module")
def run_once(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a job over these rows that has run."""
    folder = tmp_path_factory.mktemp("job")
    source(spark, folder, ROWS)
    make(folder).run(spark)
    return folder


@pytest.fixture
def published(run_once: Path, tmp_path: Path) -> Job:
    """A copy of the job in the test's own folder."""
    shutil.copytree(run_once, tmp_path, dirs_exist_ok=True)
    return Job.load(tmp_path / "job.yaml")


def micros(frame: DataFrame) -> list[tuple[Any, ...]]:
    columns = [
        F.unix_micros(F.col(f"`{name}`")) if type == "timestamp" else F.col(f"`{name}`")
        for name, type in frame.dtypes
    ]
    return sorted(map(tuple, frame.select(*columns).collect()), key=str)


def us(text: str) -> int:
    return reference.micros(at(text))


def test_a_run_publishes_every_window_and_what_it_could_not_use(
    spark: SparkSession, tmp_path: Path
) -> None:
    source(spark, tmp_path, ROWS)
    job = make(tmp_path, events=", id: id")
    messages: list[str] = []
    result = job.run(spark, progress=messages.append)
    assert (result.read, result.accepted, result.duplicates) == (6, 3, 1)
    assert result.quarantined == {"no_key": 1, "no_time": 1}
    assert {name: (w.rows, w.events) for name, w in result.windows.items()} == {
        "sessions": (2, 3),
        "daily": (3, 3),
        "trailing": (7, 9),
    }
    assert result.horizon_us == us("2026-01-11T09:00")
    assert messages

    sessions = job.table("sessions", spark)
    assert sessions.columns == [
        "user", "session_id", "window_start", "window_end", "events", "mean", "is_open", "date",
    ]  # fmt: skip
    [ann, ben] = micros(sessions.drop("session_id"))
    saturday, sunday = dt.date(2026, 1, 10), dt.date(2026, 1, 11)
    begun, ended, late = us("2026-01-10T23:50"), us("2026-01-11T00:10"), us("2026-01-11T09:00")
    assert ann == ("ann", begun, ended, 2, 6.0, False, saturday)
    assert ben == ("ben", late, late, 1, None, True, sunday)
    daily = micros(job.table("daily", spark))
    assert [row[3:6] for row in daily] == [(5, 5, False), (7, 7, True), (None, None, True)]
    quarantine = job.table("quarantine", spark).collect()
    assert sorted(row["reason"] for row in quarantine) == ["no_key", "no_time"]
    assert all('"amount":1' in row["raw"] and row["source"] for row in quarantine)
    assert {row["run_id"] for row in quarantine} == {result.run_id}


def test_state_that_can_not_be_derived_is_kept_beside_the_value(
    spark: SparkSession, published: Job
) -> None:
    job = published
    columns = set(rows_of(job.store, spark, "sessions").columns)
    assert {"_events", "_mean_n", "_mean_sum"} <= columns
    daily = set(rows_of(job.store, spark, "daily").columns)
    assert {"_events", "_last_event"} <= daily
    assert not [column for column in daily if column.startswith("_revenue")]


def test_a_second_run_changes_nothing_but_the_version(spark: SparkSession, published: Job) -> None:
    first = version_of(published.store, "daily")
    before = {name: micros(published.table(name, spark)) for name in published.spec.windows}
    second = published.run(spark)
    after = {name: micros(published.table(name, spark)) for name in second.windows}
    assert after == before
    assert first is not None
    assert second.windows["daily"].version == first + 1


def test_dates_that_lost_their_events_are_cleared(
    spark: SparkSession, published: Job, tmp_path: Path
) -> None:
    job = published
    source(spark, tmp_path, ROWS[3:4])
    job.run(spark)
    assert [row["user"] for row in job.table("daily", spark).collect()] == ["ben"]
    assert job.table("quarantine", spark).count() == 0


def test_engines_decide_about_null_keys(spark: SparkSession, tmp_path: Path) -> None:
    source(spark, tmp_path, ROWS)
    result = make(tmp_path, engine="spark").run(spark)
    assert result.quarantined == {"no_time": 1}
    assert result.accepted == 5


def test_the_source_is_scanned_once_for_all_windows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source(spark, tmp_path, ROWS[:4])
    job = make(tmp_path)
    # Files that vanish once the slices are there can't be read a second time.
    build = Built.table

    def table(built: Built, horizon: int) -> DataFrame:
        shutil.rmtree(tmp_path / "events", ignore_errors=True)
        return build(built, horizon)

    monkeypatch.setattr(Built, "table", table)
    assert job.run(spark).accepted == 4


def test_a_run_that_loses_events_fails_and_publishes_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source(spark, tmp_path, ROWS)
    job = make(tmp_path)
    build = Built.table
    monkeypatch.setattr(
        Built, "table", lambda built, horizon: build(built, horizon).where("user != 'ben'")
    )
    with pytest.raises(
        ConservationError, match="sessions: its windows hold 3 events, but 4 were assigned"
    ):
        job.run(spark)
    with pytest.raises(TableError):
        job.table("sessions", spark)
    assert not list((tmp_path / "out").rglob("*.parquet"))


def test_a_run_that_fails_late_leaves_the_tables_as_they_were(
    spark: SparkSession, published: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = published
    before = micros(job.table("trailing", spark)), version_of(job.store, "trailing")
    files = set((tmp_path / "out").rglob("*.parquet"))
    source(spark, tmp_path, ROWS[:1])

    def fail(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(publish, "_audit", fail)
    with pytest.raises(KeyboardInterrupt):
        job.run(spark)
    assert (micros(job.table("trailing", spark)), version_of(job.store, "trailing")) == before
    assert set((tmp_path / "out").rglob("*.parquet")) == files


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([], "is empty"),
        ([(None, None, 1, "x")], "none of its 1 rows are usable"),
    ],
)
def test_sources_without_usable_events(
    spark: SparkSession, tmp_path: Path, rows: list[tuple[Any, ...]], says: str
) -> None:
    source(spark, tmp_path, rows)
    with pytest.raises(SourceError, match=says):
        make(tmp_path).run(spark)


def test_times_in_the_wrong_unit_are_told(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame(
        [("ann", us("2026-01-10T00:00"), 1)], "user string, at bigint, amount bigint"
    )
    frame.write.parquet(str(tmp_path / "events"))
    with pytest.raises(SourceError, match=r"time_out_of_range: 1.*time_format"):
        make(tmp_path, events=", time_format: epoch_s").run(spark)


def test_so_they_are_where_spark_observes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "events.csv").write_text("user,at\nann,1747474747474\nben,1747474747475\n")
    job = tmp_path / "job.yaml"
    job.write_text(
        "source: {path: events.csv, format: csv}\n"
        "events: {key: user, time: at, time_format: epoch_s}\n"
        "windows: {w: {session: {gap: 30m}, aggregates: {n: count}}}\n"
        "tables: {path: out}\n"
    )
    with pytest.raises(SourceError, match=r"time_out_of_range: 2"):
        Job.load(job).run(spark)


def test_unreadable_files_are_one_line(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "broken.parquet").write_bytes(b"PAR1 this is no Parquet file PAR1")
    with pytest.raises(BackfillError, match=r"broken\.parquet") as caught:
        make(tmp_path).run(spark)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def samples(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Job:
    folder = tmp_path_factory.mktemp("samples")
    shutil.copytree(SAMPLES / "events", folder / "events")
    shutil.copy(SAMPLES / "job.yaml", folder / "job.yaml")
    job = Job.load(folder / "job.yaml")
    result = job.run(spark)
    # Golden: the samples never change, so neither do these.
    assert (result.read, result.accepted, result.duplicates) == (5058, 5000, 52)
    assert result.quarantined == {"no_key": 3, "no_time": 3}
    assert {name: (w.rows, w.events) for name, w in result.windows.items()} == {
        "sessions": (406, 5000),
        "hourly": (467, 5000),
        "trailing": (6346, 120_000),
    }
    return job


def test_samples_agree_with_plain_python(spark: SparkSession, samples: Job) -> None:
    rows = (
        spark.read.parquet(str(SAMPLES / "events"))
        .where("user_id is not null and event_time is not null")
        .select("user_id", F.unix_micros("event_time"), "amount", "event_id")
        .collect()
    )
    events = reference.distinct([reference.Event(*row) for row in rows])
    gap = 30 * 60 * 1_000_000
    expected = {
        (s[0].key, s[0].time, s[-1].time, len(s)): sum(e.value for e in s)
        for s in reference.sessions(events, gap)
    }
    table = samples.table("sessions", spark).drop("session_id", "pages", "is_open", "date")
    totals = {row[:4]: row[4] for row in micros(table)}
    assert totals == pytest.approx(expected)
    hour = 3_600_000_000
    for name, size in (("hourly", hour), ("trailing", 24 * hour)):
        windows = reference.grouped(events, reference.hopping(size, hour))
        counts = {place: len(held) for place, held in windows.items()}
        table = samples.table(name, spark).select("user_id", "window_start", "window_end", "events")
        assert {row[:3]: row[3] for row in micros(table)} == counts


def test_the_job_and_the_notebook_agree(spark: SparkSession, samples: Job) -> None:
    events = spark.read.parquet(str(SAMPLES / "events"))
    frame = aggregate(
        events,
        SessionWindow(gap="30m"),
        key="user_id",
        time="event_time",
        id="event_id",
        arrival="received_at",
        aggregates={"events": agg.count(), "pages": agg.count_distinct("page")},
    )
    table = samples.table("sessions", spark).drop("revenue", "is_open", "date")
    assert_df_equality(frame, table, ignore_row_order=True, ignore_nullable=True)
