"""What has arrived since, in sources that are not plain files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from backfill import Job
from backfill.errors import SourceError
from tests.event_frames import from_rows
from tests.execution.world import at
from tests.on_sail import spark_only

pytestmark = pytest.mark.usefixtures("interpreted")

JOB = """
source: {path: "%s", format: %s}
events: {key: user, time: at%s}
windows:
  sessions: {session: {gap: 30m}, aggregates: {n: count, total: sum(value)}}
tables: {path: out}
checks: {builtin: {quarantined_share: off}}
"""

Row = tuple[str, int, int, int]


def job(folder: Path, path: str, format: str, more: str = "") -> Job:
    (folder / "job.yaml").write_text(JOB % (path, format, more))
    return Job.load(folder / "job.yaml")


def rows(job: Job, spark: SparkSession) -> set[tuple[str, int, int, int]]:
    table = job.table("sessions", spark)
    start, end = F.unix_micros("window_start"), F.unix_micros("window_end")
    return {tuple(row) for row in table.select("user", start, end, "n").collect()}


def events(spark: SparkSession, rows: list[Row]):
    frame = from_rows(spark, rows, "user string, us bigint, value bigint, came bigint")
    return frame.withColumn("at", F.timestamp_micros("us")).drop("us")


def test_a_delta_source_that_is_compacted(spark: SparkSession, tmp_path: Path) -> None:
    def append(rows: list[Row]) -> None:
        table = events(spark, rows).toArrow()
        write_deltalake(str(tmp_path / "events"), table, mode="append")

    made = job(tmp_path, "events", "delta")
    append([("a", at(1, 1), 1, 0)])
    append([("a", at(2, 1), 2, 0), ("b", at(1, 5), 1, 0)])
    made.run(spark)
    DeltaTable(str(tmp_path / "events")).optimize.compact()
    assert made.recompute(spark) is None
    append([("a", at(1, 1, 20), 5, 0)])
    result = made.recompute(spark)
    assert result is not None
    assert result.accepted == 1
    expected = {
        ("a", at(1, 1), at(1, 1, 20), 2),
        ("a", at(2, 1), at(2, 1), 1),
        ("b", at(1, 5), at(1, 5), 1),
    }
    assert rows(made, spark) == expected
    # Files that no run has counted, rewritten with counted ones: they cannot be told apart.
    append([("c", at(1, 1), 1, 0)])
    DeltaTable(str(tmp_path / "events")).optimize.compact()
    with pytest.raises(SourceError, match="an input that was counted is missing"):
        made.recompute(spark)
    made.run(spark)
    assert rows(made, spark) == {*expected, ("c", at(1, 1), at(1, 1), 1)}


def test_a_delta_source_that_is_compacted_and_loses_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "events")
    made = job(tmp_path, "events", "delta")
    write_deltalake(path, events(spark, [("a", at(1, 1), 1, 0), ("b", at(2, 5), 1, 0)]).toArrow())
    made.run(spark)
    write_deltalake(path, events(spark, [("a", at(3, 1), 2, 0)]).toArrow(), mode="append")
    made.recompute(spark)
    # The file that now holds all of it is gone, too, before a run has seen it.
    DeltaTable(path).optimize.compact()
    DeltaTable(path).delete("user = 'b'")
    with pytest.raises(SourceError, match="--from 2026-01-02 --to 2026-01-05"):
        made.recompute(spark)
    made.run(spark, start="2026-01-02", end="2026-01-05")
    made.recompute(spark)
    assert made.recompute(spark) is None
    assert rows(made, spark) == {("a", at(1, 1), at(1, 1), 1), ("a", at(3, 1), at(3, 1), 1)}


def test_a_delta_source_whose_log_is_not_whole(spark: SparkSession, tmp_path: Path) -> None:
    """Compacted after a run; then the log is cleaned up, or the table is created again."""
    path = tmp_path / "events"

    def write(rows: list[Row], mode: str) -> None:
        write_deltalake(str(path), events(spark, rows).toArrow(), mode=mode)

    made = job(tmp_path, "events", "delta")
    write([("a", at(1, 1), 1, 0)], "append")
    write([("b", at(1, 5), 1, 0)], "append")
    made.run(spark)
    write([("a", at(1, 1, 20), 5, 0)], "append")
    DeltaTable(str(path)).optimize.compact()
    DeltaTable(str(path)).create_checkpoint()
    for commit in (path / "_delta_log").glob("*.json"):
        commit.unlink()
    # Which events are new is not known.
    with pytest.raises(SourceError, match="an input that was counted is missing") as caught:
        made.recompute(spark)
    assert "--from 2026-01-02 --to 2026-01-03" in str(caught.value)
    made.run(spark, date="2026-01-02")
    expected = {("a", at(1, 1), at(1, 1, 20), 2), ("b", at(1, 5), at(1, 5), 1)}
    assert rows(made, spark) == expected
    # The new file also counts on other dates, but has no event on them.
    done = made.recompute(spark)
    assert done is not None
    assert done.read == 0
    shutil.rmtree(path)
    write([("a", at(1, 1), 1, 0)], "append")
    with pytest.raises(SourceError, match="an input that was counted is missing"):
        made.recompute(spark)
    made.run(spark)
    assert rows(made, spark) == {("a", at(1, 1), at(1, 1), 1)}
    assert made.recompute(spark) is None


def test_a_delta_source_with_dates_that_python_has_not(spark: SparkSession, tmp_path: Path) -> None:
    other = pa.array([2_932_897], pa.date32())  # 10000-01-01
    table = events(spark, [("a", at(1, 1), 1, 0)]).toArrow().append_column("other", other)
    write_deltalake(str(tmp_path / "events"), table)
    made = job(tmp_path, "events", "delta")
    assert made.run(spark).accepted == 1
    assert rows(made, spark) == {("a", at(1, 1), at(1, 1), 1)}


@spark_only
@pytest.mark.slow
def test_a_catalogs_table_by_arrival(spark: SparkSession, tmp_path: Path) -> None:
    here: list[Row] = [("a", at(1, 1), 1, 1), ("b", at(2, 1), 1, 2)]

    def publish() -> None:
        events(spark, here).createOrReplaceTempView("arriving")

    publish()
    with pytest.raises(SourceError, match=r"new events cannot be detected.*events\.arrival"):
        job(tmp_path, "arriving", "table").recompute(spark)
    made = job(tmp_path, "arriving", "table", ", arrival: came")
    made.run(spark)
    assert made.recompute(spark) is None
    here.append(("a", at(1, 1, 10), 1, 3))
    here.append(("c", at(3, 1), 1, 4))
    publish()
    # What a range counts is not counted again, and the rest stays new.
    made.run(spark, start="2026-01-02", end="2026-01-03")
    first = {("a", at(1, 1), at(1, 1, 10), 2), ("b", at(2, 1), at(2, 1), 1)}
    assert rows(made, spark) == first
    result = made.recompute(spark)
    assert result is not None
    assert result.accepted == 1
    made.run(spark, missing=True)
    assert rows(made, spark) == {*first, ("c", at(3, 1), at(3, 1), 1)}
    here.append(("z", at(3, 2), 1, None))  # type: ignore[arg-type]
    publish()
    with pytest.raises(SourceError, match="1 rows have no arrival"):
        made.recompute(spark)


@spark_only
@pytest.mark.slow
def test_types_that_were_inferred_must_stay(spark: SparkSession, tmp_path: Path) -> None:
    def write(name: str, lines: list[str]) -> None:
        (tmp_path / "events").mkdir(exist_ok=True)
        text = "\n".join(["user,at,value", *lines])
        (tmp_path / "events" / f"{name}.csv").write_text(text + "\n")

    made = job(tmp_path, "events", "csv", ", time_format: iso")
    write("a", ["1,2026-01-02T01:00:00Z,5"])
    made.run(spark)
    write("b", ["1,2026-01-02T01:10:00Z,7"])
    made.recompute(spark)
    write("c", ["x,2026-01-02T01:20:00Z,9"])
    problem = r"source, column user: was int when the tables were published, and is now string"
    with pytest.raises(SourceError, match=problem):
        made.recompute(spark)
    text = (tmp_path / "job.yaml").read_text()
    schema = 'format: csv, schema: "user int, at string, value int"}'
    (tmp_path / "job.yaml").write_text(text.replace("format: csv}", schema))
    Job.load(tmp_path / "job.yaml").recompute(spark)
    assert {row[3] for row in rows(made, spark)} == {2}
    reasons = made.table("quarantine", spark).select("reason").collect()
    assert [row["reason"] for row in reasons] == ["unparsable_line"]
