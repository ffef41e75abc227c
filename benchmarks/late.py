"""What late events and a new day cost, beside a full rebuild and beside more history."""

from __future__ import annotations

import datetime as dt
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import duckdb
import yaml
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from backfill import Job
from benchmarks import data
from benchmarks.data import FOLDER, Dataset
from benchmarks.measure import Measured, in_turns, timed

_LATE = 20_000
_FOLDER = FOLDER / "jobs"
_SESSIONS = {
    "windows": {
        "sessions": {
            "session": {"gap": "30m"},
            "aggregates": {"events": "count", "revenue": "sum(amount)"},
        }
    },
}
_METRICS = {
    "metrics": {
        name: {"by": ["user_id"], "value": value, "windows": ["1h", "1d", "7d", "30d", "90d"]}
        | {"step": "1h"}
        for name, value in (("views", "count"), ("pages", "count_distinct(page)"))
    }
}
_COMMON = {"events": {"key": ["user_id"], "time": "event_time"}, "tables": {"path": "out"}}


@dataclass(frozen=True)
class Table:
    """One table of a job, to be compared.

    Attributes:
        job: the settings of the job file that differ.
        name: of the table.
        place: the columns that say which row it is.
        exact: those that have to be equal.
        near: those that may differ by rounding.
    """

    job: Mapping[str, object]
    name: str
    place: tuple[str, ...]
    exact: tuple[str, ...]
    near: tuple[str, ...] = ()


SESSIONS = Table(
    _SESSIONS,
    "sessions",
    ("user_id", "window_start"),
    ("session_id", "window_end", "events"),
    ("revenue",),
)
METRICS = Table(
    _METRICS,
    "pages",
    ("user_id", "at"),
    tuple(f"pages_{each}" for each in ("1h", "1d", "7d", "30d", "90d")),
)


@dataclass(frozen=True)
class Work:
    """One way to bring the tables of a job up to date.

    Attributes:
        name: in the report.
        dataset: the events that are published already, but for those that are to come.
        act: what is timed.
        newest: the newest day is to come, rather than late events.
    """

    name: str
    dataset: Dataset
    act: Callable[[Job, SparkSession], object]
    newest: bool = False


@dataclass(frozen=True)
class Upkeep:
    """One table of the report: ours first.

    Attributes:
        at_least: the ratios of the others' times to ours that are to be reached.
        same: whether the others make the same table.
        table: that is compared.
    """

    name: str
    title: str
    works: tuple[Work, ...]
    at_least: tuple[float, ...]
    same: tuple[bool, ...]
    table: Table = SESSIONS


def _rebuild(job: Job, spark: SparkSession) -> object:
    return job.run(spark)


def _recompute(job: Job, spark: SparkSession) -> object:
    return job.recompute(spark)


def _newest(job: Job, spark: SparkSession) -> object:
    return job.run(spark, missing=True)


_MORE = data.VISITS.scaled(5)
UPKEEP = (
    Upkeep(
        name="late",
        title="20,000 late events of one day",
        works=(
            Work("merged", data.VISITS, _recompute),
            Work("full rebuild", data.VISITS, _rebuild),
        ),
        at_least=(5,),
        same=(True,),
    ),
    Upkeep(
        name="late-100m",
        title="20,000 late events of one day, five times the events",
        works=(
            Work("merged", _MORE, _recompute),
            Work("full rebuild", _MORE, _rebuild),
            Work("merged, 20 M events", data.VISITS, _recompute),
        ),
        at_least=(15, 1 / 1.3),
        same=(True, False),
    ),
    Upkeep(
        name="late-year",
        title="20,000 late events of one day, a year of history",
        works=(
            Work("merged", data.YEAR, _recompute),
            Work("merged, a month of history", data.MONTH, _recompute),
        ),
        at_least=(1 / 1.2,),
        same=(False,),
    ),
    Upkeep(
        name="nightly",
        title="a new day, a year of history",
        works=(
            Work("run --missing", data.YEAR, _newest, newest=True),
            Work("run --missing, a month of history", data.MONTH, _newest, newest=True),
            Work("full rebuild", data.YEAR, _rebuild, newest=True),
        ),
        at_least=(1 / 1.2, 5),
        same=(False, True),
    ),
    Upkeep(
        name="metrics-nightly",
        title="a new day of two metrics over five windows from 1 hour to 90 days, every hour",
        works=(
            Work("run --missing", data.QUARTER, _newest, newest=True),
            Work("full rebuild", data.QUARTER, _rebuild, newest=True),
        ),
        at_least=(20,),
        same=(True,),
        table=METRICS,
    ),
)


def measure(spark: SparkSession, upkeep: Upkeep, *, factor: float, runs: int) -> list[Measured]:
    """Each once to warm up and to compare what it makes, then all of them in turns.

    Every run begins with the tables as they were before.
    """
    everyone = []
    for number, work in enumerate(upkeep.works):
        dataset = work.dataset.scaled(factor)
        dataset.make(spark)
        folder = _prepared(spark, upkeep.table, work, dataset, data.VISITS.scaled(factor))
        wanted = upkeep.at_least[number - 1] if number else None
        everyone.append((work, folder, Measured(work.name, at_least=wanted)))
    kept = _FOLDER / "first"
    for number, (work, folder, result) in enumerate(everyone):
        _act(spark, work, folder)
        files = _files(folder, upkeep.table)
        result.rows = _count(files)
        if number == 0:
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(folder / "out", kept, copy_function=os.link)
            first = [each.replace(str(folder / "out"), str(kept)) for each in files]
        elif upkeep.same[number - 1]:
            result.differs = _difference(upkeep.table, first, files)
    alike = [each for each in everyone if each[2].differs is None]
    in_turns([(result, partial(_act, spark, work, folder)) for work, folder, result in alike], runs)
    return [result for _, _, result in everyone]


def _prepared(
    spark: SparkSession, table: Table, work: Work, dataset: Dataset, like: Dataset
) -> Path:
    """A job's folder: `before` has its tables without what is to come, `to-come` that."""
    kind = "newest" if work.newest else "late"
    folder = _FOLDER / f"{dataset.name}-{dataset.events}-{kind}-{table.name}"
    job = folder / "job.yaml"
    if (folder / "before").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "events").mkdir(parents=True)
    (folder / "to-come").mkdir()
    source = {"path": "events", "format": "parquet"}
    job.write_text(yaml.safe_dump({"source": source, **_COMMON, **table.job}))
    files = sorted(dataset.path.rglob("*.parquet"))
    newest = files.pop() if work.newest else None
    for number, file in enumerate(files):
        os.link(file, folder / "events" / f"{number:04}.parquet")
    if newest is not None:
        _write_newest(spark, newest, folder / "to-come")
    else:
        _write_late(spark, like if dataset.days == like.days else dataset, folder / "to-come")
    Job.load(job).run(spark)
    (folder / "out").rename(folder / "before")
    return folder


def _write_newest(spark: SparkSession, file: Path, folder: Path) -> None:
    """The events of a file's last date: those of earlier ones in it are late, and wait."""
    events = spark.read.parquet(str(file))
    (last,) = events.agg(F.max(F.to_date("event_time"))).collect()[0]
    own = events.where(F.to_date("event_time") == F.lit(last))
    own.coalesce(1).write.mode("overwrite").parquet(str(folder))


def _write_late(spark: SparkSession, dataset: Dataset, folder: Path) -> None:
    """Events of the middle of the time, a little later than events that there are."""
    events = spark.read.parquet(str(dataset.path))
    low, high = events.agg(F.min("event_time"), F.max("event_time")).collect()[0]
    day = (low + (high - low) / 2).date()
    edges = [F.lit(day + dt.timedelta(days=each)).cast("timestamp") for each in (0, 1)]
    later = F.col("event_time") + F.make_dt_interval(mins=F.lit(3), secs=F.lit(7))
    own = events.drop("received_date").withColumn("event_time", later)
    inside = own.where((F.col("event_time") >= edges[0]) & (F.col("event_time") < edges[1]))
    rows = inside.orderBy(F.xxhash64("event_id")).limit(_LATE)
    rows.coalesce(1).write.mode("overwrite").parquet(str(folder))


def _act(spark: SparkSession, work: Work, folder: Path) -> float:
    """Seconds, from the tables as they were."""
    shutil.rmtree(folder / "out", ignore_errors=True)
    shutil.copytree(folder / "before", folder / "out", copy_function=os.link)
    for each in (folder / "to-come").glob("*.parquet"):
        target = folder / "events" / f"new-{each.name}"
        if not target.exists():
            os.link(each, target)
    job = Job.load(folder / "job.yaml")
    return timed(lambda: work.act(job, spark))


def _files(folder: Path, table: Table) -> list[str]:
    return DeltaTable(folder / "out" / table.name).file_uris()


def _count(files: Sequence[str]) -> int:
    with duckdb.connect() as connection:
        ((count,),) = connection.execute(
            "select count(*) from read_parquet($1, hive_partitioning = false)", [list(files)]
        ).fetchall()
    return int(count)


def _difference(table: Table, ours: Sequence[str], theirs: Sequence[str]) -> str | None:
    """How two tables differ, or None."""
    wrong = [f"a.{each} is distinct from b.{each}" for each in (*table.place, *table.exact)]
    wrong += [f"abs(a.{each} - b.{each}) > 1e-9 * abs(a.{each})" for each in table.near]
    same = " and ".join(f"a.{each} = b.{each}" for each in table.place)
    with duckdb.connect() as connection:
        ((rows, differ),) = connection.execute(
            f"""
            select count(*), count(*) filter ({" or ".join(wrong)})
            from read_parquet($1, hive_partitioning = false) a
            full join read_parquet($2, hive_partitioning = false) b on {same}
            """,
            [list(ours), list(theirs)],
        ).fetchall()
    return f"{differ:,} of {rows:,} rows differ" if differ else None
