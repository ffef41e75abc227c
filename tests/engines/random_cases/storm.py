"""A task of Storm's windowed bolts: tumbling, hopping and count windows."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from backfill import CountWindow
from backfill import aggregates as agg
from backfill.replay import Emission, Event, Replayed, replay
from tests.engines.random_cases.comparing import first_difference, together
from tests.engines.random_cases.drawing import LATER, events
from tests.engines.recordings import MS, Recording, Row, event

AGGREGATES = {"events": agg.count(), "amount": agg.sum("amount")}
#: Size and advance: one for all, even, uneven, and apart.
SIZES = ((6, 6), (10, 10), (10, 5), (60, 20), (10, 3), (50, 20), (5, 8), (60, 90), (7, 1))


def draw(chance: random.Random) -> dict[str, Any]:
    size, advance = chance.choice(SIZES)
    lag = chance.choice((0, 0, 1, 3, 10, 30))
    case: dict[str, Any] = {"watermark_delay": f"{lag}ms"}
    if chance.random() < 0.1:
        counts = {"size": chance.randint(1, 6), "advance": chance.randint(1, 8)}
        case = {"window": {"count": counts}}
    elif size == advance:
        case["window"] = {"tumbling": {"size": f"{size}ms"}}
    else:
        case["window"] = {"hopping": {"size": f"{size}ms", "advance": f"{advance}ms"}}
    if chance.random() < 0.5:
        case["watermark_every"] = chance.randint(2, 5)
    start = chance.choice((LATER, LATER, 0, -100))
    case["events"] = events(chance, (1, size, advance, lag), most=25, start=start)
    inputs = chance.choice((1, 1, 2, 3))
    for row in case["events"]:
        row["partition"] = chance.randrange(inputs)
    # The replay knows nothing about an input that no event comes by.
    used = sorted({row["partition"] for row in case["events"]})
    case["inputs"] = len(used)
    for row in case["events"]:
        row["partition"] = used.index(row["partition"])
    return case


def difference(recording: Recording) -> str | None:
    stream = _events(recording)
    result = _replayed(recording, stream)
    recorded = [{"key": None, **row} for row in recording.rows("output")]
    # Storm lists what comes before the watermark, not what its queue hides or comes as it fires.
    times = {record.arrival: record.time for record in stream}
    marks = [] if isinstance(recording.window, CountWindow) else _watermarks(recording, stream)
    late = [
        drop.arrival
        for drop in result.dropped
        if drop.reason == "late" and times[drop.arrival] < marks[drop.arrival]
    ]
    return together(
        first_difference(
            "output", _by_key([_row(emission) for emission in result.emissions]), recorded
        ),
        first_difference("late", late, [row["arrival"] for row in recording.rows("late")]),
    )


def _events(recording: Recording) -> list[Event]:
    """The events by input; count windows are the task's, whatever the events' keys."""
    inputs, counted = recording.settings["inputs"], isinstance(recording.window, CountWindow)
    stream = [
        event(row, arrival=row["arrival"], partition=row["partition"] if inputs > 1 else 0)
        for row in recording.input()
    ]
    return [replace(record, key=None) for record in stream] if counted else stream


def _replayed(recording: Recording, found: list[Event]) -> Replayed:
    given = recording.settings
    names = ("watermark_delay", "watermark_every") if "watermark_delay" in given else ()
    settings = {name: given[name] for name in names}
    if names and given["inputs"] > 1 and given["watermark_every"] > 1:
        # The recorder runs the timer by the number of events of all inputs, the replay of each.
        del settings["watermark_every"]
        marks = _watermarks(recording, found)[1:]
        found = [replace(record, watermark=mark) for record, mark in zip(found, marks, strict=True)]
    return replay(found, recording.window, engine="storm", aggregates=AGGREGATES, **settings)


def _watermarks(recording: Recording, found: list[Event]) -> list[int]:
    """Before each event, and at the end: the time of the input furthest behind, less the lag."""
    given = recording.settings
    latest: dict[Any, int] = {}
    marks = [0]
    for count, record in enumerate(found, 1):
        assert record.time is not None
        latest[record.partition] = max(record.time, latest.get(record.partition, record.time))
        mark = marks[-1]
        if count % given["watermark_every"] == 0 and len(latest) == given["inputs"]:
            mark = max(mark, min(latest.values()) - recording.us("watermark_delay"))
        marks.append(mark)
    return marks


def _row(emission: Emission) -> Row:
    bounds = {"window_start": emission.start // MS, "window_end": emission.end // MS}
    return {"arrival": emission.arrival, "key": emission.key, **bounds, **(emission.values or {})}


def _by_key(rows: list[Row]) -> list[Row]:
    """A bolt gets the events of all keys at once: windows with the same end are one."""
    return sorted(rows, key=lambda row: (row["arrival"], row["window_end"], row["key"] or ""))
