"""Tables of metrics: which rows a run changes, also on dates without events."""

from __future__ import annotations

import datetime as dt
import itertools
import json
from pathlib import Path
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from backfill import Job, Metric
from backfill.cli import main
from backfill.errors import ConservationError, WindowError
from backfill.execution import late
from backfill.ledger.record import Record
from backfill.rows import compute
from tests.execution.test_invariant import SEQUENCES, TIMES, machine, steps
from tests.execution.world import HOUR, METRICS, World, at, day
from tests.memory_store import MemoryStore
from tests.reference import Event, micros
from tests.reference_metrics import FOLDS, Payment, groups, wide

pytestmark = pytest.mark.usefixtures("interpreted")


@pytest.mark.slow
def test_values_fall_on_quiet_days(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The gate checks only rows of computed keys, as it does when there are many rows.
    monkeypatch.setattr(late, "MANY", 0)
    tables = ("users", "best")
    world = World(tmp_path, spark, windows=tables, store=MemoryStore(), gate=True)
    midnight = [Event("a", at(1), 1, "1"), Event("a", at(2, 23, 59), 2, "2")]
    # The last event is at a step, at which it does not count yet.
    end = [Event("b", at(5, 11, 30), 3), Event("b", at(5, 12), None, "1")]
    world.write("all", [*midnight, Event("b", at(0, 12), 3), *end])
    # Only the first day is run: later dates are not covered.
    assert world.run(0, 1) == {0}
    world.check()
    # The fourth day has no event, but values of the third fall on it.
    assert world.run(3, 4) == {3}
    assert day(3) in world.covered("users")
    world.check()
    assert world.rows("users")
    # The seventh day is after the last event.
    assert world.run(1, 7) == {1, 2, 3, 4, 5}
    world.check()
    world.write("late", [Event("a", at(2, 1), 7, "3"), Event("c", at(4, 23), 7, "3")])
    world.recompute()
    world.check()
    before = {name: set(world.rows(name)) for name in world.windows}
    world.run_all()
    world.check()
    assert before == {name: set(world.rows(name)) for name in world.windows}
    # The last dates stay covered without the events that were on them.
    world.write("all", [*midnight, Event("b", at(0, 12), 3)])
    world.run_all()
    world.check()


@pytest.mark.spark_only
def test_retention(spark: SparkSession, tmp_path: Path) -> None:
    tables = ("users", "best")
    world = World(tmp_path, spark, windows=tables, store=MemoryStore(), retention="24h", gate=True)
    limit = at(3, 12)
    old = [Event("a", limit - age, 1) for age in (40 * HOUR, 31 * HOUR, HOUR, 1)]
    world.write("all", [*old, Event("a", limit, 2), Event("a", at(4, 12), 3)])
    result = world.job.run(spark)
    # The first event has no row within retention, even with the longest window and a step.
    assert result.quarantined == {"beyond_retention": 1}
    check_lasting(world, limit)
    world.write("late", [Event("a", limit - 10, 5), Event("b", limit - 30 * HOUR, 5)])
    world.job.recompute(spark)
    check_lasting(world, limit)
    world.retention = "12h"
    world.write_job()
    done = world.job.expire(spark)
    assert all(done[name].rows for name in tables)
    check_lasting(world, limit + 12 * HOUR)


def check_lasting(world: World, limit: int) -> None:
    """Checks that the rows are those of all events from the limit on."""
    expected = world.expected(world.usable())
    for name in world.windows:
        place = len(METRICS[name][0])
        wanted = [row for row in world.on_covered(name, expected[name]) if row[place] >= limit]
        assert sorted(world.rows(name), key=repr) == sorted(wanted, key=repr), name


TOTALS = """
source: {path: src, format: parquet}
events: {key: user, time: at, timezone: America/St_Johns}
metrics:
  total: {by: [account], value: sum(amount), windows: [2h, 1d], step: 30m}
tables: {path: out}
checks: {builtin: {quarantined_share: off}}
"""


@pytest.mark.parametrize("change", ["2026-03-08T05:30", "2026-11-01T04:30"], ids=["23h", "25h"])
def test_days_of_23_and_25_hours(spark: SparkSession, tmp_path: Path, change: str) -> None:
    """Clocks change at half past an hour of UTC; runs by day, with late events, or of all."""
    zone = ZoneInfo("America/St_Johns")
    changed = dt.datetime.fromisoformat(f"{change}+00:00")
    random = Random(change)
    minutes = [random.randrange(-36 * 60, 36 * 60) for _ in range(60)]
    # At both midnights of the day of the change, and at the change, to the microsecond.
    midnights = [
        dt.datetime.combine(changed.astimezone(zone).date() + dt.timedelta(days=n), dt.time(), zone)
        for n in (0, 1)
    ]
    times = [
        *(micros(changed) + minute * 60_000_000 for minute in minutes),
        *(micros(instant) + tick for instant in (*midnights, changed) for tick in (-1, 0)),
    ]
    given = [
        Payment(random.choice("ab"), None, time, random.randrange(5)) for time in sorted(times)
    ]
    (tmp_path / "job.yaml").write_text(TOTALS)
    late = given[::7]
    first = [event for event in given if event not in late]
    write(tmp_path / "src" / "first.parquet", [_total(event) for event in first])
    job = Job.load(tmp_path / "job.yaml")
    today = changed.astimezone(zone).date()
    days = [today + dt.timedelta(days=n) for n in (-3, 0, 1, 4)]
    for start, end in itertools.pairwise(days):
        job.run(spark, start=start, end=end)
    write(tmp_path / "src" / "late.parquet", [_total(event) for event in late])
    job.recompute(spark)

    metric = Metric("total", FOLDS["total"][0], by=["account"], windows=["2h", "1d"], step="30m")
    expected = [
        (str(*key), row, dt.datetime.fromtimestamp(row[0] / 1e6, zone).date())
        for key, own in groups(given, ("account",)).items()
        for row in wide(own, metric)
    ]

    def table() -> list[Any]:
        rows = job.table("total", spark).withColumn("at", F.unix_micros("at"))
        names = ("at", "total_2h", "total_1d")
        return [
            (row.account, tuple(row[name] for name in names), row.date) for row in rows.collect()
        ]

    # Values fall after the last event; a run of dates stops at the last event's date.
    known = dt.datetime.fromtimestamp(max(times) / 1e6, zone).date()
    assert sorted(table()) == sorted(row for row in expected if row[2] <= known)
    job.run(spark)
    assert sorted(table()) == sorted(row for row in expected if row[2] <= known)


def _total(payment: Payment) -> dict[str, Any]:
    return {"user": "u", "at": payment.time, "account": payment.account, "amount": payment.amount}


def test_rows_that_get_lost_are_not_published(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, spark, windows=("values",), store=MemoryStore())
    # In the short window the second event changes no value at its step: the first one leaves.
    same = [Event("a", at(0, 10), 1), Event("a", at(0, 12), 1), Event("b", at(0, 12), 1)]
    world.write("all", [*same, Event("a", at(0, 12), None)])
    real = compute.metric_rows

    def forgetful(*arguments: Any, **more: Any) -> Any:
        return real(*arguments, **more).where(F.col("_start") != at(0, 13))

    monkeypatch.setattr(compute, "metric_rows", forgetful)
    for run in (world.run_all, lambda: world.run(0, 1)):
        with pytest.raises(
            ConservationError, match="its windows hold 1 events, but 3 were assigned"
        ):
            run()
    monkeypatch.undo()
    world.run_all()
    monkeypatch.setattr(compute, "metric_rows", forgetful)
    world.write("late", [Event("a", at(0, 12, 1), 1)])
    with pytest.raises(ConservationError, match="its windows hold 0 events, but 1 were assigned"):
        world.recompute()


def test_a_copy_with_another_dimension(spark: SparkSession, tmp_path: Path) -> None:
    world = World(tmp_path, spark, True, ("values", "kinds"), store=MemoryStore())
    others = [Event("a", at(1, 11), 3, "2"), Event("b", at(1, 10), 1, "1")]
    world.write("0", [Event("a", at(1, 10), 3, "1"), *others])
    world.run_all()
    # The copy has the smaller value, so the event is in no row of its old dimension now.
    world.write("1", [Event("a", at(1, 10), -3, "1")])
    world.run(1, 2)
    world.check()


def test_the_last_values_of_a_date(spark: SparkSession, tmp_path: Path) -> None:
    hours = {"0": [1], "1": [13, 26], "2": [50]}
    for name, own in hours.items():
        payments = [{**payment(f"{h}", at(0, h), "u", None, "c"), "amount": h} for h in own]
        write(tmp_path / "src" / f"{name}.parquet", payments)
    path = tmp_path / "job.yaml"
    path.write_text(
        "source: {path: src, format: parquet}\n"
        "events: {key: user, time: at, id: id}\n"
        "metrics: {latest: {by: [account], value: last(amount), windows: [6h, 2d], step: 2h}}\n"
        "tables: {path: out}\n"
    )
    job = Job.load(path)
    job.run(spark, date=day(1))
    rows = job.fetch("latest").to_pylist()
    names = ("latest_6h", "latest_2d")
    assert [(row["at"].hour, *(row[name] for name in names)) for row in rows] == [
        (4, 26, 26),
        (10, None, 26),
    ]


def test_dates_without_events_before_a_range(spark: SparkSession, tmp_path: Path) -> None:
    # The metric has a row on the second day, of an event before the range; so that day is not
    # covered, although windows that hold the third day's event begin on it.
    own = [payment(f"{h}", at(0, h), "u", None, "c") for h in (11, 63)]
    write(tmp_path / "src" / "0.parquet", own)
    text = (
        "source: {path: src, format: parquet}\n"
        "events: {key: account, time: at}\n"
        "windows: {hop: {hopping: {size: 30h, advance: 7h}, aggregates: {n: count}}}\n"
        "metrics: {seen: {by: [account], value: count, windows: [1d], step: 12h}}\n"
        "tables: {path: %s}\n"
    )
    for name in ("out", "whole"):
        (tmp_path / f"{name}.yaml").write_text(text % name)
    job, whole = Job.load(tmp_path / "out.yaml"), Job.load(tmp_path / "whole.yaml")
    whole.run(spark)
    job.run(spark, date=day(2))
    for missing in (False, True):
        for name in ("hop", "seen"):
            table = job.store.open(name)
            assert table is not None
            covered = Record.from_json(table.record or {}, tmp_path).covered
            start = "at" if name == "seen" else "window_start"
            expected = [r for r in whole.fetch(name).to_pylist() if r[start].date() in covered]
            assert job.fetch(name).to_pylist() == expected
        if not missing:
            # A date without events is computed, too, if it is asked for.
            assert job.run(spark, date=day(1)).skipped == ()
            assert [row["at"].day for row in job.fetch("seen").to_pylist()] == [2]
            job.run(spark, missing=True)
    assert job.fetch("seen").to_pylist() == whole.fetch("seen").to_pylist()


CARDS = """
source: {path: src, format: parquet}
events: {key: user, time: at, id: id}
metrics:
  cards: {by: [[account], [account, country]], value: count_distinct(card), windows: [2h, 1d],
          step: 1h, where: amount > 0}
tables: {path: out}
checks: {builtin: {quarantined_share: off}, cards_by_account: [
  {expect_column_values_to_be_between: {column: cards_1d, min_value: 0}}]}
"""


def payment(
    id: str, at: int, account: str | None, country: str | None, card: str
) -> dict[str, Any]:
    time = dt.datetime.fromtimestamp(at / 1e6, dt.timezone.utc)
    own = {"id": id, "user": "u", "at": time, "account": account, "country": country}
    return {**own, "card": card, "amount": 1}


def write(path: Path, payments: list[dict[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    table = pa.Table.from_pylist(payments)
    times = table["at"].cast(pa.timestamp("us", "UTC"))
    pq.write_table(table.set_column(table.column_names.index("at"), "at", times), path)


@pytest.mark.spark_only
@pytest.mark.slow
def test_on_the_command_line(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "job.yaml")
    (tmp_path / "job.yaml").write_text(CARDS)
    given = [
        payment("1", at(0, 10), "a", "x", "k1"),
        payment("2", at(0, 10, 30), "a", None, "k2"),
        payment("2", at(0, 10, 30), "a", None, "k2"),
        payment("3", at(2, 8), "a", "x", "k1"),
        payment("4", at(2, 8), None, None, "k1"),
    ]
    write(tmp_path / "src" / "all.parquet", given)

    def call(*arguments: str, code: int = 0) -> tuple[str, dict[str, Any]]:
        capsys.readouterr()
        assert main([arguments[0], path, *arguments[1:]]) == code
        text = capsys.readouterr().out
        assert main([arguments[0], path, *arguments[1:], "--json"]) == code
        return text, json.loads(capsys.readouterr().out)

    def table() -> list[tuple[Any, ...]]:
        rows = Job.load(path).table("cards_by_account", spark)
        assert rows.columns == ["account", "at", "cards_2h", "cards_1d", "is_open", "date"]
        micros = F.unix_micros("at")
        return sorted(map(tuple, rows.select("account", micros, "cards_2h", "cards_1d").collect()))

    assert main(["run", path, "--date", str(day(0))]) == 0
    first = [("a", at(0, 11), 2, 2), ("a", at(0, 13), 0, 2)]
    assert table() == first
    # The second day has no event: it is computed because values fall on it.
    text, document = call("plan", "--missing")
    [stage] = document["stages"]
    assert (stage["from"], stage["to"]) == ("2026-01-02", "2026-01-04")
    states = document["windows"]["cards_by_account"]
    assert [(state["state"], state["events"]) for state in states] == [("missing", 2)]
    assert "Compute [2026-01-02, 2026-01-04): 2 events" in text
    assert main(["run", path, "--missing"]) == 0
    whole = [*first, ("a", at(1, 11), 0, 0), ("a", at(2, 9), 1, 1), ("a", at(2, 11), 0, 1)]
    assert table() == whole

    write(tmp_path / "late.parquet", [payment("5", at(1, 9, 30), "a", "y", "k2")])
    text, document = call("plan", "--recompute", "--late", str(tmp_path / "late.parquet"))
    assert document["stages"][0]["late"][0]["affected"] == {
        "cards_by_account": 2,
        "cards_by_account_country": 0,
    }
    assert "cards_by_account: up to 2 published rows are computed again." in text
    assert main(["recompute", path, "--late", str(tmp_path / "late.parquet")]) == 0
    merged = [
        *first,
        ("a", at(1, 10), 1, 2),
        ("a", at(1, 11), 1, 1),
        ("a", at(1, 12), 0, 1),
        ("a", at(2, 9), 1, 2),
        ("a", at(2, 10), 1, 1),
        ("a", at(2, 11), 0, 1),
    ]
    assert table() == merged
    text, document = call("changes", "cards_by_account")
    assert document["counts"]["inserted"] == 3
    assert document["counts"]["updated"] == 2
    assert "inserted" in text
    _, document = call(
        "show", "cards_by_account", "--key", "a", "--from", "2026-01-02", "--limit", "2"
    )
    assert [(row["at"], row["cards_1d"]) for row in document["rows"]] == [
        ("2026-01-02T10:00:00.000000Z", 2),
        ("2026-01-02T11:00:00.000000Z", 1),
    ]
    _, document = call("plan", "--date", str(day(1)))
    beyond = {read["window"]: read["affected"] for read in document["beyond"]}
    # The second day's events reach to 1:00 on the fourth.
    assert beyond == {"cards_by_account": 3, "cards_by_account_country": 3}
    assert main(["run", path, "--date", str(day(1))]) == 0
    assert table() == merged
    assert main(["run", path]) == 0
    assert table() == merged
    assert call("validate")[1]["ok"]
    assert main(["history", path]) == 0
    job = Job.load(path)
    [held] = [
        job.events_in("cards_by_account", row, spark)
        for row in [{"account": "a", "at": "2026-01-02T10:00:00Z"}]
    ]
    assert sorted(row.id for row in held.collect()) == ["1", "2", "5"]
    with pytest.raises(WindowError, match="no streaming operator writes rows like a metric"):
        job.reconcile("cards_by_account", spark, stream=str(tmp_path), format="table")
    with pytest.raises(WindowError, match="Structured Streaming has no metrics"):
        job.stream(spark, to=tmp_path / "live")


@pytest.mark.slow
def test_any_sequence_of_runs_with_quiet_days(spark: SparkSession, tmp_path: Path) -> None:
    numbers = itertools.count()
    tables = ("values", "best", "kinds")
    few = st.lists(
        st.builds(Event, st.sampled_from("ab"), TIMES, st.none() | st.integers(0, 1), st.none()),
        min_size=1,
        max_size=3,
    )

    def make(texts: bool) -> World:
        folder = tmp_path / str(next(numbers))
        return World(folder, spark, windows=tables, texts=texts, store=MemoryStore())

    run_state_machine_as_test(machine(make, few), settings=steps(SEQUENCES))
