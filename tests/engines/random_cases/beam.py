"""Beam's direct runner: sessions, tumbling, hopping and calendar windows, triggers and bundles.

The order in which one event, or the watermark after it, fires several windows is not compared.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from backfill import AfterAll, AfterAny, AfterCount, AfterProcessingTime, Repeatedly, SessionWindow
from backfill import aggregates as agg
from backfill.replay import Emission, Event, Replayed, replay
from backfill.triggers import Trigger
from tests.engines.random_cases.comparing import first_difference, together
from tests.engines.random_cases.drawing import LATER, events
from tests.engines.recordings import MS, Recording, Row

AGGREGATES = {"events": agg.count(), "amount": agg.sum("amount")}
SETTINGS = ("watermark_delay", "allowed_lateness", "accumulation", "timezone")
#: Size and advance.
SIZES = ((6, 3), (10, 5), (60, 20), (10, 3), (50, 20), (7, 1))
HOUR = 3_600_000


def draw(chance: random.Random) -> dict[str, Any]:
    (size, advance), delay = chance.choice(SIZES), chance.choice((0, 0, 1, 3, 10))
    lateness = chance.choice((0, 0, 1, 5, 60))
    kind = chance.choice(("session", "session", "tumbling", "hopping"))
    fields = {
        "session": {"gap": f"{size}ms"},
        "tumbling": {"size": f"{size}ms"},
        "hopping": {"size": f"{size}ms", "advance": f"{advance}ms"},
    }
    case: dict[str, Any] = {
        "window": {kind: fields[kind]},
        "watermark_delay": f"{delay}ms",
        "allowed_lateness": f"{lateness}ms",
        "accumulation": chance.choice(("accumulating", "discarding")),
    }
    spans: tuple[int, ...] = (1, size, size, advance, delay, lateness)
    # Aligned windows before the epoch are not modelled.
    start = chance.choice((LATER, LATER, -100 if kind == "session" else 10_000))
    if chance.random() < 0.05:
        case |= {"window": {"tumbling": {"size": "1 day"}}, "timezone": "Europe/Berlin"}
        spans, start = (1, HOUR, 11 * HOUR, 23 * HOUR, 24 * HOUR), LATER
    case["events"] = events(chance, spans, most=20, start=start)
    if chance.random() < 0.6:
        case["late"] = _drawn(chance)
        if chance.random() < 0.8:
            case["early"] = _drawn(chance)
    sizes = [1] * len(case["events"])
    if chance.random() < 0.4:
        sizes, most = [], chance.choice((3, 8))
        while sum(sizes) < len(case["events"]):
            sizes.append(min(chance.randint(1, most), len(case["events"]) - sum(sizes)))
        case["bundles"] = sizes
    if _waits(case.get("early")) or _waits(case.get("late")):
        clock = [0]
        for _ in sizes[1:]:
            clock.append(clock[-1] + chance.choice((0, 0, 1, 1, 2, 3, 5)))
        case["wall_clock"] = clock
    return case


def _drawn(chance: random.Random, depth: int = 0) -> Any:
    """A trigger: after some events, some time after the first one, or any or all of others."""
    kind = chance.choice(("count", "count", "after", "any", "all")[: 5 if depth < 2 else 3])
    if kind == "count":
        return chance.randint(1, 4)
    if kind == "after":
        return {"after": f"{chance.choice((1, 2, 3, 5))}ms"}
    return {kind: [_drawn(chance, depth + 1) for _ in range(chance.randint(2, 3))]}


def _waits(trigger: Any) -> bool:
    """Whether the trigger depends on the wall clock."""
    return "after" in str(trigger)


def difference(recording: Recording) -> str | None:
    result = _replayed(recording)
    recorded = [_numbered_off(row) for row in recording.rows("output")]
    # Beam counts pairs of an event and a window.
    session = isinstance(recording.window, SessionWindow)
    dropped = len(result.dropped) if session else len(result.dropped_windows)
    counted = recording.settings["observed"]["dropped_due_to_lateness"]
    return together(
        first_difference(
            "output",
            _in_order([_pane(emission) for emission in result.emissions]),
            _in_order(recorded),
        ),
        None if dropped == counted else f"{dropped} dropped by the replay, {counted} by the engine",
    )


def _replayed(recording: Recording) -> Replayed:
    given = recording.settings
    triggers = {name: _trigger(given[name]) for name in ("early", "late") if name in given}
    return replay(
        _events(recording),
        recording.window,
        engine="beam",
        aggregates=AGGREGATES,
        **triggers,
        **{name: given[name] for name in SETTINGS if name in given},
    )


def _events(recording: Recording) -> list[Event]:
    """The events with their bundles and the wall clock."""
    given, stream = recording.settings, recording.events()
    bundles = given.get("bundles", [1] * len(stream))
    clock = given.get("wall_clock", [0] * len(stream))
    batches = [batch for batch, size in enumerate(bundles) for _ in range(size)]
    return [
        replace(event, batch=batch, wall_clock=clock[batch] * MS)
        for event, batch in zip(stream, batches, strict=True)
    ]


def _trigger(given: Any) -> int | Repeatedly:
    """Beam repeats early and late firings by itself."""
    return given if isinstance(given, int) else Repeatedly(_single(given))


def _single(given: Any) -> Trigger:
    if isinstance(given, int):
        return AfterCount(given)
    ((kind, inner),) = given.items()
    if kind == "after":
        return AfterProcessingTime(inner)
    return (AfterAny if kind == "any" else AfterAll)(*map(_single, inner))


def _pane(emission: Emission) -> Row:
    """The pane as it is recorded, without its number."""
    assert emission.values is not None
    assert emission.timestamp is not None
    return {
        "arrival": emission.arrival,
        "key": emission.key,
        "window_start": emission.start // MS,
        "window_end": emission.end // MS,
        "events": emission.values["events"],
        # The recorder adds up the events of a pane, even of an empty one.
        "amount": emission.values["amount"] or 0,
        "timing": emission.op.upper(),
        "timestamp": emission.timestamp // MS,
    }


def _numbered_off(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in ("index", "last")}


def _in_order(rows: list[Row]) -> list[Row]:
    """By the event that caused them; panes of one window stay in their order."""

    def place(row: Row) -> tuple[bool, int, int, int, str]:
        arrival, start, end = row["arrival"], row["window_start"], row["window_end"]
        return arrival is None, arrival or 0, start, end, str(row["key"])

    return sorted(rows, key=place)
