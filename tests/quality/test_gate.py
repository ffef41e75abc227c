"""The gate: what fails its checks is not seen, and what it wrote is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill import Job
from backfill.cli import main
from backfill.errors import BackfillError, JobFileError
from backfill.execution import late
from backfill.execution.gate import Gate, Rows
from backfill.execution.run_result import RunResult
from backfill.quality import events, sample
from backfill.quality.errors import ChecksFailed
from tests.on_sail import spark_only
from tests.quality.published import (
    DAY,
    MINUTE,
    START,
    Event,
    copied,
    date,
    failed,
    job,
    spoil,
    versions,
    write,
)
from tests.tables import rows_of

pytestmark = pytest.mark.usefixtures("interpreted")

GOOD: list[Event] = [(f"u{i % 7}", START + i * 97 * MINUTE) for i in range(40)]
LONE = "checks: {sessions: [{expect_column_values_to_be_between: {column: n, min_value: 2}}]}"


@pytest.fixture(scope="module")
def run_once(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Job, RunResult]:
    made = job(tmp_path_factory.mktemp("gate"), GOOD)
    return made, made.run(spark)


@pytest.fixture
def made(run_once: tuple[Job, RunResult], tmp_path: Path) -> Job:
    """A job over the good events that has run; in the test's own folder."""
    return copied(run_once[0], tmp_path)


def test_a_check_that_is_off_costs_no_pass_over_the_events(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unexpected(*_: object) -> int:
        raise AssertionError("the events were looked at")

    monkeypatch.setattr(events, "_twice", unexpected)
    result = job(tmp_path, GOOD, "checks: {builtin: {counted_once: off}}").run(spark)
    assert "counted_once" not in {outcome.check.name for outcome in result.checks}


def test_what_is_well_is_published_with_every_check_made(
    made: Job, run_once: tuple[Job, RunResult], tmp_path: Path
) -> None:
    _, result = run_once
    assert failed(result.checks) == set()
    per_table = {
        name: {outcome.check.name for outcome in result.checks if outcome.table == name}
        for name in ("events", "sessions", "hopping")
    }
    common = {"bounds", "counts", "unique", "conservation", "history"}
    assert per_table == {
        "events": {
            "key_present",
            "time_present",
            "inside_range",
            "counted_once",
            "quarantined_share",
        },
        "sessions": {*common, "gap"},
        "hopping": {*common, "size"},
    }
    kept = list((tmp_path / "out" / "_quality").glob("*.json"))
    assert [path.stem for path in kept] == [result.run_id]
    assert {validation["table"] for validation in json.loads(kept[0].read_text())} == set(per_table)


def test_a_failed_check_leaves_every_table_at_its_version(
    spark: SparkSession, made: Job, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = versions(made)
    strict = job(tmp_path, [*GOOD, ("late", START + DAY)], LONE)
    with pytest.raises(ChecksFailed) as caught:
        strict.run(spark)
    with pytest.raises(ChecksFailed):
        strict.run(spark, start=date(1), end=date(2))
    assert versions(strict) == before
    error = caught.value
    assert error.exit_code == 1
    assert failed(error.outcomes) == {
        ("sessions", next(e.check.name for e in error.outcomes if not e.success))
    }
    (outcome,) = (verdict for verdict in error.outcomes if not verdict.success)
    assert outcome.unexpected == len(GOOD) + 1  # each event is a session of its own
    assert all(example["n"] == 1 for example in outcome.examples)
    assert len(outcome.examples) == 5

    # The evidence is there: the command that the error names shows it.
    path = tmp_path / "job.yaml"
    assert f"backfill show {path} sessions --run {error.run_id}" in str(error)
    capsys.readouterr()
    assert main(["show", str(path), "sessions", "--run", error.run_id, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert "late" in {row["user"] for row in [*shown["rows"]]} or shown["more"]
    assert main(["show", str(path), "sessions", "--run", "other", "--json"]) == 2


def test_all_keys_are_looked_at_unless_a_run_wrote_many_rows(
    spark: SparkSession, made: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    twice = rows_of(made.store, spark, "hopping")
    twice = twice.unionByName(twice)
    written = twice.count()
    rows = Rows(frame=twice, dates=(), table=None, without=(), assigned=6 * 40, written=written)
    monkeypatch.setattr(sample, "SAMPLED", 1 << 40)  # none of these keys
    for few, failures in ((written, {("hopping", "unique")}), (written - 1, set())):
        monkeypatch.setattr(sample, "FEW", few)
        assert (
            failed(Gate(made.spec, "audit").audit(None, {"hopping": rows}, anyway=True)) == failures
        )


@spark_only
def test_what_failed_is_told_on_the_command_line(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job(tmp_path, GOOD, LONE)
    path = str(tmp_path / "job.yaml")
    assert main(["run", path]) == 1
    printed = capsys.readouterr()
    assert "expect_column_values_to_be_between" in printed.out
    assert "40 rows" in printed.out
    assert "for example" in printed.out
    assert "--publish-anyway REASON" in printed.err
    assert main(["run", path, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] is False
    (check,) = (verdict for verdict in document["error"]["checks"] if not verdict["success"])
    assert (check["table"], check["severity"], check["unexpected"]) == ("sessions", "error", 40)


def test_it_can_be_published_anyway_and_the_reason_is_kept(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = job(tmp_path, GOOD, LONE)
    with pytest.raises(JobFileError, match="reason"):
        made.run(spark, publish_anyway=" ")
    result = made.run(spark, publish_anyway="a holiday")
    assert {table for table, _ in failed(result.checks)} == {"sessions"}
    assert made.table("sessions", spark).count() == 40
    assert made.history()[0]["published_anyway"] == "a holiday"
    assert main(["history", str(tmp_path / "job.yaml")]) == 0
    assert "a holiday" in capsys.readouterr().out


def test_a_reason_that_was_not_needed_is_not_kept(spark: SparkSession, tmp_path: Path) -> None:
    made = job(tmp_path, GOOD)
    made.run(spark, publish_anyway="to be sure")
    assert made.history()[0]["published_anyway"] is None


@spark_only
def test_a_warning_is_published_and_told(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job(tmp_path, GOOD, LONE.replace("}}]", "}, severity: warn}]"))
    assert main(["run", str(tmp_path / "job.yaml")]) == 0
    assert "warn" in capsys.readouterr().out


@pytest.mark.slow
def test_recompute_has_the_gate_too(spark: SparkSession, made: Job, tmp_path: Path) -> None:
    before = versions(made)
    strict = job(
        tmp_path, GOOD, "checks: {events: [{expect_table_row_count_to_equal: {value: 2}}]}"
    )
    write(tmp_path / "src" / "b.parquet", [("u1", START + MINUTE)])
    with pytest.raises(ChecksFailed) as caught:
        strict.recompute(spark)
    assert {table for table, _ in failed(caught.value.outcomes)} == {"events"}
    assert versions(strict) == before
    result = strict.recompute(spark, publish_anyway="one is enough")
    assert result is not None
    assert versions(strict) != before


@pytest.mark.slow
def test_of_many_rows_those_of_late_keys_are_looked_at(
    spark: SparkSession, made: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late, "MANY", 0)
    spoil(made, spark, "sessions", lambda rows: rows.unionByName(rows.where("user = 'u1'")))
    # An event in a session of the same date: its file is rewritten, with what is there twice.
    write(tmp_path / "src" / "b.parquet", [("u2", START + (9 * 97 + 10) * MINUTE)])
    merged = made.recompute(spark)
    assert merged is not None
    assert failed(merged.checks) == set()
    assert made.table("sessions", spark).where("user = 'u2' and n = 2").count() == 1
    write(tmp_path / "src" / "c.parquet", [("u1", START + (8 * 97 + 10) * MINUTE)])
    with pytest.raises(ChecksFailed) as caught:
        made.recompute(spark)
    assert ("sessions", "unique") in failed(caught.value.outcomes)


@pytest.mark.slow
def test_chunks_that_fail_do_not_stop_the_others(spark: SparkSession, tmp_path: Path) -> None:
    events = [*GOOD, *((f"many{i}", START + DAY) for i in range(30))]
    limit = "checks: {sessions: [{expect_table_row_count_to_be_between: {max_value: 40}}]}"
    made = job(tmp_path, events, limit)
    result = made.run(spark, start=date(0), end=date(3), chunk=1)
    assert isinstance(result, RunResult)
    assert [failure.dates[0] for failure in result.failures] == [date(1)]
    assert isinstance(result.failures[0].error, BackfillError)
    assert len(result.chunks) == 2


@pytest.mark.parametrize("way", ["full", "range"])
def test_a_share_of_rows_that_can_not_be_used(
    spark: SparkSession, tmp_path: Path, way: str
) -> None:
    made = job(tmp_path, [*GOOD, *((None, START + i) for i in range(5))])
    with pytest.raises(ChecksFailed) as caught:
        made.run(spark) if way == "full" else made.run(spark, start=date(0), end=date(3))
    assert failed(caught.value.outcomes) == {("events", "quarantined_share")}
    assert versions(made) == {"sessions": None, "hopping": None, "quarantine": None}


@pytest.mark.slow
def test_an_old_source_is_warned_of(spark: SparkSession, tmp_path: Path) -> None:
    fresh = job(tmp_path / "fresh", GOOD).run(spark, start=date(0), end=date(3))
    stale = job(tmp_path / "stale", GOOD).run(spark, start=date(0), end=date(9))
    assert failed(fresh.checks) == set()
    assert failed(stale.checks) == {("events", "freshness")}


@pytest.mark.slow
def test_a_date_that_is_unlike_its_weekday_is_warned_of(
    spark: SparkSession, tmp_path: Path
) -> None:
    usual = [(f"u{i}", START + day * DAY + i * MINUTE) for day in range(43) for i in range(10)]
    made = job(tmp_path, usual)
    assert failed(made.run(spark).checks) == set()
    # Twice as many in the fourth week, whose weekday has only three before it: not judged.
    early = [(f"more{i}", START + 21 * DAY + i * MINUTE) for i in range(10)]
    late = [(f"more{i}", START + 36 * DAY + i * MINUTE) for i in range(10)]
    write(tmp_path / "src" / "b.parquet", early)
    ranged = made.run(spark, start=date(21), end=date(22))
    assert failed(ranged.checks) == set()
    write(tmp_path / "src" / "c.parquet", late)
    merged = made.recompute(spark)
    assert merged is not None
    assert failed(merged.checks) == {("sessions", "history"), ("hopping", "history")}
    (outcome,) = (e for e in merged.checks if not e.success and e.table == "sessions")
    assert outcome.check.severity == "warn"
    assert outcome.examples == ({"date": date(36), "rows": 20, "usual": 10},)
