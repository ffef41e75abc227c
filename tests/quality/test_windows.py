"""What one pass over a table's rows tells, and what it costs."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pytest
from pyspark.sql import DataFrame, SparkSession

from backfill.aggregates import count
from backfill.engines import ENGINES
from backfill.quality import sample
from backfill.quality.window_rules import Counts, Look, WindowRules, measure
from backfill.rows.definition import Definition
from backfill.windows import (
    AnyWindow,
    CountWindow,
    JoinWindow,
    SessionWindow,
    SlidingWindow,
    TumblingWindow,
    Window,
)
from tests.on_sail import spark_only
from tests.plans import nodes

pytestmark = pytest.mark.usefixtures("interpreted")

SCHEMA = "user string, window_start timestamp, window_end timestamp, _events bigint, date date"
HOURLY = TumblingWindow(size="1h")


def rules(window: AnyWindow) -> WindowRules:
    return WindowRules(Definition(window, {"n": count()}), ("user",), ENGINES["plain"], "UTC")


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    """An hour for each of 100 keys; one key in ten has it in two rows."""
    keys = [f"u{i}" for i in range(100)] + [f"u{i}" for i in range(0, 100, 10)]
    at = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
    data = [(key, at, at + dt.timedelta(hours=1), 2, at.date()) for key in keys]
    return spark.createDataFrame(data, SCHEMA)


def some(rows: DataFrame) -> DataFrame:
    return rows.where(sample.sampled([rows["user"]]))


def test_some_keys_are_looked_at_for_windows_that_are_there_twice(
    rows: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = []
    for sampled in (1, 7):
        monkeypatch.setattr(sample, "SAMPLED", sampled)
        look = Look(rules=rules(HOURLY), rows=rows, beside=some(rows))
        measured = measure({"hourly": look})["hourly"]
        # Everything else is measured on all rows.
        assert measured.dates == {dt.date(2026, 1, 1): Counts(110, 220, 220)}
        assert {**measured.broken, "unique": 0} == dict.fromkeys(look.rules.checks(), 0)
        broken.append(measured.broken["unique"])
    assert broken[0] == 10
    assert 0 <= broken[1] < 10


def test_some_keys_are_looked_at_for_sessions_that_are_cut(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
    later = at + dt.timedelta(minutes=30)  # not more than the gap
    rows = [(f"u{i}", time, time, 1, at.date()) for i in range(100) for time in (at, later)]
    frame = spark.createDataFrame(rows, SCHEMA)
    broken = []
    for sampled in (1, 7):
        monkeypatch.setattr(sample, "SAMPLED", sampled)
        look = Look(rules=rules(SessionWindow(gap="30m")), rows=frame, beside=some(frame))
        measured = measure({"sessions": look})["sessions"]
        assert measured.dates == {dt.date(2026, 1, 1): Counts(200, 200, 200)}
        assert {**measured.broken, "gap": 0} == dict.fromkeys(look.rules.checks(), 0)
        broken.append(measured.broken["gap"])
    assert broken[0] == 100
    assert 0 < broken[1] < 100


def test_all_rows_are_looked_at_where_nothing_is_sampled(rows: DataFrame) -> None:
    measured = measure({"hourly": Look(rules=rules(HOURLY), rows=rows)})
    assert measured["hourly"].broken["unique"] == 10


def test_rows_of_events(spark: SparkSession) -> None:
    at = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
    rows = [
        # Time, id, events, events of its own, day of January.
        (at, "x", 2, 1, 1),
        (at, "x", 2, 1, 1),  # twice
        (at, "y", 2, 1, 1),
        (at, None, 0, 1, 1),  # without events
        (at, None, 2, 1, 1),  # another event
        (at, "z", 2, 1, 2),  # on another date
    ]
    frame = spark.createDataFrame(
        rows, "event_time timestamp, id string, _events int, _own int, day int"
    ).selectExpr("'a' user", "*", "make_date(2026, 1, day) date")
    measured = {}
    for id, before in (("id", False), (None, False), ("id", True)):
        window = SlidingWindow(size="1h", before=before)
        look = Look(rules=replace(rules(window), id=id), rows=frame)
        measured[id, before] = measure({"moving": look})["moving"]
    assert measured["id", False].broken == {"bounds": 1, "counts": 1, "unique": 1}
    assert measured[None, False].broken == {"bounds": 1, "counts": 1, "unique": 0}
    assert measured["id", True].broken == {"bounds": 1, "counts": 0, "unique": 1}
    assert measured["id", False].held == len(rows)


@pytest.mark.parametrize("how", ["left", "full", "anti"])
def test_rows_of_joins(spark: SparkSession, how: str) -> None:
    at, later = (dt.datetime(2026, 1, 1, hour, tzinfo=dt.timezone.utc) for hour in (0, 1))
    rows = [
        # Time of the left event, its id, the same of the right one, day of January.
        (at, "x", later, "y", 1),
        (at, "x", later, "y", 1),  # twice
        (at, "x", later, "z", 1),
        (at, "x", at, "y", 1),
        (at, "x", None, None, 1),
        (at, "x", None, None, 1),  # twice
        (at, None, later, "y", 1),
        (at, None, later, "y", 1),  # of another event
        (at, "x", later, None, 1),
        (at, "x", later, None, 1),  # of another event, too
        (at, "z", later, "y", 2),  # on another date
        (None, None, at, "y", 1),
        (None, None, at, "y", 1),  # twice, if a right event can stand alone
    ]
    frame = (
        spark.createDataFrame(
            rows, "left_time timestamp, id string, right_time timestamp, id_right string, day int"
        )
        .where("left_time IS NOT NULL" if how != "full" else "true")
        .selectExpr(
            "'a' user",
            "coalesce(left_time, right_time) event_time",
            "*",
            "make_date(2026, 1, day) date",
            "1 _own",
            "1 + int(left_time IS NOT NULL AND right_time IS NOT NULL) _events",
        )
    )
    if how == "anti":
        frame = frame.where("right_time IS NULL").drop("right_time", "id_right")
    window = JoinWindow(left="true", right="true", within="1h", how=how)
    broken = {}
    for id in ("id", None):
        look = Look(rules=replace(rules(window), id=id), rows=frame)
        broken[id] = measure({"pairs": look})["pairs"].broken
    twice = {"left": 2, "full": 3, "anti": 1}[how]
    assert broken["id"] == {"bounds": int(how != "anti"), "counts": 0, "unique": twice}
    assert broken[None] == {"bounds": int(how != "anti"), "counts": 0, "unique": 0}


def test_rows_of_count_windows(spark: SparkSession) -> None:
    at = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
    before = at - dt.timedelta(hours=1)
    rows = [
        # Start, end, numbers, events, events of its own, day of January.
        (before, at, 1, 2, 2, 2, 1),
        (before, at, 1, 4, 4, 2, 1),  # ends with another event
        (before, at, 1, 4, 4, 2, 1),  # twice
        (at, before, 3, 6, 4, 2, 1),  # backwards, and on another date
        (before, at, 5, 8, 3, 2, 1),  # without one of its events
        (before, at, 8, 10, 3, 2, 1),  # too short
        (before, at, 9, 11, 3, 1, 1),  # not full yet
    ]
    frame = spark.createDataFrame(
        rows,
        "window_start timestamp, window_end timestamp, first_event int, last_event int, "
        "_events int, _own int, day int",
    ).selectExpr("'a' user", "*", "make_date(2026, 1, day) date")
    window = CountWindow(size=4, advance=2)
    measured = measure({"counted": Look(rules=rules(window), rows=frame)})["counted"]
    assert measured.broken == {"bounds": 1, "counts": 0, "unique": 1, "size": 2}
    assert measured.held == 13


def test_a_key_is_sampled_whole(rows: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "SAMPLED", 7)
    taken = rows.where(sample.sampled([rows["user"]])).select("user").collect()
    names = {row["user"] for row in taken}
    assert 0 < len(names) < 100
    assert len(taken) == sum(2 if int(name[1:]) % 10 == 0 else 1 for name in names)


@spark_only
@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("window", [SessionWindow(gap="30m"), HOURLY], ids=str)
def test_one_sort_for_each_table(rows: DataFrame, window: Window, sampled: bool) -> None:
    beside = some(rows) if sampled else None
    operators = nodes(Look(rules=rules(window), rows=rows, beside=beside).counts("table"))
    # With a sample, only the sample is sorted.
    assert (operators["Sort"], operators["Window"]) == (1, 1)
