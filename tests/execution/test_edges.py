"""Sessions that another date's events could join are in files of their own, rewritten alone."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import SparkSession

from backfill.engines import ENGINES
from backfill.execution.date_edges import with_edges_apart
from backfill.store import APART
from backfill.store.files.staging import is_apart
from backfill.windows import SessionWindow, TumblingWindow
from tests.execution.world import GAP, World, at
from tests.reference import Event, micros
from tests.tables import paths_of

pytestmark = pytest.mark.usefixtures("adaptive")

SCHEMA = "window_start timestamp, window_end timestamp, date date"
UTC = dt.timezone.utc


def instant(us: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(0, UTC) + dt.timedelta(microseconds=us)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize("engine", ["plain", "spark"])
def test_which_sessions_are_at_an_edge(spark: SparkSession, zone: str, engine: str) -> None:
    chance = random.Random(7)
    here = ZoneInfo(zone)
    # A day of 23 hours, and one before 1970.
    days = [dt.datetime(2026, 3, 29, tzinfo=here), dt.datetime(1969, 12, 31, tzinfo=here)]
    rows, expected = [], []
    for day in days:
        midnights = [micros(day + dt.timedelta(days=offset)) for offset in (0, 1)]
        exact = [
            (midnights[0] + GAP, midnights[1] - GAP - 1),
            (midnights[0] + GAP - 1, midnights[1] - GAP - 1),
            (midnights[0] + GAP, midnights[1] - GAP),
            (midnights[0], midnights[0]),
            (midnights[1] - 1, midnights[1] + GAP),
        ]
        some = [sorted(chance.choices(range(*midnights), k=2)) for _ in range(50)]
        for start, last in [*exact, *some]:
            end = last + (GAP if engine == "spark" else 0)
            rows.append((instant(start), instant(end), day.date()))
            reached = {instant(us).astimezone(here).date() for us in (start - GAP, last + GAP)}
            expected.append(reached != {day.date()})
    frame = spark.createDataFrame(rows, SCHEMA)
    marked = with_edges_apart(frame, SessionWindow(gap="30m"), ENGINES[engine], zone)
    assert [row[APART] for row in marked.collect()] == expected
    assert 0 < sum(expected) < len(expected)
    assert with_edges_apart(frame, TumblingWindow(size="1h"), ENGINES[engine], zone) is frame


def by_date(world: World) -> dict[tuple[str, bool], str]:
    """The one file of each date and kind."""
    files = paths_of(world.job.store, "sessions")
    paths = {(path[5:15], is_apart(path)): path for path in files}
    assert len(paths) == len(files)
    return paths


def test_late_events_and_new_dates_leave_their_neighbours_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    world = World(tmp_path, spark, windows=("sessions",))
    events = [Event("a", at(day, hour), hour) for day in (0, 1, 2) for hour in (6, 12)]
    across = [Event("b", at(day, 0, minutes), 1) for day in (1, 2) for minutes in (-10, 5)]
    # Sessions that are open at the horizon are rewritten when the horizon moves on.
    world.write("some", [*events, *across, Event("c", at(2, 23, 40), 1)])
    world.run(0, 3)
    before = by_date(world)
    assert set(before) == {
        (f"2026-01-0{day}", apart) for day in (1, 2, 3) for apart in (False, True)
    }

    # In the middle of a date: only that date's own file changes.
    world.write("noon", [Event("a", at(1, 12, 10), 1)])
    world.recompute()
    after = by_date(world)
    assert {key for key in before if before[key] != after[key]} == {("2026-01-02", False)}
    # In a session that begins on the date before: only the small file of that date changes.
    world.write("night", [Event("b", at(1, 0, 20), 1)])
    world.recompute()
    again = by_date(world)
    assert {key for key in after if after[key] != again[key]} == {("2026-01-01", True)}
    # A new date.
    world.write("next", [Event("b", at(3, 0, minutes), 1) for minutes in (-5, 15)])
    world.run(3, 4)
    last = by_date(world)
    assert {key for key in again if again[key] != last[key]} == {("2026-01-03", True)}
    world.check()
