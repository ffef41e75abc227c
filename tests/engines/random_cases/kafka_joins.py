"""Kafka Streams' joins of two streams."""

from __future__ import annotations

import random
from typing import Any

from backfill.replay import Event, replay_join
from tests.engines.random_cases.comparing import first_difference, together
from tests.engines.random_cases.drawing import BEGINNINGS, LATER, SHIFT, events
from tests.engines.recordings import MS, Recording


def draw(chance: random.Random) -> dict[str, Any]:
    unit, ms = chance.choice((("ms", 1), ("s", 1_000)))
    before, after, grace = (chance.choice((0, 2, 5, 20, 90)) for _ in range(3))
    case: dict[str, Any] = {
        "how": chance.choice(("inner", "left", "full")),
        "before": f"{before}{unit}",
        "after": f"{after}{unit}",
        "grace": f"{grace}{unit}",
        "store": chance.choice(("disk", "memory")),
        "spurious": chance.random() < 0.2,
    }
    if chance.random() < 0.3:
        case["emit_interval"] = chance.choice(("80ms", "100ms"))
        case["wall_clock_per_event"] = "40ms"
    spans = (1, before * ms, after * ms, (after + grace) * ms, (before + after + grace) * ms)
    case["events"] = events(
        chance, spans, most=25, start=chance.choice((0, 30 * ms, LATER)), keys=BEGINNINGS
    )
    if any(row["time"] < 0 for row in case["events"]):
        case["shift"] = SHIFT
    for row in case["events"]:
        row["side"] = chance.choice(("left", "right"))
        row["empty"] = chance.random() < 0.05
    return case


def _sides(recording: Recording, *, tick: int) -> tuple[list[Event], list[Event]]:
    """The left and the right events; the wall clock advances by `tick` µs at each event."""
    sides: dict[str, list[Event]] = {"left": [], "right": []}
    for row in recording.input():
        event = Event(
            key=row["key"],
            time=row["time"] * MS,
            arrival=row["arrival"],
            value=None if row["empty"] else {},
            wall_clock=(row["arrival"] + 1) * tick,
        )
        sides[row["side"]].append(event)
    return sides["left"], sides["right"]


def difference(recording: Recording) -> str | None:
    given = recording.settings
    result = replay_join(
        *_sides(recording, tick=recording.us("wall_clock_per_event")),
        within=(given["before"], given["after"]),
        **{name: given[name] for name in ("how", "grace", "emit_interval", "spurious", "store")},
    )
    columns = ("arrival", "key", "left", "right", "timestamp")
    return together(
        first_difference(
            "output",
            [
                (
                    emission.arrival,
                    emission.key,
                    emission.left,
                    emission.right,
                    emission.timestamp // MS,
                )
                for emission in result.emissions
            ],
            [tuple(row[name] for name in columns) for row in recording.rows("output")],
        ),
        # The metric counts what is not joined, and what a store does not take.
        first_difference(
            "dropped",
            [len(result.dropped) + len(result.refused)],
            [given["observed"]["dropped_records_total"]],
        ),
    )
