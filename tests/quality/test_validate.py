"""Published tables are checked again: every check fails on data that breaks it, and only it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill import Job
from backfill.cli import main
from backfill.errors import JobFileError, TableError
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
)

pytestmark = pytest.mark.usefixtures("interpreted")

# u: two sessions, of three events and of two; v: one, of one.
EVENTS: list[Event] = [
    ("u", START),
    ("u", START + MINUTE),
    ("u", START + 2 * MINUTE),
    ("u", START + 100 * MINUTE),
    ("u", START + 101 * MINUTE),
    ("v", START + DAY),
]
Change = Callable[[DataFrame], DataFrame]


def only(where: str, **changes: Column) -> Change:
    """Puts other values into the rows for which a condition holds."""

    def change(rows: DataFrame) -> DataFrame:
        new = {
            name: F.when(F.expr(where), value).otherwise(F.col(name))
            for name, value in changes.items()
        }
        return rows.withColumns(new)

    return change


def later(name: str, minutes: int) -> Column:
    return F.timestamp_micros(F.unix_micros(name) + minutes * MINUTE)


def halved(rows: DataFrame) -> DataFrame:
    """A window as two rows, which hold its events between them."""
    one = rows.where("_events = 2").limit(1).withColumn("_events", F.lit(1).cast("bigint"))
    rest = rows.join(one.select("user", "window_start"), ["user", "window_start"], "left_anti")
    return rest.select(*rows.columns).unionByName(one).unionByName(one)


CHECKS = ("bounds", "counts", "unique", "conservation", "gap", "size")


def spoiling(check: str) -> tuple[str, Change]:
    """A table, and what breaks the check in it."""
    changes: dict[str, tuple[str, Change]] = {
        # The end moves back, so that no session comes nearer to another.
        "bounds": (
            "sessions",
            only("user = 'v'", window_end=later("window_start", -1)),
        ),
        "counts": (
            "sessions",
            only(
                "user = 'v' or _events = 3",
                _events=F.when(F.col("user") == "v", 0).otherwise(4).cast("bigint"),
            ),
        ),
        "unique": ("hopping", halved),
        "conservation": ("hopping", only("user = 'v'", _events=F.col("_events") + 1)),
        "gap": (
            "sessions",
            only("_events = 2", window_start=later("window_start", -75)),
        ),
        "size": (
            "hopping",
            only(
                "user = 'v'",
                window_start=later("window_start", 7),
                window_end=later("window_end", 7),
            ),
        ),
    }
    return changes[check]


@pytest.fixture(scope="module")
def run_once(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Job:
    published = job(tmp_path_factory.mktemp("validate"), EVENTS)
    published.run(spark)
    # Unspoiled tables pass; each test below spoils a copy.
    assert failed(published.validate(spark=spark)) == set()
    return published


@pytest.fixture
def made(run_once: Job, tmp_path: Path) -> Job:
    return copied(run_once, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS)
def test_each_check_fails_on_what_breaks_it_and_only_it(
    spark: SparkSession, made: Job, check: str
) -> None:
    table, change = spoiling(check)
    spoil(made, spark, table, change)
    assert failed(made.validate(spark=spark)) == {(table, check)}


def test_a_row_under_another_date(spark: SparkSession, made: Job) -> None:
    spoil(made, spark, "sessions", only("user = 'v'", date=F.lit("2026-01-09").cast("date")))
    outcomes = made.validate("sessions", spark)
    assert failed(outcomes) == {("sessions", "bounds")}
    (outcome,) = (verdict for verdict in outcomes if not verdict.success)
    assert outcome.observed == 1
    assert [row["user"] for row in outcome.examples] == ["v"]


def test_a_range_looks_at_its_windows_only(spark: SparkSession, made: Job) -> None:
    spoil(made, spark, "sessions", spoiling("bounds")[1])
    assert failed(made.validate(spark=spark, start=date(0), end=date(1))) == set()
    outcomes = made.validate(spark=spark, start=date(1), end=date(2))
    assert failed(outcomes) == {("sessions", "bounds")}
    assert "events" not in {outcome.table for outcome in outcomes}


@spark_only
def test_nothing_is_published_by_it_and_the_exit_code_tells(
    spark: SparkSession, made: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    path, before = str(made.spec.path), versions(made)
    assert main(["validate", path]) == 0
    assert "checks succeeded" in capsys.readouterr().out
    spoil(made, spark, "sessions", spoiling("gap")[1])
    assert main(["validate", path, "sessions", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    (check,) = (verdict for verdict in document["checks"] if not verdict["success"])
    assert (document["ok"], check["table"], check["check"]) == (False, "sessions", "gap")
    assert versions(made)["hopping"] == before["hopping"]


def test_own_expectations_are_checked_too(spark: SparkSession, made: Job, tmp_path: Path) -> None:
    strict = job(
        tmp_path,
        EVENTS,
        "checks: {hopping: [{expect_column_max_to_be_between: {column: n, max_value: 2}}]}",
    )
    assert {table for table, _ in failed(strict.validate(spark=spark))} == {"hopping"}


def test_what_can_not_be_checked(spark: SparkSession, tmp_path: Path, made: Job) -> None:
    with pytest.raises(JobFileError, match="no such window"):
        made.validate("session", spark)
    other = tmp_path / "other"
    with pytest.raises(TableError, match="nothing has been published"):
        job(other, EVENTS).validate(spark=spark)
