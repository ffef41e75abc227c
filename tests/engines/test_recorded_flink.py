"""The replay gives, row by row, what Flink wrote.

Windows that one watermark completes fire in order of their ends. Those with the same end fire in
the order of a heap, which is not compared.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from itertools import groupby
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from backfill import CountWindow, SlidingWindow, TumblingWindow
from backfill import aggregates as agg
from backfill.replay import Replayed, replay
from backfill.time.durations import Fixed
from tests.engines.random_cases.flink import difference
from tests.engines.recordings import MS, Recording, recordings

pytestmark = pytest.mark.one_lane

DATASTREAM = recordings("datastream")
SQL = recordings("sql")
AGGREGATES = {"events": agg.count(), "amount": agg.sum("amount")}
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
HOUR = 3_600_000_000

Row = dict[str, Any]


def by_end(rows: Iterable[Row], *names: str) -> list[Row]:
    """Sorts neighbouring rows that are equal in these columns by their keys."""
    runs = groupby(rows, key=lambda row: [row.get(name) for name in names])
    return [row for _, run in runs for row in sorted(run, key=lambda row: str(row["key"]))]


@pytest.mark.parametrize("recording", DATASTREAM, ids=lambda recording: recording.name)
def test_datastream(recording: Recording) -> None:
    assert difference(recording) is None


def in_utc(row: Row, zone: str) -> Row:
    """The row with its bounds converted from the zone's clocks to UTC.

    At two o'clock the clocks were set to three, so both are one instant.
    """
    walls = {name: dt.datetime.fromisoformat(row[name]) for name in ("window_start", "window_end")}
    instants = {
        n: w.replace(tzinfo=ZoneInfo(zone)).astimezone(dt.timezone.utc) for n, w in walls.items()
    }
    return {
        **row,
        **{n: text((i - EPOCH) // dt.timedelta(microseconds=1)) for n, i in instants.items()},
    }


def on_local_clock(window: Any) -> Any:
    """SQL aligns windows of any size to the clock of the session's zone."""
    assert isinstance(window, TumblingWindow)
    assert isinstance(window.size, Fixed)
    return TumblingWindow(size=f"{window.size.us // HOUR} local hours")


def sql(recording: Recording) -> Replayed:
    given, window = recording.settings, recording.window
    settings = {"watermark_delay": given["watermark_delay"]}
    if "timezone" in given:
        window = on_local_clock(window)
        settings["timezone"] = given["timezone"]
    if "allowed_lateness" in given:
        settings["allowed_lateness"] = given["allowed_lateness"]
    group = "FROM events GROUP BY" in given["query"]
    return replay(
        recording.events(),
        window,
        engine="flink",
        api="sql-group" if group else "sql",
        aggregates=AGGREGATES,
        **settings,
    )


def changes(recording: Recording, result: Replayed) -> Iterable[Row]:
    """Emissions as rows of the result's changelog; a retraction repeats what it takes back."""
    over = isinstance(recording.window, SlidingWindow | CountWindow)
    sent: dict[Any, Any] = {}
    for emission in result.emissions:
        op = emission.op if emission.op in ("-U", "+U") else "+I"
        place = emission.key, emission.start, emission.end
        if emission.values is not None:
            sent[place] = emission.values
        bounds = {"window_start": text(emission.start), "window_end": text(emission.end)}
        if over:
            bounds = {"arrival": emission.row, "ts": emission.end // MS}
        yield {"op": op, "key": emission.key, **bounds, **sent[place]}


def text(us: int) -> str:
    """A local time as Java prints it."""
    moment = EPOCH + dt.timedelta(microseconds=us)
    if moment.microsecond:
        return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // MS:03}"
    return moment.strftime("%Y-%m-%dT%H:%M:%S" if moment.second else "%Y-%m-%dT%H:%M")


@pytest.mark.parametrize("recording", SQL, ids=lambda recording: recording.name)
def test_sql(recording: Recording) -> None:
    rows = changes(recording, sql(recording))
    order = ("window_end", "ts")
    recorded = recording.rows("output")
    if "timezone" in recording.settings:
        recorded = [in_utc(row, recording.settings["timezone"]) for row in recorded]
    assert by_end(rows, *order) == by_end(recorded, *order)
