"""A restore goes back in all tables or in none, whatever others have done to one of them."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.types import StringType
from pyspark.sql import SparkSession

from backfill import Job
from backfill.errors import TableError
from backfill.execution.gate import Gate
from backfill.spec import JobSpec
from backfill.store import DeltaStore
from tests.lake import lake
from tests.tables import commits_of, folder_of, version_of

pytestmark = pytest.mark.usefixtures("interpreted")

WINDOWS = {
    "sessions": "{session: {gap: 30m}, aggregates: {events: count}}",
    "hourly": "{tumbling: {size: 1h}, aggregates: {events: count}}",
}
NAMES = (*WINDOWS, "quarantine")


def write(folder: Path, more: str = "", **windows: str) -> JobSpec:
    """The samples' job, with these windows."""
    (folder / "job.yaml").write_text(
        "source: {path: events, format: parquet}\n"
        "events: {key: user_id, time: event_time, id: event_id, arrival: received_at}\n"
        "windows:\n"
        + "".join(f"  {name}: {window}\n" for name, window in (windows or WINDOWS).items())
        + f"tables: {{path: out}}\n{more}"
    )
    return JobSpec.load(folder / "job.yaml")


def late(folder: Path) -> None:
    """Adds events that arrive later."""
    rows = pq.read_table(next((folder / "events").rglob("*.parquet")), partitioning=None)
    ids = pa.array([f"late-{n}" for n in range(10)], pa.string())
    place = rows.schema.get_field_index("event_id")
    rows = rows.slice(0, 10).set_column(place, "event_id", ids)
    pq.write_table(rows, folder / "events" / "received_date=2026-01-10" / "late.parquet")


def versions(job: Job) -> list[int | None]:
    return [version_of(job.store, name) for name in NAMES]


def check_refused(job: Job, run: str, problem: str) -> None:
    """Checks that no table goes back."""
    before = versions(job)
    with pytest.raises(TableError, match=problem):
        job.restore(run)
    assert versions(job) == before


def test_a_table_that_commits_could_not_keep_to(spark: SparkSession, samples: Path) -> None:
    job = Job(write(samples))
    first = job.run(spark)
    late(samples)
    job.recompute(spark)
    assert isinstance(job.store, DeltaStore)
    table = DeltaTable(folder_of(job.store, "hourly"))
    table.alter.set_table_properties({"delta.appendOnly": "true"})
    check_refused(job, first.run_id, "hourly: rows can only be added")


def test_a_table_that_had_other_columns(spark: SparkSession, samples: Path, tmp_path: Path) -> None:
    store = lake(tmp_path / "lake")
    first = Job(write(samples), store).run(spark)
    spent = "{tumbling: {size: 1h}, aggregates: {events: count, spent: sum(amount)}}"
    job = Job(write(samples, **{**WINDOWS, "hourly": spent}), store)
    job.run(spark)
    check_refused(job, first.run_id, "hourly: the table has other columns now")


def test_one_that_was_rolled_back(spark: SparkSession, samples: Path, tmp_path: Path) -> None:
    store = lake(tmp_path / "lake")
    job = Job(write(samples), store)
    first = job.run(spark)
    late(samples)
    second = job.recompute(spark)
    assert second is not None
    table = store.catalog.load_table("web.hourly")
    with table.manage_snapshots() as manage:
        manage.rollback_to_snapshot(table.snapshots()[0].snapshot_id)
    check_refused(job, second.run_id, r"hourly: what the run published here is not in")
    assert job.restore(first.run_id).untouched == ()


def test_a_column_that_others_have_added(
    spark: SparkSession, samples: Path, tmp_path: Path
) -> None:
    store = lake(tmp_path / "lake")
    job = Job(write(samples), store)
    first = job.run(spark)
    second = job.run(spark)
    with store.catalog.load_table("web.hourly").update_schema() as update:
        update.add_column("note", StringType())
    with pytest.raises(TableError, match="hourly: the table has other columns now"):
        job.restore(first.run_id)
    # That is the newest version, and it stays the newest.
    assert job.restore(second.run_id).tables["hourly"].version == 1


def test_what_history_has_read_is_what_became_of_it(spark: SparkSession, samples: Path) -> None:
    job = Job(write(samples))
    done = job.run(spark, start="2026-01-10", end="2026-01-13", chunk=1)
    runs = [record for record in job.history() if record["kind"] == "run"]
    assert len(runs) == 3
    for run in runs:
        assert run["read"] == run["accepted"] + run["duplicates"] + (run["quarantined"] or 0)
    assert sum(run["quarantined"] or 0 for run in runs) == 6
    assert done.read == sum(run["read"] for run in runs)


def test_what_history_has_of_events_beyond_retention(spark: SparkSession, samples: Path) -> None:
    job = Job(write(samples, more="retention: 36h\n"))
    job.run(spark, start="2026-01-10", end="2026-01-13", chunk=1)
    runs = job.history()
    assert len(runs) == 3
    for run in runs:
        assert run["read"] == run["accepted"] + run["duplicates"] + (run["quarantined"] or 0)
    assert sum(run["quarantined"] or 0 for run in runs) > 2000


def test_chunks_are_numbered_from_the_first_that_publishes(
    spark: SparkSession, samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(write(samples))
    failing = [True]

    def audit(*arguments: object, **more: object) -> object:
        if failing and failing.pop():
            raise TableError("another run came between", field="sessions")
        return gate(*arguments, **more)

    gate = Gate.audit
    monkeypatch.setattr(Gate, "audit", audit)
    done = job.run(spark, start="2026-01-10", end="2026-01-13", chunk=1)
    assert len(done.failures) == 1
    chunks = [commit.metadata["chunk"] for commit in commits_of(job.store, "hourly")]
    assert chunks == ["2", "1"]


def test_files_that_were_written_again_as_they_were_are_the_same_inputs(
    spark: SparkSession, samples: Path
) -> None:
    Job(write(samples, sessions=WINDOWS["sessions"])).run(spark)
    for path in (samples / "events").rglob("*.parquet"):
        os.utime(path, (1, 1))
    job = Job(write(samples))
    job.run(spark, missing=True)
    names = {outcome.check.name for outcome in job.validate(spark=spark)}
    assert {"counted_once", "conservation", "quarantined_share"} <= names


def test_events_beyond_retention_are_not_unusable(spark: SparkSession, samples: Path) -> None:
    job = Job(write(samples, more="retention: 36h\n"))
    done = job.run(spark)
    assert done.quarantined["beyond_retention"] > done.read / 3
    share = {outcome.check.name: outcome for outcome in job.validate(spark=spark)}[
        "quarantined_share"
    ]
    assert share.success
    assert share.observed == pytest.approx(6 / 5058)
