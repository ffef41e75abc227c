"""Which versions of real tables are compared, and going back to one."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from backfill.errors import ColumnError, JobFileError, TableError, WindowError
from backfill.execution.clean import clean
from backfill.ledger.versions import RestoredTable, changes_since, restore, runs
from backfill.store.files import restore as files_restore
from tests.published_job import JOB, Published
from tests.tables import commits_of, folder_of, record_of, version_of

pytestmark = pytest.mark.usefixtures("adaptive")

FIRST = [
    ("a", 28, "10:00", "10:10", 2),
    ("a", 28, "11:00", "11:05", 3),
    (None, 28, "10:00", "10:00", 1),
]
OTHER = [("a", 29, "12:00", "12:00", 1)]
JOINED = [("a", 28, "10:00", "11:05", 6), (None, 28, "10:00", "10:00", 1)]
MORE = [("c", 30, "10:00", "10:00", 1)]
NAMES = ["sessions", "daily"]

MERGED = [("merged", "a 28 10:00", "a 28 10:00"), ("merged", "a 28 11:00", "a 28 10:00")]
INSERTED = [("inserted", None, "c 30 10:00")]


@pytest.fixture
def job(tmp_path: Path, spark: SparkSession) -> Published:
    return Published(tmp_path, spark)


@pytest.fixture
def three(job: Published) -> Published:
    """Everything; two sessions joined; a day added."""
    job.run("r1", [*FIRST, *OTHER])
    job.run("r2", JOINED, days=[28])
    job.run("r3", MORE, days=[])
    return job


def changes_of(job: Published, run: str | None = None) -> list[tuple[Any, ...]]:
    changes = changes_since(job.spark, job.store, job.spec, "sessions", run)
    return sorted(
        (row.change, row.old and row.old.session_id, row.new and row.new.session_id)
        for row in changes.collect()
    )


def test_since_the_last_run_since_another_and_since_the_first(three: Published) -> None:
    assert changes_of(three) == changes_of(three, "r3") == INSERTED
    assert changes_of(three, "r2") == [*INSERTED, *MERGED]
    assert changes_of(three, "r1") == [
        ("inserted", None, " 28 10:00"),
        ("inserted", None, "a 28 10:00"),
        ("inserted", None, "a 29 12:00"),
        ("inserted", None, "c 30 10:00"),
    ]


def test_only_files_that_one_version_has_are_read(three: Published) -> None:
    changes = changes_since(three.spark, three.store, three.spec, "sessions", "r2")
    dates = sorted(re.findall(r"date=[\d-]+", " ".join(changes.inputFiles())))
    assert dates == ["date=2026-03-28", "date=2026-03-28", "date=2026-03-30"]


def test_chunks_of_one_run(three: Published) -> None:
    three.run("x1", [], days=[28], chunk_of="x")
    three.run("x2", [], days=[29], chunk_of="x")
    deleted = [
        ("deleted", " 28 10:00", None),
        ("deleted", "a 28 10:00", None),
        ("deleted", "a 29 12:00", None),
    ]
    assert changes_of(three) == changes_of(three, "x") == changes_of(three, "x1") == deleted
    assert changes_of(three, "x2") == deleted[2:]
    there = restore(three.store, NAMES, "x", run_id="r4", metadata={})
    assert there.tables == {"sessions": RestoredTable(restored=4, version=4)}


def test_compaction_and_commits_by_others_are_no_runs(three: Published) -> None:
    three.run("r4", [("d", 30, "10:00", "10:00", 1)], days=[])
    assert three.store.compact(three.spark, "sessions", run_id="k", sort_by=("user",)) == 4
    folder = folder_of(three.store, "sessions")
    DeltaTable(folder).alter.set_table_properties({"delta.appendOnly": "false"})
    assert version_of(three.store, "sessions") == 5
    assert changes_of(three) == [("inserted", None, "d 30 10:00")]
    assert [run["run_id"] for run in runs(three.store, NAMES)] == ["k", "r4", "r3", "r2", "r1"]


def test_unknown_runs_and_windows(three: Published) -> None:
    with pytest.raises(
        JobFileError, match=r"^run: no run with this id .* \(got 'r33'\)\. Did you mean 'r3'"
    ):
        changes_of(three, "r33")
    with pytest.raises(JobFileError, match="Did you mean 'daily'"):
        changes_since(three.spark, three.store, three.spec, "dayly")
    with pytest.raises(TableError, match=r"^daily: nothing is published yet\. Run: backfill run /"):
        changes_since(three.spark, three.store, three.spec, "daily")
    with pytest.raises(JobFileError, match="Did you mean 'r3'"):
        restore(three.store, NAMES, "r33", run_id="r4", metadata={})
    assert version_of(three.store, "sessions") == 2


def test_a_job_file_that_changed(job: Published) -> None:
    job.run("r1", FIRST)
    frame = job.sessions(FIRST).withColumnsRenamed({"n": "events", "user": "person"})
    staged = job.store.stage(
        "sessions", frame, run_id="r2", partition_by=("date",), sort_by=("window_start",)
    )
    job.store.publish(
        "sessions", staged, replace="all", base=0, dates=None, metadata={}, record=lambda _: {}
    )
    job.path.write_text(JOB.replace("user", "person").replace("n: count", "events: count"))
    spec = job.spec.load(job.path)
    with pytest.raises(ColumnError, match=r"^person: differs between the two versions"):
        changes_since(job.spark, job.store, spec, "sessions")
    assert changes_since(job.spark, job.store, spec, "sessions", "r1").count() == 3


def test_going_back(three: Published) -> None:
    three.run("r2", JOINED, name="daily")
    done = restore(
        three.store, [*NAMES, "quarantine"], "r2", run_id="r4", metadata={"kind": "restore"}
    )
    assert {name: (table.restored, table.version) for name, table in done.tables.items()} == {
        "sessions": (1, 3),
        "daily": (0, 0),
    }
    assert (done.run_id, done.untouched) == ("r4", ("quarantine",))
    assert changes_of(three) == changes_of(three, "r4") == [("deleted", "c 30 10:00", None)]
    assert changes_of(three, "r2") == MERGED
    assert record_of(three.store, "sessions") == {"runs": ["r1", "r2"]}
    restore(three.store, NAMES, "r1", run_id="r5", metadata={})
    assert changes_of(three) == [
        ("split", "a 28 10:00", "a 28 10:00"),
        ("split", "a 28 10:00", "a 28 11:00"),
    ]
    assert record_of(three.store, "sessions") == {"runs": ["r1"]}


def _expire_before(job: Published, name: str, version: int) -> None:
    """Does as Delta Lake does: the version is in a checkpoint, and older commits are deleted."""
    folder = folder_of(job.store, name)
    DeltaTable(folder, version).create_checkpoint()
    for number in range(version):
        (folder / "_delta_log" / f"{number:020}.json").unlink()


def test_of_a_version_that_has_expired_nothing_is_restored(three: Published) -> None:
    three.run("r3", JOINED, name="daily")
    _expire_before(three, "sessions", 2)
    three.run("r4", MORE, days=[], name="daily")
    with pytest.raises(
        JobFileError,
        match=r"no run with this id .*, or its versions have expired .* See: backfill history$",
    ):
        restore(three.store, NAMES, "r1", run_id="r5", metadata={})
    # This run published to both tables, and is known in both.
    assert restore(three.store, NAMES, "r3", run_id="r5", metadata={}).tables == {
        "sessions": RestoredTable(2, 2),
        "daily": RestoredTable(0, 2),
    }


def test_a_restore_that_meets_another_run_says_which_tables_it_has_restored(
    three: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = {"tables": json.dumps(NAMES)}
    for run in ("r4", "r5"):
        three.run(run, JOINED, name="daily", **both)
        three.run(run, MORE, days=[], **both)
    check, calls = files_restore.check_present, itertools.count(1)

    def check_then_lose(*arguments: Any) -> None:
        check(*arguments)
        # Both tables are checked before either is restored.
        if next(calls) == 4:
            three.run("r6", MORE, days=[], name="daily")

    monkeypatch.setattr(files_restore, "check_present", check_then_lose)
    with pytest.raises(
        TableError,
        match=r"^daily: .*r6 published version 2 meanwhile\. Restored so far: sessions\. Run the",
    ):
        restore(three.store, NAMES, "r4", run_id="r7", metadata={})
    assert version_of(three.store, "sessions") == 5


def test_no_table_is_restored_where_the_runs_version_of_another_has_expired(
    three: Published,
) -> None:
    both = {"tables": json.dumps(NAMES)}
    three.run("r4", JOINED, name="daily", tables='["daily"]')
    three.run("r5", JOINED, name="daily", **both)
    three.run("r5", MORE, days=[], **both)
    three.run("r6", MORE, days=[], name="daily", **both)
    three.run("r6", MORE, days=[], **both)
    _expire_before(three, "sessions", 4)
    with pytest.raises(
        TableError,
        match=r"^sessions: what the run published here is not in the table's history: it has "
        r"expired, the table was rolled back, or the run was killed before it published here "
        r"\(got 'r5'\)\. Nothing was restored\. Restore another run; see: backfill history$",
    ):
        restore(three.store, NAMES, "r5", run_id="r7", metadata={})
    assert version_of(three.store, "daily") == 2
    # A run that published only to the other table.
    done = restore(three.store, NAMES, "r4", run_id="r7", metadata={})
    assert done.tables == {"daily": RestoredTable(0, 3)}
    assert done.untouched == ("sessions",)
    # `sessions` is not a window of the job any more.
    assert restore(three.store, ["daily"], "r5", run_id="r8", metadata={}).untouched == ()


def test_of_chunks_the_last_counts_in_each_table(three: Published) -> None:
    both = {"tables": json.dumps(NAMES), "chunk_of": "chunks"}
    for chunk, run in enumerate(("r4", "r5"), 1):
        three.run(run, JOINED, name="daily", chunk=chunk, **both)
        three.run(run, MORE, days=[], chunk=chunk, **both)
    three.run("r6", MORE, days=[])
    assert changes_of(three, "chunks") == [*INSERTED] * 3
    _expire_before(three, "sessions", 4)
    # What the first chunk published has expired, but the run is restored to a later state.
    assert restore(three.store, NAMES, "chunks", run_id="r7", metadata={}).tables == {
        "sessions": RestoredTable(4, 6),
        "daily": RestoredTable(1, 1),
    }
    with pytest.raises(TableError, match="what was there before the run is not known any more"):
        changes_of(three, "chunks")
    DeltaTable(folder_of(three.store, "sessions")).alter.set_table_properties(
        {"delta.logRetentionDuration": "interval 40 days"}
    )
    assert changes_of(three, "r6") == []


def test_no_table_is_restored_where_files_of_another_are_gone(three: Published) -> None:
    three.run("r3", JOINED, name="daily")
    three.run("r4", JOINED, name="daily")
    three.run("r4", FIRST)
    for file in three.store.open("sessions", 2).files:  # type: ignore[union-attr]
        (folder_of(three.store, "sessions") / file.path).unlink()
    with pytest.raises(TableError, match="files of version 2 are gone"):
        restore(three.store, ["daily", "sessions"], "r3", run_id="r5", metadata={})
    assert (version_of(three.store, "daily"), version_of(three.store, "sessions")) == (1, 3)


def test_changes_since_before_what_has_expired_are_refused(three: Published) -> None:
    _expire_before(three, "sessions", 2)
    with pytest.raises(
        TableError,
        match=r"^sessions: what was there before the run is not known any more: the version has "
        r"expired \(got 2\)\. Name a run that came later; see: backfill history$",
    ):
        changes_of(three)
    three.run("r4", FIRST)
    assert changes_of(three) == changes_of(three, "r4") != []


def test_runs_of_all_tables(three: Published) -> None:
    counts = {"read": 9, "late": 1, "accepted": 6, "duplicates": 2, "quarantined": 1}
    several = {"kind": "run", "user": "me", "from": "2026-03-28", "to": "2026-03-29", **counts}
    three.run("r4", JOINED, days=[28], rows=2, changed=1, **several)
    three.run("r4", JOINED, name="daily", rows=1, **several)
    last, *_, first = runs(three.store, NAMES)
    time = last.pop("time")
    assert last == {
        "run_id": "r4",
        "chunk_of": None,
        "published_anyway": None,
        **several,
        "tables": {
            "sessions": {"version": 3, "rows": 2, "changed": 1},
            "daily": {"version": 0, "rows": 1, "changed": None},
        },
    }
    assert time == commits_of(three.store, "daily")[0].timestamp > first["time"]
    assert (first["run_id"], first["read"], first["kind"]) == ("r1", None, None)
    assert first["tables"] == {"sessions": {"version": 0, "rows": None, "changed": None}}
    assert runs(three.store, ["quarantine"]) == []


def test_cleaning(three: Published) -> None:
    three.store.stage(
        "sessions", three.sessions(MORE), run_id="dead", partition_by=("date",), sort_by=()
    )
    three.run("r4", [("d", 30, "10:00", "10:00", 1)], days=[])
    tables = {"sessions": ("user", "window_start"), "daily": ("user", "window_start")}

    def cleaned(older_than: object, run_id: str) -> dict[str, Any]:
        return clean(three.spark, three.store, tables, older_than=older_than, run_id=run_id)

    young = cleaned("24h", "k1")
    assert (young["sessions"].removed.staged, young["sessions"].compacted) == (0, 4)
    assert young["daily"].compacted is None
    old = cleaned("0s", "k2")
    assert (old["sessions"].removed.staged, old["sessions"].compacted) == (1, None)
    assert changes_of(three, "r3") == [*INSERTED, ("inserted", None, "d 30 10:00")]
    with pytest.raises(WindowError, match="older_than: a bare number has no unit"):
        cleaned(24, "k3")
    with pytest.raises(JobFileError, match="older_than: must not be negative"):
        cleaned("-1h", "k3")
