"""The cost of comparing a table with a stream's output, and of decoding it, next to reading."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from threading import Event, Thread

import psutil
import yaml
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill import Job
from backfill.columns import END, START
from backfill.engines import engine
from backfill.reconciliation.compare import Sides
from backfill.reconciliation.output.decoded import StreamOptions, decode
from backfill.rows.compute import Key
from benchmarks.data import FOLDER, Dataset
from benchmarks.measure import Measured, in_turns, timed

_FOLDER = FOLDER / "reconcile"
#: Two events to a session, so there are half as many windows as events.
_WINDOWS = Dataset(name="windows", events=20_000_000, keys=2_000_000, per_session=2)
_COLUMNS = ("user_id", "window_start", "window_end", "events", "revenue")
_JOB = {
    "source": {"path": "events", "format": "parquet"},
    "events": {"key": ["user_id"], "time": "event_time"},
    "windows": {
        "sessions": {
            "session": {"gap": "30m"},
            "aggregates": {"events": "count", "revenue": "sum(amount)"},
        }
    },
    "engine": "kafka-streams",
    "tables": {"path": "out"},
}
#: One record in 5 was changed once more, and one in 25 was taken back.
_CHANGED, _TAKEN_BACK = 5, 25


@dataclass(frozen=True)
class Work:
    """One thing to be timed.

    Attributes:
        name: in the report.
        act: returns the number of windows, and what is wrong with them, if anything.
    """

    name: str
    act: Callable[[Path, SparkSession], tuple[int, str | None]]


@dataclass(frozen=True)
class Comparison:
    """One table of the report: ours first.

    Attributes:
        at_least: the targets for the ratios of the others' times to ours; None where they only
            inform.
    """

    name: str
    title: str
    works: tuple[Work, ...]
    at_least: tuple[float | None, ...]
    dataset: Dataset = _WINDOWS
    one_of: int = 1_000


def _compare(folder: Path, spark: SparkSession) -> tuple[int, str | None]:
    """Finds the keys that differ between two tables."""
    sides = Sides(
        *(_side(rows) for rows in (published(folder, spark), _written(folder, spark))),
        ["_key0"],
        {"events": T.LongType(), "revenue": T.DoubleType()},
    )
    totals = sides.totals()
    with ExitStack() as stack:
        differing = sides.differing(totals, partial(_held, stack)).keys
    keys = _keys_off(folder, spark)
    wrong = None if differing == keys else f"{differing:,} keys differ, of {keys:,}"
    return totals.batch, wrong


def _held(stack: ExitStack, frame: DataFrame) -> DataFrame:
    stack.callback(frame.persist().unpersist)
    return frame


# The expected result is looked up when a work warms up: it is not part of the work.
@cache
def _keys_off(folder: Path, spark: SparkSession) -> int:
    off = [spark.read.parquet(str(folder / name)) for name in ("lost", "changed")]
    return off[0].unionByName(off[1]).select("user_id").distinct().count()


@cache
def count(folder: Path, spark: SparkSession) -> int:
    return spark.read.parquet(str(folder)).count()


@cache
def _windows(folder: Path, spark: SparkSession) -> int:
    return published(folder, spark).count()


def _explain(folder: Path, spark: SparkSession) -> tuple[int, str | None]:
    """Everything: decodes, compares, and replays the keys that differ."""
    job = Job.load(folder / "job.yaml")
    path = str(folder / "stream")
    reconciled = job.reconcile("sessions", spark, stream=path, format="table", grace="365d")
    lost, changed = (count(folder / name, spark) for name in ("lost", "changed"))
    wrong = None
    if len(reconciled.differences) != lost + changed:
        wrong = f"{len(reconciled.differences):,} differences found, of {lost + changed:,}"
    elif reconciled.unexplained != changed:
        wrong = f"{reconciled.unexplained:,} are unexplained, of {changed:,} without a cause"
    return reconciled.batch, wrong


def _read_both(folder: Path, spark: SparkSession) -> tuple[int, str | None]:
    for rows in (published(folder, spark), _written(folder, spark)):
        rows.select(*_COLUMNS).write.format("noop").mode("overwrite").save()
    return 0, None


def _decode(folder: Path, spark: SparkSession) -> tuple[int, str | None]:
    job = Job.load(folder / "job.yaml").spec
    decoded = decode(
        spark,
        StreamOptions(path=str(folder / "changelog"), format="kafka-streams"),
        job.windows["sessions"].window,
        key=Key(("user_id",), (T.StringType(),)),
        aggregates={"events": T.LongType()},
        engine=engine("kafka-streams"),
        zone="UTC",
    )
    counts = decoded.counts()
    windows = _windows(folder, spark) - count(folder / "taken-back", spark)
    wrong = None if counts.windows == windows else f"{counts.windows:,} windows, of {windows:,}"
    return counts.windows, wrong


def _read_records(folder: Path, spark: SparkSession) -> tuple[int, str | None]:
    records = spark.read.parquet(str(folder / "changelog"))
    records.write.format("noop").mode("overwrite").save()
    return 0, None


COMPARISONS = (
    Comparison(
        name="reconcile",
        title="a table compared with a stream's, one window of 1,000 another",
        works=(
            Work("compared", _compare),
            Work("both sides read", _read_both),
            Work("decoded, compared, explained", _explain),
        ),
        at_least=(1 / 3, None),
    ),
    Comparison(
        name="changelog",
        title="a changelog decoded and compacted",
        works=(Work("decoded", _decode), Work("records read", _read_records)),
        at_least=(None,),
    ),
)


def measure(
    spark: SparkSession, comparison: Comparison, *, factor: float, runs: int
) -> list[Measured]:
    """Runs each once to warm up and to check the result, then all in turns."""
    folder = prepared(spark, comparison, factor)
    everyone = [
        (work, Measured(work.name, at_least=wanted))
        for work, wanted in zip(comparison.works, (None, *comparison.at_least), strict=True)
    ]
    for work, result in everyone:
        with _watched(result):
            result.rows, result.differs = work.act(folder, spark)
    right = [(work, result) for work, result in everyone if result.differs is None]
    acts = [(result, partial(timed, partial(work.act, folder, spark))) for work, result in right]
    if everyone[0][1].differs is None:
        in_turns(acts, runs)
    return [result for _, result in everyone]


@contextmanager
def _watched(result: Measured) -> Iterator[None]:
    """Notes by how many MiB this process grew meanwhile, without the JVM and its workers."""
    process, done = psutil.Process(), Event()
    before = process.memory_info().rss

    def watch() -> None:
        while not done.wait(0.1):
            result.peak_mib = max(result.peak_mib, (process.memory_info().rss - before) >> 20)

    watcher = Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def prepared(spark: SparkSession, comparison: Comparison, factor: float) -> Path:
    """A job with its table, and what a stream wrote for it: rows, and records of a changelog."""
    dataset, one_of = comparison.dataset.scaled(factor), comparison.one_of
    dataset.make(spark)
    folder = _FOLDER / f"{dataset.name}-{dataset.events}"
    if (folder / "ready").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "events").symlink_to(dataset.path)
    (folder / "job.yaml").write_text(yaml.safe_dump(_JOB))
    Job.load(folder / "job.yaml").run(spark)
    rows = published(folder, spark).select(*_COLUMNS)
    number = F.xxhash64("user_id", "window_start")
    lost = F.pmod(number, F.lit(2 * one_of)) == 0
    changed = F.pmod(number, F.lit(2 * one_of)) == one_of
    # No window of these events has such a count, so it has no cause either.
    events = F.when(changed, F.col("events") + 1_000).otherwise(F.col("events"))
    write(rows.where(lost), folder / "lost")
    write(rows.where(changed), folder / "changed")
    write(rows.where(~lost).withColumn("events", events), folder / "stream")
    write(rows.where(F.pmod(number, F.lit(_TAKEN_BACK)) == 0), folder / "taken-back")
    write(_records(rows, number), folder / "changelog")
    (folder / "ready").touch()
    return folder


def _records(rows: DataFrame, number: Column) -> DataFrame:
    """Kafka's records: of every window, of changed windows again, and tombstones; out of order."""
    end, start = (F.unix_millis(f"window_{bound}") for bound in ("end", "start"))
    key = F.concat(F.encode("user_id", "UTF-8"), _long(end), _long(start))
    placed = rows.select(
        key.alias("key"),
        _long(F.col("events")).alias("value"),
        F.pmod(number, F.lit(4)).cast("int").alias("partition"),
        F.monotonically_increasing_id().alias("place"),
        number.alias("number"),
        end.alias("timestamp"),
    )
    # The places of each Spark partition begin at a multiple of 2^33; decoders take 48 bits.
    offset = (F.shiftright("place", 33) * (1 << 28) + F.col("place") % (1 << 33)) * 2
    first = placed.withColumn("offset", offset)
    again = first.where(F.pmod("number", F.lit(_CHANGED)) == 0).withColumn(
        "offset", F.col("offset") + 1
    )
    gone = F.pmod("number", F.lit(_TAKEN_BACK)) == 0
    tombstones = again.withColumn("value", F.when(~gone, F.col("value")))
    return first.unionByName(tombstones).drop("place", "number")


def _long(value: Column) -> Column:
    """Eight bytes, big-endian, of a number that is not negative."""
    return F.unhex(F.lpad(F.hex(value), 16, "0"))


def _side(rows: DataFrame) -> DataFrame:
    return rows.select(
        F.col("user_id").alias("_key0"),
        F.unix_micros("window_start").alias(START),
        F.unix_micros("window_end").alias(END),
        "events",
        "revenue",
    )


def _written(folder: Path, spark: SparkSession) -> DataFrame:
    return spark.read.parquet(str(folder / "stream"))


def published(folder: Path, spark: SparkSession) -> DataFrame:
    return Job.load(folder / "job.yaml").table("sessions", spark)


def write(rows: DataFrame, folder: Path) -> None:
    rows.write.mode("overwrite").parquet(str(folder))
