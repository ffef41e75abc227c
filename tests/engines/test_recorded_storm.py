"""The replay gives, window by window, what a task of Storm's windowed bolts was given."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from backfill import CountWindow
from backfill import aggregates as agg
from backfill.replay import Emission, Event, Replayed, replay
from tests.engines.recordings import MS, Recording, event, recordings

pytestmark = pytest.mark.one_lane

STORM = recordings("windowed-bolt")
AGGREGATES = {"events": agg.count(), "amount": agg.sum("amount")}

Row = dict[str, Any]


def events(recording: Recording) -> list[Event]:
    """By input; windows of a number of events are the task's, whatever the events' keys."""
    inputs, counted = recording.settings["inputs"], isinstance(recording.window, CountWindow)
    found = [
        event(row, arrival=row["arrival"], partition=row["partition"] if inputs > 1 else 0)
        for row in recording.input()
    ]
    return [replace(each, key=None) for each in found] if counted else found


def replayed(recording: Recording) -> Replayed:
    given = recording.settings
    names = ("watermark_delay", "watermark_every")
    return replay(
        events(recording),
        recording.window,
        engine="storm",
        aggregates=AGGREGATES,
        **{name: given[name] for name in names if "watermark_delay" in given},
    )


def row(emission: Emission) -> Row:
    bounds = {"window_start": emission.start // MS, "window_end": emission.end // MS}
    return {"arrival": emission.arrival, "key": emission.key, **bounds, **(emission.values or {})}


def by_key(rows: list[Row]) -> list[Row]:
    """A bolt gets the events of all keys at once: windows of one end are one."""
    return sorted(rows, key=lambda row: (row["arrival"], row["window_end"], row["key"] or ""))


def watermarks(recording: Recording) -> list[int]:
    """Before each event: the largest time of the input that is furthest behind, less the lag."""
    given = recording.settings
    latest: dict[Any, int] = {}
    found, now = [], 0
    for count, each in enumerate(events(recording), 1):
        found.append(now)
        assert each.time is not None
        latest[each.partition] = max(each.time, latest.get(each.partition, each.time))
        if count % given["watermark_every"] == 0 and len(latest) == given["inputs"]:
            now = max(now, min(latest.values()) - recording.us("watermark_delay"))
    return found


@pytest.mark.parametrize("recording", STORM, ids=lambda each: each.name)
def test_windowed_bolt(recording: Recording) -> None:
    result = replayed(recording)
    recorded = [{"key": None, **each} for each in recording.rows("output")]
    assert by_key([row(each) for each in result.emissions]) == recorded

    # Storm lists what comes before the watermark, not what its queue hides or comes as it fires.
    times = {each.arrival: each.time for each in events(recording)}
    marks = [] if isinstance(recording.window, CountWindow) else watermarks(recording)
    late = [
        each.arrival
        for each in result.dropped
        if each.reason == "late" and times[each.arrival] < marks[each.arrival]
    ]
    assert late == [each["arrival"] for each in recording.rows("late")]
