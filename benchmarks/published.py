"""Jobs whose tables are published already, in folders, and the events that are to come."""

from __future__ import annotations

import datetime as dt
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import duckdb
import yaml
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from backfill import Job
from benchmarks.data import FOLDER, Dataset

_LATE = 20_000
_FOLDER = FOLDER / "jobs"


@dataclass(frozen=True)
class Table:
    """One table of a job, to be compared.

    Attributes:
        job: the settings of the job file that differ.
        name: of the table.
        place: the columns that identify a row.
        exact: the columns that have to be equal.
        near: the columns that may differ by rounding.
    """

    job: Mapping[str, object]
    name: str
    place: tuple[str, ...]
    exact: tuple[str, ...]
    near: tuple[str, ...] = ()

    def count(self, files: Sequence[str]) -> int:
        """The rows in files."""
        with duckdb.connect() as connection:
            ((count,),) = connection.execute(
                "select count(*) from read_parquet($1, hive_partitioning = false)", [list(files)]
            ).fetchall()
        return int(count)

    def difference(self, ours: Sequence[str], theirs: Sequence[str]) -> str | None:
        """How two tables differ, or None."""
        wrong = [f"a.{column} is distinct from b.{column}" for column in (*self.place, *self.exact)]
        wrong += [f"abs(a.{column} - b.{column}) > 1e-9 * abs(a.{column})" for column in self.near]
        same = " and ".join(f"a.{column} = b.{column}" for column in self.place)
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


@dataclass(frozen=True)
class Published:
    """A job's folder: `before` has its tables without what is to come, and `to-come` has that.

    Attributes:
        table: the one that is compared.
        dataset: the events that are published already, except those that are to come.
        newest: whether the newest day is to come, rather than late events.
        iceberg: whether the tables are in an Iceberg catalog, rather than Delta tables in a folder.
    """

    table: Table
    dataset: Dataset
    newest: bool
    iceberg: bool

    @property
    def folder(self) -> Path:
        """Where everything is."""
        kinds = ["newest" if self.newest else "late", *(["iceberg"] if self.iceberg else [])]
        parts = (self.dataset.name, self.dataset.events, *kinds, self.table.name)
        return _FOLDER / "-".join(map(str, parts))

    @cached_property
    def catalog(self) -> dict[str, str]:
        """The options of the Iceberg catalog."""
        out = self.folder / "out"
        return {
            "type": "sql",
            "uri": f"sqlite:///{out}/catalog.db",
            "warehouse": f"file://{out}",
        }

    def prepare(self, spark: SparkSession, like: Dataset) -> None:
        """Makes the folder, unless it is there.

        Args:
            spark: the session that runs the job.
            like: the late events are taken from these, if they cover as many days.
        """
        if (self.folder / "before").exists():
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        for name in ("events", "to-come", "out"):
            (self.folder / name).mkdir(parents=True)
        files = sorted(self.dataset.path.rglob("*.parquet"))
        newest: list[Path] = []
        if self.newest:
            events = spark.read.parquet(str(self.dataset.path))
            (last,) = events.agg(F.max(F.to_date("event_time"))).collect()[0]
            newest = [path for path in files if path.parent.name >= f"received_date={last}"]
            if not newest:
                raise ValueError(f"{self.dataset.name} has no folders of received dates")
            files = files[: len(files) - len(newest)]
        for number, file in enumerate(files):
            os.link(file, self.folder / "events" / f"{number:04}.parquet")
        if newest:
            _write_newest(spark, newest, last, self.folder / "to-come")
        else:
            alike = self.dataset.days == like.days
            _write_late(spark, like if alike else self.dataset, self.folder / "to-come")
        tables = {"catalog": "lake", "schema": "web", "options": self.catalog}
        job = {
            "source": {"path": "events", "format": "parquet"},
            "events": {"key": ["user_id"], "time": "event_time"},
            "tables": tables if self.iceberg else {"path": "out"},
            **self.table.job,
        }
        (self.folder / "job.yaml").write_text(yaml.safe_dump(job))
        Job.load(self.folder / "job.yaml").run(spark)
        (self.folder / "out").rename(self.folder / "before")

    def restored(self) -> Job:
        """The job with its tables as they were before, and with all events there."""
        shutil.rmtree(self.folder / "out", ignore_errors=True)
        shutil.copytree(self.folder / "before", self.folder / "out", copy_function=_copy)
        for path in (self.folder / "to-come").glob("*.parquet"):
            target = self.folder / "events" / f"new-{path.name}"
            if not target.exists():
                os.link(path, target)
        return Job.load(self.folder / "job.yaml")

    def kept(self) -> list[str]:
        """Links to the table's files as they are, which later runs leave alone."""
        copy = _FOLDER / "first"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.folder / "out", copy, copy_function=os.link)
        return [file.replace(str(self.folder / "out"), str(copy)) for file in self.files()]

    def files(self) -> list[str]:
        """The table's files."""
        if not self.iceberg:
            return DeltaTable(self.folder / "out" / self.table.name).file_uris()
        table = load_catalog("lake", **self.catalog).load_table(("web", self.table.name))
        return [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]


def _copy(source: str, target: str) -> None:
    """Links a file, but copies the catalog, which is changed in place."""
    (shutil.copyfile if source.endswith(".db") else os.link)(source, target)


def _write_newest(spark: SparkSession, files: Sequence[Path], last: dt.date, folder: Path) -> None:
    """Writes the events of the last date; earlier ones in the files are late, and wait."""
    events = spark.read.parquet(*map(str, files))
    own = events.where(F.to_date("event_time") == F.lit(last))
    own.coalesce(1).write.mode("overwrite").parquet(str(folder))


def _write_late(spark: SparkSession, dataset: Dataset, folder: Path) -> None:
    """Writes events of the middle day that are a little later than existing ones."""
    events = spark.read.parquet(str(dataset.path))
    low, high = events.agg(F.min("event_time"), F.max("event_time")).collect()[0]
    day = (low + (high - low) / 2).date()
    edges = [F.lit(day + dt.timedelta(days=offset)).cast("timestamp") for offset in (0, 1)]
    later = F.col("event_time") + F.make_dt_interval(mins=F.lit(3), secs=F.lit(7))
    own = events.drop("received_date").withColumn("event_time", later)
    inside = own.where((F.col("event_time") >= edges[0]) & (F.col("event_time") < edges[1]))
    rows = inside.orderBy(F.xxhash64("event_id")).limit(_LATE)
    rows.coalesce(1).write.mode("overwrite").parquet(str(folder))
