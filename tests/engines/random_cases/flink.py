"""Flink: windows of the DataStream API, and the interval join.

Windows that one watermark completes fire in order of their ends. Those with the same end fire in
the order of a heap, which is not compared. Nor is the order of one event's pairs: it depends on a
hash.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby
from typing import Any

from backfill import CountWindow
from backfill import aggregates as agg
from backfill.replay import Emission, Event, Replayed, replay, replay_join
from backfill.time.durations import Fixed
from tests.engines.random_cases.comparing import first_difference, together
from tests.engines.random_cases.drawing import LATER, events
from tests.engines.recordings import MS, Recording, Row, event

AGGREGATES = {"events": agg.count(), "amount": agg.sum("amount")}
ACCUMULATION = {"accumulating": "accumulating", "delta": "discarding"}
#: The last watermark in ms, and the first in µs.
LAST, NONE = (1 << 63) - 1, -(1 << 63) * MS
#: Size and advance: even, uneven, and apart.
SIZES = ((6, 3), (10, 5), (60, 20), (10, 3), (50, 20), (5, 8), (7, 1))


def draw(chance: random.Random) -> dict[str, Any]:
    return _joined(chance) if chance.random() < 0.25 else _windowed(chance)


def _windowed(chance: random.Random) -> dict[str, Any]:
    (size, advance), delay = chance.choice(SIZES), chance.choice((0, 0, 1, 3, 10))
    lateness = chance.choice((0, 0, 1, 5, 60))
    kind = chance.choice(("session", "session", "session", "tumbling", "hopping", "count"))
    fields: dict[str, Any] = {
        "session": {"gap": f"{size}ms"},
        "tumbling": {"size": f"{size}ms"},
        "hopping": {"size": f"{size}ms", "advance": f"{advance}ms"},
        "count": {"size": chance.randint(1, 5), "advance": chance.randint(1, 6)},
    }
    case: dict[str, Any] = {
        "window": {kind: fields[kind]},
        "watermark_delay": f"{delay}ms",
        "allowed_lateness": f"{lateness}ms",
        "firing": chance.choice(("accumulating", "delta")),
    }
    spans = (1, size, size, advance, delay, lateness)
    start = chance.choice((LATER, LATER, 0, -100))
    case["events"] = events(chance, spans, most=25, start=start)
    # The replay can't be told how far time had come before the first event that has a key.
    begins = [case["events"][0]]
    if chance.random() < 0.4:
        begins.append(chance.choice(case["events"]))
        case["restart_before_arrival"] = begins[1]["arrival"]
    for row in begins:
        row["key"] = "a"
    return case


def _joined(chance: random.Random) -> dict[str, Any]:
    before, after = chance.choice((0, 0, 1, 5, 10)), chance.choice((0, 0, 1, 5, 20))
    delay = chance.choice((0, 0, 1, 5, 30))
    start = chance.choice((LATER, 0, -100))
    rows = events(chance, (1, before, after, delay), most=25, start=start)
    return {
        "before": f"{before}ms",
        "after": f"{after}ms",
        "watermark_delay": f"{delay}ms",
        "events": [{**row, "side": chance.choice(("left", "right"))} for row in rows],
    }


def difference(recording: Recording) -> str | None:
    joins = recording.settings["runner"] == "interval-join"
    return _of_joins(recording) if joins else _of_windows(recording)


def _of_windows(recording: Recording) -> str | None:
    result = _replayed(recording)
    marks = _watermarks(recording)
    rows = [
        {
            "key": emission.key,
            "window_start": emission.start // MS,
            "window_end": emission.end // MS,
            **(emission.values or {}),
            "watermark": _fired_at(recording, emission, marks),
        }
        for emission in result.emissions
    ]
    order = ("watermark", "window_end")

    # An event that is in no window is in the side output if its own time is late.
    times = {row["arrival"]: row["time"] * MS for row in recording.input()}
    lateness = recording.us("allowed_lateness")
    late = [
        drop.arrival
        for drop in result.dropped
        if drop.reason == "late"
        or times[drop.arrival] + lateness <= _before(recording, drop.arrival, marks)
    ]
    return together(
        first_difference(
            "output", _by_end(rows, *order), _by_end(recording.rows("output"), *order)
        ),
        first_difference("late", late, [row["arrival"] for row in recording.rows("late")]),
    )


def _of_joins(recording: Recording) -> str | None:
    given = recording.settings
    result = replay_join(
        *_sides(recording),
        engine="flink",
        within=(given["before"], given["after"]),
        watermark_delay=Fixed(recording.us("watermark_delay")),
    )
    names = ("arrival", "left", "right", "timestamp", "key")
    pairs = [
        (emission.arrival, emission.left, emission.right, emission.timestamp // MS, emission.key)
        for emission in result.emissions
    ]
    wrote = [tuple(row[name] for name in names) for row in recording.rows("output")]
    dropped = [(drop.arrival, drop.reason) for drop in result.dropped]
    late = [(row["arrival"], "late") for row in recording.rows("late")]
    return together(
        first_difference("order", [pair[0] for pair in pairs], [row[0] for row in wrote]),
        first_difference("output", sorted(pairs), sorted(wrote)),
        first_difference("late", dropped, late),
    )


def _sides(recording: Recording) -> tuple[list[Event], list[Event]]:
    """The left and the right events that have a key: keyBy refuses the others."""
    sides: dict[str, list[Event]] = {"left": [], "right": []}
    for row in recording.input():
        if row["key"] is not None:
            sides[row["side"]].append(event({"amount": 0, **row}, arrival=row["arrival"]))
    return sides["left"], sides["right"]


def _watermarks(recording: Recording) -> list[int]:
    """The watermark after each event, null keys included, in µs."""
    delay = recording.us("watermark_delay") + MS
    marks: list[int] = []
    for row in recording.input():
        mark = row["time"] * MS - delay
        begins = not marks or row["arrival"] == recording.restart
        marks.append(mark if begins else max(mark, marks[-1]))
    return marks


def _before(recording: Recording, arrival: int, marks: list[int]) -> int:
    """The watermark before an event, in µs."""
    return NONE if arrival in (0, recording.restart) else marks[arrival - 1]


def _until_next(recording: Recording, arrival: int) -> int:
    """The arrival of the last event before the next one with a key, in the same life."""
    rows = recording.input()
    while (
        arrival + 1 < len(rows)
        and rows[arrival + 1]["key"] is None
        and arrival + 1 != recording.restart
    ):
        arrival += 1
    return arrival


def _replayed(recording: Recording) -> Replayed:
    given, events = recording.settings, recording.events()
    counted = isinstance(recording.window, CountWindow)
    settings: dict[str, Any] = {} if counted else {"watermark_delay": given["watermark_delay"]}
    if any(record.key is None for record in events):
        # They move the watermark, but are filtered out before the operator.
        marks = _watermarks(recording)
        events = [
            replace(record, watermark=marks[_until_next(recording, record.arrival)])
            for record in events
            if record.key is not None
        ]
        settings = {}
    if not counted:
        settings["allowed_lateness"] = given["allowed_lateness"]
        settings["accumulation"] = ACCUMULATION[given["firing"]]
        settings["restarts"] = [] if recording.restart is None else [recording.restart]
    return replay(
        events,
        recording.window,
        engine="flink",
        api="datastream",
        aggregates=AGGREGATES,
        **settings,
    )


def _fired_at(recording: Recording, emission: Emission, marks: list[int]) -> int:
    """The watermark at which a window was fired, in ms."""
    if emission.arrival is None:
        return LAST
    if emission.op in ("late", "final"):
        return _before(recording, emission.arrival, marks) // MS
    last = _until_next(recording, emission.arrival)
    passed = [mark for mark in marks[emission.arrival : last + 1] if mark >= emission.end - MS]
    return passed[0] // MS


def _by_end(rows: Iterable[Row], *names: str) -> list[Row]:
    """Sorts neighbouring rows that are equal in these columns by their keys."""
    runs = groupby(rows, key=lambda row: [row.get(name) for name in names])
    return [row for _, run in runs for row in sorted(run, key=lambda row: str(row["key"]))]
