"""The cost of late events and of a new day, next to a full rebuild and next to more history."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession

from backfill import Job
from benchmarks import data
from benchmarks.data import Dataset
from benchmarks.measure import Measured, in_turns, timed
from benchmarks.published import Published, Table

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
        | {"step": "1h", "keep_slices": True}
        for name, value in (("views", "count"), ("pages", "count_distinct(page)"))
    }
}

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
    tuple(f"pages_{window}" for window in ("1h", "1d", "7d", "30d", "90d")),
)


@dataclass(frozen=True)
class Work:
    """One way to bring the tables of a job up to date.

    Attributes:
        name: in the report.
        dataset: the events that are published already, except those that are to come.
        act: what is timed.
        newest: whether the newest day is to come, rather than late events.
        iceberg: whether the tables are in an Iceberg catalog, rather than Delta tables in a folder.
    """

    name: str
    dataset: Dataset
    act: Callable[[Job, SparkSession], object]
    newest: bool = False
    iceberg: bool = False


@dataclass(frozen=True)
class Upkeep:
    """One table of the report: ours first.

    Attributes:
        at_least: the targets for the ratios of the others' times to ours.
        same: whether the others make the same table.
        table: the one that is compared.
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
    Upkeep(
        name="iceberg-full",
        title="a full run into an Iceberg catalog",
        works=(
            Work("Iceberg", data.VISITS, _rebuild, iceberg=True),
            Work("Delta", data.VISITS, _rebuild),
        ),
        at_least=(1 / 1.3,),
        same=(True,),
    ),
    Upkeep(
        name="iceberg-late",
        title="20,000 late events of one day in an Iceberg catalog",
        works=(
            Work("merged", data.VISITS, _recompute, iceberg=True),
            Work("full rebuild", data.VISITS, _rebuild, iceberg=True),
        ),
        at_least=(5,),
        same=(True,),
    ),
    Upkeep(
        name="iceberg-year",
        title="a new day in an Iceberg catalog, a year of history",
        works=(
            Work("run --missing", data.YEAR, _newest, newest=True, iceberg=True),
            Work(
                "run --missing, a month of history", data.MONTH, _newest, newest=True, iceberg=True
            ),
        ),
        at_least=(1 / 1.2,),
        same=(False,),
    ),
)


def measure(spark: SparkSession, upkeep: Upkeep, *, factor: float, runs: int) -> list[Measured]:
    """Runs each once to warm up and to compare what it makes, then all of them in turns.

    Every run begins with the tables as they were before.
    """
    table = upkeep.table
    everyone = []
    for number, work in enumerate(upkeep.works):
        dataset = work.dataset.scaled(factor)
        dataset.make(spark)
        tables = Published(table, dataset, newest=work.newest, iceberg=work.iceberg)
        tables.prepare(spark, data.VISITS.scaled(factor))
        wanted = upkeep.at_least[number - 1] if number else None
        act = partial(_act, spark, work, tables)
        everyone.append((tables, act, Measured(work.name, at_least=wanted)))
    for number, (tables, act, result) in enumerate(everyone):
        act()
        files = tables.files()
        result.rows = table.count(files)
        if number == 0:
            first = tables.kept()
        elif upkeep.same[number - 1]:
            result.differs = table.difference(first, files)
    in_turns([(result, act) for _, act, result in everyone if result.differs is None], runs)
    return [result for _, _, result in everyone]


def _act(spark: SparkSession, work: Work, tables: Published) -> float:
    """Seconds, starting with the tables as they were."""
    job = tables.restored()
    return timed(lambda: work.act(job, spark))
